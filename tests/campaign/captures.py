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
    problem = case.problem
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["format_version"], file.attrs["tool_version"] = "msda-capture", 1, "campaign"
        file.attrs["created"] = "2026-01-01T00:00:00Z"
        call = file.create_group("invocations/000000")
        call.attrs["kernel"] = case.kernel
        call.attrs["label"] = case.name
        for name, value in {**problem.attributes(), **case.observed.conventions.attributes()}.items():
            call.attrs[name] = value
        if case.tolerance:
            call.attrs["atol"], call.attrs["rtol"] = case.tolerance
        inputs = call.create_group("inputs")
        for name, array, kind in problem.inputs():
            put(inputs, name, array, kind)
        for name, strides in problem.strides.items():
            inputs[name].attrs["strides"] = np.array(strides, np.int64)
        for section, tensors in (("outputs_before", case.before), ("outputs", case.observed.values)):
            if tensors:
                group = call.create_group(section)
                for name, array in tensors.items():
                    put(group, name, array, case.observed.arithmetic.stored)
        if case.reference:
            group = call.create_group("results/reference")
            for name, value in {"role": "reference", **case.reference.conventions.of_reference()}.items():
                group.attrs[name] = value
            for name, array in case.reference.values.items():
                put(group, name, array, case.reference.arithmetic.stored)
