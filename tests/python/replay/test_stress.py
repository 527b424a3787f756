"""msda-replay stress: the probability that a test fails, on msda-triton's test, whose real failures were counted."""

import json
import os
import re

import jsonschema
import pytest
from conftest import REPLAY, SOURCE
from support.library_test import as_library_tests_do, recorded  # noqa: F401
from support.terminal import Shown

from msda_replay.digest import digest

SCHEMA = json.loads((SOURCE / "docs" / "stress.schema.json").read_text())


@pytest.fixture
def stress(replay):
    def run(capture, *options, expect=None, curve_runs=4):
        result = replay("stress", capture, "--json", "-", "--curve-runs", curve_runs, *options, expect=expect).json
        jsonschema.validate(result, SCHEMA)
        return result

    return run


def test_tolerances_that_say_nothing_new_are_not_printed(replay, stress):
    """Where no run fails with a tolerance, none does with a looser one; the JSON has them all."""
    capture = SOURCE / "docs" / "findings" / "embedding_on_a_cpu.h5"
    text = replay("stress", capture, "--runs", 3, "--curve-runs", 3, "--seed", 1, expect=0).out
    for name in ("atol", "rtol"):
        (rows,) = re.findall(rf"^With another {name}\n((?:  .*\n)+)", text, re.M)
        points = stress(capture, "--runs", 3, "--seed", 1, curve_runs=3)["curve"][name]
        passing = [f"{point[name]:g}" for point in points if point["failures"] == 0]
        assert len(passing) > 4 and sum(row.split()[0] in passing for row in rows.splitlines()) == 1


def test_inputs_are_recognized(recorded, stress):
    result = stress(recorded, "--batch", 4, "--heads", 8, "--runs", 8, "--seed", 2, expect=1, curve_runs=0)
    assert {name: drawn["generator"] for name, drawn in result["inputs"].items()} == {
        "value": "normal(0,1)", "sampling_locations": "uniform(0,1)", "attention_weights": "softmax(1,3)",
        "grad_output": "uniform(0,1)",
    }
    assert result["slices"] == 32 and result["observed"] == "msda_triton" and result["against"] == "grid_sample"
    assert result["criterion"] == {"kind": "allclose", "atol": 1e-3, "rtol": 1e-2}
    assert result["failure_probability"]["runs"] == 8


@pytest.mark.long
def test_the_rate_of_real_failures_is_inside(recorded, stress):
    """913 of 10,899 real runs failed; the whole interval takes minutes, this one is wider."""
    result = stress(recorded, "--batch", 4, "--heads", 8, "--width", 0.05, "--seed", 5, expect=1)
    probability = result["failure_probability"]
    assert probability["low"] <= 913 / 10899 <= probability["high"]
    assert probability["high"] - probability["low"] <= 0.05
    assert set(result["by_cause"]) <= {"cell_boundary", "border_clamp", "ill_conditioned"}
    assert result["by_tensor"]["grad_value"]["failures"] == 0 and result["by_tensor"]["grad_attention_weights"]["failures"] == 0
    # The failure is one of the inputs and the reference's arithmetic, not of the order of additions.
    sources = result["by_source"]
    assert sources["same_inputs"] == {"fails": True, "elements": 1} and sources["other_order"]["estimate"] == 1
    assert {entry["against"]: entry["fails"] for entry in sources["other_arithmetic"]} == {
        "float64": False, "grid_sample": True, "msda_triton": False}
    # A larger tolerance never fails more often.
    for name in ("atol", "rtol"):
        runs = probability["runs"]
        estimates = [point["estimate"] for point in result["curve"][name] if point["runs"] == runs]
        assert estimates == sorted(estimates, reverse=True) and len(estimates) > 5
        assert estimates[0] == probability["estimate"]
    for example in result["examples"]:
        assert abs(example["observed"] - example["expected"]) > 1e-3 + 1e-2 * abs(example["expected"])


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_every_element_gives_the_same(tmp_path, stress, padding_mode, align_corners):
    path = as_library_tests_do(tmp_path, padding_mode=padding_mode, align_corners=align_corners)
    options = ("--runs", 100, "--width", 0.001, "--atol", 2e-6, "--rtol", 1e-3)
    result, all_told = (stress(path, *options, *more) for more in ((), ("--every-element",)))
    assert result == all_told
    assert 0 < result["failure_probability"]["failures"] < 100


def test_the_same_seed_gives_the_same_runs(tmp_path, stress):
    path = as_library_tests_do(tmp_path)
    options = ("--runs", 128, "--width", 0.001, "--atol", 2e-6, "--rtol", 1e-3)
    entry = stress(path, *options, "--threads", 1)
    assert entry == stress(path, *options, "--threads", 3)
    assert entry["failure_probability"] != stress(path, *options, "--seed", 2)["failure_probability"]


