"""Calls of grid_sample that PyTorch computed, as invocations."""

import numpy as np
from conftest import SOURCE

from msda_replay import Invocation

RECORDED = dict(np.load(SOURCE / "tests" / "data" / "grid_sample" / "h200.npz"))
VARIANTS = sorted({key.split("/")[0] for key in RECORDED})
INPUTS, GRADIENTS = ("grad_output", "input", "grid"), ("grad_input", "grad_grid")


def conventions_of(variant):
    _, _, interpolation, padding, align = variant.split("-")
    return {"interpolation": interpolation, "padding_mode": padding, "align_corners": int(align)}


def call_of(variant, **facts):
    tensors = {name: RECORDED[f"{variant}/{name}"].copy() for name in (*INPUTS, *GRADIENTS)}
    return Invocation({name: tensors[name] for name in INPUTS}, {name: tensors[name] for name in GRADIENTS}, "",
                      facts={**conventions_of(variant), **facts})


def without_outputs(call):
    call.outputs = {}
    return call
