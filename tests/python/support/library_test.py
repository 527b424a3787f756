"""The test of a library whose failures were counted."""

import numpy as np
import pytest
from conftest import DATA
from support.problems import make_problem

from msda_replay import Invocation, write_capture
from msda_replay.__main__ import main


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One head of a real failing call."""
    path = tmp_path_factory.mktemp("stress") / "recorded.h5"
    assert main(["import", str(DATA / "h200_border_noalign_0.npz"), "-o", str(path)]) == 0
    return path


def as_library_tests_do(tmp_path, **facts):
    rng = np.random.default_rng(1)
    inputs = make_problem(rng, heads=1, channels=4, queries=50, levels=((32, 30), (9, 8)))
    inputs["sampling_locations"] = rng.random(inputs["sampling_locations"].shape).astype(np.float32)
    path = tmp_path / "call.h5"
    write_capture(path, [Invocation(inputs, {}, "msda_triton", **facts)], overwrite=True)
    return path
