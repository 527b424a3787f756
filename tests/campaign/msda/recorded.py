"""A recorded call of msda as a problem."""

import numpy as np

from ..recorded import Unreadable
from .operator import Conventions, Problem


def read(call):
    """Conventions and problem."""
    inputs = call.inputs
    conventions = Conventions(call.facts["dialect"], call.facts.get("padding_mode", "zeros"), bool(call.number("align_corners", 0)))
    levels = tuple((int(height), int(width)) for height, width in inputs["spatial_shapes"])
    problem = Problem(levels, inputs["value"], inputs["sampling_locations"], inputs["attention_weights"], inputs["grad_output"], call.types["value"])
    if not np.array_equal(inputs.get("level_start_index", problem.starts), problem.starts):
        raise Unreadable("its levels do not follow one another")
    return conventions, problem
