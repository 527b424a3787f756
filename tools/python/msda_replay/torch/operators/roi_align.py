"""torchvision's backward pass of roi_align."""

import torch

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_MOST_BINS = 32  # of the kernels for GPUs
_run_backward = calls.Function("roi_align_backward", libmsda.RoiAlignCall)


def _roi_align_backward(grad, rois, spatial_scale, rows, columns, N, C, H, W, sampling_ratio, aligned):
    if grad.is_cuda and max(rows, columns) > _MOST_BINS:  # the CPU's kernels have the bits that the GPU's would
        sizes = (spatial_scale, rows, columns, N, C, H, W, sampling_ratio, aligned)
        return _roi_align_backward(grad.cpu(), rois.cpu(), *sizes).to(grad.device)
    grad_input = grad.new_empty(N, C, H, W)
    fields = (spatial_scale, sampling_ratio, aligned)
    _run_backward(fields, {"rois": rois, "grad": grad}, {"options": None, "grad_input": grad_input})
    options = {"spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio, "aligned": aligned}
    receipts.add("roi_align_backward", {"boxes": rois, "grad_output": grad}, {"grad_input": grad_input}, options)
    return grad_input


def _roi_align(input, *arguments):
    return torch.ops.torchvision.roi_align(input, *arguments)


REPLACED = Replaced(
    {"torchvision::_roi_align_backward": _roi_align_backward},
    short_ways={"torchvision.ops.roi_align": ("_roi_align", _roi_align)},
)
