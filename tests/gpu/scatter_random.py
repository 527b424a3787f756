"""Random calls of PyTorch's and torchvision's operators that scatter. Prints for each tensor of a call its SHA-1: of the
bytes in row-major order, in the form in which the recorder has them.

    python3 scatter_random.py --problems N [--operators scatter_add,interpolate,roi_align,...] [--device cuda|cpu]

A line is `NUMBER-OPERATOR-ENTRY-TYPE TENSOR DIGEST`. Problem i of an operator is the same in every run, and so are all tensors but
`result`, which atomic additions make. Most elements of the results add up 1 to 15 addends."""

import argparse
import hashlib
import random

import torch
from pooling import FAMILIES
from torch.nn import functional

TYPES = (torch.float32, torch.float16, torch.float64, torch.bfloat16)
LINEAR = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}


class Problem:
    """Draws sizes and tensors from a seed, on the CPU, and keeps what is printed about the call."""

    def __init__(self, seed, dtype, device):
        self.size, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        self.dtype, self.device, self.tensors = dtype, device, {}

    def between(self, first, last):
        return self.size.randint(first, last)

    def chance(self):
        return self.size.random() < 0.5

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator).to(self.dtype).to(self.device)

    def index(self, rows, *shape, dtype=torch.int64):
        return torch.randint(rows, shape, generator=self.generator).to(dtype).to(self.device)

    def keep(self, **tensors):
        self.tensors.update(tensors)

    def backward(self, x, call, keep):
        """The gradient of x for a drawn gradient of the result, which is kept under that name."""
        x = x.requires_grad_()
        result = call(x)
        grad = self.normal(*result.shape)
        self.keep(**{keep: grad})
        return torch.autograd.grad(result, x, grad)[0]


def rows_of(p):
    """How many rows there are, and how many are added to them: 0 to 4 on average, as `order` reads the arithmetic from rows with few."""
    rows = p.between(6, 20)
    return rows, p.between(1, 4 * rows)


def shapes(p):
    """Sizes of the sum and of the source, 1 to 3 dimensions, of which `dim` differs."""
    into = [p.between(2, 20) for _ in range(p.between(1, 3))]
    dim = p.between(0, len(into) - 1)
    into[dim], count = rows_of(p)
    source = list(into)
    source[dim] = count
    return into, source, dim


def index_add(p):
    into, source, dim = shapes(p)
    index = p.index(into[dim], source[dim], dtype=torch.int32 if p.chance() else torch.int64)
    source = p.normal(*source)
    p.keep(index=index, source=source)
    return p.normal(*into).index_add_(dim, index, source)


def index_select(p):
    into, source, dim = shapes(p)
    index = p.index(into[dim], source[dim])
    p.keep(index=index)
    return p.backward(p.normal(*into), lambda x: x.index_select(dim, index), "source")


def scatter_add(p):
    into, source, dim = shapes(p)
    index, source = p.index(into[dim], *source), p.normal(*source)
    p.keep(index=index, source=source)
    return p.normal(*into).scatter_add_(dim, index, source)


def scatter_rows(p):
    (rows, count), channels = rows_of(p), p.between(2, 20)
    index, source = p.index(rows, count, 1), p.normal(count, channels)
    p.keep(index=index, source=source)
    return p.normal(rows, channels).scatter_add_(0, index.expand(count, channels), source)


def scatter_reduce(p):
    into, source, dim = shapes(p)
    index, source = p.index(into[dim], *source), p.normal(*source)
    p.keep(index=index, source=source)
    return p.normal(*into).scatter_reduce_(dim, index, source, "sum")


def gather(p):
    into, source, dim = shapes(p)
    index = p.index(into[dim], *source)
    p.keep(index=index)
    return p.backward(p.normal(*into), lambda x: x.gather(dim, index), "source")


def index_put(p):
    """The recorder has the sorted index, the source's rows in that order, and the rows up to the last index."""
    (rows, count), channels = rows_of(p), p.between(1, 200)
    index, source = p.index(rows, count), p.normal(count, channels)
    in_order = torch.sort(index, stable=True)
    p.keep(index=in_order.values, source_row=in_order.indices, source=source)
    return p.normal(rows, channels).index_put_((index,), source, accumulate=True)[: int(index.max()) + 1]


