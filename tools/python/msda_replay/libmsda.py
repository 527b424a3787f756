"""libmsda's C ABI (kernels/msda.h, grid_sample.h, scatter_add.h, interpolate.h, ...) by ctypes: structures, the library, errors."""

import ctypes
import functools
import struct

from . import operator_rows
from .programs import find_library, find_program

# The types of elements, in the order of msda_dtype.
FLOATS, INTEGERS = ("float16", "bfloat16", "float32", "float64"), ("int32", "int64")
DTYPES = {name: number for number, name in enumerate(FLOATS + INTEGERS)}
DIALECTS = {name: number for number, name in enumerate(operator_rows.DIALECTS)}
PADDINGS = {"zeros": 0, "border": 1}
INTERPOLATIONS = {"bilinear": 0, "nearest": 1, "bicubic": 2}
SCATTER_SCALES = {"sum": 0, "mean": 1, "by_frequency": 2}
ROI_POOLINGS = {"roi_pool": 0, "ps_roi_pool": 1, "ps_roi_align": 2}
RESIZES = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3}
SEPARABLE = {"avg_pool": 0, "adaptive_avg_pool": 1, "reflection_pad": 2, "replication_pad": 3}
MODES = {"deterministic": 0, "atomic": 1, "float64": 2, "mixed": 3}
MAX_RANK = 7


class Tensor(ctypes.Structure):
    """msda_tensor."""

    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_RANK), ("stride", ctypes.c_int64 * MAX_RANK)]  # fmt: skip


def _layout(rank):
    rest = MAX_RANK - rank  # sizes, and strides, that are not used
    return struct.Struct(f"P2i{rank}q{rest * 8}x{rank}q{rest * 8}x")


_LAYOUTS = [_layout(rank) for rank in range(MAX_RANK + 1)]  # of msda_tensor; packed at once, in a third of the time of one by one


class Call(ctypes.Structure):
    """msda_call."""

    _fields_ = [("dialect", ctypes.c_int32), ("padding", ctypes.c_int32), ("align_corners", ctypes.c_int32),
                ("value", Tensor), ("spatial_shapes", Tensor), ("level_start_index", Tensor),
                ("sampling_locations", Tensor), ("attention_weights", Tensor)]  # fmt: skip


class GridCall(ctypes.Structure):
    """msda_grid_sample_call."""

    _fields_ = [("interpolation", ctypes.c_int32), ("padding", ctypes.c_int32), ("align_corners", ctypes.c_int32),
                ("input", Tensor), ("grid", Tensor)]  # fmt: skip


class ScatterCall(ctypes.Structure):
    """msda_scatter_add_call."""

    _fields_ = [("scale", ctypes.c_int32), ("dim", ctypes.c_int32), ("include_self", ctypes.c_int32),
                ("padding", ctypes.c_int64), ("index", Tensor), ("source", Tensor)]  # fmt: skip


SUMS_BY_INDEX = "scatter_add", ScatterCall  # the function, and its structure


class IndexPutCall(ctypes.Structure):
    """msda_index_put_call."""

    _fields_ = [("rows", ctypes.c_void_p), ("count", ctypes.c_int64), ("row_bytes", ctypes.c_int64),
                ("values", ctypes.c_void_p), ("index", Tensor), ("planes", ctypes.c_int64)]  # fmt: skip


class InterpolateCall(ctypes.Structure):
    """msda_interpolate_call."""

    _fields_ = [("mode", ctypes.c_int32), ("align_corners", ctypes.c_int32), ("scale", ctypes.c_double * 3),
                ("grad_output", Tensor)]  # fmt: skip


class PoolSide(ctypes.Structure):
    """msda_pool_side."""

    _fields_ = [(name, ctypes.c_int64) for name in ("pixels", "outputs", "step", "per", "before", "span")]


class MaxPoolCall(ctypes.Structure):
    """msda_max_pool_call."""

    _fields_ = [("side", PoolSide * 3), ("indices", Tensor), ("grad_output", Tensor)]  # x, y, z


class RoiAlignCall(ctypes.Structure):
    """msda_roi_align_call."""

    _fields_ = [("spatial_scale", ctypes.c_double), ("sampling_ratio", ctypes.c_int32), ("aligned", ctypes.c_int32),
                ("boxes", Tensor), ("grad_output", Tensor)]  # fmt: skip


