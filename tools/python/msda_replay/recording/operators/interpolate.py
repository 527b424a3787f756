"""Backward calls of torch.nn.functional.interpolate, without antialias."""

import numpy as np

from . import Described

AXES = ("depth", "height", "width")
MODES = {"linear1d": "linear", "bilinear2d": "bilinear", "trilinear3d": "trilinear", "bicubic2d": "bicubic"}


def scale_of(factor, size, output_size):
    """Returns the factor with which interpolate was called; None if it is the ratio of the sizes."""
    return None if factor is None or np.float32(factor) == np.float32(output_size) / np.float32(size) else float(factor)


def describer(mode):
    def describe(call):
        sizes, output_sizes = call["input_size"][2:], call["output_size"]
        names = AXES[-len(sizes):]
        facts = {"mode": mode, **{f"input_{name}": int(size) for name, size in zip(names, sizes)}}
        if "align_corners" in call:
            facts["align_corners"] = bool(call["align_corners"])
        for name, size, output_size in zip(names, sizes, output_sizes):
            factor = call.get(f"scales_{name[0]}", call.get("scales"))
            scale = None if call.get("align_corners") else scale_of(factor, size, output_size)
            if scale is not None:
                facts[f"scale_{name}"] = scale
        return Described({"grad_output": call["grad_output"]}, facts, lambda returned: {"grad_input": returned})

    return describe


CALLS = {
    **{f"aten::upsample_{name}_backward": describer(mode) for name, mode in MODES.items()},
    **{f"aten::upsample_nearest{axes}d_backward": describer("nearest") for axes in (1, 2, 3)},
    **{f"aten::_upsample_nearest_exact{axes}d_backward": describer("nearest-exact") for axes in (1, 2, 3)},
}
