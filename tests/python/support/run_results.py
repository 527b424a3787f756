"""Results of msda-replay run."""

import numpy as np
import pytest
from support.problems import backward, make_problem
from support.schemas import check

from msda_replay import Invocation, write_capture
from msda_replay.importer import import_case

ROUNDING = {"rounding", "ill_conditioned", "accumulation_order", "cell_boundary", "border_clamp"}


def check_schema(result):
    check(result, "run")


@pytest.fixture
def judged(replay, tmp_path):
    """What `run` says of each of some calls; of a single one, without a list."""

    def run(calls, *options, expect=1):
        write_capture(tmp_path / "a.h5", calls, overwrite=True)
        result = replay("run", tmp_path / "a.h5", "--invocation", "all", "--json", "-", *options, expect=expect).json
        check_schema(result)
        return result["invocations"] if isinstance(calls, list) else result["invocations"][0]

    return run


@pytest.fixture
def path_of(tmp_path):
    """Imports an archive of these members; returns the capture's path."""

    def make(members):
        np.savez(tmp_path / "case.npz", **members)
        import_case(tmp_path / "case.npz", tmp_path / "case.h5", overwrite=True)
        return tmp_path / "case.h5"

    return make


@pytest.fixture
def judged_archive(replay, path_of):
    """What `run` says of the call that these members describe."""

    def run(members, *options, expect):
        result = replay("run", path_of(members), "--json", "-", *options, expect=expect).json
        check_schema(result)
        return result["invocations"][0]

    return run


def causes_of(call):
    return {(entry["tensor"], entry["cause"], entry["at_fault"]): entry["count"] for entry in call["judged"]}


def sides_of(call):
    """The same of an operator with one gradient."""
    return {key[1:]: count for key, count in causes_of(call).items()}


def mistakes_of(call):
    """The causes that neither rounding nor the order of additions explains."""
    return {key: count for key, count in causes_of(call).items() if key[1] not in ROUNDING}


def right_invocation(rng, dtype=np.float32, tolerance=(1e-3, 1e-2), **sizes):
    inputs = make_problem(rng, dtype=dtype, **sizes)
    outputs = {name: array.astype(dtype) for name, array in backward(inputs).items()}
    atol, rtol = tolerance or (None, None)
    return Invocation(inputs, outputs, "msda_triton", atol=atol, rtol=rtol, kernel="a_kernel")
