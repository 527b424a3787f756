"""Makes a capture file from a NumPy .npz archive of one backward call."""

import os

from . import archive_keys
from .archive import Archive
from .capture import CaptureError, Invocation, Result, is_bfloat16, write_capture


def _read_scalar(archive, name, valid):
    is_allowed, in_words = valid
    header = archive.header(name)
    if header.shape != ():
        archive.fail(name, f"has shape {header.shape}, it should be a scalar")
    if header.dtype.kind not in "bifuU" or header.bytes > 4 * archive_keys.LONGEST_TEXT:
        archive.fail(name, f"has type {header.dtype}, it should be {in_words}")
    try:
        value = archive.read(name).item()
    except (ValueError, SystemError):  # invalid code points
        value = None
    if not is_allowed(value):
        shown = repr(value) if len(repr(value)) <= 100 else "longer or of another kind"
        archive.fail(name, f"is {shown}, it should be {in_words}")
    return value


def _keys_of(archive):
    """Those of the archive's operator."""
    if "operator" not in archive or _read_scalar(archive, "operator", archive_keys.OPERATOR) == "msda":
        return archive_keys.MSDA
    rank = len(archive.header("input").shape) if "input" in archive else 4
    return archive_keys.grid_sample(5 if rank == 5 else 4)


def _check_tensors(archive, schema, keys):
    """Checks types and shapes by the headers, before any data are read."""
    extents, sources, total = dict(schema.extents), {}, 0
    for key in keys:
        header = archive.header(key)
        dimensions = schema.dimensions[schema.tensors[key]]
        types = archive_keys.INTEGERS if key in schema.integers else archive_keys.FLOATS
        if ("bfloat16" if is_bfloat16(header.dtype) else header.dtype.name) not in types:
            archive.fail(key, f"has type {header.dtype}, not {', '.join(types)}")
        if len(header.shape) != len(dimensions):
            archive.fail(key, f"has rank {len(header.shape)}, not {len(dimensions)}: {', '.join(dimensions)}")
        for dimension, extent in zip(dimensions, header.shape):
            if extent != extents.setdefault(dimension, extent):
                of = f" of {sources[dimension]}" if dimension in sources else ""
                archive.fail(key, f"has {extent} in dimension {dimension}, not the {extents[dimension]}{of}")
            sources.setdefault(dimension, key)
        total += header.bytes
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total > available // 2:  # an array and its bytes to be written are in memory at once
        archive.fail("the call", f"has {total} bytes of tensors, too many for this machine's {available} bytes of memory")


def _conventions_of(schema, scalars, dialect):
    """Fields of the Invocation."""
    if schema is archive_keys.MSDA:
        return {"dialect": dialect or scalars.get("dialect", "msda_triton"), "padding_mode": scalars.get("padding_mode", "zeros"),
                "align_corners": bool(scalars.get("align_corners", False))}
    facts = {"interpolation": scalars.get("interpolation", "bilinear"), "padding_mode": scalars.get("padding_mode", "zeros"),
             "align_corners": int(scalars.get("align_corners", False))}
    return {"dialect": "", "facts": facts}


def _read_call(archive, dialect, reference_dialect):
    """The archive's Invocation, and the keys that were used."""
    schema = _keys_of(archive)
    if (dialect or reference_dialect) and schema is not archive_keys.MSDA:
        archive.fail("the archive", "is a call of grid_sample, which has no dialects")
    keys = [key for key in schema.tensors if key in archive]
    missing = [name for name in schema.inputs if name not in keys]
    if missing:
        archive.fail("the archive", f"has no {', '.join(missing)}")
    _check_tensors(archive, schema, keys)
    scalars = {name: _read_scalar(archive, name, valid) for name, valid in schema.scalars.items() if name in archive}
    if ("atol" in scalars) != ("rtol" in scalars):
        archive.fail("the archive", "has only one of atol and rtol; they go together")
    inputs = {key: archive.read(key) for key in keys if key == schema.tensors[key]}
    sections = {
        section: {name: archive.read(f"{section}_{name}") for name in schema.gradients if f"{section}_{name}" in keys}
        for section in archive_keys.SECTIONS
    }
    prefix = "reference_"
    notes = {name[len(prefix):]: scalars[name] for name in scalars if name.startswith(f"{prefix}max_abs_diff_")}
    conventions = _conventions_of(schema, scalars, dialect)
    results = {}
    if sections["reference"] or notes:
        of_reference = reference_dialect or scalars.get("reference_dialect", "grid_sample") if conventions["dialect"] else ""
        results["reference"] = Result(sections["reference"], "reference", of_reference, notes)
    conventions.setdefault("facts", {}).update({"label": scalars["label"]} if scalars.get("label") else {})
    return Invocation(
        inputs=inputs, outputs=sections["observed"], outputs_before=sections["before"], results=results,
        kernel=scalars.get("kernel", ""), atol=scalars.get("atol"), rtol=scalars.get("rtol"), **conventions,
    ), {*keys, *scalars}


def import_case(source, target, dialect=None, reference_dialect=None, overwrite=False):
    """Writes the capture `target` from the archive `source`; returns the archive's unused keys.

    Keys of a call of deformable attention: the inputs (value, spatial_shapes, sampling_locations, attention_weights, grad_output, and if wanted
    level_start_index); observed_<gradient>, what the kernel under test returned; reference_<gradient>, what it was compared
    with, and reference_max_abs_diff_<gradient>, a number about one; before_<gradient>, the output buffers before
    the launch; and the scalars padding_mode, align_corners, atol, rtol,
    dialect, reference_dialect, kernel, label. With the text "grid_sample" as operator: input, grid, grad_output, and the same
    with grad_input and grad_grid for gradients; its scalars are interpolation, padding_mode, align_corners, atol, rtol, kernel,
    label. `dialect` and `reference_dialect` replace the archive's; without either they
    are msda_triton and grid_sample. Only these members are read. Raises CaptureError.
    """
    try:
        with Archive(source) as archive:
            invocation, used = _read_call(archive, dialect, reference_dialect)
            unused = archive.names_beside(used)
    except MemoryError as error:
        raise CaptureError(f"{source}: memory does not suffice for its tensors") from error
    write_capture(target, invocation, overwrite=overwrite)
    return unused
