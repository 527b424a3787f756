"""Calls of equal inputs in one capture: one verdict, whichever flags are given."""

import numpy as np
import pytest
from conftest import SOURCE
from support.problems import backward, make_problem
from support.run_results import check_schema

from msda_replay import Invocation, Result, write_capture


@pytest.fixture
def calls(rng):
    """A right call, and one of the same inputs whose grad_value is wrong in one element, in grid_sample's dialect."""
    inputs = make_problem(rng)
    right = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    wrong = {name: array.copy() for name, array in right.items()}
    wrong["grad_value"][0, 7, 1, 3] += 1
    tolerance = {"atol": 1e-3, "rtol": 1e-2}
    return [Invocation(inputs, right, "msda_triton", kernel="under_test", **tolerance),
            Invocation(inputs, wrong, "grid_sample", kernel="torch", **tolerance)]


def other_call(rng, **facts):
    inputs = make_problem(rng)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    return Invocation(inputs, outputs, facts.pop("dialect", "msda_triton"), atol=1e-3, rtol=1e-2, **facts)




@pytest.mark.parametrize("swapped", [False, True])
def test_one_verdict_whatever_the_flags(replay, tmp_path, calls, swapped):
    path = tmp_path / "a.h5"
    write_capture(path, calls[::-1] if swapped else calls)
    tested, reference = (1, 0) if swapped else (0, 1)
    all_flags = [[], ["--invocation", 0], ["--invocation", 1], ["--reference", reference],
                 ["--invocation", tested, "--reference", reference]]
    verdicts = []
    for flags in all_flags:
        result = replay("run", path, "--json", "-", *flags, expect=1).json
        check_schema(result)
        assert [call["id"] for call in result["invocations"]] == [tested]
        (call,) = result["invocations"]
        assert [note.startswith(f"invocation {reference} has the same inputs") for note in call.get("notes", [])] == (
            [] if "--reference" in flags else [True])
        verdicts.append(result["verdict"])
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert verdicts[0]["at_fault"] == "reference" and verdicts[0]["causes"] == {"implementation_error": 1}


def test_stages_have_the_reference_too(replay, tmp_path, calls):
    path = tmp_path / "a.h5"
    write_capture(path, calls)
    for invocation in ("all", 0, 1):
        result = replay("stages", path, "--json", "-", "--element", "grad_value[0,7,1,3]", "--invocation", invocation).json
        assert [call["id"] for call in result["invocations"]] == [0]


def test_a_recorded_reference_stays(replay, tmp_path, calls):
    path = tmp_path / "a.h5"
    calls[0].results["torch"] = Result(calls[0].outputs, "reference", "grid_sample")
    write_capture(path, calls)
    result = replay("run", path, "--json", "-", "--invocation", 0, expect=0).json
    assert "notes" not in result["invocations"][0]
    assert [call["id"] for call in replay("run", path, "--json", "-", expect=1).json["invocations"]] == [0, 1]


@pytest.mark.parametrize("flags", [[], ["--invocation", 0], ["--invocation", 1]])
def test_a_recorded_reference_that_is_a_call(replay, tmp_path, calls, flags):
    """As pytest --msda keeps a test and its reference: the second is not judged by itself, unless its numbers are others."""
    path = tmp_path / "a.h5"
    kept = {name: calls[1].outputs[name] for name in ("grad_value", "grad_sampling_locations")}
    calls[0].results["torch"] = Result(kept, "reference", "grid_sample")
    write_capture(path, calls)
    result = replay("run", path, "--json", "-", *flags, expect=1).json
    assert [call["id"] for call in result["invocations"]] == [0]
    assert result["verdict"]["at_fault"] == "reference" and not result["verdict"]["summary"].startswith("1 of")


@pytest.mark.parametrize("change", ["inputs", "padding_mode", "align_corners"])
def test_other_calls_are_not_paired(replay, tmp_path, calls, change):
    if change == "inputs":
        calls[1].inputs = {**calls[1].inputs, "value": calls[1].inputs["value"] + np.float32(2**-20)}
    else:
        setattr(calls[1], change, {"padding_mode": "border", "align_corners": True}[change])
    path = tmp_path / "a.h5"
    write_capture(path, calls)
    result = replay("run", path, "--json", "-").json
    assert [call["id"] for call in result["invocations"]] == [0, 1]
    assert all("notes" not in call for call in result["invocations"])
    assert "cannot be the reference of 0" in replay("run", path, "--invocation", 0, "--reference", 1, expect=2).err
    assert "--reference 1: no other invocation has its inputs" in replay("run", path, "--reference", 1, expect=2).err


