"""Makes a capture file from a NumPy .npz archive of one backward call."""

import os
from typing import Any, Dict, List, Optional, Tuple, Union

from . import archive_keys, conventions, shapes
from .archive import Archive
from .capture import CaptureError, Invocation, Result, widen, write_capture
from .operator_rows import DIALECT_OF_TESTS
from .scalars import facts_of, keys_of, read_scalar

_Path = Union[str, os.PathLike[str]]


def read_call(source, given=None):
    """Returns the Invocation that an Archive, or arguments of save_call, describe; the keys that were used; and what was found out about
    its conventions, or nothing. `given` conventions replace the source's."""
    given = {name: value for name, value in (given or {}).items() if value is not None}
    schema = keys_of(source)
    for name in given:
        if name not in schema.scalars:
            source.fail(source.noun, f"is of {schema.name}, which has no {name}")
    keys = [key for key in schema.tensors if key in source]
    missing = [name for name in schema.inputs if name not in keys]
    if missing:
        source.fail(source.noun, f"has no {', '.join(missing)}")
    scalars = {name: read_scalar(source, name, valid) for name, valid in schema.scalars.items() if name in source}
    scalars.update(given)
    shapes.check_headers(source, schema, keys, scalars)
    if ("atol" in scalars) != ("rtol" in scalars):
        source.fail(source.noun, "has only one of atol and rtol; they go together")
    tensors = {key: widen(source.read(key)) for key in keys}
    shapes.check_levels(source, tensors)
    inputs = {key: tensors[key] for key in keys if key == schema.tensors[key]}
    sections = {
        section: {name: tensors[f"{section}_{name}"] for name in schema.gradients if f"{section}_{name}" in keys}
        for section in archive_keys.SECTIONS
    }
    chosen, note = conventions.choose(source, schema, scalars, inputs, sections["observed"])
    prefix = "reference_"
    notes = {name[len(prefix):]: scalars[name] for name in scalars if name.startswith(f"{prefix}max_abs_diff_")}
    results = {}
    if sections["reference"] or notes:
        # Without a dialect the format's rule for references applies.
        of_reference = scalars.get("reference_dialect", DIALECT_OF_TESTS) if schema.has_dialect else ""
        results["reference"] = Result(sections["reference"], "reference", of_reference, notes)
    label = {"label": scalars["label"]} if scalars.get("label") else {}
    if schema.has_dialect:
        fields: Dict[str, Any] = {**chosen, "facts": label}
    else:
        fields = {"dialect": "", "facts": {**facts_of(source, schema, {**scalars, **chosen}), **label}}
    return Invocation(
        inputs=inputs, outputs=sections["observed"], outputs_before=sections["before"], results=results,
        kernel=scalars.get("kernel", ""), atol=scalars.get("atol"), rtol=scalars.get("rtol"), **fields,
    ), {*keys, *scalars}, note


def import_case(source: _Path, target: _Path, dialect: Optional[str] = None, reference_dialect: Optional[str] = None,
                overwrite: bool = False, padding_mode: Optional[str] = None, align_corners: Optional[bool] = None,
                interpolation: Optional[str] = None) -> Tuple[List[str], str]:
    """Writes the capture `target` from the archive `source`; returns the archive's unused keys, and what was found out about the
    conventions (empty: the archive states them).

    The keys of an archive: the operator's name as operator (msda if there is none), its inputs, and its conventions as scalars. For each
    gradient observed_<gradient>, what the kernel under test returned; reference_<gradient>, what it was compared with; and
    before_<gradient>, the output buffer before the launch. The scalars atol, rtol, kernel, label; for msda also reference_dialect, and
    reference_max_abs_diff_<gradient>, a number about a reference. The flags replace the archive's conventions. Conventions that neither
    states are asked for, not guessed. Only these members are read. Raises CaptureError.
    """
    given = {"dialect": dialect, "reference_dialect": reference_dialect, "padding_mode": padding_mode, "align_corners": align_corners,
             "interpolation": interpolation}
    try:
        with Archive(source) as archive:
            invocation, used, note = read_call(archive, given)
            unused = archive.names_beside(used)
    except MemoryError as error:
        raise CaptureError(f"{source}: memory does not suffice for its tensors") from error
    write_capture(target, invocation, overwrite=overwrite)
    return unused, note
