"""All kinds of captures: faults of either side, and clean variations in which nothing is wrong. A kind says what it plants, which causes
name it right, and what kind of call it needs."""

from dataclasses import replace

import numpy as np

from .. import excused
from ..planting import BUFFERS, MISTAKE, NARROW, ODD, Kind, clean, one_of_other_conventions, overwritten, with_nan
from ..steps import Tampering
from . import kernel_faults, problems, result_faults


def only(**wanted):
    return tuple(c for c in problems.CONVENTIONS if all(getattr(c, name) == value for name, value in wanted.items()))


# Calls

def compute_nan_locations(conventions, arithmetic, problem, rng):
    return conventions, arithmetic, Tampering({"locations": lambda r, s: tuple(np.where(np.isfinite(x), x, 0.4) for x in r)})


def huge(rng, value, attention, grad_output):
    """Beyond float16's largest number where addends meet."""
    return value * 2.0**8, attention, grad_output * 2.0**9


SKIPPING = tuple(c for c in problems.CONVENTIONS if c.dialect != "msda_triton")
PLACES = {
    "border_slope_kept": {"place": problems.borders}, "edge_skipped": {"place": problems.outside},
    "other_padding": {"place": problems.outside}, "last_column_unread": {"place": problems.outside},
    "truncated": {"place": problems.outside},
}
NEEDS = {"border_slope_kept": only(dialect="grid_sample", padding="border")}
WIDE = {"float32_of_float64": {"kind": "float64"}, "tf32_products": {"kind": "float32"}, "bfloat16_products": {"kind": "float32"},
        "float16_products": {"kind": "float32"}}


def faults():
    for name, (text, plant) in result_faults.FAULTS.items():
        yield Kind(name, text, "result", ODD.get(name, MISTAKE), plant)
    for name, (text, plant) in kernel_faults.FAULTS.items():
        yield Kind(name, text, "kernel", MISTAKE, plant, PLACES.get(name, {}), NEEDS.get(name, ()))
    for name, (text, plant) in kernel_faults.NARROW.items():
        yield Kind(name, text, "kernel", NARROW, plant, WIDE[name])
    yield Kind("nan_location_computed", "gradients are returned for a sample whose location is NaN, which the dialect skips", "kernel",
               MISTAKE, compute_nan_locations, conventions=SKIPPING, alter=with_nan("locations"))
    yield from BUFFERS


def variations():
    float32 = {"kind": "float32"}
    yield clean("any_kernel", "fused or not, factors in any order, sums in any order and in blocks")
    yield clean("random_order", "addends of grad_value in random order", call={"place": problems.clustered}, arithmetic={"order": "random"})
    yield clean("blocks", "grad_value in partial sums", call={"place": problems.clustered}, arithmetic={"blocks": 4})
    yield clean("grad_output_first", "grad_output*attention first", arithmetic={"factors": "grad_output"})
    yield clean("underflow", "products of two factors underflow", call={"numbers": problems.underflowing, **float32})
    yield clean("ill_conditioned", "gradients are what is left of large terms", call={"numbers": problems.cancelling})
    yield clean("equal_addends", "all addends are equal", call={"numbers": problems.equal, "place": problems.clustered})
    yield clean("spread_addends", "addends of all sizes", call={"numbers": problems.spread})
    yield clean("pixel_centres", "every coordinate is an integer", call={"place": problems.centres})
    yield clean("encoder", "offsets of whole pixels between levels", call={"place": problems.encoder})
    yield clean("one_axis_on_boundaries", "one axis of each sample lies on a boundary", call={"place": problems.one_axis_on_boundaries})
    yield clean("near_boundaries", "coordinates within 3 units in the last place of a boundary", call={"place": problems.near_boundaries})
    yield clean("borders", "coordinates on the borders", call={"place": problems.borders})
    yield clean("outside", "samples outside of the image", call={"place": problems.outside})
    yield clean("far", "samples far outside", call={"place": problems.far})
    yield clean("refined_fraction", "cell from a rounded product, fraction from an unrounded one (Triton with align_corners)",
                conventions=only(dialect="msda_triton", align_corners=True), arithmetic={"refined": True}, call={"place": problems.centres})
    for kind in ("float16", "bfloat16"):
        yield clean(f"{kind}_additions", f"grad_value is added up in {kind}", call={"kind": kind}, arithmetic={"scatter": kind})
    yield clean("overflow", "gradients beyond float16's largest number", call={"kind": "float16", "numbers": huge})
    yield clean("nan_value", "a NaN or an infinity in value", alter=with_nan("value"))
    yield clean("nan_grad_output", "one in grad_output", alter=with_nan("grad_output"))
    yield clean("nan_location", "one in sampling_locations, of a dialect that skips the sample", conventions=SKIPPING, alter=with_nan("locations"))
    yield clean("no_queries", "no query at all", call={"shape": (1, 0, 2, 2, 8, ((3, 4), (2, 2)))})
    yield clean("buffer_overwritten", "the buffer was not zero before, and its gradient is right", plant=overwritten)


def once_excused():
    crowded = {"shape": (1, 600, 1, 2, 1, ((1, 1),)), "place": problems.uniform}
    yield from excused.kinds("grad_output", "numbers", problems.small, problems.beyond, problems.underflowing, problems.positive, crowded,
                             {"place": problems.uniform})
    yield one_of_other_conventions("align_corners_of_one", "one of the gradients has the other align_corners", lambda c: replace(c, align_corners=not c.align_corners),
                                   call={"kind": "float32"}, sides=("observed", "both"))


KINDS = {kind.name: kind for kind in (*faults(), *variations(), *once_excused())}
