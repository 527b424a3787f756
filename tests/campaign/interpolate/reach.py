"""What an output pixel gives to each pixel along one axis of the image, in exact arithmetic, and how far rounding may change that: written
from the definition, as hats and Keys' kernel, and not as kernels compute it."""

import numpy as np

from ..grid_sample.taps import CUBIC

STEEPEST = 1.4  # of Keys' kernel


def exact_coordinates(conventions, out, side, scale):
    """[out], and a bound on what a kernel adds to them, in units of its rounding."""
    at = np.arange(out).astype(np.longdouble)
    if conventions.align_corners and not conventions.nearest:
        pixel = at * (side - 1) / (out - 1) if out > 1 else 0 * at
        return pixel, 3 * np.abs(pixel)
    half = 0 if conventions.mode == "nearest" else 0.5
    stretched = (at + half) / scale if scale else (2 * at + 2 * half) * side / (2 * out)
    pixel = stretched if conventions.nearest else stretched - 0.5
    return pixel, 3 * np.abs(stretched) + np.abs(pixel)


def hat(distance):
    return np.maximum(0, 1 - np.abs(distance))


def keys(distance):
    a, x = CUBIC, np.abs(distance)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def along_axis(conventions, out, side, scale, real):
    """Weights [out,side], bounds on their errors, and how many addends a pixel gets at most."""
    pixel, error = exact_coordinates(conventions, out, side, scale)
    unit = max(real.unit, 2.0**-24)  # coordinates are computed in float32 at least
    if conventions.nearest:
        error = (error * 2.0**-24).astype(float)[:, None]
        low = np.clip(np.floor(pixel.astype(float)), 0, side - 1)[:, None]
        given = (low == np.arange(side)).astype(float)
        # Mode nearest-exact may also round what is compared with the half.
        error = error * 2 + 2.0**-23 * out / max(side, 1) * (side / out)
        near = np.rint(pixel).astype(float)[:, None]
        # By a power of two nothing is rounded.
        moves = (np.abs(pixel[:, None] - near) <= error) & (np.frexp(scale or side / out)[0] != 0.5)
        reached = moves & ((np.arange(side) == near) | (np.arange(side) == near - 1))
        return given, np.where(reached, 1.0, 0.0), np.where(reached | (given > 0), 1.0, 0.0)
    error = (error * unit * 1.01).astype(float)
    cubic = conventions.mode == "bicubic"
    if not cubic:
        pixel = np.clip(pixel, 0, side - 1)
    kernel, reach = (keys, 2) if cubic else (hat, 1)
    given, off, count = (np.zeros((out, side)) for _ in range(3))
    low = np.floor(pixel)
    for place in range(-reach - 1, reach + 2):
        distance = (low + place - pixel).astype(np.longdouble)
        rows, column = np.arange(out), np.clip(low + place, 0, side - 1).astype(int)
        weight = kernel(distance)
        reached = np.abs(distance).astype(float) < reach + error
        np.add.at(given, (rows, column), np.where(reached, weight, 0).astype(float))
        # Evaluating the polynomial has intermediate results up to 8 and about ten roundings.
        evaluated = 80 * unit if cubic else 3 * unit
        np.add.at(off, (rows, column), np.where(reached, (STEEPEST if cubic else 1) * error + evaluated, 0))
        np.add.at(count, (rows, column), np.where(reached, 1, 0))
    return given, off, count
