"""PyTorch's backward passes of average pooling and of padding by reflection and replication."""

import torch
from torch._prims_common import suggest_memory_format

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_run_backward = calls.Function("separable_backward", libmsda.SeparableCall)


def _of_axes(numbers, sides):
    """Returns a number for each axis, x first. PyTorch's lists have one for each, or one for all."""
    return tuple(numbers[::-1]) if len(numbers) == sides else tuple(numbers) * sides


def _with_real_numbers(tensor):
    """Returns a view whose first dimension holds the real and the imaginary parts; they are further planes."""
    return torch.view_as_real(tensor).movedim(-1, 0) if tensor.is_complex() else tensor


def _layout_of(input):
    """Returns the memory format of PyTorch's results. Most inputs are row-major, which is sooner known than suggested."""
    if input.is_contiguous() and input.stride(1) != 1:
        return torch.contiguous_format
    return suggest_memory_format(input)


def _backward(operator, options, keeps_layout, fields_of):
    """Returns PyTorch's operator. options: the names of its arguments after the tensors. keeps_layout(input): its result is laid out as
    the input is (channels_last), else row-major. fields_of(*arguments): what msda_separable_call has before its tensor."""

    def backward(grad_output, input, *arguments):
        layout = _layout_of(input) if keeps_layout(input) else torch.contiguous_format
        grad_input = torch.empty_like(input, memory_format=layout)
        given, result = _with_real_numbers(grad_output), _with_real_numbers(grad_input)
        try:
            _run_backward(fields_of(*arguments), {"grad_output": given}, {"options": None, "grad_input": result})
        except ValueError as error:  # PyTorch's
            raise RuntimeError(f"{operator}: {error}") from None
        if receipts.are_kept():
            conventions = {"input_size": list(input.shape), **dict(zip(options, arguments))}
            receipts.add(operator, {"grad_output": grad_output}, {"grad_input": grad_input}, conventions)
        return grad_input

    return backward


def _into(backward):
    """Returns the overload that writes its result into a tensor."""

    def backward_into(grad_output, input, *arguments, grad_input):
        if grad_input.dtype != input.dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {input.dtype}, but got {grad_input.dtype} instead")
        found = backward(grad_output, input, *arguments)
        return (grad_input if grad_input.shape == found.shape else grad_input.resize_as_(found, memory_format=torch.preserve_format)).copy_(found)

    return backward_into


_AVG_POOL = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")


def _avg_pool(sides):
    def fields_of(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        lists = [_of_axes(numbers, sides) for numbers in (kernel_size, stride or kernel_size, padding)]
        return (libmsda.SEPARABLE["avg_pool"], sides, ceil_mode, count_include_pad, divisor_override or 0, *lists)

    return _backward(f"avg_pool{sides}d_backward", _AVG_POOL, lambda input: sides == 2, fields_of)


def _adaptive_avg_pool(sides):
    fields = libmsda.SEPARABLE["adaptive_avg_pool"], sides
    return _backward(f"adaptive_avg_pool{sides}d_backward", (), lambda input: sides == 2, lambda: fields)


def _pad(kind, sides):
    def fields_of(padding):  # before and after, of x, y, z
        return (libmsda.SEPARABLE[f"{kind}_pad"], sides, False, False, 0, (), (), tuple(padding[::2]), tuple(padding[1::2]))

    return _backward(f"{kind}_pad{sides}d_backward", ("padding",), lambda input: not input.is_cuda, fields_of)


def _replication_pad(input, padding):
    return torch._C._nn.pad(input, padding, "replicate")


_FUNCTIONS = {
    **{f"avg_pool{sides}d_backward": _avg_pool(sides) for sides in (2, 3)},
    **{f"{kind}_pad{sides}d_backward": _pad(kind, sides) for kind in ("reflection", "replication") for sides in (1, 2, 3)},
}
REPLACED = Replaced(
    {
        **{f"aten::{name}": function for name, function in _FUNCTIONS.items()},
        **{f"aten::{name}.grad_input": _into(function) for name, function in _FUNCTIONS.items()},
        **{f"aten::_adaptive_avg_pool{sides}d_backward": _adaptive_avg_pool(sides) for sides in (2, 3)},
        "aten::adaptive_avg_pool3d_backward.grad_input": _into(_adaptive_avg_pool(3)),
    },
    short_ways={"torch._decomp.decompositions": ("_replication_pad", _replication_pad)},
)
