"""What PyTorch refuses of index_add and scatter_add, with its exceptions."""

import torch

_OVERLAP = "unsupported operation: {} a single memory location. Please clone() the tensor before performing the operation."


def _require(condition, message, error=RuntimeError):
    """`message` is a function that returns the text: to make it for each call, right or wrong, took longer than the checks."""
    if not condition:
        raise error(message())


def dimension(dim, tensor):
    size = max(tensor.dim(), 1)
    _require(-size <= dim < size, lambda: f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})", IndexError)
    return dim % size


def check_range(index, size, message=lambda number: "index out of range in self", error=IndexError):
    """Checks on a CPU only: reading an index on a GPU would wait for it."""
    if index.is_cuda or index.numel() == 0:
        return
    low, high = (int(end) for end in torch.aminmax(index))
    _require(low >= 0 and high < size, lambda: message(low if low < 0 else high), error)


def _check_types(operator, tensor, index, source):
    _require(index.dtype in (torch.int32, torch.int64), lambda: f"{operator}(): Expected dtype int32/int64 for index but got: {index.dtype}")
    _require(tensor.dtype == source.dtype,
             lambda: f"{operator}(): self ({tensor.dtype}) and source ({source.dtype}) must have the same scalar type")  # fmt: skip


def check_index_add(tensor, dim, index, source):
    _require(index.dim() <= 1, lambda: f"index_add(): Index is supposed to be a vector, but has shape {list(index.shape)}", IndexError)
    _check_types("index_add", tensor, index, source)
    _require(dim == 0 or dim < source.dim(), lambda: f"index_add(): dim {dim} is out of bounds of the source, with {source.dim()} dimensions")
    rows = source.shape[dim] if source.dim() else 1
    _require(index.numel() == rows,
             lambda: f"index_add(): Number of indices ({index.numel()}) should be equal to source.size(dim): ({rows}), for dim: {dim}")  # fmt: skip
    shapes = [list(entry.shape) for entry in (tensor, source)]
    others = [shape[:dim] + shape[dim + 1 :] if all(shapes) else shape for shape in shapes]
    _require(others[0] == others[1], lambda: "source tensor shape must match self tensor shape, excluding the specified dimension. "
             f"Got self.shape = {shapes[0]} source.shape = {shapes[1]}")  # fmt: skip
    check_range(index, tensor.shape[dim] if tensor.dim() else 1)


def check_scatter_add(tensor, dim, index, source):
    _check_types("scatter_add", tensor, index, source)
    if index.numel() == 0:
        return
    shapes = of_tensor, of_index, of_source = [list(entry.shape) or [1] for entry in (tensor, index, source)]
    _require(len({len(shape) for shape in shapes}) == 1,
             lambda: f"Index tensor must have the same number of dimensions as self tensor and src tensor; they have shapes {shapes}")  # fmt: skip
    fits = all(size <= of_source[axis] and (axis == dim or size <= of_tensor[axis]) for axis, size in enumerate(of_index))
    _require(fits, lambda: f"Expected index {of_index} to be no larger than self {of_tensor} apart from dimension {dim} "
             f"and to be no larger size than src {of_source}")  # fmt: skip
    check_range(index, of_tensor[dim], lambda number: f"index {number} is out of bounds for dimension {dim} with size {of_tensor[dim]}", RuntimeError)


def _addresses(tensor):
    """Returns where its memory begins and ends, and whether all of it is its own elements."""
    begin, extent = tensor.data_ptr(), tensor.numel()
    if not tensor.is_contiguous():
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + extent * tensor.element_size(), extent == tensor.numel()


def _is_free_of_overlap(tensor):
    """Returns whether no two elements are one in memory."""
    steps = sorted((stride, size - 1) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    reach = 0
    for stride, count in steps:
        if stride <= reach:  # steps interleave, or meet
            places = torch.arange(1 + sum(stride * count for stride, count in steps)).as_strided(tensor.shape, tensor.stride())
            return places.unique().numel() == tensor.numel()
        reach += stride * count
    return True


def check_overlap(written, *read):
    """Refuses overlap. If tensors have gaps, in which others may lie, it refuses as little as PyTorch does. It refuses every written
    tensor with elements that share memory: PyTorch adds to them atomically, and here each has a writer."""
    if written.numel() == 0:
        return
    _require(written.is_contiguous() or _is_free_of_overlap(written),
             lambda: _OVERLAP.format("more than one element of the written-to tensor refers to"))  # fmt: skip
    begin, end, whole = _addresses(written)
    for tensor in read:
        first, last, of_tensor = _addresses(tensor) if tensor.numel() else (end, end, False)
        _require(tensor is not written and not (whole and of_tensor and first < end and begin < last),
                 lambda: _OVERLAP.format("some elements of the input tensor and the written-to tensor refer to"))  # fmt: skip


def check_out(out, tensor, *read):
    _require(out.dtype == tensor.dtype, lambda: f"Expected out tensor to have dtype {tensor.dtype}, but got {out.dtype} instead")
    check_overlap(out, *read)
