"""What the operators' tensors mean to the package: the names of their dimensions."""

from typing import Any, Container, Mapping, Tuple

from . import archive_keys
from .capture import STAGE_DIMENSIONS


def operator_of(facts: Mapping[str, Any], inputs: Container[str]) -> str:
    """"msda", "grid_sample", another one that the file names, or "" for a kernel of which only the machine code is known."""
    if "operator" in facts:
        return str(facts["operator"])
    if facts.get("dialect"):
        return "msda"
    is_grid_sample = "interpolation" in facts and all(name in inputs for name in ("input", "grid", "grad_output"))
    return "grid_sample" if is_grid_sample else ""


def dimensions_of(operator: str, tensor: str, rank: int) -> Tuple[str, ...]:
    """The names of a tensor's dimensions; "axis 0", "axis 1", ... where none are known."""
    known = {"msda": {**archive_keys.MSDA.dimensions, **STAGE_DIMENSIONS}, "grid_sample": archive_keys.grid_sample(rank).dimensions}
    names = known.get(operator, {}).get(tensor, ())
    return names if len(names) == rank else tuple(f"axis {i}" for i in range(rank))
