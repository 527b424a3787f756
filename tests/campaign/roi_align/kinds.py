"""All kinds of roi_align's captures: faults of either side, and clean variations in which nothing is wrong."""

from dataclasses import replace

import numpy as np

from ..planting import clean, tampering, whole
from ..scatter import faults, kinds
from ..scatter.faults import exchanged
from . import problems
from .problems import CONVENTIONS


def other_aligned(conventions, rng):
    return replace(conventions, aligned=not conventions.aligned)


def other_ratio(conventions, rng):
    return replace(conventions, sampling_ratio={0: 2, 1: 2, 2: 1, 3: 2}[conventions.sampling_ratio])


def corners_swapped(boxes, s, rng):
    """x and y of the corners take each other's."""
    return boxes[:, [0, 2, 1, 4, 3]]


def next_box(boxes, s, rng):
    return np.concatenate([boxes[:, :1], np.roll(boxes[:, 1:], 1, 0)], 1)


def size_for_end(boxes, s, rng):
    """The box is read as corner and size."""
    return np.concatenate([boxes[:, :3], boxes[:, 1:3] + boxes[:, 3:]], 1)


ALIGNED, PLAIN = (tuple(c for c in CONVENTIONS if c.aligned == aligned) for aligned in (True, False))
KERNEL = {
    **faults.KERNEL,
    **faults.IMAGE,
    "other_aligned": ("the kernel has the other `aligned`", faults.conventions_of(other_aligned)),
    "other_sampling_ratio": ("the kernel samples another number of points", faults.conventions_of(other_ratio)),
    "scale_missing": ("boxes are not scaled", whole("scale", lambda r, s, rng: 1.0)),
    "half_missing": ("aligned: the half pixel is not taken off", whole("offset", lambda r, s, rng: 0.0)),
    "shortest_missing": ("boxes may be narrower than a pixel", whole("shortest", lambda r, length, rng: length)),
    "corners_swapped": ("x and y of the boxes are exchanged", whole("boxes", corners_swapped)),
    "next_box": ("bins are those of the next box", whole("boxes", next_box)),
    "size_for_end": ("a box's end is taken for its size", whole("boxes", size_for_end)),
    "bins_swapped": ("rows and columns of bins are exchanged", tampering("bins", exchanged)),
    "centre_missing": ("points lie at the beginning of their part of the bin", whole("centre", lambda r, s, rng: r - 0.5)),
    "share_missing": ("the sum over points in place of the mean", tampering("share", lambda r, s, rng: np.ones(r.shape))),
    "outside_added": ("points outside of the image are added to the border", whole("inside", lambda r, s, rng: np.ones(r.shape, bool))),
    "first_batch": ("all is added to the first batch", whole("batch", lambda r, s, rng: 0 * r)),
}
SAMPLED = tuple(c for c in CONVENTIONS if c.sampling_ratio != 1)
NEEDS = {"half_missing": ALIGNED, "shortest_missing": PLAIN, "share_missing": SAMPLED, "other_sampling_ratio": CONVENTIONS}
CALLS = {"shortest_missing": {"place": problems.tiny}, "outside_added": {"place": problems.across_border}, "share_missing": {"place": problems.inside},
         "size_for_end": {"place": problems.inside}, "first_batch": {"place": problems.inside, "batches": 3}}


def variations():
    yield from kinds.variations(problems.CROWDED)
    for kind in ("float16", "bfloat16"):
        yield clean(f"{kind}_kernel", f"{kind} tensors are computed in {kind}, coordinates included", call={"kind": kind},
                    arithmetic={"real": kind, "scatter": "", "fused": False, "blocks": 1})
    for name, text in (("on_pixels", "corners are integers"), ("tiny", "boxes narrower than a pixel"), ("whole_image", "boxes are the image"),
                       ("across_border", "boxes partly outside of the image"), ("outside", "boxes outside of it"),
                       ("degenerate", "boxes whose end comes before their beginning")):
        yield clean(name, text, call={"place": getattr(problems, name)})
    yield clean("adaptive", "as many points as a bin has pixels, where rounding decides how many", call={"place": problems.on_pixels},
                conventions=tuple(c for c in CONVENTIONS if c.sampling_ratio == 0))
    yield clean("no_boxes", "no box at all", call={"shape": (0, 4, 2, 2)})


def listed():
    yield from kinds.planted(KERNEL, CALLS, NEEDS, {**faults.WEIGHTED, **faults.NARROW})
    yield from variations()
    yield from kinds.once_excused({"shape": (250, 1, 1, 1), "place": problems.clustered})


KINDS = {kind.name: kind for kind in listed()}
