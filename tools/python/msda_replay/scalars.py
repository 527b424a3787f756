"""Reads what an archive says beside its tensors: the operator, and its conventions."""

from . import archive_keys
from .libmsda import MAX_RANK


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
        source.fail(name, f"is {shown}, it should be {in_words}")
    return value


def keys_of(source):
    """Returns the keys of the source's operator."""
    operator = read_scalar(source, "operator", archive_keys.OPERATOR) if "operator" in source else "msda"
    if operator == "msda":
        return archive_keys.MSDA

    def rank(key, otherwise):
        found = len(source.header(key).shape) if key in source else otherwise
        if found > MAX_RANK:
            source.fail(key, f"has rank {found}; operators take at most {MAX_RANK} dimensions")
        return found

    if operator == "grid_sample":
        return archive_keys.grid_sample(5 if rank("input", 4) == 5 else 4)
    if operator == "interpolate":
        return archive_keys.interpolate(min(max(rank("grad_output", 4), 3), 5))
    if operator == "roi_align":
        return archive_keys.ROI_ALIGN
    dim, of_source = read_scalar(source, "dim", archive_keys.INTEGER) if "dim" in source else 0, max(1, rank("source", 1))
    if not -of_source <= dim < of_source:
        source.fail("dim", f"is {dim}, and source has {of_source} dimensions")
    return archive_keys.scatter_add(of_source, rank("index", 1), dim % of_source)


def facts_of(source, schema, scalars):
    """Returns a call's attributes, for an operator with customary conventions: these, the archive's, and sizes from its shapes."""
    for name in schema.required:
        if name not in scalars:
            source.fail(source.noun, f"does not state {name}, on which the result depends: {schema.scalars[name][1]}")
    facts = {name: value for name, value in scalars.items() if name not in ("operator", "atol", "rtol", "kernel", "label")}
    # Attributes are texts and integers.
    facts = {name: value if isinstance(value, str) else repr(float(value)) if name in archive_keys.FRACTIONS else int(value)
             for name, value in facts.items()}
    facts = {**schema.facts, **facts}
    if schema.name == "scatter_add":
        facts["dim"] = schema.facts["dim"]
        known = [key for key in schema.tensors if schema.dimensions[schema.tensors[key]] == schema.dimensions["sum"] and key in source]
        if known:
            facts.setdefault("dim_size", source.header(known[0]).shape[facts["dim"]])
        if "dim_size" not in facts:
            source.fail(source.noun, "has neither dim_size nor a tensor of the sum's shape")
    if schema.name in ("interpolate", "roi_align"):
        known = [key for key in schema.tensors if schema.tensors[key] in ("input", "grad_input") and key in source]
        for number, axis in enumerate(schema.dimensions["grad_input"]):
            if known and f"input_{axis}" in schema.scalars:
                facts.setdefault(f"input_{axis}", source.header(known[0]).shape[number])
            if f"input_{axis}" in schema.scalars and f"input_{axis}" not in facts:
                source.fail(source.noun, f"has neither input_{axis} nor a grad_input")
    return facts
