"""Random calls of interpolate, and what each output pixel sends where. Axes are x, y, z: the last one of an image first."""

from dataclasses import dataclass, field
from typing import Dict, Optional

import numpy as np

from ..grid_sample.operator import joined, spread
from ..grid_sample.taps import CUBIC, polynomial
from ..rounding import round_to
from ..scatter.numbers import NUMBERS, TYPES, chosen, draw_arithmetic, draw_reference  # noqa: F401
from ..scatter.operator import ImageGradient, Samples, Sent, SharedConventions
from .reach import along_axis

AXES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
NAMES = ("width", "height", "depth")


@dataclass(frozen=True)
class Conventions(SharedConventions):
    mode: str = "bilinear"
    align_corners: bool = False

    @property
    def nearest(self):
        return self.mode.startswith("nearest")

    def attributes(self):
        return {"mode": self.mode, **({} if self.nearest else {"align_corners": int(self.align_corners)})}


NEAREST = (Conventions("nearest"), Conventions("nearest-exact"))
SMOOTH = tuple(Conventions(mode, align) for mode in ("bilinear", "bilinear", "linear", "trilinear", "bicubic") for align in (False, True))
CONVENTIONS = (*NEAREST, *SMOOTH)


@dataclass(frozen=True)
class Problem(ImageGradient):
    """grad_output, in a float64 array of numbers that `type` has. Places are pixels; channels those of all batches."""

    numbers: np.ndarray     # grad_output [N,C,(D,)(H,)W]
    sides: tuple            # of the image, by axis
    scales: Optional[tuple]  # the factors that were given, by axis
    type: str = "float32"
    strides: Dict[str, tuple] = field(default_factory=dict)

    operator = "interpolate"
    narrow_kernels = False

    @property
    def out(self):
        """Sides of grad_output, by axis."""
        return self.numbers.shape[:1:-1]

    def shape_of(self, name):
        return (*self.numbers.shape[:2], *self.sides[::-1])

    def inputs(self):
        yield "grad_output", self.numbers, self.type

    def attributes(self):
        sizes = {f"input_{name}": side for name, side in zip(NAMES, self.sides)}
        return {**sizes, **{f"scale_{name}": repr(scale) for name, scale in zip(NAMES, self.scales or ())}}

    def in_next_image(self, targets):
        """There is but one: batches are channels. Beyond it nothing is added."""
        return targets + self.target_count

    def matrix(self, x):
        return x.reshape(x.shape[0] * x.shape[1], -1).T

    def rows(self):
        return self.matrix(self.numbers)

    def places(self, x):
        return self.matrix(x)

    def tensor(self, x):
        return np.ascontiguousarray(x.T).reshape(self.shape_of("grad_input"))

    @property
    def target_count(self):
        return int(np.prod(self.sides))

    def samples(self, conventions, t, tampering):
        index = np.arange(int(np.prod(self.out)))
        return Samples(index, index // self.out[0], self)

    def send(self, conventions, t, tampering, s):
        sides, scales = tampering("sizes", self.sides, s), tampering("scales", self.scales, s)
        at, rest = [], s.source
        for side in self.out:
            at.append(rest % side)
            rest = rest // side
        pixel = tuple(coordinate(conventions, at[axis], self.out[axis], sides[axis], scales and scales[axis], t) for axis in range(len(at)))
        pixel = tampering("pixel", pixel, s)
        floor = tampering("floor", tuple(np.floor(x) for x in pixel), (s, pixel))
        fractions = tampering("fractions", tuple(t.round(x - low) for x, low in zip(pixel, floor)), s)
        taps = [taps_of(conventions, low, fraction, side, t, tampering, s) for low, fraction, side in zip(floor, fractions, self.sides)]
        row, there = np.zeros((len(s.b), 1), np.int64), np.ones((len(s.b), 1), bool)
        for (pixels, _), side in zip(taps[::-1], self.sides[::-1]):
            row = joined(row[:, :, None] * side + np.clip(pixels, 0, side - 1)[:, None])
            there = joined(there[:, :, None] & ((pixels >= 0) & (pixels < side))[:, None])
        if conventions.nearest:
            return Sent(row, there)
        ones = [np.ones(weights.shape) for _, weights in taps]
        factors = tuple(spread([taps[k][1] if k == axis else ones[k] for k in range(len(taps))], np.multiply) for axis in range(len(taps)))
        return Sent(row, there, factors)

    def reach(self, conventions, real):
        given, off, count = np.ones((1, 1)), np.zeros((1, 1)), np.ones((1, 1))
        for axis in reversed(range(len(self.sides))):
            weight, error, taps = along_axis(conventions, self.out[axis], self.sides[axis], self.scales and self.scales[axis], real)
            farthest = np.kron(np.abs(given) + off, np.abs(weight) + error)
            given, count = np.kron(given, weight), np.kron(count, taps)
            off = farthest - np.abs(given)
        return given, off, count


def coordinate(conventions, at, out, side, scale, t):
    """In pixels of the image, as PyTorch writes it, or contracted. Kernels of nearest pixels compute in float32, forwards or backwards."""
    exact = t.real == "exact"
    at = at.astype(np.longdouble if exact else np.float64)
    if conventions.nearest:
        shift = 0.5 if conventions.mode == "nearest-exact" else 0.0
        if exact:
            # A factor such as 2.1 stands for the decimal number: what float64 cannot distinguish from a whole number is one.
            low = np.floor(((at + shift) / scale).astype(float)) if scale else np.floor((2 * at + 2 * shift) * side / (2 * out))
        elif t.inverse:
            low = by_inverse(at, out, side, scale, shift)
        else:
            ratio = np.float32(1 / scale if scale else side / out)
            low = np.floor(((at + shift).astype(np.float32) * ratio).astype(float))
        return np.minimum(low, side - 1)
    if conventions.align_corners:
        if exact:
            return at * (side - 1) / (out - 1) if out > 1 else 0 * at
        return t.round(t.round((side - 1) / (out - 1)) * at) if out > 1 else 0 * at
    if exact:
        pixel = (at + 0.5) / scale - 0.5 if scale else (at + 0.5) * side / out - 0.5
    else:
        ratio = t.round(1 / scale if scale else side / out)
        pixel = t.multiply_add(ratio, at + 0.5, -0.5) if t.fused else t.round(t.round(ratio * (at + 0.5)) - 0.5)
    return pixel if conventions.mode == "bicubic" else np.maximum(pixel, 0)


def by_inverse(at, out, side, scale, shift):
    """Each pixel finds the output pixels that read it, by the inverse ratio."""
    inverse = np.float32(scale or out / side)
    first = (np.arange(side, dtype=np.float32) * inverse).astype(np.float32) - np.float32(shift)
    first = np.clip(np.ceil(first.astype(float)), 0, out)
    return np.searchsorted(first, at, "right") - 1.0


def taps_of(conventions, low, fraction, side, t, tampering, s):
    """Pixels [N,T] and weights."""
    low = low.astype(np.int64)
    if conventions.nearest:
        return low[:, None], np.ones((len(low), 1))
    if conventions.mode == "bicubic":
        a = tampering("cubic", CUBIC, s)
        inner, outer = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
        back = t.round(1 - fraction)
        weights = [polynomial(outer, t.round(fraction + 1), t), polynomial(inner, fraction, t), polynomial(inner, back, t), polynomial(outer, t.round(back + 1), t)]
        pixels, weights = low[:, None] + np.arange(-1, 3), np.stack(weights, 1)
    else:
        low = np.minimum(low, side - 1)
        fraction = np.minimum(fraction, 1)
        pixels, weights = low[:, None] + np.arange(2), np.stack([t.round(1 - fraction), fraction], 1)
    return tampering("clamped", np.clip(pixels, 0, side - 1), (s, pixels)), weights


# Sizes: of the image and of the output, along an axis, and the scale factor if one was given.

def any_size(rng, most):
    return int(rng.integers(1, most + 1)), int(rng.integers(1, most + 1)), None


def doubled(rng, most):
    side = int(rng.integers(1, most // 2 + 1))
    return side, 2 * side, None


def quadrupled(rng, most):
    side = int(rng.integers(1, most // 4 + 1))
    return side, 4 * side, None


def halved(rng, most):
    out = int(rng.integers(1, most // 2 + 1))
    return 2 * out, out, None


def thirds(rng, most):
    """Rounding carries coordinates over whole numbers."""
    side = int(rng.choice([1, 2, 3] if most < 21 else [7, 3, 6]))
    return side, 3 * side, None


def same(rng, most):
    side = int(rng.integers(1, most + 1))
    return side, side, None


def scaled(rng, most):
    """By a factor that was given, which the sizes do not show."""
    while True:
        side, scale = int(rng.integers(1, most + 1)), float(rng.choice([0.3, 0.5, 0.7, 1.0 / 3, 1.3, 1.5, 2.0, 2.1, 3.3]))
        if 1 <= int(side * scale) <= most:
            return side, int(side * scale), scale


def scaled_apart(rng, most):
    """The same where something is resized: to ignore the factor where nothing is, as PyTorch's kernels for CPUs do, is no fault."""
    while True:
        side, out, scale = scaled(rng, most)
        if side != out:
            return side, out, scale


def into_one(rng, most):
    """Some hundred output pixels read the only one."""
    return 1, {60: 700, 24: 26, 12: 26, 6: 9}[most], None


SIZES = (any_size, any_size, any_size, doubled, halved, thirds, same, scaled, scaled)
MOST = {1: 60, 2: 12, 3: 6}
CROWDED = {"place": halved}


def draw(rng, conventions, kind=None, place=None, values=None, shape=None):
    """A problem; what is not given is drawn. `place` is a rule for sizes."""
    axes = AXES.get(conventions.mode) or int(chosen(rng, (1, 2, 2, 3)))
    place, kind, values = place or chosen(rng, SIZES), kind or chosen(rng, TYPES), values or chosen(rng, NUMBERS)
    most = MOST[axes]
    if axes == 2 and rng.uniform() < 0.1:
        most = 24
    sides, out, scales = zip(*(place(rng, most) for _ in range(axes)))
    n, c = int(chosen(rng, (1, 1, 2, 3))), int(chosen(rng, (1, 2, 3, 4, 8, 16)))
    shape = shape or (n, c, *out[::-1])
    return Problem(round_to(kind, values(rng, shape)), sides, scales if all(scales) else None, str(kind))
