"""Random calls: small shapes of every kind, and locations and numbers of the kinds that make gradients hard to judge."""

from dataclasses import replace

import numpy as np

from ..rounding import round_to
from ..steps import Arithmetic
from .operator import Conventions, Problem

MOST_PRODUCTS = 12000  # samples times channels

CONVENTIONS = (
    [Conventions("deformable_detr")] * 3
    + [Conventions("msda_triton", padding, align) for padding in ("zeros", "border") for align in (False, True)]
    + [Conventions("grid_sample", padding, align) for padding in ("zeros", "border") for align in (False, True)]
)
TYPES = ("float32",) * 5 + ("float64",) * 2 + ("float16",) * 2 + ("bfloat16",) * 2


# Places: locations of samples, in pixels of levels [.., width or height].

def uniform(rng, size, align):
    return rng.uniform(0, 1, size.shape)


def centres(rng, size, align):
    """Every coordinate is an integer."""
    if align:
        return rng.integers(0, size) / np.maximum(size - 1, 1)
    return (rng.integers(0, size) + 0.5) / size


def one_axis_on_boundaries(rng, size, align):
    places = np.stack([centres(rng, size, align), uniform(rng, size, align)])
    axis = rng.integers(0, 2, size.shape[:-1])[..., None] == np.arange(2)
    return np.where(axis, places[0], places[1])


def near_boundaries(rng, size, align):
    return centres(rng, size, align) * (1 + rng.integers(-3, 4, size.shape) * 2.0**-24)


def encoder(rng, size, align):
    """Pixel centres of another level with offsets of whole pixels, as the encoder of a detector draws them at first."""
    another = rng.choice(np.array([1, 2, 4, 5, 8, 16, 3]), size.shape)
    return (rng.integers(0, another) + 0.5) / another + rng.integers(-2, 3, size.shape) / size


def borders(rng, size, align):
    special = np.stack(np.broadcast_arrays(0.0, 1.0, 0.5 / size, 1 - 0.5 / size, -0.5 / size, 1 + 0.5 / size, 2.0**-25, 1 - 2.0**-24,
                                           rng.uniform(0, 1, size.shape), 1.5 / size))
    return np.take_along_axis(special, rng.integers(0, len(special), size.shape)[None], 0)[0]


def outside(rng, size, align):
    return rng.uniform(-0.6, 1.6, size.shape)


def far(rng, size, align):
    inside = rng.uniform(0, 1, size.shape)
    return np.where(rng.uniform(size=size.shape) < 0.3, rng.choice([-1, 1], size.shape) * 10.0 ** rng.integers(0, 4, size.shape), inside)


def clustered(rng, size, align):
    """All queries sample nearly the same pixel: long sums in grad_value."""
    return np.broadcast_to(rng.uniform(0.3, 0.7, 2), size.shape) + rng.uniform(-0.3, 0.3, size.shape) / size


PLACES = (uniform, uniform, uniform, centres, one_axis_on_boundaries, near_boundaries, encoder, borders, outside, far, clustered)


# Numbers: scales of value, attention_weights and grad_output.

def normal(rng, value, attention, grad_output):
    return value, attention, grad_output


def equal(rng, value, attention, grad_output):
    """Equal addends: their roundings lean one way."""
    return np.full_like(value, 1 / 3), np.full_like(attention, 0.1), np.full_like(grad_output, 0.7)


def cancelling(rng, value, attention, grad_output):
    """Neighbours differ little, and gradients of either sign cancel."""
    return 100 + value * 1e-2, attention, grad_output - grad_output.mean(-1, keepdims=True)


def large(rng, value, attention, grad_output):
    return value * 2.0**6, attention, grad_output * 2.0**5


def small(rng, value, attention, grad_output):
    return value * 2.0**-9, attention * 2.0**-4, grad_output * 2.0**-6


def underflowing(rng, value, attention, grad_output):
    """Products of two factors underflow float32; a third factor brings them back."""
    return value * 2.0**60, attention * 2.0**-75, grad_output * 2.0**-75


