"""The additions to grad_value and grad_input one by one, in NumPy's float32 and float16: a slow reference that shares nothing with the
project. Addends come in the order of the samples (query, point, corner; or sample, tap), which is how `order` numbers them."""

import collections
import itertools

import numpy as np

F32 = np.float32


def fma(a, b, c):
    """A product of float32 numbers in float64, which holds the product exactly."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(F32)


def axis_of_msda(location, size, dialect, align_corners):
    """Cell, and the weights of its two pixels, as the kernels were seen to compute them on a GPU."""
    if align_corners:
        pixel = location * F32(size - 1)
        low = np.floor(pixel)
        fraction = fma(location, F32(size - 1), -low)
    else:
        pixel = fma(location, F32(size), F32(-0.5))
        low = np.floor(pixel)
        fraction = pixel - low
    skipped = dialect == "deformable_detr" and not -1 < pixel < size
    return int(low), (F32(1) - fraction, fraction), skipped


def msda_addends(inputs, dialect, padding_mode="zeros", align_corners=False):
    """By (batch, pixel, head): a list of (query, point, corner, addends of all channels)."""
    locations, attention, grad_output = (inputs[name].astype(F32) for name in ("sampling_locations", "attention_weights", "grad_output"))
    starts = np.concatenate([[0], np.cumsum(inputs["spatial_shapes"].prod(1))])
    found = collections.defaultdict(list)
    for b, q, m, l, p in np.ndindex(attention.shape):
        height, width = map(int, inputs["spatial_shapes"][l])
        x0, wx, skipped_x = axis_of_msda(locations[b, q, m, l, p, 0], width, dialect, align_corners)
        y0, wy, skipped_y = axis_of_msda(locations[b, q, m, l, p, 1], height, dialect, align_corners)
        if skipped_x or skipped_y:
            continue
        weighted = grad_output[b, q, m] * attention[b, q, m, l, p]
        for corner, (cy, cx) in enumerate(itertools.product((0, 1), (0, 1))):
            row, column = y0 + cy, x0 + cx
            if padding_mode == "border":
                row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
            elif not (0 <= row < height and 0 <= column < width):
                continue
            addend = weighted * wy[cy] * wx[cx] if dialect == "msda_triton" else weighted * (wy[cy] * wx[cx])
            found[b, starts[l] + row * width + column, m].append((q, p, corner, addend))
    return found


def grid_addends(image, grid, grad_output):
    """Addends of 2D bilinear interpolation with zeros, align_corners False: by (batch, y, x) a list of (sample, tap, addends)."""
    height, width = image.shape[2:]
    found = collections.defaultdict(list)
    for n, i, j in np.ndindex(grid.shape[:3]):
        spots = []
        for g, size in zip(grid[n, i, j], (width, height)):
            pixel = fma(g + F32(1), F32(size), F32(-1)) * F32(0.5)
            low = np.floor(pixel)
            spots.append((int(low), (low + F32(1) - pixel, pixel - low)))
        (x0, wx), (y0, wy) = spots
        for tap, (cy, cx) in enumerate(itertools.product((0, 1), (0, 1))):
            y, x = y0 + cy, x0 + cx
            if 0 <= y < height and 0 <= x < width:
                found[n, y, x].append((i * grid.shape[2] + j, tap, (wx[cx] * wy[cy]) * grad_output[n, :, i, j]))
    return found


def fold(addends, order, start=None):
    """The sums of arrays of addends, by channel, each addition rounded to the addends' type."""
    total = np.zeros_like(addends[0]) if start is None else start.copy()
    for i in order:
        total = total + addends[i]
    return total


def fitting_orders(addends, recorded):
    """Every order whose sums have the recorded bits. Of a sum that begins at zero the first two addends commute: of two such orders
    the one that begins with the lower number."""
    fitting = []
    for order in itertools.permutations(range(len(addends))):
        if len(order) > 1 and order[0] > order[1]:
            continue
        if fold(addends, order).tobytes() == recorded.tobytes():
            fitting.append(list(order))
    return fitting
