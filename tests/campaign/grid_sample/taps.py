"""Where samples of grid_sample land along an axis: the pixels that they read, with weights and slopes, as a kernel computes them."""

from dataclasses import dataclass

import numpy as np

CUBIC = -0.75  # PyTorch's coefficient
FAR = 2**20  # pixels: farther out than any image is large


@dataclass
class Taps:
    pixels: np.ndarray   # [N,T]
    there: np.ndarray    # [N,T]
    weights: np.ndarray  # [N,T]
    slopes: np.ndarray   # [N,T], d weight / d coordinate
    scale: np.ndarray    # [N], d coordinate / d grid


def unnormalized(align, grid, size, t):
    """The coordinate in pixels, as written in PyTorch, or contracted."""
    up = t.round(grid + 1)
    if align:
        return t.round(t.round(up * 0.5) * (size - 1))
    product = t.multiply_add(up, size, -1.0) if t.fused else t.round(t.round(up * size) - 1)
    return t.round(product * 0.5)


def reflected(align, at, size, t):
    """A coordinate reflected at the borders, and the sign of its slope; by PyTorch's count of flips."""
    low, span = (0 * size, size - 1) if align else (0 * size - 0.5, size)
    inward = at >= low
    distance = np.abs(t.round(at - low))
    flips = np.floor(t.round(distance / span))
    rest = np.fmod(distance, span)
    odd = flips % 2 == 1
    result = t.round(np.where(odd, t.round(span - rest), rest) + low)
    sign = np.where(odd == inward, -1.0, 1.0)
    return np.where(span == 0, 0, result), np.where(span == 0, 0, sign)


def clipped(at, sign, size):
    """As PyTorch, which counts the border itself as outside."""
    low, high = at <= 0, at >= size - 1
    return np.where(low, 0, np.where(high, size - 1, at)), np.where(low | high, 0, sign)


def padded(conventions, pixel, size, t, tampering, context):
    """A coordinate after padding, and the factor that this has on its slope."""
    at, sign = pixel, np.ones(pixel.shape)
    if conventions.padding == "reflection":
        at, sign = reflected(conventions.align_corners, at, size, t)
        sign = tampering("reflected_sign", sign, context)
    if conventions.padding != "zeros":
        at, inner = clipped(at, sign, size)
        sign = tampering("border_slope", inner, (context, sign))
    return at, sign


def polynomial(coefficients, x, t):
    """By Horner's rule."""
    total = np.full(x.shape, coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        total = t.multiply_add(total, x, coefficient)
    return total


def cubic(fraction, a, t):
    """Weights and slopes of the four pixels, in PyTorch's order of operations."""
    inner, outer = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    near, far = t.round(fraction + 1), t.round(1 - fraction)
    farther = t.round(far + 1)
    weights = [polynomial(outer, near, t), polynomial(inner, fraction, t), polynomial(inner, far, t), polynomial(outer, farther, t)]
    slope_inner, slope_outer = (3 * (a + 2), -2 * (a + 3), 0.0), (3 * a, -10 * a, 8 * a)
    slopes = [polynomial(slope_outer, near, t), polynomial(slope_inner, fraction, t),
              -polynomial(slope_inner, far, t), -polynomial(slope_outer, farther, t)]
    return np.stack(weights, 1), np.stack(slopes, 1)


def whole(x):
    """As integers; what is no number lies far outside."""
    return np.clip(np.where(np.isfinite(x), x, -FAR), -FAR, FAR).astype(np.int64)


def padded_pixels(conventions, pixels, size, t):
    """Bicubic interpolation pads each pixel that it reads, not the coordinate."""
    at = pixels.astype(np.float64)
    if conventions.padding == "reflection":
        at, _ = reflected(conventions.align_corners, at, size[:, None], t)
    if conventions.padding != "zeros":
        at, _ = clipped(at, 1.0, size[:, None])
    return whole(np.trunc(at))


def taps_of(conventions, at, sign, fraction, floor, size, t, tampering, s):
    sampled = np.isfinite(at)
    last = size - 1
    scale = sign * (last if conventions.align_corners else size) * 0.5
    if conventions.interpolation == "nearest":
        pixels, weights = whole(floor)[:, None], np.ones((len(at), 1), at.dtype)
        slopes = np.zeros_like(weights)
    elif conventions.interpolation == "bilinear":
        pixels = whole(floor)[:, None] + np.arange(2)
        rest = t.round(1 - fraction) if "fractions" in tampering.steps else t.round(floor + 1 - at)
        weights = np.stack([rest, fraction], 1)
        slopes = np.broadcast_to(np.array([-1.0, 1.0], at.dtype), weights.shape)
    else:
        pixels = padded_pixels(conventions, whole(floor)[:, None] + np.arange(-1, 3), size, t)
        weights, slopes = cubic(fraction, tampering("cubic", CUBIC, s), t)
    there = (pixels >= 0) & (pixels < size[:, None]) & sampled[:, None]
    pixels, there = tampering("taps", (pixels, there), (s, size))
    return Taps(pixels, there, np.where(sampled[:, None], weights, 0), np.where(sampled[:, None], slopes, 0), scale.astype(at.dtype))


def locate(problem, conventions, t, tampering, s):
    """Where all samples land, by axis."""
    working = np.longdouble if t.real == "exact" else np.float64
    grid = problem.grid.reshape(-1, problem.axes).astype(working)
    grid = tampering("grid", tuple(grid[:, axis] for axis in range(problem.axes)), s)
    sizes = tampering("sizes", tuple(np.full(len(s.b), side) for side in problem.sides), s)
    pixel = tuple(unnormalized(conventions.align_corners, g, size, t) for g, size in zip(grid, sizes))
    pixel = tampering("pixel", pixel, s)
    if conventions.interpolation == "bicubic":
        pads = [(at, np.ones(at.shape)) for at in pixel]
    else:
        pads = [padded(conventions, at, size, t, tampering, s) for at, size in zip(pixel, sizes)]
    at, sign = zip(*pads)
    rounded = np.rint if conventions.interpolation == "nearest" else np.floor
    floor = tampering("floor", tuple(rounded(x) for x in at), (s, at))
    fraction = tampering("fractions", tuple(t.round(x - low) for x, low in zip(at, floor)), s)
    return [taps_of(conventions, *given, t, tampering, s) for given in zip(at, sign, fraction, floor, sizes)]
