"""PyTorch's put_, in which several numbers may be written to, or added to, one place."""

import torch

from .. import calls, receipts, rows, sums
from ..checks import check_overlap, check_range, require
from . import Replaced


def _check(self, index, source):
    require(index.dtype == torch.int64, lambda: f"put_(): Expected a long tensor for index, but got {index.dtype}")
    require(self.dtype == source.dtype, lambda: f"put_(): self and source expected to have the same dtype, but got {self.dtype} and {source.dtype}")
    require(index.numel() == source.numel(), lambda: "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}", IndexError)  # fmt: skip
    require(self.device == index.device == source.device, lambda: f"put_(): tensors on {self.device}, {index.device} and {source.device}")
    require(self.numel() > 0 or index.numel() == 0, lambda: "put_(): Expected self to have elements", IndexError)
    check_overlap(self, index, source)


def _add(flat, index, source):
    if flat.is_complex():
        flat, source = torch.view_as_real(flat), torch.view_as_real(source)
    if flat.dtype in calls.FLOATS:
        sums.add_by_index(flat, 0, index, source, include_self=True)
    else:  # whose sums have no order
        inside = (index >= 0) & (index < flat.shape[0])
        flat.index_put_((index.clamp(0, flat.shape[0] - 1),), source.masked_fill(~inside, 0), accumulate=True)


def _put_(self, index, source, accumulate=False):
    _check(self, index, source)
    if index.numel() == 0:
        return self
    held = {"self": self.clone()} if receipts.are_kept() else {}
    flat, count = self.reshape(-1), self.numel()
    message = f"out of range: tried to access index {{}} on a tensor of {count} elements."
    check_range(index, count, message.format, IndexError, least=-count)
    if accumulate:
        _add(flat, torch.where(index < 0, index + count, index).reshape(-1), source.reshape(-1))
    else:
        rows.put(flat[None], index.reshape(1, -1).contiguous(), source.reshape(1, -1).contiguous())
    if flat.data_ptr() != self.data_ptr() or not self.is_contiguous():
        self.copy_(flat.view(self.shape))
    receipts.add("put", {**held, "index": index, "source": source}, {"self": self}, {"accumulate": accumulate})
    return self


REPLACED = Replaced({"aten::put_": _put_})
