"""PyTorch's scatter_reduce of products, which are rounded in an order; its sums have one, and the other reductions need none."""

import torch

from .. import receipts
from . import Replaced


def _on_cpu(self, dim, index, src, reduce, include_self):
    """The CPU multiplies in the order of the index. Waits for the GPU."""
    result = torch.scatter_reduce(self.cpu(), dim, index.cpu(), src.cpu(), reduce, include_self=include_self).to(self.device)
    receipts.add("scatter_reduce", {"self": self, "index": index, "source": src}, {"products": result}, {"dim": dim, "include_self": include_self})
    return result


def _scatter_reduce(own, self, dim, index, src, reduce, *, include_self=True):
    if not self.is_cuda or reduce != "prod":
        return own(self, dim, index, src, reduce, include_self=include_self)
    return _on_cpu(self, dim, index, src, reduce, include_self)


def _scatter_reduce_(own, self, dim, index, src, reduce, *, include_self=True):
    if not self.is_cuda or reduce != "prod":
        return own(self, dim, index, src, reduce, include_self=include_self)
    return self.copy_(_on_cpu(self, dim, index, src, reduce, include_self))


REPLACED = Replaced(around={"aten::scatter_reduce.two": _scatter_reduce, "aten::scatter_reduce_.two": _scatter_reduce_})
