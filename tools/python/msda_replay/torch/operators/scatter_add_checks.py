"""What PyTorch refuses of index_add and scatter_add, with its exceptions."""

import torch

from ..checks import check_overlap, check_range, require


def dimension(dim, tensor):
    size = max(tensor.dim(), 1)
    require(-size <= dim < size, lambda: f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})", IndexError)
    return dim % size


def _check_types(operator, tensor, index, source):
    require(index.dtype in (torch.int32, torch.int64), lambda: f"{operator}(): Expected dtype int32/int64 for index but got: {index.dtype}")
    require(tensor.dtype == source.dtype,
             lambda: f"{operator}(): self ({tensor.dtype}) and source ({source.dtype}) must have the same scalar type")  # fmt: skip


def check_index_add(tensor, dim, index, source):
    require(index.dim() <= 1, lambda: f"index_add(): Index is supposed to be a vector, but has shape {list(index.shape)}", IndexError)
    _check_types("index_add", tensor, index, source)
    require(dim == 0 or dim < source.dim(), lambda: f"index_add(): dim {dim} is out of bounds of the source, with {source.dim()} dimensions")
    rows = source.shape[dim] if source.dim() else 1
    require(index.numel() == rows,
             lambda: f"index_add(): Number of indices ({index.numel()}) should be equal to source.size(dim): ({rows}), for dim: {dim}")  # fmt: skip
    shapes = [list(entry.shape) for entry in (tensor, source)]
    others = [shape[:dim] + shape[dim + 1 :] if all(shapes) else shape for shape in shapes]
    require(others[0] == others[1], lambda: "source tensor shape must match self tensor shape, excluding the specified dimension. "
             f"Got self.shape = {shapes[0]} source.shape = {shapes[1]}")  # fmt: skip
    check_range(index, tensor.shape[dim] if tensor.dim() else 1)


def check_scatter_add(tensor, dim, index, source):
    _check_types("scatter_add", tensor, index, source)
    if index.numel() == 0:
        return
    shapes = of_tensor, of_index, of_source = [list(entry.shape) or [1] for entry in (tensor, index, source)]
    require(len({len(shape) for shape in shapes}) == 1,
             lambda: f"Index tensor must have the same number of dimensions as self tensor and src tensor; they have shapes {shapes}")  # fmt: skip
    fits = all(size <= of_source[axis] and (axis == dim or size <= of_tensor[axis]) for axis, size in enumerate(of_index))
    require(fits, lambda: f"Expected index {of_index} to be no larger than self {of_tensor} apart from dimension {dim} "
             f"and to be no larger size than src {of_source}")  # fmt: skip
    check_range(index, of_tensor[dim], lambda number: f"index {number} is out of bounds for dimension {dim} with size {of_tensor[dim]}", RuntimeError)


def check_out(out, tensor, *read):
    require(out.dtype == tensor.dtype, lambda: f"Expected out tensor to have dtype {tensor.dtype}, but got {out.dtype} instead")
    check_overlap(out, *read)
