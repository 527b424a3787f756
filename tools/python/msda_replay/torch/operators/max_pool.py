"""PyTorch's backward passes of max pooling: sums of grad_output by the indices that the forward pass returned.

That of max_pool2d is not among them: PyTorch's kernels for it gather, in one order.
"""

import functools
import math
from typing import List, Tuple

import torch
from torch._prims_common import suggest_memory_format

from ... import libmsda
from .. import calls, receipts, sums
from . import Replaced

_MOST = 2**30  # of the numbers that a GPU's kernel forms of one side
_PLAIN = torch.contiguous_format


class _Gpu(calls.Function):
    """msda_cuda_max_pool_backward; on a CPU sums by an index have the same bits."""

    @functools.cached_property
    def addresses(self):
        return 0, calls.address(f"msda_cuda_{self._name}")


_run_backward = _Gpu("max_pool_backward", libmsda.MaxPoolCall)


def _every(numbers, axes, default):
    """PyTorch's lists of one number for each side, of one for all, or of none; here x comes first."""
    numbers = list(numbers) or list(default)
    return (numbers * axes if len(numbers) == 1 else numbers)[::-1]


def _windows(kernel, stride, padding, dilation, pixels, outputs):
    return pixels, outputs, stride, 1, padding, (kernel - 1) * dilation + 1


def _adaptive_windows(pixels, outputs):
    return pixels, outputs, pixels, max(outputs, 1), 0, -(-pixels // max(outputs, 1)) + 1


def _fractional_windows(kernel, pixels, outputs):
    """Random numbers move each window by less than one pixel, and PyTorch rounds in float32."""
    if outputs == 1:
        return pixels, outputs, 0, 1, 0, max(pixels, 1)
    return pixels, outputs, pixels - kernel, max(outputs - 1, 1), 2, kernel + 4


def _laid(tensor, axes, layout):
    """Returns [planes, pixels, channels] of a tensor in this layout."""
    tensor = tensor.contiguous(memory_format=layout) if tensor.dim() == axes + 2 else tensor.contiguous()
    if layout == _PLAIN:
        return tensor.view(math.prod(tensor.shape[:-axes]), math.prod(tensor.shape[-axes:]), 1)
    return tensor.movedim(1, -1).view(tensor.shape[0], math.prod(tensor.shape[-axes:]), tensor.shape[1])


def _is_on_gpu(tensor):
    return tensor.is_cuda


def _backward(grad_output, input, indices, axes, windows, layout):
    """windows: from the numbers of an axis's pixels and outputs to libmsda's numbers of its windows; x, y, z."""
    if grad_output.shape != indices.shape:
        raise RuntimeError(f"grad_output has shape {list(grad_output.shape)}, indices {list(indices.shape)}: they must be the same")
    if grad_output.dtype != input.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `grad_output` but got dtype {grad_output.dtype}")
    grad_input = torch.empty(input.shape, dtype=input.dtype, device=input.device, memory_format=layout)
    sides: List[Tuple[int, ...]] = [window(*sizes) for window, *sizes in zip(windows, input.shape[: -axes - 1 : -1], grad_output.shape[: -axes - 1 : -1])]
    laid, index, source = (_laid(tensor, axes, layout) for tensor in (grad_input, indices, grad_output))
    if not _is_on_gpu(grad_input) or any((pixels + before + 1) * per > _MOST for pixels, _, _, per, before, _ in sides):
        sums.add_by_index(laid, 1, index, source)
    else:
        fields = (tuple(sides + [(1, 1, 1, 1, 0, 1)] * (3 - axes)),)
        _run_backward(fields, {"indices": index, "grad_output": source}, {"options": None, "grad_input": laid})
    receipts.add("max_pool_backward", {"indices": indices, "grad_output": grad_output}, {"grad_input": grad_input})
    return grad_input


def _max_pool3d(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    numbers = _every(kernel_size, 3, ()), _every(stride, 3, kernel_size), _every(padding, 3, (0,)), _every(dilation, 3, (1,))
    windows = [functools.partial(_windows, *given) for given in zip(*numbers)]
    return _backward(grad_output, self, indices, 3, windows, suggest_memory_format(self))


def _adaptive_max_pool(axes):
    def backward(grad_output, self, indices):
        layout = suggest_memory_format(self) if axes == 2 else _PLAIN
        return _backward(grad_output, self, indices, axes, [_adaptive_windows] * axes, layout)

    return backward


def _fractional_max_pool(axes):
    def backward(grad_output, self, kernel_size, output_size, indices):
        windows = [functools.partial(_fractional_windows, kernel) for kernel in _every(kernel_size, axes, ())]
        return _backward(grad_output, self, indices, axes, windows, _PLAIN)

    return backward


REPLACED = Replaced({
    "aten::max_pool3d_with_indices_backward": _max_pool3d,
    "aten::adaptive_max_pool2d_backward": _adaptive_max_pool(2),
    "aten::adaptive_max_pool3d_backward": _adaptive_max_pool(3),
    "aten::fractional_max_pool2d_backward": _fractional_max_pool(2),
    "aten::fractional_max_pool3d_backward": _fractional_max_pool(3),
})  # fmt: skip
