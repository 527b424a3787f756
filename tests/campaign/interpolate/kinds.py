"""All kinds of interpolate's captures: faults of either side, and clean variations in which nothing is wrong."""

from dataclasses import replace

import numpy as np

from ..planting import clean, tampering, whole
from ..scatter import faults, kinds
from ..scatter.faults import exchanged
from . import problems
from .problems import CONVENTIONS, NEAREST, SMOOTH


def other_align(conventions, rng):
    return replace(conventions, align_corners=not conventions.align_corners)


def other_mode(conventions, rng):
    return replace(conventions, mode={"nearest": "nearest-exact", "nearest-exact": "nearest", "bilinear": "bicubic", "bicubic": "bilinear"}[conventions.mode])


def linear_by_nearest(conventions, rng):
    return problems.Conventions("nearest")


def sizes_of_next(sides, s, rng):
    return tuple(side + 1 for side in sides)


def output_on(problem, source):
    """The output pixel one on along each axis; the first after the last."""
    on, place = 0, 1
    for side in problem.out:
        on, place, source = on + (source + 1) % side * place, place * side, source // side
    return on


def output_off_by_one(result, s, rng):
    """In place of each output pixel's numbers those of the next one."""
    return result[output_on(s.problem, s.source)]


BILINEAR, BICUBIC = (tuple(c for c in SMOOTH if c.mode == mode) for mode in ("bilinear", "bicubic"))
FLAT = tuple(c for c in SMOOTH if c.mode != "linear")
EXACT = {"output_off_by_one_same": problems.same, "output_off_by_one_doubled": problems.doubled, "output_off_by_one_quadrupled": problems.quadrupled}
UNALIGNED = tuple(c for c in SMOOTH if not c.align_corners)
KERNEL = {
    **faults.KERNEL,
    **{name: fault for name, fault in faults.IMAGE.items() if name != "next_image"},
    "other_align_corners": ("the kernel has the other align_corners", faults.conventions_of(other_align)),
    "other_mode": ("the kernel interpolates cubically in place of linearly, or by the other nearest pixels", faults.conventions_of(other_mode)),
    "by_nearest": ("the kernel takes the nearest pixel in place of interpolating", faults.conventions_of(linear_by_nearest)),
    "sizes_swapped": ("width and height are exchanged", whole("sizes", exchanged)),
    "size_off_by_one": ("the image is taken to be a pixel larger", whole("sizes", sizes_of_next)),
    "scale_ignored": ("the ratio of the sizes is used in place of the scale factor", whole("scales", lambda r, s, rng: None)),
    "output_off_by_one_same": ("nearest: an output pixel's numbers are those of the next one, and nothing is resized", tampering("numbers", output_off_by_one)),
    "output_off_by_one_doubled": ("the same, where the size is doubled", tampering("numbers", output_off_by_one)),
    "output_off_by_one_quadrupled": ("the same, where it is four times as large", tampering("numbers", output_off_by_one)),
    "truncated": ("coordinates are rounded to the nearest pixel in place of down", whole("floor", lambda r, c, rng: tuple(map(np.rint, c[1])))),
    "cubic_half": ("bicubic: the coefficient is -0.5, not -0.75", whole("cubic", lambda r, s, rng: -0.5)),
    "unclamped": ("what lies beyond the border is not added to the border's pixels", tampering("clamped", lambda r, c, rng: c[1])),
}
NEEDS = {
    **{name: SMOOTH for name in ("corner_not_added", "weight_missing", "fractions_reversed", "half_off", "truncated", "by_nearest", "other_align_corners", *faults.WEIGHTED)},
    "fractions_swapped": FLAT, "sizes_swapped": FLAT, "other_mode": (*BILINEAR, *BICUBIC, *NEAREST), "cubic_half": BICUBIC, "unclamped": UNALIGNED,
    **dict.fromkeys(EXACT, NEAREST),
    "scale_ignored": UNALIGNED, "pixel_off_by_one": CONVENTIONS, "next_row": FLAT,
}
ANY_SIZE = {"place": problems.any_size}
CALLS = {"scale_ignored": {"place": problems.scaled_apart}, **{name: {"place": place} for name, place in EXACT.items()}, **{name: ANY_SIZE for name in ("truncated", "by_nearest", "half_off", "fractions_reversed", "fractions_swapped", "sizes_swapped", "other_align_corners")}}


def variations():
    yield from kinds.variations(problems.CROWDED)
    for name, text in (("doubled", "twice the size"), ("halved", "half the size"), ("thirds", "three times the size: rounding decides some cells"),
                       ("same", "the same size"), ("scaled", "by a scale factor that the sizes do not show")):
        yield clean(name, text, call={"place": getattr(problems, name)})
    yield clean("nearest_ties", "nearest, where rounding carries coordinates over whole numbers", call={"place": problems.thirds}, conventions=NEAREST)


def listed():
    yield from kinds.planted(KERNEL, CALLS, NEEDS, {**faults.WEIGHTED, **faults.NARROW})
    yield from variations()
    yield from kinds.once_excused({"place": problems.into_one})


KINDS = {kind.name: kind for kind in listed()}
