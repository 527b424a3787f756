"""msda-replay run: JSON as its schema says, text for a person, exit statuses, flags."""

import json
import re

import numpy as np
import pytest
from conftest import GRADIENTS, REPLAY
from support.problems import backward, make_problem
from support.run_results import check_schema, right_invocation
from support.terminal import Shown

from msda_replay import Invocation, Result, write_capture


def test_schema_of_every_kind_of_result(replay, demo_capture, tmp_path, rng):
    check_schema(replay("run", demo_capture, "--json", "-").json)
    check_schema(replay("run", demo_capture, "--json", "-", "--repeat", 3).json)
    # Right; wrong in many elements; not finite; without reference, tolerance, or outputs.
    invocations = [right_invocation(rng, tolerance=None) for _ in range(4)]
    invocations[1].outputs["grad_value"] *= -1
    invocations[2].inputs["value"][0, 3, 0, 2] = np.nan
    invocations[2].inputs["grad_output"][0, 3, 0, 2] = np.inf
    invocations[3].outputs = {}
    path = tmp_path / "a.h5"
    write_capture(path, invocations)
    result = replay("run", path, "--json", "-", expect=1).json
    check_schema(result)
    assert [i["id"] for i in result["invocations"]] == [0, 1, 2, 3]
    assert [bool(i["findings"]) for i in result["invocations"]] == [False, True, True, False]
    assert [i["verdict"]["compared"] for i in result["invocations"]] == [True, True, True, False]


def test_nothing_to_compare(replay, tmp_path, rng):
    """Gradients that were not recorded are not within tolerance."""
    path, target = tmp_path / "a.h5", tmp_path / "out.json"
    right = right_invocation(rng)
    nothing = Invocation(right.inputs, {}, "msda_triton", results={"torch": Result(right.outputs, "reference", "grid_sample")})
    write_capture(path, [nothing, nothing])
    for options, who in (((), "invocation 0 and 1 other have nothing to compare"),
                         (("--invocation", 1), "invocation 1 has nothing to compare")):
        finished = replay("run", path, *options, "--json", target, expect=2)
        (line,) = finished.err.splitlines()
        for part in (str(path), who, "there are no gradients in its outputs", "record the call again"):
            assert part in line, line
        assert finished.out.startswith("Nothing to compare: ") and "within tolerance" not in finished.out
        result = json.loads(target.read_text())
        check_schema(result)
        for verdict in (result["verdict"], *(call["verdict"] for call in result["invocations"])):
            assert verdict["compared"] is False and verdict["causes"] == {} and "Nothing to compare" in verdict["summary"]
        assert set(result["invocations"][0]["digests"]) == {"deterministic", "atomic", "float64"}  # replayed all the same
    assert replay("run", path, "--json", "-", expect=2).json["verdict"]["compared"] is False


def test_nothing_to_compare_beside_what_can_be_judged(replay, tmp_path, rng):
    path = tmp_path / "a.h5"
    right, wrong, nothing = (right_invocation(rng) for _ in range(3))
    wrong.outputs["grad_value"] *= -1
    nothing.outputs = {}
    partly = right_invocation(rng)
    del partly.outputs["grad_value"]
    for others, status in (([right], 0), ([right, partly], 0), ([right, wrong], 1)):
        write_capture(path, [nothing, *others], overwrite=True)
        finished = replay("run", path, expect=status)
        assert finished.err == ""
        assert re.search(r"^Invocation 0: (?:.*\n){2,3}  nothing to compare: it has no gradients in its outputs", finished.out, re.M)
        assert finished.out.count("nothing to compare") == 1
        result = replay("run", path, "--json", "-", expect=status).json
        check_schema(result)
        assert result["verdict"]["compared"] is True
        assert [call["verdict"]["compared"] for call in result["invocations"]] == [False] + [True] * len(others)
        if len(others) > 1:
            assert finished.out.startswith(f"{status} of 2 invocations out of tolerance. ")


OURS = ("grid_sample", "atomic", "deterministic", "float64", "mixed", "original", "recorded", "reference")


