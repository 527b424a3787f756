"""Checks that several operators share, with PyTorch's exceptions."""

import torch

_OVERLAP = "unsupported operation: {} a single memory location. Please clone() the tensor before performing the operation."


def require(condition, message, error=RuntimeError):
    """`message` is a function that returns the text: to make it for each call, right or wrong, took longer than the checks."""
    if not condition:
        raise error(message())


def check_range(index, size, message=lambda number: "index out of range in self", error=IndexError, least=0):
    """Checks on a CPU only: reading an index on a GPU would wait for it."""
    if index.is_cuda or index.numel() == 0:
        return
    low, high = (int(end) for end in torch.aminmax(index))
    require(low >= least and high < size, lambda: message(low if low < least else high), error)


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
    require(written.is_contiguous() or _is_free_of_overlap(written),
             lambda: _OVERLAP.format("more than one element of the written-to tensor refers to"))  # fmt: skip
    begin, end, whole = _addresses(written)
    for tensor in read:
        first, last, of_tensor = _addresses(tensor) if tensor.numel() else (end, end, False)
        require(tensor is not written and not (whole and of_tensor and first < end and begin < last),
                 lambda: _OVERLAP.format("some elements of the input tensor and the written-to tensor refer to"))  # fmt: skip
