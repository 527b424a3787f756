"""Kinds of captures that all scattering operators have."""

from dataclasses import replace

import numpy as np

from .. import excused
from ..planting import BUFFERS, MISTAKE, NARROW, ODD, Kind, clean, overwritten
from . import faults, numbers

FLOAT32 = {"kind": "float32"}
OF_TYPE = {"float32_of_float64": {"kind": "float64"}}
FINE = ("one_sided", "scale_fine", "scale_1.0001")  # 16 bits round these away


def with_odd(problem, rng):
    """A NaN or an infinity among the numbers that are added."""
    array = problem.numbers.copy()
    flat = array.reshape(-1)
    if flat.size:
        flat[rng.integers(0, flat.size, rng.integers(1, 3))] = rng.choice([np.nan, np.nan, np.inf])
    return replace(problem, numbers=array)


def planted(kernel_faults, calls, needs, narrow=faults.NARROW, unheld=()):
    """Faults of results, of a kernel's steps, of its arithmetic and of buffers. `unheld`: conventions of sums that begin with 0."""
    calls = {**{name: FLOAT32 for name in FINE}, **calls}
    for name, (text, plant) in faults.RESULT.items():
        yield Kind(name, text, "result", ODD.get(name, MISTAKE), plant, calls.get(name, {}), needs.get(name, ()))
    for name, (text, plant) in kernel_faults.items():
        yield Kind(name, text, "kernel", MISTAKE, plant, calls.get(name, {}), needs.get(name, ()))
    for name, (text, plant) in narrow.items():
        yield Kind(name, text, "kernel", NARROW, plant, OF_TYPE.get(name, FLOAT32), needs.get(name, ()))
    yield from (replace(kind, conventions=unheld) for kind in BUFFERS)


def once_excused(crowded, unheld=()):
    """The last of all kinds, so that the numbers of the others' captures stay."""
    for kind in excused.kinds("numbers", "values", numbers.small, numbers.beyond, numbers.underflowing, numbers.positive, crowded):
        yield replace(kind, conventions=unheld) if "shape" in kind.call else kind


def variations(crowded, unheld=()):
    """In which nothing is wrong. `crowded`: calls of long sums."""
    yield clean("any_kernel", "factors in any order, sums in any order and in blocks, 16-bit tensors added up in their type or in float32")
    for kind in ("float16", "bfloat16"):
        yield clean(f"{kind}_additions", f"{kind} tensors are added up in {kind}", call={"kind": kind, **crowded}, arithmetic={"scatter": kind})
    yield clean("random_order", "addends in random order", call=crowded, arithmetic={"order": "random"})
    yield clean("blocks", "partial sums", call=crowded, arithmetic={"blocks": 4})
    yield clean("ill_conditioned", "sums are what is left of large addends", call={"values": numbers.cancelling, **crowded})
    yield clean("underflow", "numbers are subnormal", call={"values": numbers.underflowing, **FLOAT32})
    yield clean("equal_addends", "all numbers are equal", call={"values": numbers.equal, **crowded})
    yield clean("spread_addends", "addends of all sizes", call={"values": numbers.spread})
    yield clean("overflow", "sums beyond float16's largest number", call={"kind": "float16", "values": numbers.huge, **crowded})
    yield clean("nan_number", "a NaN or an infinity is added", alter=with_odd)
    yield Kind("buffer_overwritten", "the buffer was not zero before, and its gradient is right", "clean", frozenset(), overwritten, sides=("none",),
               conventions=unheld)
