"""Numbers that are added: scales and relations that make sums hard to judge; and kernels that add them."""

from dataclasses import replace

import numpy as np

from ..steps import Arithmetic

TYPES = ("float32",) * 5 + ("float64",) * 2 + ("float16",) * 2 + ("bfloat16",) * 2


def normal(rng, shape):
    return rng.standard_normal(shape)


def equal(rng, shape):
    """Their roundings lean one way."""
    return np.full(shape, 0.7)


def positive(rng, shape):
    return rng.uniform(0.5, 1, shape)


def beyond(rng, shape):
    """Beyond float16's largest number where some meet, and of one sign, so that no order has the other infinity."""
    return rng.uniform(0.5, 1, shape) * 2.0**14


def cancelling(rng, shape):
    """Large numbers of either sign, of which little is left."""
    sign = np.where(rng.uniform(size=shape) < 0.5, -1.0, 1.0)
    return sign * 100 + rng.standard_normal(shape) * 1e-2


def large(rng, shape):
    return rng.standard_normal(shape) * 2.0**4


def small(rng, shape):
    return rng.standard_normal(shape) * 2.0**-9


def underflowing(rng, shape):
    """Subnormal in float32."""
    return rng.standard_normal(shape) * 2.0**-130


def spread(rng, shape):
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 9, shape)


def sparse(rng, shape):
    return rng.standard_normal(shape) * (rng.uniform(size=shape) < 0.4)


def huge(rng, shape):
    """Beyond float16's largest number where addends meet."""
    return rng.standard_normal(shape) * 2.0**14


NUMBERS = (normal, normal, normal, normal, equal, cancelling, large, small, spread, sparse)


def chosen(rng, among):
    return among[rng.integers(len(among))]


def draw_arithmetic(rng, problem, given):
    """16-bit tensors are computed in float32, and by some operators' kernels in their type; they are added up in either."""
    narrow = problem.type in ("float16", "bfloat16")
    reals = ("float32", problem.type) if problem.narrow_kernels else ("float32",)
    real = str(chosen(rng, reals)) if narrow else problem.type
    drawn = Arithmetic(
        real=real, stored=problem.type, scatter=str(chosen(rng, ("", problem.type))) if narrow else "",
        fused=bool(rng.integers(2)) and real not in ("float16", "bfloat16"), factors=str(chosen(rng, ("weights", "axes"))),
        order=str(chosen(rng, ("forward", "backward", "random", "random"))), blocks=int(chosen(rng, (1, 1, 3))),
        inverse=bool(rng.integers(2)), seed=int(rng.integers(2**31)))
    return replace(drawn, **given)


def draw_reference(rng, problem, conventions):
    """What tests compare with: another kernel of the same conventions, in the call's type or in float64."""
    arithmetic = draw_arithmetic(rng, problem, {})
    if rng.uniform() < 0.25:
        arithmetic = replace(arithmetic, real="float64", scatter="", stored=str(chosen(rng, ("float64", problem.type))))
    return conventions, arithmetic
