"""torchvision's backward pass of ps_roi_align."""

from . import Replaced
from .roi_pool import pooled_backward


def _ps_roi_align_backward(grad, rois, channel_mapping, spatial_scale, rows, columns, sampling_ratio, N, C, H, W):
    return pooled_backward("ps_roi_align", grad, rois, channel_mapping, spatial_scale, N, C, H, W, sampling_ratio)


REPLACED = Replaced({"torchvision::_ps_roi_align_backward": _ps_roi_align_backward})
