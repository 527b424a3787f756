"""PyTorch's max_unpool2d and max_unpool3d, in which several numbers may be written to one pixel; and by it max_unpool1d."""

import math

import torch
from torch._prims_common import suggest_memory_format

from .. import receipts, rows
from ..checks import check_range, require
from . import Replaced


def _check(self, indices, output_size, axes):
    name = f"max_unpooling{axes}d_forward"
    require(indices.dtype == torch.int64, lambda: f"elements in indices should be type int64 but got: {indices.dtype}")
    require(self.dim() in (axes + 1, axes + 2), lambda: f"Input to {name} should be a {axes + 1}d or {axes + 2}d Tensor, got {self.dim()} dimensions")
    require(len(output_size) == axes, lambda: f"There should be exactly {axes} elements in output_size, but got {len(output_size)}")
    require(indices.shape == self.shape, lambda: f"Expected shape of indices to be same as that of the input tensor ({list(self.shape)}) but got "
            f"indices tensor with shape: {list(indices.shape)}")  # fmt: skip
    require(indices.device == self.device, lambda: f"{name}: the input is on {self.device}, indices on {indices.device}")
    sides = self.shape[1:] if self.dim() == axes + 2 else self.shape
    require(all(sides), lambda: f"{name}: Expected input to have non-zero size for non-batch dimensions, but got {list(self.shape)}")


def _of(axes):
    def unpool(self, indices, output_size, *_):
        _check(self, indices, output_size, axes)
        pixels, planes = math.prod(output_size), math.prod(self.shape[:-axes])
        places = indices.reshape(planes, math.prod(self.shape[-axes:]))
        volume = "x".join(map(str, output_size))
        check_range(places, pixels, lambda index: f"Found an invalid max index: {index} (output volumes are of size {volume}", RuntimeError)
        output = self.new_zeros(*self.shape[:-axes], *output_size)
        rows.put(output.view(planes, pixels), places.contiguous(), self.contiguous().view(places.shape))
        if not self.is_cuda:
            output = output.contiguous(memory_format=suggest_memory_format(self))  # as PyTorch's
        receipts.add("max_unpool", {"self": self, "indices": indices}, {"output": output}, {"output_size": list(output_size)})
        return output

    return unpool


REPLACED = Replaced(
    {"aten::max_unpool2d": _of(2), "aten::max_unpool3d": _of(3)},
    refusals=("max_unpooling2d_forward_out", "max_unpooling3d_forward_out"),
)
