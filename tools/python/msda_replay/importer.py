"""From a NumPy .npz archive of one backward call to a capture file."""

import zipfile

import numpy as np

from .capture import GRADIENTS, INPUTS, CaptureError, Invocation, Result, write_capture

# Scalars of the archive that describe the call.
_SCALARS = ("padding_mode", "align_corners", "atol", "rtol", "dialect", "reference_dialect", "kernel", "label")


def _load(path):
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise CaptureError(f"{path}: cannot read it as an .npz archive: {error}") from error


def _scalar(path, arrays, name, default):
    array = arrays.pop(name, None)
    if array is None:
        return default
    if array.shape != ():
        raise CaptureError(f"{path}: {name} has shape {array.shape}, it should be a scalar")
    return array.item()


def import_case(source, target, dialect=None, reference_dialect=None, overwrite=False):
    """Writes the capture `target` from the archive `source`; returns the archive's keys that it has no use for.

    Keys: the inputs (value, spatial_shapes, sampling_locations, attention_weights, grad_output, and if wanted
    level_start_index); observed_<gradient>, what the kernel under test returned; reference_<gradient>, what it was compared
    with, and reference_max_abs_diff_<gradient>, a number that is known of one; before_<gradient>, the output buffers before
    the launch; and the scalars padding_mode, align_corners, atol, rtol,
    dialect, reference_dialect, kernel, label. `dialect` and `reference_dialect` replace the archive's; without either they
    are msda_triton and grid_sample.
    """
    arrays = _load(source)
    scalars = {name: _scalar(source, arrays, name, None) for name in _SCALARS}
    inputs = {name: arrays.pop(name) for name in (*INPUTS, "level_start_index") if name in arrays}
    missing = [name for name in INPUTS if name not in inputs]
    if missing:
        raise CaptureError(f"{source}: has no {', '.join(missing)}")
    sections = {
        prefix: {name: arrays.pop(f"{prefix}_{name}") for name in GRADIENTS if f"{prefix}_{name}" in arrays}
        for prefix in ("observed", "reference", "before")
    }
    notes = {name: _scalar(source, arrays, f"reference_{name}", None) for name in (f"max_abs_diff_{g}" for g in GRADIENTS)}
    notes = {name: number for name, number in notes.items() if number is not None}
    results = {}
    if sections["reference"] or notes:
        of_reference = reference_dialect or scalars["reference_dialect"] or "grid_sample"
        results["reference"] = Result(sections["reference"], "reference", of_reference, notes)
    invocation = Invocation(
        inputs=inputs, outputs=sections["observed"], outputs_before=sections["before"], results=results,
        dialect=dialect or scalars["dialect"] or "msda_triton", padding_mode=scalars["padding_mode"] or "zeros",
        align_corners=bool(scalars["align_corners"]), kernel=scalars["kernel"] or "", atol=scalars["atol"],
        rtol=scalars["rtol"], facts={"label": scalars["label"]} if scalars["label"] else {},
    )
    write_capture(target, invocation, overwrite=overwrite)
    return sorted(arrays)