def positive(rng, value, attention, grad_output):
    return value, attention, rng.uniform(0.5, 1, grad_output.shape)


def beyond(rng, value, attention, grad_output):
    """Gradients of one sign, beyond float16's largest number where some meet."""
    return value, attention, rng.uniform(0.5, 1, grad_output.shape) * 2.0**14


def spread(rng, value, attention, grad_output):
    return value * 2.0 ** rng.integers(-8, 9, value.shape), attention, grad_output * 2.0 ** rng.integers(-6, 7, grad_output.shape)


def sparse(rng, value, attention, grad_output):
    return value, attention * (rng.uniform(size=attention.shape) < 0.3), grad_output * (rng.uniform(size=grad_output.shape) < 0.5)


NUMBERS = (normal, normal, normal, normal, equal, cancelling, large, small, spread, sparse)


def shapes(rng):
    """B, Q, M, P, D and the levels."""
    while True:
        levels = tuple((int(h), int(w)) for h, w in rng.integers(1, rng.choice([3, 7, 13]), (rng.integers(1, 4), 2)))
        if rng.uniform() < 0.1:
            levels = ((int(rng.integers(16, 40)), int(rng.integers(16, 40))),) + levels
        b, m, p = (int(rng.choice(numbers)) for numbers in ([1, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4]))
        q = int(rng.choice([1, 2, 7, 20, 33, 60, 100]))
        d = int(rng.choice([1, 2, 3, 4, 8, 16, 30, 32, 33, 64]))
        if b * q * m * len(levels) * p * d <= MOST_PRODUCTS:
            return b, q, m, p, d, levels


def draw(rng, conventions, kind=None, place=None, numbers=None, shape=None):
    """A problem; what is not given is drawn."""
    align = conventions.align_corners
    b, q, m, p, d, levels = shape or shapes(rng)
    kind, place, numbers = kind or rng.choice(TYPES), place or PLACES[rng.integers(len(PLACES))], numbers or NUMBERS[rng.integers(len(NUMBERS))]
    pixels = sum(height * width for height, width in levels)
    size = np.broadcast_to(np.array([(w, h) for h, w in levels])[:, None], (b, q, m, len(levels), p, 2))
    value, grad_output = rng.standard_normal((b, pixels, m, d)), rng.standard_normal((b, q, m, d))
    attention = rng.uniform(0.02, 1, size.shape[:-1])
    attention = attention / attention.sum((-1, -2), keepdims=True) if rng.uniform() < 0.7 and q else attention
    value, attention, grad_output = numbers(rng, value, attention, grad_output)
    stored = [round_to(kind, x) for x in (value, place(rng, size, align), attention, grad_output)]
    return Problem(levels, *stored, type=str(kind))


def draw_arithmetic(rng, problem, given):
    real = "float64" if problem.type == "float64" else "float32"
    drawn = Arithmetic(
        real=real, stored=problem.type, fused=bool(rng.integers(2)), factors=str(rng.choice(["weights", "grad_output", "axes"])),
        slopes=str(rng.choice(["differences", "corners"])), scaled=str(rng.choice(["after", "before"])),
        channels=str(rng.choice(["serial", "tree", "random"])), order=str(rng.choice(["forward", "backward", "random", "random"])),
        blocks=int(rng.choice([1, 1, 3])), seed=int(rng.integers(2**31)))
    return replace(drawn, **given)


def draw_reference(rng, problem, conventions):
    """What tests compare with: another kernel of the dialect, or grid_sample, in the call's type or in float64."""
    dialect = str(rng.choice([conventions.dialect, "grid_sample"]))
    wide = rng.uniform() < 0.25
    arithmetic = draw_arithmetic(rng, problem, {})
    if wide:
        arithmetic = replace(arithmetic, real="float64", stored=str(rng.choice(["float64", problem.type])))
    return replace(conventions, dialect=dialect), arithmetic
