"""All kinds of captures of operators that definitions state."""

import numpy as np

from ..planting import clean, tampering
from ..scatter import faults, kinds
from . import problems
from .problems import CONVENTIONS, GATHER, LINEAR, SEGMENTS, SOFTMAX

KERNEL = {
    **faults.KERNEL,
    **{name: faults.IMAGE[name] for name in ("corner_not_added", "weight_missing", "fractions_reversed", "pixel_off_by_one", "half_off")},
    "next_weight": ("the next source's weight is used", tampering("factors", lambda factors, s, rng: tuple(np.roll(entry, 1, 0) for entry in factors))),
}
WEIGHTED = (GATHER, LINEAR, SOFTMAX)
NEEDS = {"corner_not_added": (GATHER, LINEAR), "weight_missing": WEIGHTED, "next_weight": WEIGHTED, **{name: (LINEAR,) for name in (
    "fractions_reversed", "pixel_off_by_one", "half_off")}}


def listed():
    yield from kinds.planted(KERNEL, {}, NEEDS, unheld=CONVENTIONS)
    yield from kinds.variations(problems.CROWDED, CONVENTIONS)
    yield clean("no_sources", "nothing is added", call={"shape": (0, 4, 5)}, conventions=(SEGMENTS, GATHER))
    yield from kinds.once_excused({"shape": (800, 2, 5), "place": problems.hot}, (SEGMENTS,))


KINDS = {kind.name: kind for kind in listed()}
