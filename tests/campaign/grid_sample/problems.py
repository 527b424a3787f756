"""Random calls: small shapes in two and three dimensions, and grids and numbers of the kinds that make gradients hard to judge."""

from dataclasses import replace

import numpy as np

from ..rounding import round_to
from ..steps import Arithmetic
from .operator import Conventions, Problem

MOST_PRODUCTS = 20000  # samples times channels times pixels that a sample reads
MOST_PAIRS = 40000     # samples times pixels of the image

CONVENTIONS = tuple(Conventions(interpolation, padding, align) for interpolation in ("bilinear", "bilinear", "bicubic", "nearest")
                    for padding in ("zeros", "border", "reflection") for align in (False, True))
TYPES = ("float32",) * 5 + ("float64",) * 2 + ("float16",) * 2 + ("bfloat16",) * 2


# Places: grids of samples, of an image whose sides are `size` [.., axis].

def at_pixel(pixel, size, align):
    return 2 * pixel / np.maximum(size - 1, 1) - 1 if align else (2 * pixel + 1) / size - 1


def uniform(rng, size, align):
    return rng.uniform(-1, 1, size.shape)


def centres(rng, size, align):
    """Every coordinate is an integer."""
    return at_pixel(rng.integers(0, size), size, align)


def middles(rng, size, align):
    """Every coordinate is a tie between two pixels."""
    return at_pixel(rng.integers(-1, size) + 0.5, size, align)


def nearly(rng, place):
    """Within some units of float32's last place."""
    return place * (1 + rng.integers(-3, 4, place.shape) * 2.0**-24) + rng.integers(-2, 3, place.shape) * 2.0**-25


def near_boundaries(rng, size, align):
    return nearly(rng, centres(rng, size, align))


def near_middles(rng, size, align):
    return nearly(rng, middles(rng, size, align))


def one_axis_on_boundaries(rng, size, align):
    axis = rng.integers(0, size.shape[-1], size.shape[:-1])[..., None] == np.arange(size.shape[-1])
    return np.where(axis, centres(rng, size, align), uniform(rng, size, align))


def borders(rng, size, align):
    """The edges of the image, the centres of its first and last pixels, and next to them."""
    special = np.stack(np.broadcast_arrays(-1.0, 1.0, at_pixel(0, size, align), at_pixel(size - 1, size, align), -1 + 2.0**-24,
                                           1 - 2.0**-24, 1 + 2.0**-23, at_pixel(-1, size, align), at_pixel(size, size, align),
                                           rng.uniform(-1, 1, size.shape)))
    return np.take_along_axis(special, rng.integers(0, len(special), size.shape)[None], 0)[0]


def reflections(rng, size, align):
    """At the points where reflection turns round, and near them."""
    turns = 2.0 * rng.integers(-2, 3, size.shape) - 1
    return np.where(rng.uniform(size=size.shape) < 0.5, turns, nearly(rng, turns))


def outside(rng, size, align):
    return rng.uniform(-2.3, 2.3, size.shape)


def far(rng, size, align):
    inside = rng.uniform(-1, 1, size.shape)
    away = rng.choice([-1, 1], size.shape) * 10.0 ** rng.integers(0, 4, size.shape) * rng.uniform(0.5, 1, size.shape)
    return np.where(rng.uniform(size=size.shape) < 0.3, away, inside)


def clustered(rng, size, align):
    """All samples read nearly the same pixel: long sums in grad_input."""
    return np.broadcast_to(rng.uniform(-0.3, 0.3, size.shape[-1]), size.shape) + rng.uniform(-0.6, 0.6, size.shape) / size


PLACES = (uniform, uniform, uniform, centres, middles, one_axis_on_boundaries, near_boundaries, near_middles, borders, reflections,
          outside, outside, far, clustered)


# Numbers: scales of input and grad_output.

def normal(rng, image, grad_output):
    return image, grad_output


def equal(rng, image, grad_output):
    """Equal addends: their roundings lean one way."""
    return np.full_like(image, 1 / 3), np.full_like(grad_output, 0.7)


def cancelling(rng, image, grad_output):
    """Neighbours differ little, and gradients of either sign cancel."""
    return 100 + image * 1e-2, grad_output - grad_output.mean(1, keepdims=True)


