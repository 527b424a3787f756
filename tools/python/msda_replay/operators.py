"""What the operators' tensors mean to the package: the names of their dimensions."""

from typing import Any, Container, Mapping, Tuple

from . import archive_keys
from .capture import STAGE_DIMENSIONS


# Operators without a dialect, by the facts and the inputs that all their calls have.
_MARKS = (
    ("grid_sample", ("interpolation",), ("input", "grid", "grad_output")),
    ("scatter_add", ("dim_size",), ("index", "source")),
    ("interpolate", ("mode", "input_width"), ("grad_output",)),
    ("roi_align", ("spatial_scale",), ("boxes", "grad_output")),
)


def operator_of(facts: Mapping[str, Any], inputs: Container[str]) -> str:
    """Returns the operator's name, or "" for a kernel of which only the machine code is known; replay/calls/load_operator.cpp's rule."""
    if facts.get("dialect"):
        return "msda"
    for operator, fact_names, input_names in _MARKS:
        if all(name in facts for name in fact_names) and all(name in inputs for name in input_names):
            return operator
    return ""


def dimensions_of(operator: str, tensor: str, rank: int) -> Tuple[str, ...]:
    """Returns the names of a tensor's dimensions; "axis 0", "axis 1", ... where none are known."""
    if operator == "msda":
        known = {**archive_keys.MSDA.dimensions, **STAGE_DIMENSIONS}
    elif operator in ("grid_sample", "interpolate"):
        known = {"grid_sample": archive_keys.grid_sample, "interpolate": archive_keys.interpolate}[operator](rank).dimensions
    else:
        known = archive_keys.ROI_ALIGN.dimensions if operator == "roi_align" else {}
    names = known.get(tensor, ())
    return names if len(names) == rank else tuple(f"axis {i}" for i in range(rank))
