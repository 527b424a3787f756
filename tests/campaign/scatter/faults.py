"""Faults that any scattering operator's kernel may have."""

import numpy as np

from ..altering import COMMON, change_all, shifted
from ..planting import keep_last, lose, other_arithmetic, scale_addend, tampering, whole
from ..steps import Tampering


def some_axis(x, rng):
    """One that there is room along, if there is any."""
    wide = [axis for axis, size in enumerate(x.shape) if size > 1] or [0]
    return wide[rng.integers(len(wide))]


def of_slices(change):
    """Along any axis of the gradient."""
    def plant(values, rng):
        for x in values.values():
            change(np.moveaxis(x, some_axis(x, rng), 0), rng)
    return plant


def exchange(x, rng):
    if len(x) > 1:
        entry, another = rng.permutation(len(x))[:2]
        x[[entry, another]] = x[[another, entry]]


def roll(x, rng):
    x[...] = np.roll(x, 1, 0)


def drop_last(x, rng):
    if len(x) > 1:
        x[-int(rng.integers(1, len(x))):] = 0


RESULT = {
    **COMMON,
    "scale_1.01": ("the gradient is 1 % too large", change_all(lambda x, rng: x * 1.01)),
    "scale_1.0001": ("the gradient is too large by 1e-4 of itself", change_all(lambda x, rng: x * 1.0001)),
    "slices_swapped": ("two slices along an axis of the gradient are exchanged", of_slices(exchange)),
    "slices_rolled": ("along an axis every slice lies one on", of_slices(roll)),
    "last_slices_missing": ("the last slices along an axis are 0", of_slices(drop_last)),
    "stride_error": ("every element lies one place on", shifted),
}


def next_sample(result, s, rng):
    return np.roll(result, 1, 0)


def next_channel(result, s, rng):
    return np.roll(result, 1, 1)


def only_first_channels(result, s, rng):
    result = result.copy()
    result[:, -max(1, result.shape[1] // 2):] = 0
    return result


def targets_on(step):
    """They lie some places on."""
    return lambda result, s, rng: (result[0] + step(s.problem), result[1])


def nothing_sent(result, s, rng):
    return result[0], np.zeros_like(result[1])


KERNEL = {
    "other_source": ("another source's numbers are added", tampering("numbers", next_sample)),
    "other_channel": ("the next channel's numbers are added", tampering("numbers", next_channel)),
    "channels_unread": ("the upper half of the channels reads 0", tampering("numbers", only_first_channels)),
    "source_sign": ("numbers have the other sign", tampering("numbers", lambda r, s, rng: -r)),
    "source_twice": ("sources are handled by two threads", tampering("numbers", lambda r, s, rng: 2 * r)),
    "source_lost": ("sources add nothing", tampering("lands", nothing_sent)),
    "next_target": ("the addends go one place on", tampering("lands", targets_on(lambda problem: 1))),
    "target_before": ("the addends go one place back", tampering("lands", targets_on(lambda problem: -1))),
    "addend_lost": ("one atomic addition is lost", whole("addends", lose(0))),
    "addends_lost": ("2 % of the additions are lost: a race", whole("addends", lose(0.02))),
    "addend_twice": ("one addend is added twice", whole("addends", scale_addend(2))),
    "addend_sign": ("one addend has the other sign", whole("addends", scale_addend(-1))),
    "stored_not_added": ("addends are stored in place of added up", whole("addends", keep_last)),
}
# With factors.
WEIGHTED = {
    "tf32_products": ("factors are rounded to TF32 before they are multiplied", other_arithmetic(products="tf32")),
    "bfloat16_products": ("factors are rounded to bfloat16", other_arithmetic(products="bfloat16")),
    "float16_products": ("factors are rounded to float16", other_arithmetic(products="float16")),
}
# What kernels compute in too narrow a type.
NARROW = {
    "float32_of_float64": ("float64 tensors are computed in float32", other_arithmetic(real="float32")),
    "bfloat16_of_float32": ("float32 tensors are computed in bfloat16", other_arithmetic(real="bfloat16", fused=False)),
    "float16_sums": ("the gradient is added up in float16", other_arithmetic(scatter="float16")),
    "bfloat16_sums": ("the gradient is added up in bfloat16", other_arithmetic(scatter="bfloat16")),
}


# Faults of operators whose samples land in images.

def without_corner(result, s, rng):
    targets, there = result
    there = there.copy()
    there[:, rng.integers(there.shape[1])] = False
    return targets, there


def without_factor(result, s, rng):
    which = rng.integers(len(result))
    return tuple(np.ones_like(entry) if number == which else entry for number, entry in enumerate(result))


def exchanged(result, s, rng):
    """The first axis and the last take each other's."""
    return (result[-1], *result[1:-1], result[0]) if len(result) > 1 else result


def on_all(change):
    """The same on each axis."""
    return lambda result, s, rng: tuple(change(entry) for entry in result)


IMAGE = {
    "next_row": ("the addends go one row on", tampering("lands", targets_on(lambda problem: problem.sides[0]))),
    "next_image": ("the addends go to the next batch", tampering("lands", lambda r, s, rng: (s.problem.in_next_image(r[0]), r[1]))),
    "corner_not_added": ("one of the pixels gets nothing", tampering("lands", without_corner)),
    "weight_missing": ("one of the factors is not multiplied in", tampering("factors", without_factor)),
    "fractions_reversed": ("f and 1 - f are exchanged", tampering("fractions", on_all(lambda f: 1 - f))),
    "fractions_swapped": ("the fractions of x and of the last axis are exchanged", tampering("fractions", exchanged)),
    "pixel_off_by_one": ("coordinates are one pixel too large", tampering("pixel", on_all(lambda x: x + 1))),
    "half_off": ("coordinates are half a pixel too large", tampering("pixel", on_all(lambda x: x + 0.5))),
}


def conventions_of(change):
    def plant(conventions, arithmetic, problem, rng):
        return change(conventions, rng), arithmetic, Tampering()
    return plant
