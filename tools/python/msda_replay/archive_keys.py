"""What an archive of one backward call holds, by operator: its tensors with their dimensions, and its scalars."""

import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Tuple

from .capture import DIALECTS, DIMENSIONS, GRADIENTS, INPUTS, PADDING_MODES

LONGEST_TEXT = 1 << 16
SECTIONS = ("observed", "reference", "before")
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


FRACTIONS = ("scale_depth", "scale_height", "scale_width", "spatial_scale")  # conventions that are no integers
_TEXT = (_is_text, f"a text of at most {LONGEST_TEXT} bytes")
_TOLERANCE = (_is_tolerance, "a finite number from 0 on")
_FLAG = (lambda value: value in (0, 1), "true or false")
INTEGER = (lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63, "an integer")
OPERATOR = _one_of(("msda", "grid_sample", "scatter_add", "interpolate", "roi_align"))
_ABOVE_0 = (lambda value: _is_number(value) and 0 < value < math.inf, "a number above 0")
_NUMBER = (lambda value: _is_number(value) and abs(value) < math.inf, "a finite number")
_OF_ALL = {"operator": OPERATOR, "align_corners": _FLAG, "atol": _TOLERANCE, "rtol": _TOLERANCE, "kernel": _TEXT, "label": _TEXT}


@dataclass(frozen=True)
class Keys:
    """The keys of one operator. `dimensions` by tensor, `extents` of dimensions with a fixed size; `scalars` have a test of the
    value and a description of the valid ones; `conventions` are the scalars that must be stated, `facts` the others, with what they are
    where the archive does not say."""

    name: str
    conventions: Tuple[str, ...]
    inputs: Tuple[str, ...]
    optional: Tuple[str, ...]
    gradients: Tuple[str, ...]
    dimensions: Dict[str, Tuple[str, ...]]
    extents: Dict[str, int]
    scalars: Dict[str, Tuple[Callable[[Any], bool], str]]
    integers: Tuple[str, ...] = ()
    facts: Dict[str, Any] = field(default_factory=dict)
    required: Tuple[str, ...] = ()  # scalars without which nothing is known of the result

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
    """Returns the keys for a 2D input, of rank 4, or a 3D one, of rank 5."""
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


def scatter_add(rank, index_rank, dim):
    """Returns the keys for a source whose rows along a dimension are added. Without `dim_size`, the archive's shapes give it."""
    of_source = tuple("source row" if i == dim else f"dimension {i}" for i in range(rank))
    of_sum = tuple("row" if i == dim else f"dimension {i}" for i in range(rank))
    of_index = ("source row",) if index_rank == 1 else of_source
    return Keys(
        "scatter_add", (), ("index", "source"), ("self",), ("sum",),
        {"index": of_index, "source": of_source, "self": of_sum, "sum": of_sum}, {},
        {**{name: test for name, test in _OF_ALL.items() if name != "align_corners"}, "reduce": _one_of(("sum", "mean")), "dim": INTEGER,
         "dim_size": INTEGER, "include_self": _FLAG, "wraps_negative": _FLAG, "padding_idx": INTEGER, "scale_grad_by_freq": _FLAG},
        ("index",), facts={"reduce": "sum", "dim": dim, "include_self": 1},
    )


def interpolate(rank):
    """Returns the keys for an image of 1 to 3 dimensions."""
    axes = ("depth", "height", "width")[5 - rank:]
    of_input = ("batch", "channel", *axes)
    of_output = ("batch", "channel", *(f"output {axis}" for axis in axes))
    sizes = {f"input_{axis}": INTEGER for axis in axes}
    scales = {f"scale_{axis}": _ABOVE_0 for axis in axes}
    return Keys(
        "interpolate", (), ("grad_output",), (), ("grad_input",), {"grad_output": of_output, "grad_input": of_input}, {},
        {**_OF_ALL, "mode": _one_of(("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic")), **sizes, **scales},
        facts={"align_corners": 0}, required=("mode",),
    )


ROI_ALIGN = Keys(
    "roi_align", (), ("boxes", "grad_output"), ("input",), ("grad_input",),
    {"input": ("batch", "channel", "height", "width"), "grad_input": ("batch", "channel", "height", "width"),
     "boxes": ("box", "edge"), "grad_output": ("box", "channel", "bin row", "bin column")},
    {"edge": 5},
    {**{name: test for name, test in _OF_ALL.items() if name != "align_corners"}, "spatial_scale": _NUMBER, "sampling_ratio": INTEGER,
     "aligned": _FLAG, "input_batch": INTEGER, "input_height": INTEGER, "input_width": INTEGER},
    required=("spatial_scale", "sampling_ratio", "aligned"),
)
