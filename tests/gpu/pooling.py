"""Random backward passes of PyTorch's pooling and padding, of interpolate in channels last, and of torchvision's ps_roi_align, for
scatter_random.py. Each takes its Problem."""

import torch
from torch.nn import functional

LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def image(p, axes, least=1, most=9):
    return p.normal(p.between(1, 3), p.between(2, 4), *(p.between(least, most if axes < 3 else 6) for _ in range(axes)))


def avg(p, axes, last=False):
    """Channels last has no padding: with it, PyTorch 2.11's kernel is wrong (docs/findings/)."""
    kernel = [p.between(1, 4) for _ in range(axes)]
    stride = [1] * axes if p.chance() else [p.between(1, 4) for _ in range(axes)]
    padding = [0 if last or p.chance() else p.between(0, k // 2) for k in kernel]
    x = image(p, axes, 4)
    pool = functional.avg_pool2d if axes == 2 else functional.avg_pool3d
    how = {"ceil_mode": p.chance(), "count_include_pad": p.chance(), "divisor_override": p.between(1, 9) if p.between(0, 3) == 0 else None}
    return p.backward(x.to(memory_format=LAST[axes]) if last else x, lambda x: pool(x, kernel, stride, padding, **how), "grad_output")


def adaptive(p, axes, last=False):
    """Half of the sizes divide each other: then another kernel is launched."""
    sizes = [p.between(2 if axis == 0 else 1, 5) for axis in range(axes)]  # to one pixel PyTorch takes the mean
    shape = [p.between(1, 3), p.between(2, 4), *(size * p.between(1, 2) + (0 if p.chance() else p.between(0, 3)) for size in sizes)]
    x = p.normal(*shape)
    pool = functional.adaptive_avg_pool2d if axes == 2 else functional.adaptive_avg_pool3d
    return p.backward(x.to(memory_format=LAST[axes]) if last else x, lambda x: pool(x, sizes), "grad_output")


def pad(p, axes, mode):
    x = image(p, axes)
    most = [side - 1 if mode == "reflect" else 5 for side in x.shape[:1:-1]]
    before_after = [p.between(0, side) for side in most for _ in range(2)]
    return p.backward(x, lambda x: functional.pad(x, before_after, mode), "grad_output")


def by_index(p, x, pool):
    """The gradient of max pooling, whose indices are kept."""
    x = x.requires_grad_()
    result, index = pool(x)
    source = p.normal(*result.shape)
    if not result.is_contiguous():
        source = source.to(memory_format=LAST[result.dim() - 2])
    p.keep(index=index, source=source)
    return torch.autograd.grad(result, x, source)[0]


def max_pool(p, axes, last=False):
    kernel = [p.between(1, 3) for _ in range(axes)]
    how = {"stride": [p.between(1, 3) for _ in range(axes)], "padding": [p.between(0, k // 2) for k in kernel], "return_indices": True}
    pool = functional.max_pool2d if axes == 2 else functional.max_pool3d
    x = image(p, axes, 4)
    return by_index(p, x.to(memory_format=LAST[axes]) if last else x, lambda x: pool(x, kernel, **how))


def adaptive_max(p, axes):
    sizes = [p.between(2 if axis == 0 else 1, 5) for axis in range(axes)]  # to one pixel PyTorch takes the mean
    pool = functional.adaptive_max_pool2d if axes == 2 else functional.adaptive_max_pool3d
    x = p.normal(p.between(1, 3), p.between(2, 4), *(size * p.between(1, 2) + (0 if p.chance() else p.between(0, 3)) for size in sizes))
    return by_index(p, x, lambda x: pool(x, sizes, return_indices=True))


def fractional_max(p, axes):
    pool = functional.fractional_max_pool2d if axes == 2 else functional.fractional_max_pool3d
    x = image(p, axes, 5)
    samples = torch.rand(*x.shape[:2], axes, generator=p.generator).to(x.dtype).to(x.device)
    return by_index(p, x, lambda x: pool(x, 2, output_size=[p.between(2, side - 2) for side in x.shape[2:]], _random_samples=samples,
                                         return_indices=True))


def bilinear_last(p):
    x = image(p, 2, 2).to(memory_format=LAST[2])
    size = [side + p.size.choice((-1, 1, 2, 5)) for side in x.shape[2:]]
    return p.backward(x, lambda x: functional.interpolate(x, size=size, mode="bilinear", align_corners=p.chance()), "grad_output")


def ps_roi_align(p):
    import torchvision  # noqa: F401, for its operators

    bins, side, count = (p.between(1, 3), p.between(1, 3)), p.between(5, 9), p.between(1, 5)
    corners = torch.sort(torch.rand(count, 2, 2, generator=p.generator) * side, dim=1).values.reshape(count, 4)
    boxes = torch.cat([torch.randint(2, (count, 1), generator=p.generator), corners * 2], 1).to(p.dtype).to(p.device)
    x = p.normal(2, 2 * bins[0] * bins[1], side, side).requires_grad_()
    result, channel_mapping = torch.ops.torchvision.ps_roi_align(x, boxes, 0.5, *bins, p.between(1, 3))
    grad_output = p.normal(*result.shape)
    p.keep(boxes=boxes, channel_mapping=channel_mapping, grad_output=grad_output)
    return torch.autograd.grad(result, x, grad_output)[0]


def named(name, call, *arguments):
    entry = lambda p: call(p, *arguments)  # noqa: E731
    entry.__name__ = name
    return entry


FAMILIES = {
    "average_pool": (named("avg_pool2d", avg, 2), named("avg_pool2d_last", avg, 2, True), named("avg_pool3d", avg, 3),
             named("adaptive_avg_pool2d", adaptive, 2), named("adaptive_avg_pool2d_last", adaptive, 2, True),
             named("adaptive_avg_pool3d", adaptive, 3)),
    "pad_nd": tuple(named(f"{mode}{axes}d", pad, axes, mode) for mode in ("reflect", "replicate") for axes in (1, 2, 3)),
    "max_pool": (named("max_pool2d", max_pool, 2), named("max_pool2d_last", max_pool, 2, True), named("max_pool3d", max_pool, 3),
                 named("max_pool3d_last", max_pool, 3, True), named("adaptive_max_pool2d", adaptive_max, 2),
                 named("adaptive_max_pool3d", adaptive_max, 3), named("fractional_max_pool2d", fractional_max, 2),
                 named("fractional_max_pool3d", fractional_max, 3)),
    "interpolate_last": (bilinear_last,),
    "ps_roi_align": (ps_roi_align,),
}
