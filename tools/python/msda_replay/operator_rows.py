"""The rows of the operators: what analysis/operators/*/schema.json, to which `rows` in this folder is a link, says of an operator's
tensors and conventions."""

import json
import pathlib
from typing import Any, Dict, Optional, Tuple


class Row:
    """One operator. `tensors` and `conventions` are the row's objects by name."""

    def __init__(self, row: Dict[str, Any]):
        self.name: str = row["name"]
        self.tensors: Dict[str, Dict[str, Any]] = {tensor["name"]: tensor for tensor in row["tensors"]}
        self.conventions: Dict[str, Dict[str, Any]] = {convention["name"]: convention for convention in row["conventions"]}
        self.impossible, self.marks = row.get("impossible", []), row["marks"]
        self.stage_dimensions: Dict[str, Tuple[str, ...]] = {
            stage["name"]: tuple(stage["dimensions"]) for stage in row.get("stages", ()) if "dimensions" in stage}
        self.letters: Dict[str, str] = row.get("letters", {})
        self.axes: Dict[str, Any] = row.get("axes", {})
        self._extents: Dict[str, Any] = row.get("extents", {})

    def named(self, role: str) -> Tuple[str, ...]:
        """Returns the tensors of a role."""
        return tuple(name for name, tensor in self.tensors.items() if tensor["role"] == role)

    def axes_of(self, tensor: str, rank: Optional[int]) -> Tuple[str, ...]:
        """Returns the names of an image's axes where the tensor has this rank; those of the nearest rank that the operator takes."""
        if not self.axes:
            return ()
        names = self.axes.get("names", ())
        if rank is None:
            return tuple(names)
        count = max(rank - sum(not _is_each(entry) for entry in self._entries(tensor)), self.axes["least"])
        return tuple(names[-count:]) if names else tuple(self.axes["name"].format(i) for i in range(count))

    def dimensions(self, tensor: str, axes: Tuple[str, ...], chosen: Optional[int] = None, rank: Optional[int] = None) -> Tuple[str, ...]:
        """Returns the names of a tensor's dimensions. `chosen` is the axis with a name of its own."""
        if rank is not None and rank == len(self.tensors[tensor].get("or", ())):
            return tuple(self.tensors[tensor]["or"])
        names = []
        for entry in self._entries(tensor):
            each = entry["each"] if isinstance(entry, dict) else entry
            of_axes = [each.format(axis=axis) for axis in axes] if _is_each(entry) else [each]
            if isinstance(entry, dict) and chosen is not None:
                of_axes[chosen] = entry["chosen"]
            names += of_axes
        return tuple(names)

    def extents(self, axes: Tuple[str, ...]) -> Dict[str, int]:
        """Returns the dimensions that have one size."""
        return {name: len(axes) if extent == "axes" else extent for name, extent in self._extents.items()}

    def _entries(self, tensor: str) -> Any:
        described = self.tensors[tensor]
        return described["dimensions"] if "dimensions" in described else self._entries(described["of"])


def _is_each(entry: Any) -> bool:
    return isinstance(entry, dict) or "{axis}" in entry


def _read() -> Dict[str, Row]:
    files = (pathlib.Path(__file__).parent / "rows").glob("*/schema.json")
    rows = sorted((json.loads(file.read_text()) for file in files), key=lambda row: row["place"])
    return {row["name"]: Row(row) for row in rows}


ROWS = _read()
DEFAULT = next(iter(ROWS.values()))  # of calls that name no operator; it alone has dialects
DIALECTS: Tuple[str, ...] = tuple(DEFAULT.conventions["dialect"]["values"])
DIALECT_OF_TESTS: str = DEFAULT.conventions["dialect"]["of_tests"]


def values_of(convention: str) -> Tuple[str, ...]:
    """Returns the values that a convention has in any operator."""
    return tuple(dict.fromkeys(value for row in ROWS.values() for value in row.conventions.get(convention, {}).get("values", ())))
