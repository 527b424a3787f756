"""Calls of PyTorch's kernels that scatter, in a fixed order: sums of rows and interpolate's backward passes."""

import itertools

import torch
from common import arguments, tell
from torch.nn import functional

DEVICE = "cuda"
TYPES = (torch.float32, torch.float64, torch.float16)


class Numbers:
    def __init__(self, seed, dtype):
        self.generator, self.dtype = torch.Generator().manual_seed(seed), dtype

    def drawn(self, *shape):
        return torch.randn(*shape, generator=self.generator).to(self.dtype).to(DEVICE)

    def index(self, rows, *shape):
        return torch.randint(rows, shape, generator=self.generator).to(DEVICE)


def gradient(x, call):
    """Returns the gradient of the call's result, summed with random weights."""
    x = x.requires_grad_()
    result = call(x)
    weights = torch.linspace(-1, 1, result.numel(), device=DEVICE, dtype=result.dtype).reshape(result.shape)
    return torch.autograd.grad(result, x, weights)[0]


def index_add(n, count, dim):
    source = [30, 12]
    source[dim] = count
    into = [30, 12]
    return n.drawn(*into).index_add_(dim, n.index(into[dim], count), n.drawn(*source))


def scatter_add(n, expanded):
    index = n.index(9, 50, 1).expand(50, 6) if expanded else n.index(9, 50, 6)
    return n.drawn(9, 6).scatter_add_(0, index, n.drawn(50, 6))


def scatter_reduce(n):
    return n.drawn(3, 9, 6).scatter_reduce_(1, n.index(9, 3, 40, 6), n.drawn(3, 40, 6), "sum")


def index_put(n):
    return n.drawn(40, 8).index_put_((n.index(40, 100),), n.drawn(100, 8), accumulate=True)


def embedding(n, padding):
    return gradient(n.drawn(40, 8), lambda x: functional.embedding(n.index(40, 100), x, padding_idx=padding))


def interpolate(n, shape, **how):
    return gradient(n.drawn(*shape), lambda x: functional.interpolate(x, **how))


def cases(n):
    """By name; the kernel's adapter comes first."""
    for count, dim in itertools.product((8, 200), (0, 1)):
        yield f"index_add-{count}-{dim}", lambda count=count, dim=dim: index_add(n, count, dim)
    yield "index_add-select", lambda: gradient(n.drawn(30, 7), lambda x: x.index_select(0, n.index(30, 90)))
    yield "scatter_add-full", lambda: scatter_add(n, False)
    yield "scatter_add-expanded", lambda: scatter_add(n, True)
    yield "scatter_add-reduce", lambda: scatter_reduce(n)
    yield "scatter_add-gather", lambda: gradient(n.drawn(9, 6), lambda x: x.gather(0, n.index(9, 50, 6)))
    yield "index_put-rows", lambda: index_put(n)
    yield "embedding-plain", lambda: embedding(n, None)
    yield "embedding-padding", lambda: embedding(n, 3)
    for align in (False, True):
        yield f"upsample_bicubic2d-{align}", lambda align=align: interpolate(n, (2, 3, 5, 7), size=(11, 9), mode="bicubic", align_corners=align)
        yield f"upsample_trilinear3d-{align}", lambda align=align: interpolate(n, (2, 3, 3, 5, 4), size=(6, 7, 9), mode="trilinear", align_corners=align)
        yield f"upsample_bilinear2d-{align}", lambda align=align: interpolate(n, (2, 3, 5, 7), size=(11, 9), mode="bilinear", align_corners=align)
    yield "upsample_bicubic2d-scale", lambda: interpolate(n, (2, 3, 5, 7), scale_factor=1.7, mode="bicubic")
    yield "upsample_trilinear3d-scale", lambda: interpolate(n, (2, 3, 3, 5, 4), scale_factor=1.7, mode="trilinear")
    yield "upsample_nearest2d-size", lambda: interpolate(n, (2, 3, 5, 7), size=(11, 9), mode="nearest")


def main():
    save = arguments().save
    number = 0
    for seed, dtype in enumerate(TYPES):
        for name, call in cases(Numbers(seed, dtype)):
            tell(f"{number:03}-{name}-{str(dtype)[6:]}.result", call(), save)
            number += 1


main()
