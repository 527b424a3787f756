"""Calls of PyTorch's operators that add several numbers to one element, as programs make them, on a CPU or a GPU: their numbers are drawn on
the CPU, so that both have the same ones. Needs PyTorch; calls of torchvision skip a test where it is missing."""

import pytest
import torch

device = "cpu"  # where the calls are made; a program may set it

F = torch.nn.functional


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).to(device)


def gradient_of(output):
    return random(*output.shape, dtype=output.dtype)


def indices(size, *shape):
    return torch.randint(0, size, shape).to(device)


def resized(image, **how):
    output = F.interpolate(image, **how)
    output.backward(gradient_of(output))
    return image.grad


def indexed(values, *key):
    chosen = values.requires_grad_()[key]
    chosen.backward(gradient_of(chosen))
    return values.grad


def sampled(image, grid, **how):
    output = F.grid_sample(image, grid, **how)
    output.backward(gradient_of(output))
    return image.grad, grid.grad


def image(*sides, dtype=torch.float32):
    return random(2, 3, *sides, dtype=dtype).requires_grad_()


def grid(*sides):
    return (2.4 * torch.rand(2, *sides, len(sides)) - 1.2).to(device).requires_grad_()


def embedded(**how):
    module = torch.nn.Embedding(11, 4, **how).to(device)
    output = module(indices(11, 5, 7))
    output.backward(gradient_of(output))
    return module.weight.grad


def gathered(dtype=torch.float32):
    rows = random(8, 3, dtype=dtype).requires_grad_()
    output = rows[indices(8, 33)]
    output.backward(gradient_of(output))
    return rows.grad


def pooled(**how):
    ops = pytest.importorskip("torchvision.ops", reason="torchvision is not installed here")
    rows, corners = image(16, 18), 10 * torch.rand(5, 2)
    boxes = torch.cat([torch.randint(0, 2, (5, 1)).float(), corners, corners + 1 + 9 * torch.rand(5, 2)], 1).to(device)
    output = ops.roi_align(rows, boxes, (3, 4), spatial_scale=0.8, **how)
    output.backward(gradient_of(output))
    return rows.grad


def bilinear(**how):
    return lambda: resized(image(8, 9), mode="bilinear", **how)


# By name: a call, and what of it has to be in the file.
CALLS = {
    **{f"grid_sample {mode} {padding}": (lambda mode=mode, padding=padding: sampled(image(8, 9), grid(5, 6), mode=mode, padding_mode=padding,
                                                                                align_corners=False),
                                         {"interpolation": mode, "padding_mode": padding, "align_corners": False})
       for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection")},
    "grid_sample 3D": (lambda: sampled(image(4, 5, 6), grid(3, 4, 5), align_corners=True), {"align_corners": True}),
    "sizes": (bilinear(size=(13, 17)), {"mode": "bilinear", "input_height": 8, "input_width": 9, "align_corners": False}),
    "factor": (bilinear(scale_factor=1.7), {"scale_height": 1.7, "scale_width": 1.7}),
    "corners": (bilinear(scale_factor=1.7, align_corners=True), {"align_corners": True}),
    "linear": (lambda: resized(image(9), mode="linear", size=14), {"mode": "linear", "input_width": 9}),
    "trilinear": (lambda: resized(image(4, 5, 6), mode="trilinear", size=(5, 7, 9)), {"mode": "trilinear", "input_depth": 4}),
    "bicubic": (lambda: resized(image(8, 9), mode="bicubic", size=(11, 12)), {"mode": "bicubic"}),
    "nearest": (lambda: resized(image(8, 9), mode="nearest", scale_factor=2), {"mode": "nearest"}),
    "nearest-exact": (lambda: resized(image(8, 9), mode="nearest-exact", scale_factor=1.5), {"mode": "nearest-exact", "scale_width": 1.5}),
    **{f"{mode} {len(sides)}D": (lambda mode=mode, sides=sides: resized(image(*sides), mode=mode, scale_factor=1.5),
                                 {"mode": mode, "input_width": sides[-1]})
       for mode in ("nearest", "nearest-exact") for sides in ((9,), (4, 5, 6))},
    "embedding": (lambda: embedded(padding_idx=2), {"reduce": "sum", "dim": 0, "dim_size": 11, "padding_idx": 2}),
    "index_add": (lambda: random(6, 5).index_add(1, indices(5, 40), random(6, 40)), {"dim": 1, "dim_size": 5}),
    "index_add_": (lambda: random(6, 5).index_add_(-2, indices(6, 30), random(30, 5)), {"dim": 0, "dim_size": 6}),
    "scatter_add": (lambda: random(4, 5, dtype=torch.float64).scatter_add(1, indices(5, 4, 9), random(4, 9, dtype=torch.float64)), {"dim": 1}),
    "scatter_add_": (lambda: random(6, 5).scatter_add_(0, indices(6, 30, 5), random(40, 5)), {"dim": 0, "dim_size": 6}),
    "mean": (lambda: random(6, 5).scatter_reduce(0, indices(6, 30, 5), random(30, 5), "mean", include_self=False),
             {"reduce": "mean", "include_self": False}),
    "index_put_": (lambda: random(6, 5).index_put_((indices(12, 20) - 6,), random(20, 5), accumulate=True), {"dim_size": 6}),
    "index_put_ of elements": (lambda: random(6, 5).index_put_((indices(6, 20), indices(5, 20)), random(20), accumulate=True), {"dim_size": 30}),
    "columns": (lambda: indexed(random(4, 6), slice(None), indices(6, 20) - 6), {"dim": 1, "dim_size": 6}),
    "inner elements": (lambda: indexed(random(2, 3, 4, 5, 2), slice(None), slice(None), indices(4, 7, 3), indices(5, 3)), {"dim": 1, "dim_size": 20}),
    "index_put": (lambda: random(6, 5).index_put((indices(6, 20),), random(20, 5), accumulate=True), {"reduce": "sum", "dim_size": 6}),
    "scatter_reduce_": (lambda: random(6, 5).scatter_reduce_(0, indices(6, 30, 5), random(30, 5), "sum"), {"reduce": "sum"}),
    "roi_align": (lambda: pooled(sampling_ratio=2, aligned=True), {"sampling_ratio": 2, "aligned": True, "input_height": 16, "input_width": 18}),
    "roi_align, its own ratio": (lambda: pooled(), {"sampling_ratio": 0, "aligned": False, "spatial_scale": 0.800000011920929}),
    "rows": (gathered, {"reduce": "sum", "dim_size": 8}),
    "bfloat16": (lambda: gathered(torch.bfloat16), {"reduce": "sum"}),
    "float16": (lambda: gathered(torch.float16), {"reduce": "sum"}),
}  # fmt: skip
