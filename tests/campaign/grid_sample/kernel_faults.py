"""Faults planted in kernels: a step of the operator is wrong (planting.py says how)."""

from dataclasses import replace

import numpy as np

from ..planting import keep_last, lose, other_arithmetic, other_conventions, scale_addend, tampering, whole, zero_last_channel
from ..steps import Tampering

PADDINGS, INTERPOLATIONS = ("zeros", "border", "reflection"), ("bilinear", "nearest", "bicubic")


def exchanged(result, s, rng):
    """The first two axes, x and y, take each other's."""
    return (result[1], result[0], *result[2:])


def ends_exchanged(result, s, rng):
    """The first axis and the last, in 3D x and z."""
    return (result[-1], *result[1:-1], result[0])


def on_all(change):
    """The same on each axis."""
    return lambda result, s, rng: tuple(change(entry) for entry in result)


def without_corner(result, s, rng):
    rows, there = result
    there = there.copy()
    there[:, rng.integers(there.shape[1])] = False
    return rows, there


def rows_on(step):
    """Pixels that lie some places on."""
    return lambda result, s, rng: (result[0] + step(s.problem), result[1])


def last_column_missing(result, context, rng):
    pixels, there = result
    s, size = context
    return pixels, there & (pixels != size[:, None] - 1)


def other_align(conventions):
    return replace(conventions, align_corners=not conventions.align_corners)


def other_padding(conventions):
    return replace(conventions, padding=PADDINGS[PADDINGS.index(conventions.padding) - 1])


def other_interpolation(conventions):
    return replace(conventions, interpolation="bicubic" if conventions.interpolation == "bilinear" else "bilinear")


def of_one_part(part, change):
    """One of the gradients is computed by other conventions."""
    def plant(conventions, arithmetic, problem, rng):
        return conventions, arithmetic, Tampering({part: lambda result, s: change(result)})
    return plant


def scales_of_other_align(result, s, rng):
    """The factor of the other align_corners."""
    sizes = s.problem.sides
    return tuple(np.where(scale == size / 2, scale * (size - 1) / size, scale * size / max(size - 1, 1)) for scale, size in zip(result, sizes))


def next_sample(result, s, rng):
    return np.roll(result, 1, 0)


