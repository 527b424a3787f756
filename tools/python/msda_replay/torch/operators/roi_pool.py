"""torchvision's backward passes of roi_pool and ps_roi_pool."""

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_run_backward = calls.Function("roi_pool_backward", libmsda.RoiPoolCall)


def pooled_backward(pooling, grad, rois, indices, spatial_scale, N, C, H, W, sampling_ratio=0):
    """Returns the gradient of the images; `indices` is torchvision's argmax or channel_mapping."""
    grad_input = grad.new_empty(N, C, H, W)
    fields = (libmsda.ROI_POOLINGS[pooling], sampling_ratio, spatial_scale)
    inputs = {"rois": rois, "grad": grad, "indices": indices.contiguous()}
    _run_backward(fields, inputs, {"options": None, "grad_input": grad_input})
    options = {"spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio}
    of_receipt = {"boxes": rois, "grad_output": grad, "indices": indices}
    receipts.add(f"{pooling}_backward", of_receipt, {"grad_input": grad_input}, options)
    return grad_input


def _backward_of(pooling):
    def backward(grad, rois, indices, spatial_scale, rows, columns, N, C, H, W):
        return pooled_backward(pooling, grad, rois, indices, spatial_scale, N, C, H, W)

    return backward


REPLACED = Replaced({f"torchvision::_{pooling}_backward": _backward_of(pooling) for pooling in ("roi_pool", "ps_roi_pool")})
