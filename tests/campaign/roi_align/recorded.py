"""A recorded call of roi_align as a problem."""

from .problems import Conventions, Problem


def read(call):
    """Conventions and problem."""
    conventions = Conventions(max(call.number("sampling_ratio"), 0), bool(call.number("aligned")))
    if "input" in call.inputs:
        batches, _, height, width = call.inputs["input"].shape
    else:
        batches, height, width = (call.number(f"input_{name}") for name in ("batch", "height", "width"))
    return conventions, Problem(call.inputs["boxes"], call.inputs["grad_output"], batches, (width, height), float(call.facts["spatial_scale"]),
                                call.types["grad_output"], call.strides_of("boxes", "grad_output"))
