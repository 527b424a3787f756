"""The calls of a capture that was recorded, by docs/capture-format.md and with h5py alone."""

from dataclasses import dataclass, field
from typing import Dict

import h5py
import numpy as np


class Unreadable(Exception):
    """Why the campaign cannot take a call."""


@dataclass
class RecordedCall:
    """Numbers of every type are held in float64 arrays, integers in int64 ones."""

    name: str                          # of its group: "000012"
    facts: Dict[str, object]           # its attributes
    inputs: Dict[str, np.ndarray] = field(default_factory=dict)
    before: Dict[str, np.ndarray] = field(default_factory=dict)
    outputs: Dict[str, np.ndarray] = field(default_factory=dict)
    types: Dict[str, str] = field(default_factory=dict)      # of inputs and outputs
    strides: Dict[str, tuple] = field(default_factory=dict)  # of inputs that were not row-major

    @property
    def operator(self):
        """As msda-replay takes it; empty if the campaign knows no such operator."""
        def has(*names):
            return all(name in self.inputs for name in names)
        if "dialect" in self.facts:
            return "msda"
        if "interpolation" in self.facts and has("input", "grid", "grad_output"):
            return "grid_sample"
        if "dim_size" in self.facts and has("index", "source"):
            return "scatter_add"
        if "mode" in self.facts and "input_width" in self.facts and has("grad_output"):
            return "interpolate"
        return "roi_align" if "spatial_scale" in self.facts and has("boxes", "grad_output") else ""

    def number(self, name, missing=None):
        """An integer or a flag."""
        if name not in self.facts and missing is None:
            raise Unreadable(f"it has no attribute {name}")
        return int(self.facts.get(name, missing))

    def strides_of(self, *names):
        return {name: self.strides[name] for name in names if name in self.strides}


def type_of(dataset):
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2:
        return "bfloat16" if kind.get_ebias() == 127 else "float16"
    return str(dataset.dtype)


def read_tensors(call, group, into, described):
    for name, dataset in group.items():
        kind = type_of(dataset)
        into[name] = dataset[...].astype(np.float64 if "float" in kind else np.int64)
        if described:
            call.types[name] = kind
            if "strides" in dataset.attrs:
                call.strides[name] = tuple(map(int, dataset.attrs["strides"]))


def read_call(group):
    call = RecordedCall(group.name.rpartition("/")[2], {name: value.decode() if isinstance(value, bytes) else value for name, value in group.attrs.items()})
    for section, into, described in (("inputs", call.inputs, True), ("outputs_before", call.before, False), ("outputs", call.outputs, True)):
        read_tensors(call, group.get(section, {}), into, described)
    return call


def read_calls(path):
    with h5py.File(path, "r") as file:
        return [read_call(group) for group in file["invocations"].values()]
