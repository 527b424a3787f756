"""Backward calls of torchvision's roi_align."""

import torch

from . import Described


def roi_align(call):
    facts = {
        # The kernel takes it in the tensors' type.
        "spatial_scale": torch.tensor(call["spatial_scale"], dtype=call["grad"].dtype).item(),
        "sampling_ratio": max(int(call["sampling_ratio"]), 0),
        "input_batch": int(call["batch_size"]),
        "input_height": int(call["height"]),
        "input_width": int(call["width"]),
        "aligned": bool(call["aligned"]),
    }
    return Described({"boxes": call["rois"], "grad_output": call["grad"]}, facts, lambda returned: {"grad_input": returned})


CALLS = {"torchvision::_roi_align_backward": roi_align}
