"""What an archive of one backward call holds, by operator: its tensors with their dimensions, and its scalars."""

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Tuple

from .capture import DIALECTS, DIMENSIONS, GRADIENTS, INPUTS, PADDING_MODES

LONGEST_TEXT = 1 << 16
SECTIONS = ("observed", "reference", "before")
FLOATS, INTEGERS = ("float16", "float32", "float64", "bfloat16"), ("int32", "int64")
INTERPOLATIONS, GRID_PADDING_MODES = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _is_text(value):
    try:
        return isinstance(value, str) and "\0" not in value and len(value.encode()) <= LONGEST_TEXT
    except UnicodeEncodeError:
        return False


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_tolerance(value):
    return _is_number(value) and 0 <= value < math.inf


def _one_of(names):
    return (lambda value: value in names, f"one of {', '.join(names)}")


_TEXT = (_is_text, f"a text of at most {LONGEST_TEXT} bytes")
_TOLERANCE = (_is_tolerance, "a finite number from 0 on")
_FLAG = (lambda value: value in (0, 1), "true or false")
OPERATOR = _one_of(("msda", "grid_sample"))
_OF_ALL = {"operator": OPERATOR, "align_corners": _FLAG, "atol": _TOLERANCE, "rtol": _TOLERANCE, "kernel": _TEXT, "label": _TEXT}


@dataclass(frozen=True)
class Keys:
    """The keys of one operator. `dimensions` by tensor, `extents` of dimensions with a fixed size; `scalars` have a test of the
    value and a description of the valid ones; `conventions` are the scalars that must be stated."""

    name: str
    conventions: Tuple[str, ...]
    inputs: Tuple[str, ...]
    optional: Tuple[str, ...]
    gradients: Tuple[str, ...]
    dimensions: Dict[str, Tuple[str, ...]]
    extents: Dict[str, int]
    scalars: Dict[str, Tuple[Callable[[Any], bool], str]]
    integers: Tuple[str, ...] = ()

    @property
    def tensors(self):
        """The tensor of the capture that each key is."""
        return {
            **{name: name for name in (*self.inputs, *self.optional)},
            **{f"{section}_{name}": name for section in SECTIONS for name in self.gradients},
        }


MSDA = Keys(
    "msda", ("dialect", "padding_mode", "align_corners"), INPUTS, ("level_start_index",), GRADIENTS, DIMENSIONS, {"xy": 2, "height_width": 2},
    {
        **_OF_ALL, "padding_mode": _one_of(PADDING_MODES), "dialect": _one_of(DIALECTS), "reference_dialect": _one_of(DIALECTS),
        **{f"reference_max_abs_diff_{name}": (_is_number, "a number") for name in GRADIENTS},
    },
    ("spatial_shapes", "level_start_index"),
)


def grid_sample(rank):
    """Those of a 2D input, of rank 4, or a 3D one, of rank 5."""
    axes = ("height", "width") if rank == 4 else ("depth", "height", "width")
    of_input = ("batch", "channel", *axes)
    of_samples = tuple(f"output_{axis}" for axis in axes)
    of_grid = ("batch", *of_samples, "axis")
    return Keys(
        "grid_sample", ("interpolation", "padding_mode", "align_corners"), ("input", "grid", "grad_output"), (), ("grad_input", "grad_grid"),
        {"input": of_input, "grad_input": of_input, "grid": of_grid, "grad_grid": of_grid,
         "grad_output": ("batch", "channel", *of_samples)},
        {"axis": len(axes)},
        {**_OF_ALL, "interpolation": _one_of(INTERPOLATIONS), "padding_mode": _one_of(GRID_PADDING_MODES)},
    )
