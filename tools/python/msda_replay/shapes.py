"""Checks the tensors of a call: types and shapes by their headers, before any data are read."""

import itertools
import os
from typing import Dict

import numpy as np

from .capture import is_bfloat16
from .libmsda import FLOATS, INTEGERS

# The shapes with the most dimensions first: the others are checked against them.
_ORDER = ("spatial_shapes", "sampling_locations", "attention_weights", "grad_output", "value")


def _letters(schema, dimensions):
    """Returns " = (B, S, M, D)" for an operator whose row has letters."""
    letters = {**schema.row.letters, **schema.extents}
    return f" = ({', '.join(str(letters[name]) for name in dimensions)})" if schema.row.letters else ""


def _check_type(source, schema, key, header):
    integers = schema.row.tensors[schema.tensors[key]].get("type") == "integer"
    types = INTEGERS if integers else sorted(FLOATS, key="bfloat16".__eq__)  # NumPy's own first
    if ("bfloat16" if is_bfloat16(header.dtype) else header.dtype.name) in types:
        return
    remedy = ""
    if header.dtype.kind in "iu" and not integers:
        remedy = "; save it as the type that the kernel was given"
    elif header.dtype.kind == "f" and integers:
        remedy = "; save it with .astype(numpy.int64)"
    source.fail(key, f"has type {header.dtype}, not {', '.join(types)}{remedy}")


def _check_rank(source, schema, key, shape, dimensions):
    if len(shape) == len(dimensions):
        return
    remedy = ""
    if dimensions[-2:] == ("head", "channel") and len(shape) == len(dimensions) - 1:
        remedy = "; if heads and channels are one dimension, divide it: .reshape(*shape[:2], heads, -1)"
    source.fail(key, f"has rank {len(shape)}, not {len(dimensions)}: {', '.join(dimensions)}{_letters(schema, dimensions)}; its shape is "
                     f"{tuple(shape)}{remedy}")


def _transposed(shape, dimensions, extents):
    """Returns the shape, and the order of its dimensions in which it fits what the other tensors say, if there is one."""
    orders = [order for order in itertools.permutations(range(len(shape)))
              if all(shape[place] == extents.get(name, shape[place]) for place, name in zip(order, dimensions))]
    fitting = {tuple(shape[place] for place in order) for order in orders}
    return f"; its shape is {tuple(shape)}" + (f": with .transpose{orders[0]} it fits" if len(fitting) == 1 else "")


def check_headers(source, schema, keys, scalars):
    """Refuses a wrong type or shape, and more data than this machine's memory holds. `scalars` may state sizes."""
    stated = {convention["extent_of"][1]: name for name, convention in schema.conventions.items() if "extent_of" in convention and name in scalars}
    sources: Dict[str, str] = dict(stated)
    extents, total = {**schema.extents, **{dimension: scalars[name] for dimension, name in stated.items()}}, 0
    for key in sorted(keys, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)):
        header = source.header(key)
        dimensions = schema.dimensions[schema.tensors[key]]
        _check_type(source, schema, key, header)
        _check_rank(source, schema, key, header.shape, dimensions)
        for dimension, extent in zip(dimensions, header.shape):
            if extent != extents.setdefault(dimension, extent):
                of_source = f" of {sources[dimension]}" if dimension in sources else ""
                known = {name: extents[name] for name in dimensions if name in sources or name in schema.extents}
                source.fail(key, f"has {extent} in dimension {dimension}, not the {extents[dimension]}{of_source}; it should be "
                                 f"{', '.join(dimensions)}{_letters(schema, dimensions)}{_transposed(header.shape, dimensions, known)}")
        for dimension in dimensions:
            sources.setdefault(dimension, key)
        total += header.bytes
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total > available // 2:  # an array and its bytes to be written are in memory at once
        source.fail("the call", f"has {total} bytes of tensors, too many for this machine's {available} bytes of memory")


def check_levels(source, tensors):
    """Refuses spatial_shapes that are not the sizes of value's levels."""
    if "spatial_shapes" not in tensors:
        return
    levels, pixels = tensors["spatial_shapes"].tolist(), tensors["value"].shape[1]
    for height, width in levels:
        if height < 1 or width < 1:
            source.fail("spatial_shapes", f"has a level of {height} x {width}; give the (height, width) of each level, in pixels")
    held = sum(height * width for height, width in levels)  # Python's integers: no overflow
    if held != pixels:
        source.fail("spatial_shapes", f"has levels of {held} pixels together, value has {pixels} in dimension pixel; give the "
                                      f"(height, width) of each level that value holds, in its order")
    starts = np.cumsum([0] + [height * width for height, width in levels])[:-1].tolist()
    if "level_start_index" in tensors and tensors["level_start_index"].tolist() != starts:
        source.fail("level_start_index", f"is not {starts[:8]}{'...' if len(starts) > 8 else ''}, where the levels of spatial_shapes "
                                         f"begin; leave it out, it follows from them")
