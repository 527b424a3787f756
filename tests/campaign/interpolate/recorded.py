"""A recorded call of interpolate as a problem."""

from ..recorded import Unreadable
from .problems import NAMES, Conventions, Problem


def read(call):
    """Conventions and problem."""
    numbers = call.inputs["grad_output"]
    names = NAMES[: numbers.ndim - 2]
    scales = [float(call.facts[f"scale_{name}"]) for name in names if call.facts.get(f"scale_{name}")]
    if len(scales) not in (0, len(names)):
        raise Unreadable("some axes have scale factors, and others have none")
    conventions = Conventions(call.facts["mode"], bool(call.number("align_corners", 0)))
    sides = tuple(call.number(f"input_{name}") for name in names)
    return conventions, Problem(numbers, sides, tuple(scales) or None, call.types["grad_output"], call.strides_of("grad_output"))