@pytest.mark.parametrize("dialects", [("msda_triton", "msda_triton"), ("grid_sample", "grid_sample"), ("msda_triton", "deformable_detr")])
def test_which_is_the_reference_is_not_guessed(replay, tmp_path, calls, dialects):
    for call, dialect in zip(calls, dialects):
        call.dialect = dialect
    path = tmp_path / "a.h5"
    write_capture(path, calls)
    result = replay("run", path, "--json", "-", expect=1).json
    notes = [call["notes"] for call in result["invocations"]]
    assert [len(note) for note in notes] == [1, 1]
    assert "If 1 is the reference: --invocation 0 --reference 1; if this one is: --invocation 1 --reference 0" in notes[0][0]
    as_reference = replay("run", path, "--json", "-", "--invocation", 0, "--reference", 1, expect=1).json
    assert as_reference["verdict"]["at_fault"] == "reference"
    as_recorded = replay("run", path, "--json", "-", "--invocation", 1, "--reference", 0, expect=1).json
    assert as_recorded["verdict"]["at_fault"] == "observed"
    calls[1].outputs = calls[0].outputs
    write_capture(path, calls, overwrite=True)
    assert all("notes" not in call for call in replay("run", path, "--json", "-", expect=0).json["invocations"])


def test_among_many(replay, tmp_path, calls, rng):
    """Two pairs, and calls that belong to none; a reference for all takes those of its inputs."""
    another = other_call(rng, kernel="under_test")
    its_reference = Invocation(another.inputs, another.outputs, "grid_sample", kernel="torch", atol=1e-3, rtol=1e-2)
    path = tmp_path / "a.h5"
    write_capture(path, [other_call(rng, kernel="under_test"), calls[0], another, calls[1], other_call(rng, dialect="grid_sample"), its_reference])
    result = replay("run", path, "--json", "-", expect=1).json
    assert [call["id"] for call in result["invocations"]] == [0, 1, 2, 4]
    assert result["verdict"]["summary"].startswith("1 of 4 invocations out of tolerance. The reference is wrong")
    result = replay("run", path, "--json", "-", "--reference", 3, expect=1).json
    assert {call["id"]: "reference" in {c["expected"] for c in call["comparisons"]} for call in result["invocations"]} == {
        0: False, 1: True, 2: False, 4: False, 5: False}


def test_damage_of_the_reference_is_seen(replay, tmp_path, calls):
    import h5py

    path = tmp_path / "a.h5"
    write_capture(path, calls)
    with h5py.File(path, "r+") as file:
        file["/invocations/000001/outputs/grad_value"][0, 0, 0, 0] += 1
    assert "/invocations/000001/outputs/grad_value" in replay("run", path, "--invocation", 0, expect=2).err


def grid_sample_calls(rng, **conventions):
    """A right call of grid_sample, and one of another kernel whose gradient is wrong in one element."""
    recorded = np.load(SOURCE / "tests" / "data" / "grid_sample" / "h200.npz")
    right = {name: recorded[f"2d-float32-bilinear-zeros-0/{name}"] for name in ("grad_input", "grad_grid")}
    wrong = {name: array.copy() for name, array in right.items()}
    wrong["grad_input"].reshape(-1)[5] += 1
    inputs = {name: recorded[f"2d-float32-bilinear-zeros-0/{name}"] for name in ("input", "grid", "grad_output")}
    facts = {"interpolation": "bilinear", "padding_mode": "zeros", "align_corners": 0}
    return [Invocation(inputs, right, "", kernel="torch", facts=facts),
            Invocation(inputs, wrong, "", kernel="mine", facts={**facts, **conventions})]


def test_calls_of_grid_sample(replay, tmp_path, rng):
    path = tmp_path / "a.h5"
    write_capture(path, grid_sample_calls(rng))
    result = replay("run", path, "--json", "-", expect=1).json
    assert [call["notes"][0].startswith(f"invocation {1 - call['id']} has the same inputs") for call in result["invocations"]] == [True, True]
    (call,) = replay("run", path, "--json", "-", "--invocation", 1, "--reference", 0, expect=1).json["invocations"]
    assert {(comparison["observed"], comparison["expected"]) for comparison in call["comparisons"]} >= {("recorded", "reference")}
    assert call["verdict"]["at_fault"] == "observed"


def test_calls_of_grid_sample_with_other_conventions(replay, tmp_path, rng):
    path = tmp_path / "a.h5"
    write_capture(path, grid_sample_calls(rng, padding_mode="border"))
    result = replay("run", path, "--json", "-", expect=1).json
    assert all("notes" not in call or not call["notes"] for call in result["invocations"])
    done = replay("run", path, "--invocation", 1, "--reference", 0, expect=2)
    assert "their padding_mode differs" in done.err


@pytest.mark.parametrize("between", [63, 64])
def test_how_far_apart_a_call_and_its_reference_are(replay, tmp_path, calls, between):
    """Only neighbours are looked at: one call of 50,000 took as long as all of them. One call is paired as among all."""
    path = tmp_path / "a.h5"
    another = Invocation({"x": np.arange(2)}, {}, "", kernel="another")
    write_capture(path, [another, calls[0], *[another] * between, calls[1]])
    for invocation in ("all", 1, between + 2):
        result = replay("run", path, "--json", "-", "--invocation", invocation).json
        of_one = [call["id"] for call in result["invocations"]]
        if between == 63:
            assert of_one == [1] and result["invocations"][0]["notes"]
        else:
            assert of_one == ([1, between + 2] if invocation == "all" else [invocation])
            assert not any(call.get("notes") for call in result["invocations"])
