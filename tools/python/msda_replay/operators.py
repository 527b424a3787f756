"""What the operators' tensors mean to the package: the names of their dimensions."""

from typing import Any, Container, Mapping, Tuple

from .operator_rows import ROWS


def operator_of(facts: Mapping[str, Any], inputs: Container[str]) -> str:
    """Returns the operator's name, or "" for a kernel of which only the machine code is known; replay/calls/load_operator.cpp's rule."""
    for row in ROWS.values():
        if all(facts.get(name, "") != "" for name in row.marks["conventions"]) and all(name in inputs for name in row.marks["inputs"]):
            return row.name
    return ""


def dimensions_of(operator: str, tensor: str, rank: int) -> Tuple[str, ...]:
    """Returns the names of a tensor's dimensions; "axis 0", "axis 1", ... where none are known."""
    names: Tuple[str, ...] = ()
    if operator in ROWS:
        row = ROWS[operator]
        if tensor in row.tensors and "chosen_by" not in row.axes:
            names = row.dimensions(tensor, row.axes_of(tensor, rank))
        names = row.stage_dimensions.get(tensor, names)
    return names if len(names) == rank else tuple(f"axis {i}" for i in range(rank))
