"""Makes a capture file from a NumPy .npz archive of one backward call."""

import os
from typing import Any, Dict, List, Optional, Tuple, Union

from . import archive_keys, conventions, shapes
from .archive import Archive
from .capture import CaptureError, Invocation, Result, widen, write_capture
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
    shapes.check_headers(source, schema, keys)
    scalars = {name: read_scalar(source, name, valid) for name, valid in schema.scalars.items() if name in source}
    scalars.update(given)
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
        # Without a dialect the format's rule for references applies: grid_sample.
        of_reference = scalars.get("reference_dialect", "grid_sample") if schema is archive_keys.MSDA else ""
        results["reference"] = Result(sections["reference"], "reference", of_reference, notes)
    label = {"label": scalars["label"]} if scalars.get("label") else {}
    if schema is archive_keys.MSDA:
        fields: Dict[str, Any] = {**chosen, "facts": label}
    else:
        facts = {**chosen, "align_corners": int(chosen["align_corners"])} if chosen else facts_of(source, schema, scalars)
        fields = {"dialect": "", "facts": {**facts, **label}}
    return Invocation(
        inputs=inputs, outputs=sections["observed"], outputs_before=sections["before"], results=results,
        kernel=scalars.get("kernel", ""), atol=scalars.get("atol"), rtol=scalars.get("rtol"), **fields,
    ), {*keys, *scalars}, note


def import_case(source: _Path, target: _Path, dialect: Optional[str] = None, reference_dialect: Optional[str] = None,
                overwrite: bool = False, padding_mode: Optional[str] = None, align_corners: Optional[bool] = None,
                interpolation: Optional[str] = None) -> Tuple[List[str], str]:
    """Writes the capture `target` from the archive `source`; returns the archive's unused keys, and what was found out about the
    conventions (empty: the archive states them).

    Keys of a call of deformable attention: the inputs (value, spatial_shapes, sampling_locations, attention_weights, grad_output, and if wanted
    level_start_index); observed_<gradient>, what the kernel under test returned; reference_<gradient>, what it was compared
    with, and reference_max_abs_diff_<gradient>, a number about one; before_<gradient>, the output buffers before
    the launch; and the scalars dialect, padding_mode, align_corners, reference_dialect, atol, rtol, kernel, label. With the text
    "grid_sample" as operator: input, grid, grad_output, and the same with grad_input and grad_grid for gradients; its scalars are
    interpolation, padding_mode, align_corners, atol, rtol, kernel, label. With "scatter_add": index, source and if wanted self, with
    the gradient sum, and the scalars dim, dim_size, reduce (sum, mean), include_self, wraps_negative, padding_idx,
    scale_grad_by_freq. With "interpolate": grad_output, the gradient grad_input, and the scalars mode, align_corners, input_depth,
    input_height, input_width, scale_depth, scale_height, scale_width. With "roi_align": boxes, grad_output and if wanted input, the
    gradient grad_input, and the scalars spatial_scale, sampling_ratio, aligned, input_batch, input_height, input_width. The flags replace the archive's conventions.
    Conventions that neither states are asked for, not guessed. Only these members are read. Raises CaptureError.
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
