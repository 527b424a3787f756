"""The operator of libmsda.so through ctypes, for the benchmarks."""

import ctypes
import os

import numpy as np

BUILD = os.environ.get("MSDA_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
TYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "int32": 4, "int64": 5}
DETERMINISTIC, ATOMIC, FLOAT64 = 0, 1, 2


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 7), ("stride", ctypes.c_int64 * 7),
    ]


class Call(ctypes.Structure):
    _fields_ = [
        ("dialect", ctypes.c_int32), ("padding", ctypes.c_int32), ("align_corners", ctypes.c_int32), ("value", Tensor),
        ("spatial_shapes", Tensor), ("level_start_index", Tensor), ("sampling_locations", Tensor), ("attention_weights", Tensor),
    ]


class GridCall(ctypes.Structure):
    """An msda_grid_sample_call: interpolation 0 bilinear, 1 nearest, 2 bicubic; padding 0 zeros, 1 border, 2 reflection."""

    _fields_ = [
        ("interpolation", ctypes.c_int32), ("padding", ctypes.c_int32), ("align_corners", ctypes.c_int32),
        ("input", Tensor), ("grid", Tensor),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_int32), ("threads", ctypes.c_int32), ("seed", ctypes.c_uint64), ("float64_stages", ctypes.c_uint32),
    ]


def tensor_at(address, dtype, shape, stride):
    """An msda_tensor: the type by its name, strides in elements. The memory must outlive it."""
    tensor = Tensor(address, TYPES[dtype], len(shape))
    tensor.shape[:len(shape)], tensor.stride[:len(shape)] = shape, stride
    return tensor


def _tensor(array):
    return tensor_at(array.ctypes.data, array.dtype.name, array.shape, [stride // array.itemsize for stride in array.strides])


class Operator:
    """backward(inputs) by one dialect (0 deformable_detr, 1 msda_triton, 2 grid_sample) and padding (0 zeros, 1 border)."""

    def __init__(self, dialect=0, padding=0, align_corners=0):
        self.library = ctypes.CDLL(os.path.join(BUILD, "lib", "libmsda.so"))
        self.library.msda_last_error.restype = ctypes.c_char_p
        self.conventions = (dialect, padding, align_corners)

    def backward(self, inputs, mode=DETERMINISTIC, threads=0, seed=0):
        """The three gradients, by name, as fresh arrays of value's type."""
        starts = np.zeros((), np.int64)
        names = ("value", "spatial_shapes", None, "sampling_locations", "attention_weights")
        call = Call(*self.conventions, *(_tensor(inputs[name] if name else starts) for name in names))
        results = {f"grad_{name}": np.empty_like(inputs[name]) for name in names if name in ("value", "sampling_locations", "attention_weights")}
        grad_output, options = _tensor(inputs["grad_output"]), Options(mode, threads, seed, 0)
        tensors = [_tensor(array) for array in results.values()]
        status = self.library.msda_backward(
            ctypes.byref(call), ctypes.byref(grad_output), ctypes.byref(options), *map(ctypes.byref, tensors)
        )
        if status != 0:
            raise RuntimeError(self.library.msda_last_error().decode())
        return results


def make_inputs(B=4, Q=1000, M=8, P=3, D=32, levels=((64, 64), (32, 32), (16, 16), (8, 8)), seed=0):
    """Inputs drawn as msda-triton's own test draws them, in float32. Row 1 of docs/benchmarks.md by default."""
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
