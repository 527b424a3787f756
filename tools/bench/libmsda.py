"""The operator of libmsda.so for the benchmarks: conventions and modes as numbers, and inputs to measure."""

import ctypes
import os
import pathlib
import sys

import numpy as np
from harness import Failed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from msda_replay import cpu  # noqa: E402
from msda_replay.libmsda import (  # noqa: E402, F401
    DIALECTS,
    MODES,
    PADDINGS,
    SEPARABLE,
    Call,
    GridCall,
    InterpolateCall,
    Options, ROI_POOLINGS,
    CtcLossCall, RoiAlignCall, RoiPoolCall,
    ScatterCall,
    SeparableCall,
    Tensor,
    tensor_at,
)

BUILD = os.environ.setdefault("MSDA_BUILD", str(pathlib.Path(__file__).resolve().parents[2] / "build"))
DETERMINISTIC, ATOMIC, FLOAT64 = (MODES[mode] for mode in ("deterministic", "atomic", "float64"))


def type_name(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def describe(tensor):
    """PyTorch's tensor, for the C ABI."""
    return tensor_at(tensor.data_ptr(), type_name(tensor), tensor.shape, tensor.stride())


def caller(library, function, structures, results, keep, stream=None):
    """Returns a function that calls one of libmsda's, on a stream of CUDA if there is one, and returns the results, tensors of PyTorch.
    `structures`: the C arguments before the results, None for a null pointer; `keep`: what their memory belongs to."""
    structures = [*structures, *map(describe, results)]
    arguments = [None if structure is None else ctypes.byref(structure) for structure in structures]
    arguments += [] if stream is None else [ctypes.c_void_p(stream)]
    called = getattr(library, function)

    def run(keep=(structures, keep)):
        if called(*arguments) != 0:
            raise Failed(library.msda_last_error().decode())
        return results

    return run


class Operator:
    """backward(inputs) by one dialect (0 deformable_detr, 1 msda_triton, 2 grid_sample) and padding (0 zeros, 1 border)."""

    def __init__(self, dialect=0, padding=0, align_corners=0):
        self.conventions = {"dialect": list(DIALECTS)[dialect], "padding_mode": list(PADDINGS)[padding], "align_corners": align_corners}

    def backward(self, inputs, mode=DETERMINISTIC, threads=0, seed=0):
        """Returns the three gradients, by name, as fresh arrays."""
        return cpu.backward(**inputs, **self.conventions, mode=list(MODES)[mode], threads=threads, seed=seed)


def make_inputs(B=4, Q=1000, M=8, P=3, D=32, levels=((64, 64), (32, 32), (16, 16), (8, 8)), seed=0):
    """Returns the inputs drawn as msda-triton's own test draws them, in float32. Row 1 of docs/measured/benchmarks.md by default."""
    rng = np.random.default_rng(seed)
    shapes = np.array(levels, np.int64)
    S, L = int(shapes.prod(axis=1).sum()), len(levels)
    weights = np.exp(rng.standard_normal((B, Q, M, L, P), np.float32))
    return {
        "value": rng.standard_normal((B, S, M, D), np.float32),
        "spatial_shapes": shapes,
        "sampling_locations": rng.random((B, Q, M, L, P, 2), np.float32),
        "attention_weights": weights / weights.sum(axis=-1, keepdims=True),
        "grad_output": rng.random((B, Q, M, D), np.float32),
    }
