"""PyTorch's median and nanmedian along a dimension, whose index is that of any of several equal numbers."""

import torch

from .. import receipts
from ..checks import require
from . import Replaced


def _position(ordered, dim, ignore_nan):
    """Returns the position of the median in a sorted tensor, whose last numbers are NaN if any are."""
    count = ordered.shape[dim]
    if not ordered.is_floating_point():
        return torch.full_like(ordered.narrow(dim, 0, 1), (count - 1) // 2, dtype=torch.int64)
    nans = ordered.isnan().sum(dim, keepdim=True)
    if ignore_nan:
        return torch.div(count - 1 - nans, 2, rounding_mode="trunc")  # with nothing but NaN: the first
    return torch.where(nans > 0, count - nans, (count - 1) // 2)


def _of(ignore_nan):
    name = "nanmedian" if ignore_nan else "median"

    def median(self, dim, keepdim=False, *, values, indices):
        require(values.dtype == self.dtype and indices.dtype == torch.int64, lambda: f"{name}(): values must be {self.dtype} and indices torch.int64")
        rows = self.reshape(1) if self.dim() == 0 else self
        size = rows.dim()
        require(-size <= dim < size, lambda: f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})", IndexError)
        dim %= size
        require(rows.shape[dim] > 0, lambda: f"{name}(): Expected reduction dim {dim} to have non-zero size.", IndexError)
        if rows.is_floating_point():  # on a GPU a NaN with a sign comes first
            rows = torch.where(rows.isnan(), float("nan"), rows)
        ordered, order = torch.sort(rows, stable=True, dim=dim)
        at = _position(ordered, dim, ignore_nan)
        shape = [n for axis, n in enumerate(self.shape) if axis != dim] if not keepdim else [1 if axis == dim else n for axis, n in enumerate(self.shape)]
        for result, chosen in ((values, ordered), (indices, order)):
            result.resize_(shape).copy_(chosen.gather(dim, at).reshape(shape))
        receipts.add(name, {"self": self}, {"values": values, "indices": indices}, {"dim": dim})
        return values, indices

    return median


REPLACED = Replaced(
    {"aten::median.dim_values": _of(False), "aten::nanmedian.dim_values": _of(True)},
    refusals=("median CUDA with indices output",),
)
