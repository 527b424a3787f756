"""Faults of results, from which an operator's are made: each takes a side's gradients by name and changes them in place."""

import numpy as np


def tensor(rng, values, names=None):
    """One that is not all 0, if there is any."""
    names = names or tuple(values)
    filled = [name for name in names if values[name].any()] or names
    return values[filled[rng.integers(len(filled))]]


def change_one(function):
    """In one to three elements that are not 0."""
    def plant(values, rng):
        x = tensor(rng, values).reshape(-1)
        places = np.flatnonzero(np.nan_to_num(x))
        for place in rng.permutation(places)[: rng.integers(1, 4)]:
            x[place] = function(x[place], rng)
    return plant


def change_all(function):
    def plant(values, rng):
        x = tensor(rng, values)
        x[...] = function(x, rng)
    return plant


def swap(axis, names):
    """Two slices along an axis change places."""
    def plant(values, rng):
        x = tensor(rng, values, names)
        if x.shape[axis] < 2:
            return
        entry, another = rng.permutation(x.shape[axis])[:2]
        x = np.moveaxis(x, axis, 0)
        x[[entry, another]] = x[[another, entry]]
    return plant


def rolled(axis, names):
    def plant(values, rng):
        x = tensor(rng, values, names)
        x[...] = np.roll(x, 1, axis)
    return plant


def cut(axis, names):
    """The last slices along an axis are not computed."""
    def plant(values, rng):
        x = np.moveaxis(tensor(rng, values, names), axis, 0)
        if len(x) > 1:
            x[-int(rng.integers(1, len(x))):] = 0
    return plant


def shifted(values, rng):
    """A stride error: every element lies one place on."""
    x = tensor(rng, values).reshape(-1)
    x[...] = np.roll(x, 1)


def one_sided(values, rng):
    """A few units in the last place of float32, always away from 0."""
    x = tensor(rng, values)
    x *= 1 + 2.0 ** -rng.integers(18, 24)


def fine_scale(values, rng):
    x = tensor(rng, values)
    x *= 1 + rng.choice([-1, 1]) * 2.0 ** -rng.integers(1, 20)


# What any gradient may suffer.
COMMON = {
    "sign_of_elements": ("the sign of one to three elements is flipped", change_one(lambda x, rng: -x)),
    "sign_of_tensor": ("the sign of a whole gradient is flipped", change_all(lambda x, rng: -x)),
    "zero_elements": ("one to three elements are never computed", change_one(lambda x, rng: 0.0)),
    "zero_tensor": ("a whole gradient is 0: a detached path", change_all(lambda x, rng: 0 * np.nan_to_num(x))),
    "scale_1.1": ("a gradient is 10 % too large", change_all(lambda x, rng: x * 1.1)),
    "scale_0.9": ("a gradient is 10 % too small", change_all(lambda x, rng: x * 0.9)),
    "scale_fine": ("a gradient is off by a factor of 1 +- 2^-1 to 2^-19", fine_scale),
    "one_sided": ("a gradient is too large by 2^-18 to 2^-23 of itself", one_sided),
    "doubled": ("a gradient is doubled: launched twice into one buffer", change_all(lambda x, rng: 2 * x)),
    "offset": ("one to three elements are off by a constant", change_one(lambda x, rng: x + rng.choice([-1, 1]) * 2.0 ** -rng.integers(0, 12))),
    "garbage": ("one to three elements are other numbers", change_one(lambda x, rng: rng.standard_normal() * 10)),
    "nan_written": ("one to three elements are NaN", change_one(lambda x, rng: np.nan)),
    "infinity_written": ("one to three elements are infinite", change_one(lambda x, rng: np.inf)),
}
