"""PyTorch's backward passes of interpolate that add atomically: linear, bilinear, trilinear and bicubic."""

import functools

import torch
from torch._prims_common import suggest_memory_format

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_RESIZES = {
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}
_run_backward = calls.Function("interpolate_backward", libmsda.InterpolateCall)


def _empty_grad_input(mode, grad_output, input_size):
    """Returns an empty gradient with the strides of PyTorch's."""
    layout = torch.contiguous_format if mode == "cubic" else suggest_memory_format(grad_output)
    return torch.empty(input_size, dtype=grad_output.dtype, device=grad_output.device, memory_format=layout)


def _backward_of(mode):
    def backward(grad_output, output_size, input_size, align_corners, *scales):
        grad_input = _empty_grad_input(mode, grad_output, input_size)
        fields = (libmsda.RESIZES[mode], align_corners, tuple(scale or 0 for scale in reversed(scales)))
        _run_backward(fields, {"grad_output": grad_output}, {"options": None, "grad_input": grad_input})
        options = {"mode": mode, "input_size": list(input_size), "align_corners": align_corners, "scales": list(scales)}
        receipts.add("interpolate_backward", {"grad_output": grad_output}, {"grad_input": grad_input}, options)
        return grad_input

    return backward


def _resize_at_once(input, output_size, align_corners, scale_factors):
    names = {3: "upsample_linear1d", 4: "upsample_bilinear2d", 5: "upsample_trilinear3d"}
    return getattr(torch.ops.aten, names[input.dim()]).vec(input, output_size, align_corners, scale_factors)


def _resize_in_graph(whole, input, output_size, align_corners, scale_factors):
    from torch._decomp.decompositions import upsample_compute_output_size

    size = upsample_compute_output_size(input.size(), output_size, scale_factors)
    return whole(input, size, align_corners, *(scale_factors or [None] * len(size)))


def _grad_input(mode, grad_output, output_size, input_size, *_):
    return _empty_grad_input(mode, grad_output, input_size)


def _keep_forward():
    """PyTorch's implementations in Python of interpolate stand in for it while a graph is traced, even before autograd."""
    import torch._decomp.decompositions  # noqa: F401 (which registers them)

    keys = torch._C.DispatchKey
    for name, mode in _RESIZES.items():
        resize, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_backward").default
        resize.default.py_kernels.pop(keys.Autograd, None)
        for key in (keys.Autograd, keys.CompositeImplicitAutograd):
            resize.vec.py_kernels[key] = functools.partial(_resize_in_graph, resize.default)
        backward.py_kernels[keys.Meta] = functools.partial(_grad_input, mode)  # PyTorch's knows no dynamic shapes
        for overload in (resize.default, resize.vec, backward):
            overload._dispatch_cache.clear()


REPLACED = Replaced(
    {f"aten::{operator}_backward": _backward_of(mode) for operator, mode in _RESIZES.items()},
    short_ways={"torch._decomp.decompositions": ("_upsample_linear_vec", _resize_at_once)},
    keep_forward=_keep_forward,
    forward=tuple(_RESIZES),
)
