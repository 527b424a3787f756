"""Writes a capture, by docs/capture-format.md and with h5py alone."""

import h5py
import numpy as np


def bfloat16_type():
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def put(group, name, array, kind):
    array = np.ascontiguousarray(array)
    if kind != "bfloat16":
        group.create_dataset(name, data=array.astype(kind))
        return
    dataset = h5py.h5d.create(group.id, name.encode(), bfloat16_type(), h5py.h5s.create_simple(array.shape))
    if array.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, array.astype(np.float32))


def write(path, case):
    """The case's inputs, what its kernel returned, and what its test compared that with."""
    problem, conventions = case.problem, case.observed.conventions
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["format_version"], file.attrs["tool_version"] = "msda-capture", 1, "campaign"
        file.attrs["created"] = "2026-01-01T00:00:00Z"
        call = file.create_group("invocations/000000")
        call.attrs["kernel"] = ""
        call.attrs["label"] = case.name
        call.attrs["dialect"], call.attrs["padding_mode"] = conventions.dialect, conventions.padding
        call.attrs["align_corners"] = conventions.align_corners
        if case.tolerance:
            call.attrs["atol"], call.attrs["rtol"] = case.tolerance
        inputs = call.create_group("inputs")
        put(inputs, "spatial_shapes", np.array(problem.levels), "int64")
        put(inputs, "level_start_index", np.array(problem.starts), "int64")
        for name, array in (("value", problem.value), ("sampling_locations", problem.locations),
                            ("attention_weights", problem.attention), ("grad_output", problem.grad_output)):
            put(inputs, name, array, problem.type)
        for section, tensors in (("outputs_before", case.before), ("outputs", case.observed.values)):
            if tensors:
                group = call.create_group(section)
                for name, array in tensors.items():
                    put(group, name, array, case.observed.arithmetic.stored)
        if case.reference:
            group = call.create_group("results/reference")
            group.attrs["role"], group.attrs["dialect"] = "reference", case.reference.conventions.dialect
            for name, array in case.reference.values.items():
                put(group, name, array, case.reference.arithmetic.stored)