FAULTS = {
    "sizes_swapped": ("width and height are exchanged", tampering("sizes", exchanged)),
    "grid_swapped": ("x and y of the grid are exchanged", tampering("grid", exchanged)),
    "grid_x_z_swapped": ("x and z of the grid are exchanged, in 3D", tampering("grid", ends_exchanged)),
    "truncated": ("coordinates are truncated towards 0 in place of rounded down", whole("floor", lambda r, c, rng: tuple(map(np.trunc, c[1])))),
    "rounded": ("coordinates are rounded to the nearest pixel in place of down", whole("floor", lambda r, c, rng: tuple(map(np.rint, c[1])))),
    "half_missing": ("the coordinate lacks its -0.5", tampering("pixel", on_all(lambda x: x + 0.5))),
    "pixel_off_by_one": ("the coordinate is one pixel too large", tampering("pixel", on_all(lambda x: x + 1))),
    "ties_upwards": ("nearest: a tie goes to the upper pixel, not to the even one", whole("floor", lambda r, c, rng: tuple(np.floor(x + 0.5) for x in c[1]))),
    "other_align_corners": ("the kernel has the other align_corners", other_conventions(other_align)),
    "other_padding": ("the kernel has another padding", other_conventions(other_padding)),
    "other_interpolation": ("the kernel interpolates linearly in place of cubically or of nearest, or cubically in place of linearly", other_conventions(other_interpolation)),
    "align_corners_of_input": ("grad_input alone is computed with the other align_corners", of_one_part("conventions_added", other_align)),
    "align_corners_of_grid": ("grad_grid alone is", of_one_part("conventions_read", other_align)),
    "padding_of_input": ("grad_input alone is computed with another padding", of_one_part("conventions_added", other_padding)),
    "padding_of_grid": ("grad_grid alone is", of_one_part("conventions_read", other_padding)),
    "interpolation_of_input": ("grad_input alone is computed with another interpolation", of_one_part("conventions_added", other_interpolation)),
    "interpolation_of_grid": ("grad_grid alone is", of_one_part("conventions_read", other_interpolation)),
    "border_slope_kept": ("clipped coordinates keep their slope", whole("border_slope", lambda r, c, rng: c[1])),
    "reflected_sign_missing": ("reflected coordinates have the slope of those that are not", whole("reflected_sign", lambda r, s, rng: np.abs(r))),
    "cubic_half": ("bicubic: the coefficient is -0.5, not -0.75", whole("cubic", lambda r, s, rng: -0.5)),
    "cubic_unpadded": ("bicubic: pixels outside read 0, whatever the padding", of_one_part("conventions_read", lambda c: replace(c, padding="zeros"))),
    "size_missing": ("grad_grid lacks the factor of half the size", tampering("scales", on_all(np.sign))),
    "half_of_size_missing": ("grad_grid has the factor size in place of half the size", tampering("scales", on_all(lambda x: 2 * x))),
    "size_of_other_axis": ("its factors of width and height are exchanged", tampering("scales", exchanged)),
    "size_of_other_align": ("its factor is that of the other align_corners", tampering("scales", scales_of_other_align)),
    "x_sign": ("the gradient along x has the other sign", tampering("across", lambda r, s, rng: (-r[0], *r[1:]))),
    "across_swapped": ("the gradients along x and y of some samples are exchanged", tampering("across", exchanged)),
    "fractions_reversed": ("f and 1 - f are exchanged", tampering("fractions", on_all(lambda f: 1 - f))),
    "fractions_swapped": ("the fractions of x and y are exchanged", tampering("fractions", exchanged)),
    "last_column_unread": ("pixels in the last column are taken to lie outside", tampering("taps", last_column_missing)),
    "corner_unread": ("one of the pixels reads 0", tampering("reads", without_corner)),
    "corner_not_added": ("one of the pixels gets nothing", tampering("lands", without_corner)),
    "next_pixel_read": ("the sample reads one pixel on", tampering("reads", rows_on(lambda p: 1))),
    "next_pixel_added": ("the addends go one pixel on", tampering("lands", rows_on(lambda p: 1))),
    "next_row_added": ("the addends go one row on", tampering("lands", rows_on(lambda p: p.sides[0]))),
    "sample_lost": ("samples add nothing to grad_input", tampering("lands", lambda r, s, rng: (r[0], np.zeros_like(r[1])))),
    "first_batch": ("the input of the first batch is read in all", tampering("source", lambda r, s, rng: 0 * r)),
    "batch_stride": ("the addends go to the next batch", tampering("target", lambda r, s, rng: (r + 1) % len(s.problem.input))),
    "other_sample": ("another sample's grad_output is used", tampering("grad_output", next_sample)),
    "other_channel": ("the next channel's grad_output is used", tampering("grad_output", lambda r, s, rng: np.roll(r, 1, 1))),
    "last_channel_skipped": ("the sum of grad_grid lacks the last channel", tampering("grid_terms", zero_last_channel)),
    "addend_lost": ("one atomic addition to grad_input is lost", whole("addends", lose(0))),
    "addends_lost": ("2 % of the additions are lost: a race", whole("addends", lose(0.02))),
    "addend_twice": ("one addend is added twice", whole("addends", scale_addend(2))),
    "addend_sign": ("one addend has the other sign", whole("addends", scale_addend(-1))),
    "stored_not_added": ("grad_input is stored in place of added up", whole("addends", keep_last)),
}
# What kernels compute in too narrow a type.
NARROW = {
    "tf32_products": ("factors are rounded to TF32 before they are multiplied", other_arithmetic(products="tf32")),
    "bfloat16_products": ("factors are rounded to bfloat16", other_arithmetic(products="bfloat16")),
    "float16_products": ("factors are rounded to float16", other_arithmetic(products="float16")),
    "float32_of_float64": ("float64 tensors are computed in float32", other_arithmetic(real="float32")),
    "bfloat16_of_float32": ("float32 tensors are computed in bfloat16", other_arithmetic(real="bfloat16", fused=False)),
    "float16_sums": ("grad_input is added up in float16", other_arithmetic(scatter="float16")),
    "bfloat16_sums": ("grad_input is added up in bfloat16", other_arithmetic(scatter="bfloat16")),
}
