"""PyTorch's backward pass of embedding_bag in mode max. In the other modes PyTorch's own has a fixed order."""

from .. import receipts, sums
from . import Replaced

_MAX = 2


def _backward(own, grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights=None, padding_idx=-1):
    if mode != _MAX:
        return own(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    chosen, addends = maximum_indices, grad
    if not grad.is_cuda:  # where an empty bag has chosen row 0; on a GPU it has none
        chosen, addends = chosen.clamp(min=0), grad.masked_fill(bag_size[: len(grad), None] == 0, 0)
    total = grad.new_empty(num_weights, grad.shape[1])
    sums.add_by_index(total, 0, chosen, addends)
    receipts.add("embedding_bag_backward", {"maximum_indices": maximum_indices, "grad_output": grad}, {"grad_weight": total})
    return total


REPLACED = Replaced(around={"aten::_embedding_bag_dense_backward": _backward})