def test_runs_are_continued(tmp_path, stress, replay):
    path, state = as_library_tests_do(tmp_path), tmp_path / "state.json"
    options = ("--width", 0.001, "--atol", 2e-6, "--rtol", 1e-3)
    whole = stress(path, *options, "--runs", 130)
    stress(path, *options, "--runs", 50, "--state", state)
    continued = stress(path, *options, "--runs", 130, "--state", state)
    for name in ("failure_probability", "by_cause", "by_tensor", "elements_out_of_tolerance", "curve"):
        assert continued[name] == whole[name], name
    another = replay("stress", path, *options, "--seed", 9, "--state", state, expect=2)
    assert "of another simulation" in another.err
    kept = json.loads(state.read_text())
    for edit in ({"runs": 2**63 - 1}, {"failures": 131}, {"failures": "7"}, {"runs": -1}, {"by_atol": 1e300}, {"elements": None}, {"failures": 3}):
        for signed in (False, True):  # nothing keeps anybody from computing it, too
            edited = {**kept, **edit}
            if signed:
                del edited["digest"]
                edited["digest"] = digest(json.dumps(edited, separators=(",", ":"), ensure_ascii=False).encode())
            state.write_text(json.dumps(edited))
            if edit == {"failures": 3} and signed:
                assert stress(path, *options, "--runs", 130, "--state", state)["failure_probability"]["failures"] == 3
                continue
            printed = replay("stress", path, *options, "--state", state, expect=2).err
            assert f"--state {state}: " in printed and ("not a state" in printed or "it is damaged" in printed), printed
    state.write_text("{")
    assert "not a state" in replay("stress", path, *options, "--state", state, expect=2).err
    state.unlink()
    os.mkfifo(state)
    assert "not a state" in replay("stress", path, *options, "--state", state, expect=2).err


def test_an_interrupt_prints_what_is_known(tmp_path):
    process = Shown(REPLAY, "stress", as_library_tests_do(tmp_path), "--atol", "2e-6", "--rtol", "1e-3", "--json", "-", "--width", "0.0001")
    process.wait_for(r"[1-9]\d* runs: ")
    process.interrupt()
    result = json.loads(process.finish()[0])
    jsonschema.validate(result, SCHEMA)
    assert result["interrupted"] and 0 < result["failure_probability"]["runs"] < 100_000
    assert process.returncode in (0, 1)


def test_criteria_and_references(tmp_path, stress):
    path = as_library_tests_do(tmp_path)
    anchored = stress(path, "--criterion", "anchored:2", "--runs", 20)
    assert anchored["criterion"] == {"kind": "anchored", "factor": 2} and "curve" not in anchored
    # The kernel's own errors are never larger than a billion times the reference's.
    assert stress(path, "--criterion", "anchored:1e9", "--runs", 20)["failure_probability"]["failures"] == 0
    assert stress(path, "--criterion", "anchored:1e-9", "--runs", 20)["failure_probability"]["failures"] == 20
    assert stress(path, "--against", "float64", "--runs", 20)["against"] == "float64"
    # Against its own arithmetic only the order of additions differs.
    own = stress(path, "--against", "msda_triton", "--runs", 20, "--atol", 0, "--rtol", 1e-7, expect=1)
    assert set(own["by_cause"]) == {"accumulation_order"}
    assert own["by_tensor"]["grad_value"]["failures"] == 20 and own["by_tensor"]["grad_sampling_locations"]["failures"] == 0


def test_generators_are_chosen(tmp_path, stress):
    path = as_library_tests_do(tmp_path)
    result = stress(path, "--draw", "sampling_locations=uniform(0.3,0.31)", "--draw", "value=normal(0,0)", "--runs", 10, expect=0)
    assert result["inputs"]["sampling_locations"] == {"generator": "uniform(0.3,0.31)", "fitted": False}


@pytest.mark.parametrize("options, message", [
    (("--against", "torch"), "there are float64, grid_sample"),
    (("--criterion", "anchored:0"), "anchored:K"),
    (("--draw", "nothing=uniform(0,1)"), "TENSOR one of value"),
    (("--draw", "value=gamma(1,1)"), "no such generator"),
    (("--draw", "value=uniform(1,0)"), "LOW must be below HIGH; there are uniform(LOW,HIGH)"),
    (("--draw", "value=normal(0,1e38)"), "its numbers must lie between -1e30 and 1e30"),
    (("--batch", "0"), "from 1"),
    (("--runs", "0"), "from 1"),
    (("--width", "0"), "above 0"),
    (("--confidence", "1"), "between 0 and 1"),
    (("--atol", "-1"), "from 0 on"),
])
def test_bad_flags_are_refused(tmp_path, replay, options, message):
    assert message in replay("stress", as_library_tests_do(tmp_path), *options, expect=2).err
