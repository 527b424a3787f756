"""What an archive of one backward call holds, by operator: its tensors with their dimensions, and its scalars."""

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from .operator_rows import ROWS, Row

LONGEST_TEXT = 1 << 16
SECTIONS = ("observed", "reference", "before")

Test = Tuple[Callable[[Any], bool], str]  # of a value, and a description of the valid ones


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
INTEGER = (lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63, "an integer")
OPERATOR = _one_of(tuple(ROWS))
_ABOVE_0 = (lambda value: _is_number(value) and 0 < value < math.inf, "a number above 0")
_NUMBER = (lambda value: _is_number(value) and abs(value) < math.inf, "a finite number")


def _test_of(convention) -> Test:
    if convention["kind"] == "text":
        return _one_of(convention["values"])
    if convention["kind"] == "real":
        return _ABOVE_0 if convention.get("above") == 0 else _NUMBER
    return _FLAG if convention["kind"] == "flag" else INTEGER


@dataclass(frozen=True)
class Keys:
    """The keys for calls of an operator whose images have these axes. Of tensors with an axis that a convention chooses, `chosen` is
    its number; `ranks` has those of the tensors that may have fewer dimensions."""

    row: Row
    axes: Tuple[str, ...]
    chosen: Optional[int]
    ranks: Dict[str, int]

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def inputs(self) -> Tuple[str, ...]:
        return self.row.named("input")

    @property
    def gradients(self) -> Tuple[str, ...]:
        return self.row.named("gradient")

    @property
    def tensors(self) -> Dict[str, str]:
        """The tensor of the capture that each key is."""
        return {
            **{name: name for name in (*self.inputs, *self.row.named("optional"))},
            **{f"{section}_{name}": name for section in SECTIONS for name in self.gradients},
        }

    @property
    def dimensions(self) -> Dict[str, Tuple[str, ...]]:
        return {name: self.row.dimensions(name, self.axes, self.chosen, self.ranks.get(name)) for name in self.row.tensors}

    @property
    def extents(self) -> Dict[str, int]:
        return self.row.extents(self.axes)

    @property
    def conventions(self) -> Dict[str, Dict[str, Any]]:
        """The conventions that images with these axes have."""
        return {name: convention for name, convention in self.row.conventions.items() if convention.get("axis") in (None, *self.axes)}

    @property
    def has_dialect(self) -> bool:
        """Whether a reference may follow another dialect."""
        return "dialect" in self.row.conventions

    @property
    def fitted(self) -> Tuple[str, ...]:
        """The conventions, if the observed gradients can show them: there are only so many combinations."""
        are_few = all(convention.get("required") and convention["kind"] in ("text", "flag") for convention in self.conventions.values())
        return tuple(self.conventions) if are_few else ()

    @property
    def scalars(self) -> Dict[str, Test]:
        own = {name: _test_of(convention) for name, convention in self.conventions.items()}
        of_reference = {f"reference_max_abs_diff_{name}": (_is_number, "a number") for name in self.gradients}
        return {
            "operator": OPERATOR, **own, "atol": _TOLERANCE, "rtol": _TOLERANCE, "kernel": _TEXT, "label": _TEXT,
            **({"reference_dialect": own["dialect"], **of_reference} if self.has_dialect else {}),
        }