def embedding(p):
    (rows, count), channels = rows_of(p), p.between(1, 40)
    index, padding = p.index(rows, count), p.between(0, rows - 1) if p.chance() else None
    p.keep(index=index)
    grad = p.backward(p.normal(rows, channels), lambda x: functional.embedding(index, x, padding_idx=padding), "source")
    return grad[: int(index.max()) + 1]


def interpolate(p, mode):
    axes = LINEAR.get(mode, int(mode[-1]) if mode[-1].isdigit() else 2)
    mode, linear = mode.rstrip("123"), mode in LINEAR
    sides = [p.between(2, 9) for _ in range(axes)]
    how = {"align_corners": p.chance()} if linear else {}
    if p.chance():
        how["scale_factor"] = p.size.uniform(1.5, 2.6)  # no size stays: where all do PyTorch copies
    else:
        how["size"] = [side + p.size.choice((-1, 1, 2, 5)) for side in sides]
    x = p.normal(p.between(1, 3), p.between(2, 4), *sides)
    return p.backward(x, lambda x: functional.interpolate(x, mode=mode, **how), "grad_output")


def roi_align(p):
    from torchvision.ops import roi_align as torchvision_roi_align

    batch, channels, height, width, boxes = p.between(1, 3), p.between(1, 6), p.between(3, 12), p.between(3, 12), p.between(1, 8)
    scale = p.size.choice((0.25, 0.5, 1.0))
    corners = torch.rand(boxes, 4, generator=p.generator) * torch.tensor([width, height, width, height]) / scale
    corners = torch.cat([torch.minimum(corners[:, :2], corners[:, 2:]), torch.maximum(corners[:, :2], corners[:, 2:])], 1)
    which = torch.randint(batch, (boxes, 1), generator=p.generator)
    boxes = torch.cat([which, corners], 1).to(p.dtype).to(p.device)
    p.keep(boxes=boxes)
    how = {"output_size": (p.between(1, 4), p.between(1, 4)), "spatial_scale": scale, "sampling_ratio": p.between(0, 2), "aligned": p.chance()}
    return p.backward(p.normal(batch, channels, height, width), lambda x: torchvision_roi_align(x, boxes, **how), "grad_output")


SUMS = (index_add, index_select, scatter_add, scatter_rows, scatter_reduce, gather, index_put, embedding)
MODES = ("bilinear", "bicubic", "trilinear", "nearest1", "nearest2", "nearest3", "nearest-exact1", "nearest-exact2", "nearest-exact3")


def problems(operator, count, device):
    """Pairs of a name and a problem that has been computed."""
    # torchvision has no kernels for bfloat16, and those of ps_roi_align in float16 are not recorded.
    types = {"roi_align": TYPES[:3], "ps_roi_align": (torch.float32, torch.float64)}.get(operator, TYPES)
    for i in range(count):
        entries = {"scatter_add": SUMS, "interpolate": MODES, "roi_align": (roi_align,), **FAMILIES}[operator]
        entry, dtype = entries[i % len(entries)], types[i // len(entries) % len(types)]
        p = Problem(i, dtype, device)
        result = interpolate(p, entry) if operator == "interpolate" else entry(p)
        p.keep(result=result)
        yield f"{operator}-{entry if operator == 'interpolate' else entry.__name__}-{str(dtype)[6:]}", p


def digest(tensor):
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
    return hashlib.sha1(data.tobytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=300, help="for each operator (300)")
    parser.add_argument("--operators", default="scatter_add,interpolate,roi_align")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    chosen = parser.parse_args()
    number = 0
    for operator in chosen.operators.split(","):
        for name, problem in problems(operator, chosen.problems, chosen.device):
            for tensor, value in problem.tensors.items():
                print(f"{number:04}-{name}", tensor, digest(value))
            number += 1


if __name__ == "__main__":
    main()
