"""All kinds of grid_sample's captures: faults of either side, and clean variations in which nothing is wrong."""

from dataclasses import replace

import numpy as np

from .. import excused
from ..planting import BUFFERS, MISTAKE, NARROW, ODD, Kind, clean, overwritten, with_nan
from . import kernel_faults, problems, result_faults
from .problems import CONVENTIONS


def only(**wanted):
    return tuple(c for c in CONVENTIONS if all(getattr(c, name) in values for name, values in wanted.items()))


def huge(rng, image, grad_output):
    """Beyond float16's largest number where addends meet."""
    return image * 2.0**8, grad_output * 2.0**13


def strided(problem, rng):
    """The image is channels-last in memory, and the grid has gaps."""
    n, c, *sides = problem.input.shape
    steps = [int(np.prod(sides[i + 1:])) * c for i in range(len(sides))]
    gaps = 2 * np.cumprod((1, *problem.grid.shape[:0:-1]))[::-1]
    return replace(problem, strides={"input": (int(np.prod(sides)) * c, 1, *steps), "grid": tuple(map(int, gaps))})


LINEAR, SLOPED, PADDED = ("bilinear",), ("bilinear", "bicubic"), ("border", "reflection")
NEEDS = {
    "truncated": only(interpolation=SLOPED), "rounded": only(interpolation=SLOPED), "ties_upwards": only(interpolation=("nearest",)),
    "other_interpolation": CONVENTIONS, "border_slope_kept": only(interpolation=LINEAR, padding=PADDED),
    "reflected_sign_missing": only(interpolation=LINEAR, padding=("reflection",)), "cubic_half": only(interpolation=("bicubic",)),
    "cubic_unpadded": only(interpolation=("bicubic",), padding=PADDED), "last_channel_skipped": only(interpolation=SLOPED),
    **{name: only(interpolation=SLOPED) for name in (
        "size_missing", "half_of_size_missing", "size_of_other_axis", "size_of_other_align", "x_sign", "across_swapped", "axes_swapped",
        "rows_swapped", "last_rows_missing", "fractions_reversed", "fractions_swapped", "corner_unread", "next_pixel_read", "first_batch",
        "align_corners_of_grid", "padding_of_grid", "interpolation_of_grid")},
    **{name: only(interpolation=LINEAR) for name in ("x_z_swapped", "grid_x_z_swapped")},
}
OUTSIDE, IN_3D, IN_2D = {"place": problems.outside}, {"axes": 3}, {"axes": 2}
CALLS = {
    "truncated": OUTSIDE, "other_padding": OUTSIDE, "padding_of_input": OUTSIDE, "padding_of_grid": OUTSIDE, "cubic_unpadded": OUTSIDE,
    "border_slope_kept": OUTSIDE, "reflected_sign_missing": OUTSIDE, "ties_upwards": {"place": problems.middles},
    "x_z_swapped": IN_3D, "grid_x_z_swapped": IN_3D,
    "other_interpolation": IN_2D, "interpolation_of_input": IN_2D, "interpolation_of_grid": IN_2D,
}
FLOAT32 = {"kind": "float32"}
WIDE = {"float32_of_float64": {"kind": "float64"}}


def faults():
    for name, (text, plant) in result_faults.FAULTS.items():
        yield Kind(name, text, "result", ODD.get(name, MISTAKE), plant, CALLS.get(name, {}), NEEDS.get(name, ()))
    for name, (text, plant) in kernel_faults.FAULTS.items():
        yield Kind(name, text, "kernel", MISTAKE, plant, CALLS.get(name, {}), NEEDS.get(name, ()))
    for name, (text, plant) in kernel_faults.NARROW.items():
        yield Kind(name, text, "kernel", NARROW, plant, WIDE.get(name, FLOAT32))
    yield from BUFFERS


def variations():
    float32 = {"real": "float32"}
    yield clean("any_kernel", "fused or not, factors in any order, sums in any order and in blocks, 16-bit tensors in their type or in float32")
    for kind in ("float16", "bfloat16"):
        yield clean(f"{kind}_kernel", f"{kind} tensors are computed in {kind}, coordinates included, in PyTorch's order", call={"kind": kind},
                    arithmetic={"real": kind, "fused": False, "slopes": "corners", "channels": "serial", "scaled": "after", "blocks": 1})
        yield clean(f"{kind}_additions", f"{kind} tensors are computed in float32, and grad_input is added up in {kind}", call={"kind": kind},
                    arithmetic={"scatter": kind, **float32})
    yield clean("random_order", "addends of grad_input in random order", call={"place": problems.clustered}, arithmetic={"order": "random"})
    yield clean("blocks", "grad_input in partial sums", call={"place": problems.clustered}, arithmetic={"blocks": 4})
    yield clean("ill_conditioned", "gradients are what is left of large terms", call={"numbers": problems.cancelling})
    yield clean("underflow", "grad_output is subnormal", call={"numbers": problems.underflowing, **FLOAT32})
    yield clean("equal_addends", "all addends are equal", call={"numbers": problems.equal, "place": problems.clustered})
    yield clean("spread_addends", "addends of all sizes", call={"numbers": problems.spread})
    for name, text in (("centres", "every coordinate is an integer"), ("middles", "every coordinate is a tie"),
                       ("one_axis_on_boundaries", "one axis of each sample lies on a boundary"),
                       ("near_boundaries", "coordinates within some units in the last place of a boundary"),
                       ("near_middles", "the same of ties"), ("borders", "coordinates on the edges and on the last pixels' centres"),
                       ("reflections", "coordinates where reflection turns round"), ("outside", "samples outside of the image"),
                       ("far", "samples far outside")):
        yield clean(name, text, call={"place": getattr(problems, name)})
    yield clean("nearest_ties", "nearest, with ties in coordinates that rounding moves", conventions=only(interpolation=("nearest",)),
                call={"place": problems.near_middles})
    yield clean("one_axis_of_size_one", "an image of one row and one column, or of one slice", call={"shape": (2, 3, (1, 1), (3, 4)), "axes": 2})
    yield clean("strided", "an image that is channels-last in memory", alter=strided)
    yield clean("overflow", "gradients beyond float16's largest number", call={"kind": "float16", "numbers": huge, "place": problems.clustered})
    yield clean("nan_input", "a NaN or an infinity in the input", alter=with_nan("input"))
    yield clean("nan_grad_output", "one in grad_output", alter=with_nan("grad_output"))
    yield clean("no_samples", "no sample at all", call={"shape": (1, 8, (3, 4), (0, 5)), "axes": 2})
    yield clean("buffer_overwritten", "the buffer was not zero before, and its gradient is right", plant=overwritten)


def lose_edges(values, rng):
    """The last row and column of the image get nothing, as where samples on the edge are skipped."""
    values["grad_input"][..., -1] = 0
    values["grad_input"][..., -1, :] = 0


def once_excused():
    crowded = {"shape": (1, 1, (1, 1), (20, 30)), "axes": 2, "place": problems.uniform}
    yield from excused.kinds("grad_output", "numbers", problems.small, problems.beyond, problems.underflowing, problems.positive, crowded,
                             {"place": problems.uniform})
    yield Kind("edges_lost", "nearest: samples on the clip's edge or turning point are skipped, and with them the last row and column", "result", MISTAKE, lose_edges,
               {"place": problems.borders}, only(interpolation=("nearest",), padding=PADDED))


KINDS = {kind.name: kind for kind in (*faults(), *variations(), *once_excused())}
