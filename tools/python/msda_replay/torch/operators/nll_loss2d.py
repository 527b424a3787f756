"""PyTorch's nll_loss of images, whose sums add atomically. Its backward pass writes each number once, and stays."""

import torch

from .. import receipts, sums
from ..checks import check_range, require
from . import Replaced

_NONE, _MEAN = 0, 1


def _check(self, target, weight):
    require(target.dim() == 3, lambda: f"only batches of spatial targets supported (3D tensors) but got targets of size: {list(target.shape)}")
    require(self.dim() == 4, lambda: f"only batches of spatial inputs supported (4D tensors), but got input of size: {list(self.shape)}")
    require(target.dtype == torch.int64, lambda: f"expected scalar type Long but found {target.dtype}")
    require(weight is None or weight.numel() == self.shape[1], lambda: "weight tensor should be defined either for all or no classes")
    fits = self.shape[0] == target.shape[0] and self.shape[2:] == target.shape[1:]
    require(fits, lambda: f"size mismatch (got input: {list(self.shape)}, target: {list(target.shape)}")


def _forward(own, self, target, weight, reduction, ignore_index):
    if reduction == _NONE:
        return own(self, target, weight, reduction, ignore_index)
    _check(self, target, weight)
    real = torch.float64 if self.dtype == torch.float64 else torch.float32
    is_ignored = target == ignore_index
    classes = target.masked_fill(is_ignored, 0)
    check_range(classes, self.shape[1], lambda number: f"Target {number} is out of bounds.", IndexError)
    losses = -self.gather(1, classes[:, None])[:, 0].to(real)
    if weight is None:
        total_weight = (~is_ignored).sum().to(real)
    else:
        weights = weight.to(real)[classes].masked_fill(is_ignored, 0)
        losses, total_weight = losses * weights, sums.total(weights)
    total = sums.total(losses.masked_fill(is_ignored, 0))
    output = (total / total_weight if reduction == _MEAN else total).to(self.dtype)
    found = output, total_weight.to(self.dtype)
    given = {"self": self, "target": target, **({} if weight is None else {"weight": weight})}
    options = {"reduction": "mean" if reduction == _MEAN else "sum", "ignore_index": ignore_index}
    receipts.add("nll_loss2d", given, dict(zip(("output", "total_weight"), found)), options)
    return found


REPLACED = Replaced(around={"aten::nll_loss2d_forward": _forward})
