"""PyTorch's bincount of weights, and its histc of floating-point numbers."""

import math

import torch

from .. import receipts, sums
from ..checks import require
from . import Replaced


def _bincount(own, self, weights=None, minlength=0):
    if weights is None:
        return own(self, weights, minlength)  # counts have no order
    require(minlength >= 0, lambda: "minlength should be >= 0")
    is_integer = not (self.is_floating_point() or self.is_complex() or self.dtype == torch.bool)
    require(self.dim() == 1 and is_integer, lambda: "bincount only supports 1-d non-negative integral inputs.")
    require(weights.shape == self.shape, lambda: "weights should be 1-d and have the same length as input")
    if self.numel() == 0:
        return torch.zeros(minlength, dtype=torch.int64, device=self.device)
    low, high = torch.stack(torch.aminmax(self)).tolist()  # PyTorch waits for the GPU here, too
    require(low >= 0, lambda: "bincount only supports 1-d non-negative integral inputs.")
    addends = weights if weights.dtype == torch.float32 else weights.double()
    total = addends.new_empty(max(high + 1, minlength))
    sums.add_by_index(total, 0, self.to(torch.int64), addends)
    receipts.add("bincount", {"self": self, "weights": weights}, {"sums": total}, {"minlength": minlength})
    return total


def _range(self, low, high):
    """Returns where the bins begin and end, as PyTorch does, which waits for the GPU if no range was given."""
    if low == high and self.numel() > 0:
        low, high = torch.stack(torch.aminmax(self)).tolist()
    if low == high:
        low, high = low - 1, high + 1
    require(math.isfinite(low) and math.isfinite(high), lambda: f"range of [{low}, {high}] is not finite")
    require(low < high, lambda: "max must be larger than min")
    return low, high


def _histc(own, self, bins=100, min=0, max=0):
    if not self.is_floating_point():
        return own(self, bins, min, max)
    require(bins > 0, lambda: "bins must be > 0")
    require(self.dtype in (torch.float32, torch.float64), lambda: f"histc: {self.dtype}; it must be float32 or float64")
    low, high = _range(self, min, max)
    width = torch.tensor(high, dtype=self.dtype) - torch.tensor(low, dtype=self.dtype)
    # By a tensor: a GPU multiplies by the reciprocal of a number.
    place = (((self - low) * bins) / torch.full_like(width, width.item(), device=self.device)).to(torch.int64).clamp_(max=bins - 1)
    is_inside = self.clamp(low, high) == self
    place = torch.where(is_inside, place, -1).reshape(-1)
    if self.is_cuda:
        counts = own(place, bins, 0, bins)  # each of these integers in a bin of its own
    else:
        counts = torch.bincount(place + 1, minlength=bins + 1)[1:]
    result = counts.to(self.dtype)
    receipts.add("histc", {"self": self}, {"counts": result}, {"bins": bins, "min": min, "max": max})
    return result


REPLACED = Replaced(
    around={"aten::bincount": _bincount, "aten::histc": _histc},
    refusals=("_histc_cuda with floating point input",),
)