@pytest.mark.parametrize("name", OURS + ("torch", "stored atomic"))
def test_stored_results_are_not_taken_for_replays(replay, tmp_path, rng, name):
    """A result's name is chosen by the user and decides nothing."""
    path = tmp_path / "a.h5"
    right = right_invocation(rng)
    right.inputs["value"][0, 3, 0, 2] = 3
    right.outputs = {key: array.astype(np.float32) for key, array in backward(right.inputs).items()}
    wrong = {key: array + 1 for key, array in right.outputs.items()}
    results = {}
    for stored in ("a result", name):
        right.results = {stored: Result(wrong, "", "msda_triton")}
        write_capture(path, right, overwrite=True)
        result = replay("run", path, "--json", "-", expect=0).json
        check_schema(result)
        (call,) = result["invocations"]
        assert call["findings"] == []  # no advice on it either
        shown = "stored " + name if stored == name and name != "torch" else stored
        mine = [c for c in call["comparisons"] if shown in (c["observed"], c["expected"])]
        assert len(mine) == 6 and all(c["mismatched"] == c["total"] for c in mine)
        text = replay("run", path, "--verbose", expect=0).out
        assert f"recorded : {shown} " in text and f"{shown} : float64 " in text
        results[stored] = [{**c, "observed": c["observed"].replace(shown, "it"), "expected": c["expected"].replace(shown, "it")}
                           for c in call["comparisons"]]
    assert results["a result"] == results[name]


def test_a_stored_result_counts_whatever_its_name(replay, tmp_path, rng):
    """For an ill-conditioned element, one side that meets the tolerance shows that the precision suffices."""
    path = tmp_path / "a.h5"
    inputs = make_problem(rng)
    inputs["value"] *= 1000  # large addends that nearly cancel
    truth = {key: array.astype(np.float32) for key, array in backward(inputs).items()}
    near = {key: np.nextafter(array, np.float32(np.inf)) for key, array in truth.items()}
    causes = []
    for stored in ("torch", "atomic", "original"):
        results = {stored: Result(truth, "", "msda_triton")}
        write_capture(path, Invocation(inputs, near, "msda_triton", results=results, atol=0, rtol=2e-8), overwrite=True)
        (call,) = replay("run", path, "--json", "-", "--mode", "atomic", expect=1).json["invocations"]
        causes.append([(f["tensor"], f["index"], f["cause"], f["at_fault"], f["why"]) for f in call["findings"] if "advisory" not in f])
    assert causes[0] == causes[1] == causes[2]


def test_comparisons_agree_with_numpy(replay, tmp_path, rng):
    invocation = right_invocation(rng)
    reference = {name: array + np.float32(1e-4) * rng.standard_normal(array.shape, np.float32)
                 for name, array in invocation.outputs.items()}
    reference["grad_value"][0, 2, 1, 3] += 1
    invocation.results["reference"] = Result(reference, "reference", "grid_sample")
    path = tmp_path / "a.h5"
    write_capture(path, invocation)
    result = replay("run", path, "--json", "-", expect=1).json
    for name in GRADIENTS:
        (comparison,) = [c for c in result["invocations"][0]["comparisons"]
                         if (c["observed"], c["expected"], c["tensor"]) == ("recorded", "reference", name)]
        observed, expected = invocation.outputs[name].astype(np.float64), reference[name].astype(np.float64)
        difference = np.abs(observed - expected)
        assert comparison["total"] == observed.size
        assert comparison["mismatched"] == (difference > 1e-3 + 1e-2 * np.abs(expected)).sum()
        assert comparison["max_abs"] == pytest.approx(difference.max(), rel=1e-12)
        relative = difference[expected != 0] / np.abs(expected[expected != 0])
        assert comparison["max_rel"] == pytest.approx(relative.max(), rel=1e-12)
        assert comparison["worst_index"] == list(map(int, np.unravel_index(difference.argmax(), difference.shape)))
    findings = [f for f in result["invocations"][0]["findings"] if f["against"] == "reference"]
    assert [f["index"] for f in findings] == [[0, 2, 1, 3]]
    assert (findings[0]["cause"], findings[0]["at_fault"]) == ("implementation_error", "reference")


