"""A recorded call of grid_sample as a problem."""

from .operator import Conventions, Problem


def read(call):
    """Conventions and problem."""
    conventions = Conventions(call.facts["interpolation"], call.facts["padding_mode"], bool(call.number("align_corners")))
    names = ("input", "grid", "grad_output")
    return conventions, Problem(*(call.inputs[name] for name in names), type=call.types["input"], strides=call.strides_of(*names))
