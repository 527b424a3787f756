"""PyTorch's backward passes of grid_sample, 2D, 3D and cuDNN's."""

import torch

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")  # by PyTorch's numbers
_PADDINGS = ("zeros", "border", "reflection")
_run_backward = calls.Function("grid_sample_backward", libmsda.GridCall)


def _grid_sample_backward(grad_output, input, grid, interpolation, padding, align_corners, output_mask):
    if input.is_cuda and interpolation == 2:
        # There is no bicubic kernel for GPUs; the CPU's gives the same bits as one would.
        found = _grid_sample_backward(
            grad_output.cpu(), input.cpu(), grid.cpu(), interpolation, padding, align_corners, output_mask
        )
        return tuple(gradient if gradient is None else gradient.to(input.device) for gradient in found)
    gradients = {
        name: torch.empty_like(tensor, memory_format=torch.contiguous_format) if wanted else None
        for name, tensor, wanted in zip(("grad_input", "grad_grid"), (input, grid), output_mask)
    }
    arguments = {"grad_output": grad_output, "options": None, **gradients}
    _run_backward((interpolation, padding, align_corners), {"input": input, "grid": grid}, arguments)
    receipts.add(
        "grid_sample_backward",
        {"grad_output": grad_output, "input": input, "grid": grid},
        {name: gradient for name, gradient in gradients.items() if gradient is not None},
        {"interpolation": _INTERPOLATIONS[interpolation], "padding_mode": _PADDINGS[padding], "align_corners": bool(align_corners)},
    )
    return tuple(gradients.values())


def _cudnn_backward(input, grid, grad_output):
    # cuDNN's operator: bilinear, padded with zeros, align_corners.
    return _grid_sample_backward(grad_output, input, grid, 0, 0, True, (True, True))


REPLACED = Replaced({
    "aten::grid_sampler_2d_backward": _grid_sample_backward,
    "aten::grid_sampler_3d_backward": _grid_sample_backward,
    "aten::cudnn_grid_sampler_backward": _cudnn_backward,
})  # fmt: skip
