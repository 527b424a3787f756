"""The operators that the campaign knows, each with what it is asked for."""

from dataclasses import dataclass
from typing import Callable, Dict, Optional

from . import grid_sample, interpolate, msda, own, roi_align, scatter_add
from .planting import Kind


@dataclass(frozen=True)
class Subject:
    """`excess`: by how much values lie outside of all that rounding gives. `near_boundary`: which elements of a gradient that is not
    scattered rounding may carry into another cell; none if all gradients are scattered. `advised`: whether the program compares a call of these conventions with grid_sample's as well.
    `read`: conventions and problem of a recorded call; none if no kernels are recorded."""

    kinds: Dict[str, Kind]
    conventions: tuple
    draw: Callable
    draw_arithmetic: Callable
    draw_reference: Callable
    backward: Callable
    excess: Callable
    near_boundary: Optional[Callable]
    advised: Callable
    read: Callable


def subject(room, advised):
    return Subject(room.kinds.KINDS, tuple(room.problems.CONVENTIONS), room.problems.draw, room.problems.draw_arithmetic,
                   room.problems.draw_reference, room.operator.backward, room.bounds.excess, getattr(room.bounds, "near_boundary", None), advised,
                   room.recorded.read if hasattr(room, "recorded") else None)


def never(conventions):
    return False


MSDA = subject(msda, lambda conventions: conventions.dialect != "grid_sample")
SUBJECTS = {"msda": MSDA, **{room.__name__.rpartition(".")[2]: subject(room, never) for room in (grid_sample, scatter_add, interpolate, roi_align, own)}}
