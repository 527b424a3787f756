"""tools/bench/recording_cost.py with a stand-in client that needs no GPU, and its arithmetic against closed forms."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import types

import h5py
import pytest
from conftest import BUILD, SOURCE

BENCH = SOURCE / "tools" / "bench"
CLIENT = SOURCE / "tests" / "python" / "support" / "stand_in_client.py"
sys.path.insert(0, str(BENCH))
import harness  # noqa: E402
import recording_cost  # noqa: E402
from recording import judge, runs  # noqa: E402

has_torch = importlib.util.find_spec("torch") is not None


def bench(*arguments):
    command = [sys.executable, BENCH / "recording_cost.py", "--build", BUILD, "--client", CLIENT, *arguments]
    return subprocess.run([str(entry) for entry in command], capture_output=True, text=True, timeout=300)


def made(mode="plain", seconds=1.0, model="m", steps=1, losses=("0x1p+0",), stable="s", sketch=None, calls=4, **rest):
    """A run as the JSON has it."""
    client = {"calls": calls, "losses": list(losses), "stable": stable, "sketch": sketch or {"w": [1.0] * 8}, "step_seconds": seconds / 4}
    capture = {} if mode == "plain" else {"bytes": 1000, "recorded": calls, "duplicates": 0}
    return {"round": 0, "model": model, "steps": steps, "mode": mode, "seconds": seconds, "client": client, **capture, **rest}


# The whole script

def test_every_mode_in_every_round(tmp_path):
    out = tmp_path / "a.json"
    captures = tmp_path / "captures"
    captures.mkdir()
    done = bench("--models", "steady", "--steps", 3, "--rounds", 2, "--output-dir", captures, "--json", out)
    assert done.returncode == 0, done.stderr
    assert list(captures.iterdir()) == []
    found = json.loads(out.read_text())
    assert found["machine"] == {"device": "stand-in"}
    taken = [(run["round"], run["mode"]) for run in found["runs"]]
    first = list(runs.MODES)
    assert sorted(taken) == sorted((turn, mode) for turn in range(2) for mode in first)
    assert [turn for turn, mode in taken] == sorted(turn for turn, mode in taken)
    for run in found["runs"]:
        if run["mode"] != "plain":
            assert run["recorded"] == (2 if run["mode"] == "last:2" else 3) and run["bytes"] > 0
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| steady")]
    plain = sum(run["seconds"] for run in found["runs"] if run["mode"] == "plain") / 2  # the median of two
    for line in lines:
        mine = [run for run in found["runs"] if run["mode"] == line[2]]
        seconds = sum(run["seconds"] for run in mine) / 2
        assert line[1] == "3" and line[3] == "2" and line[4].startswith(f"{seconds:.2f} (")
        if line[2] != "plain":
            assert line[6] == f"{seconds / plain:.2f}"
        if line[2] == "all":
            assert line[7] == f"{1.1 + sum(run['bytes'] / run['disk'] for run in mine) / 2 / plain:.2f}"
    assert [line[2] for line in lines] == first


@pytest.mark.parametrize("model, message", [
    ("other_loss", "loss of step 1 is 0x"), ("other_stable", "gradients that no atomics reach differ"), ("other_gradient", "times as far"),
    ("losing", "1 calls recorded of 2"), ("failing", "client: out of memory"), ("silent", "is no JSON: done"),
])
def test_what_the_recorder_may_not_do(tmp_path, model, message):
    done = bench("--models", model, "--steps", 1, "--rounds", 2, "--modes", "plain,digest-only", "--output-dir", tmp_path)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missed_ratio_fails_where_that_is_asked_for(tmp_path):
    out = tmp_path / "a.json"
    done = bench("--models", "slow", "--steps", 1, "--rounds", 2, "--modes", "plain,last:2", "--output-dir", tmp_path, "--json", out)
    assert done.returncode == 0, done.stderr
    done = bench("--from", out, "--assert")
    assert done.returncode == 1 and "slow, 1 steps, last:2: " in done.stderr and "times plain, at most 1.100 is promised" in done.stderr


def test_nothing_to_measure_with(tmp_path):
    done = bench("--models", "absent", "--output-dir", tmp_path)
    assert (done.returncode, done.stderr) == (77, "") and "no GPU that PyTorch can use" in done.stdout


def test_a_client_that_hangs_is_ended(tmp_path):
    done = bench("--models", "hanging", "--output-dir", tmp_path, "--limit", 1)
    assert done.returncode == 1 and "not done after 1 s" in done.stderr and list(tmp_path.iterdir()) == []


def test_documented():
    text = (SOURCE / "docs" / "measured" / "benchmarks.md").read_text()
    section = text[text.index("recording_cost.py"):]
    for flag in re.findall(r"^  (--[\w-]+)", bench("--help").stdout, re.M):
        assert f"`{flag}" in section, flag


def test_reports_are_read_together(tmp_path, capsys):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, seconds in zip(paths, (2.0, 4.0)):
        report = {"command": "c", "date": "2026-11-22", "machine": {"GPU": "X"}, "runs": [made(seconds=seconds)]}
        path.write_text(json.dumps(report))
    assert recording_cost.main(["--build", str(BUILD), "--from", *map(str, paths)]) == 0
    assert "| m | 1 | plain | 2 | 3.00 (2.50 to 3.50) | 0.75 |" in capsys.readouterr().out


# Its parts

def test_each_round_has_an_order_of_its_own():
    chosen = types.SimpleNamespace(models=["a", "b"], steps=[1, 10], modes=["plain", "all", "last:2"], rounds=4)
    taken = list(runs.schedule(chosen))
    assert taken[:2] == [(-1, "a", 1, ["plain"]), (-1, "b", 1, ["plain"])]
    assert list(runs.schedule(chosen)) == taken and all(sorted(entry[3]) == sorted(chosen.modes) for entry in taken[2:])
    follows = {(entry[3][i], entry[3][i + 1]) for entry in taken[2:] for i in range(2)}
    assert len(follows) == 6  # each mode after each other one
    assert [entry[:3] for entry in taken[2:]] == [(turn, model, steps) for turn in range(4) for model in "ab" for steps in (1, 10)]


def test_no_turn_begins_after_the_time(tmp_path):
    chosen = types.SimpleNamespace(models=["a"], steps=[1], modes=["plain"], rounds=4, seconds=1e-9, output_dir=tmp_path)
    runs.measure(None, chosen, None)  # a turn would need a client


def test_a_full_disk_is_noticed_before(tmp_path, monkeypatch):
    monkeypatch.setattr(runs.shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=999))
    runs.check_room(tmp_path, 999)
    with pytest.raises(harness.Failed, match="0.0 GB free.*may need.*--output-dir"):
        runs.check_room(tmp_path, 1000)


def test_the_disk_gets_all_bytes(tmp_path, monkeypatch):
    size, seen, now = 2 * runs.BLOCK + 5, [], iter([10.0, 14.0])
    monkeypatch.setattr(runs.os, "fsync", lambda file: seen.append(os.fstat(file).st_size))
    monkeypatch.setattr(runs.time, "perf_counter", lambda: next(now))
    assert runs.write_speed(tmp_path, size) == size / 4
    assert seen == [size] and list(tmp_path.iterdir()) == []


def test_a_spool_that_is_left_is_no_capture(tmp_path):
    (tmp_path / "capture.h5.spool").write_bytes(b"x")
    with pytest.raises(harness.Failed, match="capture.h5.spool is left"):
        runs.captured(tmp_path)


def test_the_plain_run_is_not_recorded(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("MSDA_RECORD_OUTPUT", "/nowhere.h5")
    show = "import os; print([name for name in os.environ if name == 'LD_PRELOAD' or name.startswith('MSDA_RECORD')])"
    assert harness.finish([sys.executable, "-c", show], 60)[1] == "[]\n"


def test_ratios_and_limits():
    measured = [made(seconds=seconds) for seconds in (10.0, 1.0, 3.0, 2.0, 4.0)]
    measured += [made("default", seconds) for seconds in (3.0, 3.2, 99.0)]
    measured += [made("all", 6.0, bytes=6e9, disk=2e9), made("all", 7.0, bytes=6e9, disk=2e9)]
    by_mode = {row["mode"]: row for row in judge.rows(measured)}
    assert by_mode["plain"]["seconds"] == {"median": 3.0, "q1": 2.0, "q3": 4.0, "runs": 5} and by_mode["plain"]["step_seconds"] == 0.75
    assert by_mode["default"]["ratio"] == pytest.approx(3.2 / 3) and by_mode["default"]["limit"] == pytest.approx(1.1)
    assert by_mode["all"]["ratio"] == pytest.approx(6.5 / 3) and by_mode["all"]["limit"] == pytest.approx((3.3 + 3) / 3)
    assert judge.missed(judge.rows(measured)) == ["m, 1 steps, all: 2.167 times plain, at most 2.100 is promised"]
    assert judge.missed(judge.rows([made("default")])) == ["m, 1 steps, default: no plain run to compare with"]


def test_losses_and_stable_gradients_bit_for_bit():
    plain = [made(), made()]
    assert judge.failures([*plain, made("default")]) == []
    assert judge.failures([*plain, made("default", losses=("0x1.0000000000001p+0",))]) == [
        "m, 1 steps, default: loss of step 1 is 0x1.0000000000001p+0, not 0x1p+0"]
    assert "loss of step 2 is None" in judge.failures([made(losses=("0x1p+0", "0x1p+1")), made("all", losses=("0x1p+0",))])[0]
    assert "no atomics reach differ" in judge.failures([*plain, made("all", stable="t")])[0]
    # The client itself varies: this is reported.
    assert "the client alone varies" in judge.failures([made(), made(stable="t")])[0]


@pytest.mark.parametrize("mode, recorded, duplicates, broken", [
    ("all", 4, 0, False), ("all", 3, 1, False), ("all", 3, 0, True), ("digest-only", 5, 0, True), ("last:2", 2, 0, False),
    ("last:2", 1, 3, True), ("last:2", 4, 0, True), ("default", 1, 0, False), ("default", 0, 0, True),
])
def test_calls_that_are_lost(mode, recorded, duplicates, broken):
    run = made(mode, recorded=recorded, duplicates=duplicates)
    assert bool(judge.failures([made(), made(), run])) == broken


def test_calls_of_other_kernels_do_not_count(tmp_path):
    with h5py.File(tmp_path / "capture.h5", "w") as file:
        for number, (kernel, duplicates) in enumerate([("grid<float>", 1), ("embedding", 2), ("grid<double>", 0)]):
            file.create_group(f"invocations/{number:06}").attrs.update(kernel=kernel, duplicates=duplicates)
    assert runs.captured(tmp_path, "grid").items() >= {"recorded": 3, "duplicates": 3, "others": 3}.items()
    assert runs.captured(tmp_path)["others"] == 0
    seen = {"recorded": 3, "duplicates": 3, "others": 3}
    assert not judge.failures([made(calls=3), made(calls=3), made("all", calls=3, **seen)])
    assert "3 calls recorded of 4" in judge.failures([made(), made(), made("all", **seen)])[0]


def by_mode(*sketches):
    """Two plain runs and one under the recorder."""
    return {"plain": [made(sketch=sketche) for sketche in sketches[:2]], "all": [made("all", sketch=sketche) for sketche in sketches[2:]]}


def test_spreads():
    """Distances by hand: parameter a differs by d between the plain runs, b by rounding errors at most."""
    d = 2.0**-10
    a = [{"a": [1 + step * d] * 8} for step in (0, 1, 3)]
    assert judge.spreads(by_mode(*a)) == {"plain": pytest.approx(1), "all": pytest.approx((3 + 2) / 2)}
    # Two parameters, one of which has not changed: the root mean square.
    two = [{**entry, "b": [1.0] * 8} for entry in a]
    assert judge.spreads(by_mode(*two))["all"] == pytest.approx((3 + 2) / 2 / math.sqrt(2))
    # Plain runs that agree allow a rounding error: 2^-21 of the sums counts as one unit.
    agreeing = [{"b": [1.0] * 8}, {"b": [1.0] * 8}, {"b": [1 + 4 * 2.0**-21] * 8}]
    assert judge.spreads(by_mode(*agreeing)) == {"plain": 0, "all": pytest.approx(4)}
    assert judge.failures([run for mine in by_mode(*agreeing).values() for run in mine]) == [
        "m, 1 steps, all: gradients that atomics reach are 4.0 times as far from the plain runs' as those are from one another, at most 3 is promised"]
    zero = [{"z": [0.0] * 8}, {"z": [0.0] * 8}, {"z": [1e-30] * 8}]
    assert judge.spreads(by_mode(*zero))["all"] > 1e9  # a gradient that is zero must stay so
    for strange in ({}, {"b": [math.nan] * 8}):
        assert judge.spreads(by_mode(*agreeing[:2], strange or {"other": [1.0] * 8}))["all"] == math.inf


# The client of the real measurement

def load_client():
    spec = importlib.util.spec_from_file_location("recording_client", BENCH / "recording" / "client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(has_torch, reason="PyTorch is here")
def test_client_without_pytorch():
    done = subprocess.run([sys.executable, BENCH / "recording" / "client.py", "rt-detr"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (77, "") and "torch is not installed" in done.stderr


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_what_atomics_reach():
    """Everything before a grid_sample's input, also indirectly; nothing after it, or only before its grid."""
    import torch

    client = load_client()
    before, both, grid, behind = (torch.ones(1, requires_grad=True) for _ in range(4))
    image = torch.ones(1, 1, 4, 4) * before * both
    points = torch.zeros(1, 2, 2, 2) + (grid * both).reshape(1, 1, 1, 1)
    for _ in range(2):
        image = torch.nn.functional.grid_sample(image, points, align_corners=False).repeat(1, 1, 2, 2) * behind
    calls, reached = client.atomics_reach(image.sum())
    # The first grid_sample's output, and with it `behind`, is the second one's input; so is the first one's grid.
    assert (calls, reached) == (2, {id(before), id(both), id(grid), id(behind)})
    calls, reached = client.atomics_reach((torch.nn.functional.grid_sample(
        torch.ones(1, 1, 4, 4) * before, points, align_corners=False) * behind).sum())
    assert (calls, reached) == (1, {id(before)})


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_sketch():
    """The same signs in every run, other signs for each parameter and step, and squares that estimate the squared norm."""
    import torch

    client = load_client()
    ones = [client.Sketch(torch, "cpu") for _ in range(2)]
    values = torch.arange(1000.0)
    for sketch in ones:
        sketch.add("a", values)
        sketch.add("b", values)
    first, second = (sketch.numbers() for sketch in ones)
    assert first == second and first["a"] != first["b"] and len(first["a"]) == client.SIGNS
    assert all(entry % 2 == float(values.sum()) % 2 for entry in first["a"])  # signs change no parity
    norm = sum(entry**2 for entry in (*first["a"], *first["b"])) / 16
    assert 0.3 < norm / float((values**2).sum()) < 2.5
    ones[0].add("a", values)
    assert ones[0].numbers()["a"] != [2 * entry for entry in first["a"]]
