"""Small problems with gradients and stages from NumPy implementations of their own, in float64."""

import numpy as np


def bfloat16(array):
    """The nearest bfloat16 numbers, ties to even, as kernels round to them; as float32, whose upper half they are."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + (0x7FFF + (bits >> 16 & 1))) & np.uint32(0xFFFF0000)).view(np.float32)


def make_problem(rng, batch=1, heads=2, channels=8, queries=20, points=2, levels=((6, 5), (3, 4)), dtype=np.float32):
    """Inputs by name. Locations keep away from cell boundaries, so that every arithmetic lands in the same cells."""
    levels = np.asarray(levels, np.int64)
    pixels = int((levels[:, 0] * levels[:, 1]).sum())
    shape = (batch, queries, heads, len(levels), points, 2)
    size = levels[:, ::-1][None, None, None, :, None, :]
    cells = rng.integers(0, size, shape)
    locations = (cells + 0.5 + rng.uniform(0.05, 0.95, shape)) / size
    return {
        "value": rng.standard_normal((batch, pixels, heads, channels)).astype(dtype),
        "spatial_shapes": levels,
        "sampling_locations": locations.astype(dtype),
        "attention_weights": rng.uniform(0.1, 1, shape[:-1]).astype(dtype),
        "grad_output": rng.standard_normal((batch, queries, heads, channels)).astype(dtype),
    }


def backward(inputs, padding_mode="zeros", align_corners=False):
    """Gradients by name, in float64; zeros or border padding as PyTorch's grid_sample has them, away from the borders."""
    value, locations = inputs["value"].astype(np.float64), inputs["sampling_locations"].astype(np.float64)
    attention, grad_output = inputs["attention_weights"].astype(np.float64), inputs["grad_output"].astype(np.float64)
    sizes = inputs["spatial_shapes"][:, None, ::-1]  # x, y
    starts = np.concatenate([[0], np.cumsum(inputs["spatial_shapes"].prod(1))])[:-1, None]
    scale = sizes - (1 if align_corners else 0)
    pixel = locations * scale - (0 if align_corners else 0.5)
    cell = np.floor(pixel).astype(int)
    b, _, m, _, _ = np.ogrid[tuple(map(slice, attention.shape))]
    go = grad_output[:, :, :, None, None]
    grad_locations, grad_attention, rows, contributions = np.zeros_like(locations), np.zeros_like(attention), [], []
    for corner in ((0, 0), (1, 0), (0, 1), (1, 1)):  # x, y
        wx, wy = np.moveaxis(np.where(corner, pixel - cell, 1 - (pixel - cell)), -1, 0)
        at = np.clip(cell + corner, 0, sizes - 1)
        row = starts + at[..., 1] * sizes[..., 0] + at[..., 0]
        visible = (padding_mode == "border") | (at == cell + corner).all(-1)
        product = np.where(visible, (go * value[b, row, m]).sum(-1), 0)
        grad_attention += product * wx * wy
        for axis, another in ((0, wy), (1, wx)):
            grad_locations[..., axis] += product * attention * (1 if corner[axis] else -1) * another * scale[..., axis]
        rows.append(row)
        contributions.append(np.where(visible[..., None], go * attention[..., None] * wx[..., None] * wy[..., None], 0))
    grad_value = np.zeros_like(value)
    np.add.at(grad_value, (b[..., None], np.stack(rows, -1), m[..., None]), np.stack(contributions, -2))
    return {"grad_value": grad_value, "grad_sampling_locations": grad_locations, "grad_attention_weights": grad_attention}


