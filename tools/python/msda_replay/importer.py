"""Makes a capture file from a NumPy .npz archive of one backward call."""

import math
import os

import numpy as np

from .archive import Archive
from .capture import (
    DIALECTS, DIMENSIONS, GRADIENTS, INPUTS, PADDING_MODES, CaptureError, Invocation, Result, write_capture,
)

_INTEGER_TENSORS = ("spatial_shapes", "level_start_index")
_FLOATS, _INTEGERS = ("float16", "float32", "float64"), ("int32", "int64")
_EXTENTS = {"xy": 2, "height_width": 2}  # of dimensions with a fixed size
_LONGEST_TEXT = 1 << 16


def _is_text(value):
    try:
        return isinstance(value, str) and "\0" not in value and len(value.encode()) <= _LONGEST_TEXT
    except UnicodeEncodeError:
        return False


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_tolerance(value):
    return _is_number(value) and 0 <= value < math.inf


# Scalars of the archive that describe the call: the valid values of each, and their description.
_DIALECT = (lambda value: value in DIALECTS, f"one of {', '.join(DIALECTS)}")
_TEXT = (_is_text, f"a text of at most {_LONGEST_TEXT} bytes")
_TOLERANCE = (_is_tolerance, "a finite number from 0 on")
_SCALARS = {
    "padding_mode": (lambda value: value in PADDING_MODES, f"one of {', '.join(PADDING_MODES)}"),
    "align_corners": (lambda value: value in (0, 1), "true or false"),
    "atol": _TOLERANCE,
    "rtol": _TOLERANCE,
    "dialect": _DIALECT,
    "reference_dialect": _DIALECT,
    "kernel": _TEXT,
    "label": _TEXT,
    **{f"reference_max_abs_diff_{name}": (_is_number, "a number") for name in GRADIENTS},
}
_SECTIONS = ("observed", "reference", "before")
_TENSORS = {
    **{name: name for name in (*INPUTS, "level_start_index")},
    **{f"{section}_{name}": name for section in _SECTIONS for name in GRADIENTS},
}


def _read_scalar(archive, name):
    is_allowed, in_words = _SCALARS[name]
    header = archive.header(name)
    if header.shape != ():
        archive.fail(name, f"has shape {header.shape}, it should be a scalar")
    if header.dtype.kind not in "bifuU" or header.bytes > 4 * _LONGEST_TEXT:
        archive.fail(name, f"has type {header.dtype}, it should be {in_words}")
    try:
        value = archive.read(name).item()
    except (ValueError, SystemError):  # invalid code points
        value = None
    if not is_allowed(value):
        shown = repr(value) if len(repr(value)) <= 100 else "longer or of another kind"
        archive.fail(name, f"is {shown}, it should be {in_words}")
    return value


def _check_tensors(archive, keys):
    """Checks types and shapes by the headers, before any data are read."""
    extents, sources, total = dict(_EXTENTS), {}, 0
    for key in keys:
        header = archive.header(key)
        dimensions = DIMENSIONS[_TENSORS[key]]
        types = _INTEGERS if key in _INTEGER_TENSORS else _FLOATS
        if header.dtype.name not in types:
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


def _read_call(archive, dialect, reference_dialect):
    """The archive's Invocation, and the keys that were used."""
    keys = [key for key in _TENSORS if key in archive]
    missing = [name for name in INPUTS if name not in keys]
    if missing:
        archive.fail("the archive", f"has no {', '.join(missing)}")
    _check_tensors(archive, keys)
    scalars = {name: _read_scalar(archive, name) for name in _SCALARS if name in archive}
    if ("atol" in scalars) != ("rtol" in scalars):
        archive.fail("the archive", "has only one of atol and rtol; they go together")
    inputs = {key: archive.read(key) for key in keys if key == _TENSORS[key]}
    sections = {
        section: {name: archive.read(f"{section}_{name}") for name in GRADIENTS if f"{section}_{name}" in keys}
        for section in _SECTIONS
    }
    prefix = "reference_"
    notes = {name[len(prefix):]: scalars[name] for name in scalars if name.startswith(f"{prefix}max_abs_diff_")}
    results = {}
    if sections["reference"] or notes:
        of_reference = reference_dialect or scalars.get("reference_dialect", "grid_sample")
        results["reference"] = Result(sections["reference"], "reference", of_reference, notes)
    return Invocation(
        inputs=inputs, outputs=sections["observed"], outputs_before=sections["before"], results=results,
        dialect=dialect or scalars.get("dialect", "msda_triton"), padding_mode=scalars.get("padding_mode", "zeros"),
        align_corners=bool(scalars.get("align_corners", False)), kernel=scalars.get("kernel", ""),
        atol=scalars.get("atol"), rtol=scalars.get("rtol"),
        facts={"label": scalars["label"]} if scalars.get("label") else {},
    ), {*keys, *scalars}


def import_case(source, target, dialect=None, reference_dialect=None, overwrite=False):
    """Writes the capture `target` from the archive `source`; returns the archive's unused keys.

    Keys: the inputs (value, spatial_shapes, sampling_locations, attention_weights, grad_output, and if wanted
    level_start_index); observed_<gradient>, what the kernel under test returned; reference_<gradient>, what it was compared
    with, and reference_max_abs_diff_<gradient>, a number about one; before_<gradient>, the output buffers before
    the launch; and the scalars padding_mode, align_corners, atol, rtol,
    dialect, reference_dialect, kernel, label. `dialect` and `reference_dialect` replace the archive's; without either they
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
