"""Calls of the operators that scatter, as PyTorch and torchvision computed them."""

import copy
import functools

import numpy as np
import pytest
from conftest import SOURCE

from msda_replay import read_capture
from msda_replay.importer import import_case

RECORDED = dict(np.load(SOURCE / "tests" / "data" / "scatter" / "torch_cpu.npz"))
CASES = sorted({key.split("/")[0] for key in RECORDED})


def operator_of(case):
    return "interpolate" if case.startswith("interpolate") else "roi_align" if case.startswith("roi_align") else "scatter_add"


def gradient_of(case):
    return "sum" if operator_of(case) == "scatter_add" else "grad_input"


def tensors_of(case):
    tensors = {key.split("/")[1]: RECORDED[key] for key in RECORDED if key.startswith(case + "/")}
    return {name: array.item() if array.ndim == 0 else array.copy() for name, array in tensors.items()}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The invocation that the importer makes of a case; `more` replaces members, None removes them."""
    folder = tmp_path_factory.mktemp("imported")

    def make(case, **more):
        return copy.deepcopy(import_once(case)) if not more else import_now(case, **more)

    def import_now(case, **more):
        tensors = tensors_of(case)
        tensors[f"observed_{gradient_of(case)}"] = tensors.pop(gradient_of(case))
        members = {key: value for key, value in {"operator": operator_of(case), **tensors, **more}.items() if value is not None}
        np.savez(folder / "case.npz", **members)
        import_case(folder / "case.npz", folder / "case.h5", overwrite=True)
        return read_capture(folder / "case.h5").invocations[0]

    import_once = functools.cache(import_now)  # most tests judge the calls of all cases
    return make
