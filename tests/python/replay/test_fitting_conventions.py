"""A call whose recorded outputs zeros and border padding explain alike: the reference shows which it was."""

import h5py
import pytest
from support.cubins import make_cubin
from support.launches import CLIENT, TRITON
from support.problems import backward, make_problem
from support.recording import record

from msda_replay import Invocation, Result, read_capture, write_capture
from msda_replay.cpu import backward as computed

FITTING = "zeros align_corners, border align_corners"


@pytest.fixture
def written(tmp_path, rng):
    """A sample lies 3e-7 pixels inside, where the coordinate that grid_sample computes in float32 is on the clamp border."""
    inputs = make_problem(rng, levels=((64, 64), (8, 8)))
    inputs["sampling_locations"] = inputs["sampling_locations"].clip(0.05, 0.95)
    inputs["sampling_locations"][0, 7, 1, 0, 1] = 0.77, 4.773028e-9
    by = {dialect: computed(**inputs, dialect=dialect, padding_mode="border", align_corners=True) for dialect in ("msda_triton", "grid_sample")}
    element = (0, 7, 1, 0, 1, 1)
    recorded, reference = (by[dialect]["grad_sampling_locations"][element] for dialect in ("msda_triton", "grid_sample"))
    exact = {padding: backward(inputs, padding, True)["grad_sampling_locations"][element] for padding in ("zeros", "border")}
    assert reference == 0 and exact["zeros"] == exact["border"] and abs(recorded - exact["zeros"]) < 1e-3 < abs(recorded)

    def write(fitting=FITTING, results=None):
        path = tmp_path / "call.h5"
        results = {"reference": Result(by["grid_sample"], "reference", "grid_sample")} if results is None else results
        write_capture(path, [Invocation(inputs, by["msda_triton"], "msda_triton", "zeros", True, results=results, atol=1e-3, rtol=1e-2)],
                      overwrite=True)
        with h5py.File(path, "r+") as file:
            file["invocations/000000"].attrs["fitting_conventions"] = fitting
        return path

    return write


def test_the_reference_tells(replay, written):
    result = replay("run", written(), "--json", "-", expect=1).json
    (call,) = result["invocations"]
    assert (call["padding_mode"], call["align_corners"]) == ("border", True)
    assert call["notes"] == ["the recorded outputs fit padding zeros with align_corners and border with align_corners equally well; "
                             "border with align_corners is used, which fits the reference best"]
    assert result["verdict"]["at_fault"] == "convention" and result["verdict"]["causes"] == {"border_clamp": 1}


def test_minimize_keeps_what_was_told(replay, written, tmp_path):
    small = tmp_path / "small.h5"
    result = replay("minimize", written(), "-o", small, "--json", "-", expect=0).json
    assert result["cause"] == "border_clamp"
    (call,) = read_capture(small).invocations
    assert call.padding_mode == "border" and "fitting_conventions" not in call.facts


def test_without_a_reference_the_recorded_ones_are_taken(replay, written):
    result = replay("run", written(results={}), "--json", "-", expect=0).json
    (call,) = result["invocations"]
    assert call["padding_mode"] == "zeros" and call["notes"][0].endswith(" equally well; zeros is used")


@pytest.mark.parametrize("text", ["reflection", "zeros aligned", "zeros, border align_corners more", ","])
def test_what_cannot_be_read_is_told(replay, written, text):
    done = replay("run", written(text), expect=2)
    assert "fitting_conventions says" in done.err and len(done.err.splitlines()) == 1


@pytest.mark.parametrize("inside, known", [(2, [False, False]), (1, [True, True])])
def test_the_recorder_tells_what_fits(tmp_path, inside, known):
    """Samples inside fit both paddings, unless another launch of the same code has samples outside."""
    capture, image = tmp_path / "a.h5", tmp_path / "a.cubin"
    image.write_bytes(make_cubin([TRITON], bytes(64)))
    done = record(CLIENT, "--kernel", "triton", "--image", image, "--launches", "2", "--inside", str(inside), options=["-o", capture])
    assert done.returncode == 0, done.stderr
    assert ("the outputs do not show which padding was used" in done.stderr) == (not all(known))
    for call, decided in zip(read_capture(capture).invocations, known):
        assert call.padding_mode == ("border" if decided else "zeros")
        assert call.facts.get("fitting_conventions") == (None if decided else "zeros, border")
