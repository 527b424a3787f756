"""A recorded call of scatter_add as a problem."""

import numpy as np

from .problems import Conventions, Problem


def index_of(call):
    """In the order of the source rows."""
    index = call.inputs["index"]
    if "source_row" not in call.inputs:
        return index
    unsorted = np.empty_like(index)
    unsorted[call.inputs["source_row"]] = index
    return unsorted


def read(call):
    """Conventions and problem."""
    index, source, dim = index_of(call), call.inputs["source"], call.number("dim")
    held = "self" in call.inputs
    includes = bool(call.number("include_self", 1))
    conventions = Conventions(
        reduce=call.facts["reduce"], include_self=includes, by_frequency=bool(call.number("scale_grad_by_freq", 0)),
        padding_idx=call.number("padding_idx") if "padding_idx" in call.facts else None, wraps=bool(call.number("wraps_negative", 0)),
        per_element=index.ndim > 1, in_buffer=includes and not held)
    shape = tuple(call.number("dim_size") if axis == dim else side for axis, side in enumerate(source.shape))
    before = call.inputs["self"] if held else call.before.get("sum") if includes else None
    before = np.zeros(shape) if before is None else before
    return conventions, Problem(index, source, before, dim, conventions, call.types["source"], call.strides_of("index", "source", "self"))
