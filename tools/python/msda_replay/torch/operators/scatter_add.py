"""PyTorch's sums by an index: index_add, scatter_add and the backward pass of embedding."""

import math

import torch

from ... import libmsda
from .. import calls, receipts, sums
from ..checks import check_overlap, check_range
from . import Replaced
from . import scatter_add_checks as checks


def _add(operator, total, dim, index, source, include_self=True, padding=-1, scale="sum"):
    """Adds the source's rows to those of `total`."""
    held = {"self": total.clone()} if include_self and receipts.are_kept() else {}
    sums.add_by_index(total, dim, index, source, include_self, padding, scale)
    options = {"dim": dim, "include_self": include_self, "padding": padding, "scale": scale}
    receipts.add(operator, {**held, "index": index, "source": source}, {"sum": total}, options)


def _add_at_once(total, dim, index, source, by_elements):
    """Adds to `total` if nothing about the call is unusual. Returns whether it did; then there is nothing left to check."""
    module = calls.native()
    if module is None or receipts.are_kept():
        return False
    status = module.scatter_add(sums.run.addresses[1], total, dim, index, source, by_elements)
    if status is None:
        return False
    libmsda.check_status(status)
    return True


def _with_dimensions(*tensors):
    return [tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors]


def _collapsed(tensor, dim):
    shape = tensor.shape
    return tensor.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


def _add_by_index_put(total, dim, index, source):
    """Sums of integers have no order."""
    axes = range(source.dim())
    along = lambda numbers, along_axis: numbers.reshape([-1 if axis == along_axis else 1 for axis in axes])  # noqa: E731
    places = [along(torch.arange(source.shape[axis], device=index.device), axis) for axis in axes]
    places[dim] = along(index, dim) if index.dim() == 1 else index
    if index.is_cuda:  # whose kernels leave out what is outside, where index_put counts from the end or ends the program
        if total.shape[dim] == 0:
            return
        outside = (places[dim] < 0) | (places[dim] >= total.shape[dim])
        places[dim], source = places[dim].masked_fill(outside, 0), source.masked_fill(outside, 0)
    total.index_put_(tuple(places), source, accumulate=True)


def _add_any(operator, total, dim, index, source):
    """Adds to `total`, whatever its type and its number of dimensions; index: one number for each row, or for each element."""
    if total.is_complex():
        total, source = torch.view_as_real(total), torch.view_as_real(source)
        index = index if index.dim() == 1 else index[..., None].expand(*index.shape, 2)
    if total.dim() > libmsda.MAX_RANK:
        index = index if index.dim() == 1 else _collapsed(index, dim)
        flat = _collapsed(total, dim)
        _add_any(operator, flat, 1, index, _collapsed(source, dim))
        if flat.untyped_storage().data_ptr() != total.untyped_storage().data_ptr():  # a copy
            total.copy_(flat.view(total.shape))
    elif total.dtype in calls.FLOATS:
        _add(operator, total, dim, index, source)
    else:
        _add_by_index_put(total, dim, index, source)


def _add_rows(total, dim, index, source, alpha):
    rows, index, source = _with_dimensions(total, index, source if alpha == 1 else source * alpha)
    _add_any("index_add", rows, dim, index, source)
    return total


def _index_add_(self, dim, index, source, *, alpha=1):
    dim = checks.dimension(dim, self)
    checks.check_index_add(self, dim, index, source)
    check_overlap(self, index, source)
    return _add_rows(self, dim, index, source, alpha)


def _index_add(self, dim, index, source, *, alpha=1):
    total = _copy(self)
    if alpha == 1 and _add_at_once(total, dim, index, source, False):
        return total
    dim = checks.dimension(dim, self)
    checks.check_index_add(self, dim, index, source)
    return _add_rows(total, dim, index, source, alpha)


def _index_add_out(self, dim, index, source, *, alpha=1, out):
    dim = checks.dimension(dim, self)
    checks.check_index_add(self, dim, index, source)
    return _add_rows(_copy_to(out, self, index, source), dim, index, source, alpha)


def _copy(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)  # as PyTorch's results are


def _copy_to(out, tensor, *read):
    checks.check_out(out, tensor, *read)
    if out is tensor:
        return out
    return (out if out.shape == tensor.shape else out.resize_(tensor.shape)).copy_(tensor)


def _add_elements(total, dim, index, source):
    if index.numel() == 0:
        return total
    rows, index, source = _with_dimensions(total, index, source)
    for axis, size in enumerate(index.shape):  # which may be smaller than the others
        source = source.narrow(axis, 0, size)
        rows = rows if axis == dim else rows.narrow(axis, 0, size)
    _add_any("scatter_add", rows, dim, index, source)
    return total


def _scatter_add_(self, dim, index, src):
    dim = checks.dimension(dim, self)
    checks.check_scatter_add(self, dim, index, src)
    check_overlap(self, index, src)
    return _add_elements(self, dim, index, src)


def _scatter_add(self, dim, index, src):
    total = _copy(self)
    if _add_at_once(total, dim, index, src, True):
        return total
    dim = checks.dimension(dim, self)
    checks.check_scatter_add(self, dim, index, src)
    return _add_elements(total, dim, index, src)


def _scatter_add_out(self, dim, index, src, *, out):
    dim = checks.dimension(dim, self)
    checks.check_scatter_add(self, dim, index, src)
    return _add_elements(_copy_to(out, self, index, src), dim, index, src)


def _embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    check_range(indices, num_weights)
    source = grad_output.reshape(indices.numel(), grad_output.shape[-1])
    total = source.new_empty(num_weights, source.shape[1])
    scale = "by_frequency" if scale_grad_by_freq else "sum"
    _add("embedding_dense_backward", total, 0, indices.reshape(-1), source, False, padding_idx, scale)
    return total


def _native_functions(module):
    """Returns the functions of REPLACED that work in place, and index_put_, for which PyTorch's deterministic way is long."""
    add, unless = sums.run.addresses[1], receipts.open_receipts
    return {
        "aten::index_add_": module.sum_in_place(add, _index_add_, False, unless),
        "aten::scatter_add_": module.sum_in_place(add, _scatter_add_, True, unless),
        "aten::index_put_": module.index_put_in_place(calls.address("msda_cuda_index_put"), torch.ops.aten._index_put_impl_.default),
    }


def _native_counts(module):
    return dict(zip(("aten::index_add_", "aten::scatter_add_", "aten::index_put_"), module.counts()))


REPLACED = Replaced({
    "aten::index_add": _index_add,
    "aten::index_add_": _index_add_,
    "aten::index_add.out": _index_add_out,
    "aten::scatter_add": _scatter_add,
    "aten::scatter_add_": _scatter_add_,
    "aten::scatter_add.out": _scatter_add_out,
    "aten::embedding_dense_backward": _embedding_dense_backward,
}, _native_functions, _native_counts)  # fmt: skip