def test_quiet_is_the_verdict_alone(replay, demo_capture):
    assert len(replay("run", demo_capture, "--quiet", expect=1).out.splitlines()) == 1


def test_json_into_a_file(replay, demo_capture, tmp_path):
    target = tmp_path / "out.json"
    finished = replay("run", demo_capture, "--json", target, expect=1)
    assert "error[cell_boundary]" in finished.out
    check_schema(json.loads(target.read_text()))


def test_digests_do_not_depend_on_threads(replay, demo_capture):
    digests = [
        replay("run", demo_capture, "--json", "-", "--threads", threads).json["invocations"][0]["digests"]
        for threads in (1, 2, 7)
    ]
    assert digests[0] == digests[1] == digests[2]
    assert set(digests[0]) == {"deterministic", "atomic", "float64"}
    assert all(re.fullmatch(r"xxh3-128:[0-9a-f]{32}", digest) for mode in digests[0].values() for digest in mode.values())


def test_digest_is_of_the_bytes_that_numpy_sees(replay, tmp_path, rng):
    from msda_replay.digest import digest

    invocation = right_invocation(rng)
    path = tmp_path / "a.h5"
    write_capture(path, invocation)
    replay("verify", path, expect=0)
    shown = replay("show", path, "--json", "-", expect=0).json["invocations"][0]["tensors"]
    for tensor in shown:
        arrays = invocation.inputs if "/inputs/" in tensor["path"] else invocation.outputs
        assert tensor["digest"] == digest(arrays[tensor["name"]].tobytes())


def test_repeat(replay, tmp_path, rng):
    path = tmp_path / "a.h5"
    write_capture(path, right_invocation(rng, queries=300, levels=((2, 2),)))
    result = replay("run", path, "--json", "-", "--repeat", 5, expect=0).json["invocations"][0]
    assert result["repeats"]["deterministic"]["grad_value"] == {"distinct": 1, "spread": 0}
    atomic = result["repeats"]["atomic"]
    assert atomic["runs"] == 5 and atomic["grad_value"]["distinct"] == 5
    assert 0 < atomic["grad_value"]["spread"] < 1e-3
    assert atomic["grad_sampling_locations"]["distinct"] == 1
    seeded = [replay("run", path, "--json", "-", "--seed", seed).json["invocations"][0]["digests"]["atomic"] for seed in (7, 7, 8)]
    assert seeded[0] == seeded[1] != seeded[2]


def test_modes(replay, demo_capture):
    result = replay("run", demo_capture, "--json", "-", "--mode", "deterministic").json["invocations"][0]
    assert set(result["digests"]) == {"deterministic", "float64"}
    mixed = replay("run", demo_capture, "--json", "-", "--mode", "mixed,deterministic", "--float64-stages",
                   "pixel_coordinates").json["invocations"][0]
    assert set(mixed["digests"]) == {"deterministic", "float64", "mixed"}
    assert mixed["digests"]["mixed"] != mixed["digests"]["deterministic"]


def test_tolerance_flags_replace_the_recorded_one(replay, demo_capture):
    loose = replay("run", demo_capture, "--atol", 1000, "--json", "-", expect=0).json
    assert loose["invocations"][0]["tolerance"] == {"atol": 1000, "rtol": 0.01}
    tight = replay("run", demo_capture, "--atol", 0, "--rtol", 1e-7, "--json", "-", expect=1).json
    causes = tight["verdict"]["causes"]
    assert set(causes) <= {"rounding", "ill_conditioned", "accumulation_order", "cell_boundary"}
    assert causes["cell_boundary"] == 1 and causes["ill_conditioned"] + causes["rounding"] > 1000


def test_one_line_of_progress_on_a_terminal_only(demo_capture):
    process = Shown(REPLAY, "run", demo_capture)
    _, shown = process.finish()
    assert process.returncode == 1
    assert "float64" in shown and "\n" not in shown and shown.endswith("\r\x1b[K")
