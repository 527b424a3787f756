"""The operators that the campaign knows, each with what it is asked for."""

from dataclasses import dataclass
from typing import Callable, Dict

from .msda import bounds, kinds, operator, problems
from .planting import Kind


@dataclass(frozen=True)
class Subject:
    """`excess`: by how much values lie outside of all that rounding gives. `near_boundary`: which elements rounding may carry into another
    cell. `advised`: whether the program compares a call of these conventions with grid_sample's as well."""

    kinds: Dict[str, Kind]
    conventions: tuple
    draw: Callable
    draw_arithmetic: Callable
    draw_reference: Callable
    backward: Callable
    excess: Callable
    near_boundary: Callable
    advised: Callable


MSDA = Subject(kinds.KINDS, tuple(problems.CONVENTIONS), problems.draw, problems.draw_arithmetic, problems.draw_reference,
               operator.backward, bounds.excess, bounds.near_boundary, lambda conventions: conventions.dialect != "grid_sample")
SUBJECTS = {"msda": MSDA}