def large(rng, image, grad_output):
    return image * 2.0**5, grad_output * 2.0**4


def small(rng, image, grad_output):
    return image * 2.0**-9, grad_output * 2.0**-6


def underflowing(rng, image, grad_output):
    """Products with weights underflow float32; a third factor brings them back."""
    return image * 2.0**100, grad_output * 2.0**-130


def positive(rng, image, grad_output):
    return image, rng.uniform(0.5, 1, grad_output.shape)


def beyond(rng, image, grad_output):
    """Gradients of one sign, beyond float16's largest number where some meet."""
    return image, rng.uniform(0.5, 1, grad_output.shape) * 2.0**14


def spread(rng, image, grad_output):
    return image * 2.0 ** rng.integers(-8, 9, image.shape), grad_output * 2.0 ** rng.integers(-6, 7, grad_output.shape)


def sparse(rng, image, grad_output):
    return image * (rng.uniform(size=image.shape) < 0.5), grad_output * (rng.uniform(size=grad_output.shape) < 0.4)


NUMBERS = (normal, normal, normal, normal, equal, cancelling, large, small, spread, sparse)
READS = {"nearest": 1, "bilinear": 2, "bicubic": 4}


def shapes(rng, axes, reads):
    """N, C, the image's sides and the grid's."""
    most_in, most_out = (12, 10) if axes == 2 else (6, 4)
    while True:
        sides = tuple(map(int, rng.integers(1, most_in + 1, axes)))
        if rng.uniform() < 0.1 and axes == 2:
            sides = tuple(map(int, rng.integers(16, 40, axes)))
        out = tuple(map(int, rng.integers(1, most_out + 1, axes)))
        n, c = int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 2, 3, 4, 8, 16, 30, 33, 64]))
        samples = n * int(np.prod(out))
        if samples * c * reads**axes <= MOST_PRODUCTS and samples * int(np.prod(sides)) <= MOST_PAIRS:
            return n, c, sides, out


def draw(rng, conventions, kind=None, place=None, numbers=None, axes=None, shape=None):
    """A problem; what is not given is drawn."""
    axes = axes or (2 if conventions.interpolation == "bicubic" else int(rng.choice([2, 2, 3])))
    n, c, sides, out = shape or shapes(rng, axes, READS[conventions.interpolation])
    kind, place, numbers = kind or rng.choice(TYPES), place or PLACES[rng.integers(len(PLACES))], numbers or NUMBERS[rng.integers(len(NUMBERS))]
    image, grad_output = numbers(rng, rng.standard_normal((n, c, *sides)), rng.standard_normal((n, c, *out)))
    grid = place(rng, np.broadcast_to(np.array(sides[::-1]), (n, *out, axes)), conventions.align_corners)
    return Problem(*(round_to(kind, x) for x in (image, grid, grad_output)), type=str(kind))


def draw_arithmetic(rng, problem, given):
    """PyTorch's kernels compute 16-bit tensors in their type, others in float32."""
    narrow = problem.type in ("float16", "bfloat16")
    real = str(rng.choice(["float32", problem.type])) if narrow else problem.type
    fused = bool(rng.integers(2)) and real not in ("float16", "bfloat16")
    drawn = Arithmetic(
        real=real, stored=problem.type, fused=fused, factors=str(rng.choice(["weights", "axes"])),
        slopes=str(rng.choice(["differences", "corners", "corners"])), scaled=str(rng.choice(["after", "after", "before"])),
        channels=str(rng.choice(["serial", "serial", "tree", "random"])), order=str(rng.choice(["forward", "backward", "random", "random"])),
        blocks=int(rng.choice([1, 1, 3])), seed=int(rng.integers(2**31)))
    return replace(drawn, **given)


def draw_reference(rng, problem, conventions):
    """What tests compare with: another kernel of the same conventions, in the call's type or in float64."""
    arithmetic = draw_arithmetic(rng, problem, {})
    if rng.uniform() < 0.25:
        arithmetic = replace(arithmetic, real="float64", stored=str(rng.choice(["float64", problem.type])))
    return conventions, arithmetic
