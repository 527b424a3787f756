"""Backward calls of torchvision's roi_align."""

from . import Described


def roi_align(call):
    facts = {
        "spatial_scale": float(call["spatial_scale"]),
        "sampling_ratio": max(int(call["sampling_ratio"]), 0),
        "input_batch": int(call["batch_size"]),
        "input_height": int(call["height"]),
        "input_width": int(call["width"]),
        "aligned": bool(call["aligned"]),
    }
    return Described({"boxes": call["rois"], "grad_output": call["grad"]}, facts, lambda returned: {"grad_input": returned})


CALLS = {"torchvision::_roi_align_backward": roi_align}
