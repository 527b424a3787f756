"""Reads what an archive says beside its tensors: the operator, and its conventions."""

from typing import Any, Callable, Dict

from . import archive_keys
from .libmsda import MAX_RANK
from .operator_rows import DEFAULT, ROWS

_TYPES: Dict[str, Callable[[Any], Any]] = {"text": str, "real": float, "integer": int, "flag": bool}


def read_scalar(source, name, valid):
    is_allowed, in_words = valid
    header = source.header(name)
    if header.shape != ():
        source.fail(name, f"has shape {header.shape}, it should be a scalar")
    if header.dtype.kind not in "bifuU" or header.bytes > 4 * archive_keys.LONGEST_TEXT:
        source.fail(name, f"has type {header.dtype}, it should be {in_words}")
    try:
        value = source.read(name).item()
    except (ValueError, SystemError):  # invalid code points
        value = None
    if not is_allowed(value):
        shown = repr(value) if len(repr(value)) <= 100 else "longer or of another kind"
        own = "; for one of your own give what @msda_replay.operator makes, or its adapter file: docs/own-operators.md"
        source.fail(name, f"is {shown}, it should be {in_words}{own if name == 'operator' and source.noun == 'the call' else ''}")
    return value


def keys_of(source):
    """Returns the keys of the source's operator."""
    row = ROWS[read_scalar(source, "operator", archive_keys.OPERATOR)] if "operator" in source else DEFAULT
    if not row.axes:
        return archive_keys.Keys(row, (), None, {})
    ranks = {name: len(source.header(name).shape) for name in row.named("input") if name in source}
    for name, rank in ranks.items():
        if rank > MAX_RANK:
            source.fail(name, f"has rank {rank}; operators take at most {MAX_RANK} dimensions")
    deciding = row.axes["tensor"]
    axes = row.axes_of(deciding, ranks.get(deciding))
    return archive_keys.Keys(row, axes, _chosen_axis(source, row, axes), ranks)


def _chosen_axis(source, row, axes):
    """Returns the number of the axis that a convention of the operator chooses, if it has one."""
    name = row.axes.get("chosen_by")
    if name is None:
        return None
    chosen = read_scalar(source, name, archive_keys.INTEGER) if name in source else row.conventions[name]["default"]
    if not -len(axes) <= chosen < len(axes):
        source.fail(name, f"is {chosen}, and {row.axes['tensor']} has {len(axes)} dimensions")
    return chosen % len(axes)


def fact_of(convention, value):
    """Returns a convention as captures hold it."""
    return _TYPES[convention["kind"]](value)


def facts_of(source, schema, scalars):
    """Returns a call's attributes: the conventions that are stated, or else what they are by default or by the tensors' shapes."""
    facts = {}
    for name, convention in schema.conventions.items():
        value = scalars.get(name, convention.get("default"))
        if value is None and "extent_of" in convention:
            value = _extent(source, schema, *convention["extent_of"])
            if value is None:
                source.fail(source.noun, f"has neither {name} nor a tensor of the shape of {convention['extent_of'][0]}")
        elif value is None and convention.get("required"):
            source.fail(source.noun, f"does not state {name}, on which the result depends: {schema.scalars[name][1]}")
        if value is not None:
            facts[name] = fact_of(convention, value)
    if schema.chosen is not None:
        facts[schema.row.axes["chosen_by"]] = schema.chosen
    return facts


def _extent(source, schema, tensor, dimension):
    """Returns the size of a tensor's dimension, from this one or another of the same dimensions; None if the source has none."""
    dimensions = schema.dimensions
    for key, name in schema.tensors.items():
        if key in source and dimensions[name] == dimensions[tensor]:
            return source.header(key).shape[dimensions[tensor].index(dimension)]
    return None