class SeparableCall(ctypes.Structure):
    """msda_separable_call."""

    _fields_ = [("map", ctypes.c_int32), ("sides", ctypes.c_int32), ("ceil_mode", ctypes.c_int32), ("count_include_pad", ctypes.c_int32),
                ("divisor_override", ctypes.c_int64), ("kernel_size", ctypes.c_int64 * 3), ("stride", ctypes.c_int64 * 3),
                ("padding", ctypes.c_int64 * 3), ("padding_after", ctypes.c_int64 * 3), ("grad_output", Tensor)]  # fmt: skip


class RoiPoolCall(ctypes.Structure):
    """msda_roi_pool_call."""

    _fields_ = [("pooling", ctypes.c_int32), ("sampling_ratio", ctypes.c_int32), ("spatial_scale", ctypes.c_double),
                ("boxes", Tensor), ("grad_output", Tensor), ("indices", Tensor)]  # fmt: skip


class CtcLossCall(ctypes.Structure):
    """msda_ctc_loss_call."""

    _fields_ = [("blank", ctypes.c_int64), ("zero_infinity", ctypes.c_int32), ("log_probs", Tensor), ("targets", Tensor),
                ("lengths", Tensor), ("neg_log_likelihood", Tensor), ("log_alpha", Tensor)]  # fmt: skip


class DeformCall(ctypes.Structure):
    """The C structure of a deformable convolution."""

    _fields_ = [("kernel", ctypes.c_int32 * 2), ("stride", ctypes.c_int32 * 2), ("padding", ctypes.c_int32 * 2),
                ("dilation", ctypes.c_int32 * 2), ("groups", ctypes.c_int32), ("input", Tensor), ("offset", Tensor),
                ("mask", Tensor), ("grad_columns", Tensor)]  # fmt: skip


class Options(ctypes.Structure):
    """msda_options."""

    _fields_ = [("mode", ctypes.c_int32), ("threads", ctypes.c_int32), ("seed", ctypes.c_uint64),
                ("float64_stages", ctypes.c_uint32)]  # fmt: skip


@functools.lru_cache(maxsize=1)
def library():
    """libmsda.so, loaded. Raises FileNotFoundError if it is not installed with msda-replay."""
    program = find_program("msda-replay")
    path = program and find_library("libmsda.so.0", program)  # libmsda.so is for those who link programs
    if not path:
        raise FileNotFoundError(
            "libmsda.so.0 is not beside msda-replay: install msda-replay, or set MSDA_BUILD to its build folder"
        )
    loaded = ctypes.CDLL(path)
    loaded.msda_last_error.restype = ctypes.c_char_p
    return loaded


def tensor_at(address, dtype, shape, stride, name="tensor"):
    """Returns an msda_tensor: the type by its name, strides in elements. The memory must outlive it. Raises TypeError and
    ValueError, which say the tensor's name."""
    if dtype not in DTYPES:
        raise TypeError(f"{name}: {dtype}; it must be one of {', '.join(DTYPES)}")
    if len(shape) > MAX_RANK:
        raise ValueError(f"{name}: {len(shape)} dimensions; at most {MAX_RANK}")
    return Tensor.from_buffer_copy(_LAYOUTS[len(shape)].pack(address or 0, DTYPES[dtype], len(shape), *shape, *stride))


def derived():
    """Returns a tensor of rank 0: level_start_index, to be derived from spatial_shapes."""
    return tensor_at(None, "int64", (), ())


def choice(name, choices, chosen):
    """Returns the number of a choice. Raises ValueError."""
    if chosen not in choices:
        raise ValueError(f"{name}: {chosen!r}; it must be one of {', '.join(choices)}")
    return choices[chosen]


def check_status(status):
    """Raises ValueError with the library's message unless a call's status says that it was done."""
    if status != 0:
        raise ValueError(library().msda_last_error().decode())


def run(function, call, *arguments):
    """Calls a function of the library. Structures are passed by pointer. Raises ValueError with the library's message."""
    by_pointer = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in (call, *arguments)]
    check_status(getattr(library(), function)(*by_pointer))
