"""The operators that the campaign knows, each with what it is asked for."""

from dataclasses import dataclass
from typing import Callable, Dict

from . import grid_sample, msda
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


def subject(room, advised):
    return Subject(room.kinds.KINDS, tuple(room.problems.CONVENTIONS), room.problems.draw, room.problems.draw_arithmetic,
                   room.problems.draw_reference, room.operator.backward, room.bounds.excess, room.bounds.near_boundary, advised)


MSDA = subject(msda, lambda conventions: conventions.dialect != "grid_sample")
SUBJECTS = {"msda": MSDA, "grid_sample": subject(grid_sample, lambda conventions: False)}
