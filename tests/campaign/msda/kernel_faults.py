"""Faults planted in kernels: a step of the operator is wrong. Each takes the conventions, the arithmetic, the problem and `rng`, and
returns the conventions and arithmetic that the faulty kernel has, and how its steps are tampered with."""

from dataclasses import replace

import numpy as np

from ..planting import keep_last, lose, other_arithmetic, other_conventions, scale_addend, tampering, whole, zero_last_channel


def next_level(s):
    return (s.l + 1) % len(s.problem.levels)


def other_sizes(result, s, rng):
    sizes = np.array(s.problem.levels)[next_level(s)]
    return sizes[:, 1], sizes[:, 0]


def without_corner(result, s, rng):
    rows, there = result
    there = there.copy()
    there[:, rng.integers(4)] = False
    return rows, there


def without_last_column(result, s, rng):
    rows, there = result
    return rows, there & ((rows - s.start[:, None]) % s.width[:, None] != s.width[:, None] - 1)


def moved(step):
    def change(result, s, rng):
        rows, there = result
        return rows + step(s, rng), there
    return change


def narrow_inside(result, context, rng):
    """Samples between the border pixels and the edge of the image are skipped."""
    s, pixel = context
    return result & (pixel >= 0)


FAULTS = {
    "sizes_swapped": ("width and height are exchanged", tampering("sizes", lambda r, s, rng: r[::-1])),
    "sizes_of_other_level": ("the next level's size is used", tampering("sizes", other_sizes)),
    "start_of_other_level": ("the next level's start is used, in reading and in adding", tampering("starts", lambda r, s, rng: s.problem.starts[next_level(s)])),
    "locations_swapped": ("x and y of the locations are exchanged", tampering("locations", lambda r, s, rng: r[::-1])),
    "truncated": ("coordinates are truncated towards 0 in place of rounded down", whole("floor", lambda r, at, rng: np.trunc(at))),
    "rounded": ("coordinates are rounded to the nearest pixel in place of down", whole("floor", lambda r, at, rng: np.rint(at))),
    "half_missing": ("the coordinate lacks its -0.5", tampering("pixel", lambda r, c, rng: r + 0.5)),
    "pixel_off_by_one": ("the coordinate is one pixel too large", tampering("pixel", lambda r, c, rng: r + 1)),
    "other_align_corners": ("the kernel has the other align_corners", other_conventions(lambda c: replace(c, align_corners=not c.align_corners))),
    "other_padding": ("the kernel has the other padding", other_conventions(lambda c: replace(c, padding="zeros" if c.padding == "border" else "border", dialect="msda_triton" if c.dialect == "deformable_detr" else c.dialect))),
    "border_slope_kept": ("grid_sample's clipped coordinates keep their slope", whole("border_slope", lambda r, c, rng: c[1])),
    "edge_skipped": ("samples left of the first pixel's centre are skipped", whole("sampled", narrow_inside)),
    "last_column_unread": ("corners in the last column read 0", tampering("reads", without_last_column)),
    "corners_swapped": ("the weights of the corners (y0,x1) and (y1,x0) are exchanged", tampering("weights", lambda r, s, rng: r[:, [0, 2, 1, 3]])),
    "fractions_reversed": ("f and 1 - f are exchanged", tampering("fractions", lambda r, s, rng: (1 - r[0], 1 - r[1]))),
    "fractions_swapped": ("the fractions of x and y are exchanged", tampering("fractions", lambda r, s, rng: r[::-1])),
    "size_missing": ("grad_sampling_locations lacks the factor of the level's size", tampering("slopes", lambda r, s, rng: (np.ones_like(r[0]), np.ones_like(r[1])))),
    "size_of_other_axis": ("its factors width and height are exchanged", tampering("slopes", lambda r, s, rng: r[::-1])),
    "attention_missing_location": ("grad_sampling_locations lacks the attention weight", tampering("location_attention", lambda r, s, rng: np.ones_like(r))),
    "attention_missing_value": ("grad_value lacks the attention weight", tampering("value_attention", lambda r, s, rng: np.ones_like(r))),
    "attention_added": ("grad_attention_weights has the attention weight as a factor", tampering("attention_terms", lambda r, s, rng: r * s.problem.attention.reshape(-1, 1))),
    "corner_unread": ("one of the four corners reads 0", tampering("reads", without_corner)),
    "corner_not_added": ("one of the four corners adds nothing to grad_value", tampering("lands", without_corner)),
    "x_sign": ("the gradient along x has the other sign", tampering("across", lambda r, s, rng: (-r[0], r[1]))),
    "addend_lost": ("one addition to grad_value is lost", whole("addends", lose(0))),
    "addends_lost": ("2 % of the additions are lost: a race", whole("addends", lose(0.02))),
    "addend_twice": ("one addend is added twice", whole("addends", scale_addend(2))),
    "addend_sign": ("one addend has the other sign", whole("addends", scale_addend(-1))),
    "stored_not_added": ("grad_value is stored in place of added up", whole("addends", keep_last)),
    "next_pixel_read": ("the corners read one pixel on", tampering("reads", moved(lambda s, rng: 1))),
    "next_pixel_added": ("the addends go one pixel on", tampering("lands", moved(lambda s, rng: 1))),
    "next_row_added": ("the addends go one row on", tampering("lands", moved(lambda s, rng: s.width[:, None]))),
    "other_head": ("the next head's values are read", tampering("source", lambda r, s, rng: (r[0], (r[1] + 1) % s.problem.value.shape[2]))),
    "first_batch": ("the values of the first batch are read in all", tampering("source", lambda r, s, rng: (0 * r[0], r[1]))),
    "other_query": ("the next query's grad_output is used", tampering("grad_output", lambda r, s, rng: s.problem.grad_output[s.b, (s.q + 1) % max(s.problem.grad_output.shape[1], 1), s.m])),
    "other_channel": ("the next channel's grad_output is used", tampering("grad_output", lambda r, s, rng: np.roll(r, 1, 1))),
    "last_channel_skipped": ("the sum of grad_attention_weights lacks the last channel", tampering("attention_terms", zero_last_channel)),
}
# What kernels compute in too narrow a type.
NARROW = {
    "tf32_products": ("factors are rounded to TF32 before they are multiplied", other_arithmetic(products="tf32")),
    "bfloat16_products": ("factors are rounded to bfloat16", other_arithmetic(products="bfloat16")),
    "float16_products": ("factors are rounded to float16", other_arithmetic(products="float16")),
    "float32_of_float64": ("float64 tensors are computed in float32", other_arithmetic(real="float32")),
}
