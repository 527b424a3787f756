"""grid_sample's gradients by a slow loop that shares nothing with the project: the forward pass as PyTorch documents it, in complex
numbers, whose imaginary parts carry the derivatives by the coordinates (complex-step differentiation)."""

import itertools
import math

import numpy as np

STEP = 1e-40


def cubic(t, a=-0.75):
    t = t if t.real >= 0 else -t
    if t.real <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def clip(x, size):
    return 0 if x.real <= 0 else size - 1 if x.real >= size - 1 else x


def reflect(x, size, align):
    low, span = (0, size - 1) if align else (-0.5, size)
    if span == 0:
        return 0
    x = x - low if x.real >= low else low - x
    flips = math.floor(x.real / span)
    rest = x - flips * span
    return low + (rest if flips % 2 == 0 else span - rest)


def pad(x, size, padding, align):
    if padding == "reflection":
        x = reflect(x, size, align)
    return x if padding == "zeros" else complex(clip(complex(x), size))


def taps(g, size, interpolation, padding, align):
    """Pixels along one axis, and their weights."""
    x = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    if interpolation == "bicubic":
        low = math.floor(x.real)
        found = [(round(pad(complex(low + k), size, padding, align).real), cubic(x - low - k)) for k in (-1, 0, 1, 2)]
    else:
        x = pad(x, size, padding, align)
        if interpolation == "nearest":
            found = [(round(x.real), 1 + 0j)]
        else:
            low = math.floor(x.real)
            found = [(low, 1 - (x - low)), (low + 1, x - low)]
    return [(pixel, weight) for pixel, weight in found if 0 <= pixel < size]


def gradients(inputs, facts):
    """grad_input and grad_grid, in float64."""
    image, grid, grad_output = (inputs[name].astype(np.float64) for name in ("input", "grid", "grad_output"))
    conventions = facts["interpolation"], facts["padding_mode"], bool(facts["align_corners"])
    sides = image.shape[2:]
    grad_input, grad_grid = np.zeros_like(image), np.zeros_like(grid)
    for at in np.ndindex(grid.shape[:-1]):
        n, place = at[0], at[1:]
        go = grad_output[(n, slice(None), *place)]
        for moved in range(len(sides)):
            # Of a location the axes are x, y, z; of an image z, y, x.
            along = [taps(complex(g, STEP if axis == moved else 0), sides[-1 - axis], *conventions) for axis, g in enumerate(grid[at])]
            for chosen in itertools.product(*along[::-1]):
                pixel, weight = tuple(one[0] for one in chosen), np.prod([one[1] for one in chosen])
                if moved == 0:
                    grad_input[(n, slice(None), *pixel)] += go * weight.real
                grad_grid[at + (moved,)] += go @ image[(n, slice(None), *pixel)] * (weight.imag / STEP)
    return {"grad_input": grad_input, "grad_grid": grad_grid}