def stages(inputs, padding_mode="zeros"):
    """The intermediate tensors by name, in float64, as docs/capture-format.md shapes them: `location * size - 0.5`."""
    value, locations = inputs["value"].astype(np.float64), inputs["sampling_locations"].astype(np.float64)
    attention, grad_output = inputs["attention_weights"].astype(np.float64), inputs["grad_output"].astype(np.float64)
    sizes = inputs["spatial_shapes"][:, ::-1]  # x, y
    starts = np.concatenate([[0], np.cumsum(sizes.prod(1))])[:-1]
    size = sizes[:, None]
    pixel = locations * size - 0.5
    cell = np.floor(pixel)
    fraction = pixel - cell
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])  # x, y
    weights = np.where(corners == 1, fraction[..., None, :], 1 - fraction[..., None, :]).prod(-1)
    at = cell[..., None, :].astype(int) + corners
    inside = ((at >= 0) & (at < size[:, None])).all(-1)
    at = np.clip(at, 0, size[:, None] - 1)
    row = starts[:, None, None] + at[..., 1] * sizes[:, 0][:, None, None] + at[..., 0]
    b, m = (np.arange(n).reshape([-1 if i == axis else 1 for i in range(row.ndim)])
            for axis, n in ((0, value.shape[0]), (2, value.shape[2])))
    visible = np.ones_like(inside) if padding_mode == "border" else inside
    corner_values = np.where(visible[..., None], value[b, row, m], 0)
    sampled = (weights[..., None] * corner_values).sum(-2)
    go = grad_output[:, :, :, None, None]
    v00, v10, v01, v11 = ((go * corner_values[..., i, :]).sum(-1) for i in range(4))  # x, y
    fx, fy = fraction[..., 0], fraction[..., 1]
    slope = np.stack([(1 - fy) * (v10 - v00) + fy * (v11 - v01), (1 - fx) * (v01 - v00) + fx * (v11 - v10)], -1)
    contributions = weights[..., None] * (attention[..., None] * go)[..., None, :] * visible[..., None]
    grad_value = np.zeros_like(value)
    np.add.at(grad_value, (b, row, m), contributions)
    return {
        "pixel_coordinates": pixel, "cell": cell, "interpolation_weights": weights, "corner_values": corner_values,
        "sampled_value": sampled, "grad_attention_weights": (go * sampled).sum(-1),
        "grad_sampling_locations": slope * attention[..., None] * size, "value_contributions": contributions,
        "grad_value": grad_value,
    }


def element_invocation(elements, i):
    """One recorded sample as a call of its own: one query, one level, one point; `elements` is h200_elements.npz."""
    from msda_replay import Invocation, Result

    height, width = map(int, elements["level"][i])
    value = np.zeros((1, height * width, 1, 32), np.float32)
    there = elements["pixels"][i] >= 0
    value[0, elements["pixels"][i][there], 0] = elements["rows"][i][there]

    def entry(name, *shape):
        return elements[name][i].reshape((1, 1, 1, *shape))

    return Invocation(
        inputs={
            "value": value,
            "spatial_shapes": np.array([[height, width]]),
            "sampling_locations": entry("sampling_location", 1, 1, 2),
            "attention_weights": entry("attention_weight", 1, 1),
            "grad_output": entry("grad_output", 32),
        },
        outputs={
            "grad_sampling_locations": entry("observed_grad_sampling_location", 1, 1, 2),
            "grad_attention_weights": entry("observed_grad_attention_weight", 1, 1),
        },
        results={
            "reference": Result(
                {
                    "grad_sampling_locations": entry("reference_grad_sampling_location", 1, 1, 2),
                    "grad_attention_weights": entry("reference_grad_attention_weight", 1, 1),
                },
                "reference",
                "grid_sample",
            )
        },
        dialect="msda_triton",
        padding_mode=str(elements["padding_mode"][i]),
        align_corners=bool(elements["align_corners"][i]),
        atol=1e-3,
        rtol=1e-2,
    )


def recorder_digest(data):
    """recorder/device/digest.h of some bytes, by its description, in plain numbers."""
    data, sums = data + bytes(-len(data) % 16), []
    for a, b in ((0xA0761D6478BD642F, 0xE7037ED1A0B428DB), (0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)):
        total = 0
        for at in range(0, len(data), 16):
            key = at * 0x9E3779B97F4A7C15
            x, y = (int.from_bytes(data[at + i:at + i + 8], "little") ^ ((key + c) % 2**64) for i, c in ((0, a), (8, b)))
            total += (x * y % 2**64) ^ (x * y >> 64)
        sums.append(f"{total % 2**64:016x}")
    return "".join(sums)
