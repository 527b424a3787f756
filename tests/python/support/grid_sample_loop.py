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


def coordinate(g, size, align):
    """In pixels, before padding."""
    return (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2


def taps(g, size, interpolation, padding, align):
    """Pixels along one axis, and their weights: also those outside, which are read as 0."""
    x = coordinate(g, size, align)
    if interpolation == "bicubic":
        low = math.floor(x.real)
        return [(round(pad(complex(low + k), size, padding, align).real), cubic(x - low - k)) for k in (-1, 0, 1, 2)]
    x = pad(x, size, padding, align)
    if interpolation == "nearest":
        return [(round(x.real), 1 + 0j)]
    low = math.floor(x.real)
    return [(low, 1 - (x - low)), (low + 1, x - low)]


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
            # The axes of a location are x, y, z, those of an image z, y, x.
            along = [taps(complex(g, STEP if axis == moved else 0), sides[-1 - axis], *conventions) for axis, g in enumerate(grid[at])]
            for chosen in itertools.product(*along[::-1]):
                if not all(0 <= entry[0] < side for entry, side in zip(chosen, sides)):
                    continue
                pixel, weight = tuple(chosen_one[0] for chosen_one in chosen), math.prod(chosen_one[1] for chosen_one in chosen)
                if moved == 0:
                    grad_input[(n, slice(None), *pixel)] += go * weight.real
                grad_grid[at + (moved,)] += go @ image[(n, slice(None), *pixel)] * (weight.imag / STEP)
    return {"grad_input": grad_input, "grad_grid": grad_grid}


def stages(inputs, facts):
    """The intermediate tensors by name, in float64: of each sample of a batch, in a row, the numbers of each tap and channel."""
    image, grid, grad_output = (inputs[name].astype(np.float64) for name in ("input", "grid", "grad_output"))
    conventions = facts["interpolation"], facts["padding_mode"], bool(facts["align_corners"])
    padded = facts["interpolation"] != "bicubic" and facts["padding_mode"] != "zeros"
    sides = image.shape[2:]
    found = {name: [] for name in ("pixel_coordinates", "padded_coordinates", "cell", "interpolation_weights", "corner_values",
                                   "input_contributions")}
    for at in np.ndindex(grid.shape[:-1]):
        go = grad_output[(at[0], slice(None), *at[1:])]
        pixel = [coordinate(g, size, conventions[2]) for g, size in zip(grid[at], sides[::-1])]
        moved = [complex(pad(complex(x), size, *conventions[1:])).real if padded else x for x, size in zip(pixel, sides[::-1])]
        found["pixel_coordinates"].append(pixel)
        found["padded_coordinates"].append(moved)
        found["cell"].append([round(x) if facts["interpolation"] == "nearest" else math.floor(x) for x in moved])
        along = [taps(complex(g), size, *conventions) for g, size in zip(grid[at], sides[::-1])]
        for name in ("interpolation_weights", "corner_values", "input_contributions"):
            found[name].append([])
        for chosen in itertools.product(*along[::-1]):
            place, weight = tuple(chosen_one[0] for chosen_one in chosen), math.prod(chosen_one[1].real for chosen_one in chosen)
            inside = all(0 <= entry < side for entry, side in zip(place, sides))
            found["interpolation_weights"][-1].append(weight)
            found["corner_values"][-1].append(image[(at[0], slice(None), *place)] if inside else 0 * go)
            found["input_contributions"][-1].append(weight * go if inside else 0 * go)
    if not padded:
        del found["padded_coordinates"]
    return {name: np.array(numbers) for name, numbers in found.items()} | gradients(inputs, facts)
