"""tools/bench/gpu_bench.py as far as no GPU is needed: inputs, statistics, tables, promises."""

import importlib.util
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import BUILD, SOURCE

BENCH = SOURCE / "tools" / "bench"
LIBRARY = BUILD / "lib" / "libmsda.so"
sys.path.insert(0, str(BENCH))
import gpu_bench  # noqa: E402
from gpu import names, problems, report  # noqa: E402

has_torch = importlib.util.find_spec("torch") is not None


def run(*arguments):
    return subprocess.run([sys.executable, BENCH / "gpu_bench.py", *map(str, arguments)], capture_output=True, text=True, timeout=300)


def times(median, low=None, high=None):
    return {"median": median, "q1": low or median, "q3": high or median, "runs": 30}


def cell(contention="uniform", dtype="float32", row=1, **milliseconds):
    """A line of the table; ours by mode and dialect, peers by short names; warm is as fast as cold."""
    known = {"det": "deterministic", "det_triton": names.ours("deterministic", "msda_triton"), "atomic": "atomic",
             "triton": names.MSDA_TRITON, "torch": names.GRID_SAMPLE, "detr": names.DEFORMABLE_DETR}
    contenders = {known[name]: {"cold": times(time), "warm": times(time)} if isinstance(time, float) else {"absent": time}
                  for name, time in milliseconds.items()}
    return {"problem": problems.EVERY_ROW[row].name, "type": dtype, "contention": contention, "contenders": contenders}


def made_report(cells):
    return {"command": "python3 tools/bench/gpu_bench.py", "date": "2026-11-21", "machine": {"GPU": "X"}, "absent": {"other": "not here"},
            "cells": cells, "seconds": 7, "promises": report.promises(cells)}


def judged(cells):
    return {(entry["what"].split(",")[0], entry["where"].split()[-2]): (entry["figure"], entry["held"]) for entry in report.promises(cells)
            if entry["where"].endswith("cold")}


def test_what_is_chosen():
    every = gpu_bench.parse(["--library", str(LIBRARY)])
    cells = gpu_bench.cells_of(every)
    assert len(cells) == len(set(cells)) == 4 * (4 + 2) + 5 * 4  # the other contentions in float32, and not of the short rows
    some = gpu_bench.parse(["--library", str(LIBRARY), "--rows", "1,Q100,D64", "--types", "float16,float32", "--contention", "uniform,single"])
    uniform = [(row, dtype, "uniform") for row in (1, "Q100", "D64") for dtype in ("float16", "float32")]
    assert set(gpu_bench.cells_of(some)) == {*uniform, (1, "float32", "single"), ("Q100", "float32", "single"), ("D64", "float32", "single")}


def test_documented():
    text = (SOURCE / "docs" / "measured" / "benchmarks.md").read_text()
    for flag in re.findall(r"^  (--[\w-]+)", run("--help").stdout, re.M):
        assert f"`{flag}" in text, flag


def test_problems():
    # 4 bytes of value and grad_output, locations and weights, counted by hand.
    assert problems.ROWS[1].input_bytes("float32") == 4 * (4 * 5440 * 256 + 4 * 1000 * 256 + 4 * 1000 * 8 * 12 * 3)
    assert [problems.ROWS[row].name for row in range(1, 5)] == ["4 1000 8 4 3 32", "4 1000 8 4 4 32", "4 10000 8 4 4 32", "2 22223 8 4 4 32"]
    assert problems.ROWS[4].pixels == 16700 + 4200 + 1050 + 273
    for dtype in problems.TYPES:
        count = problems.input_sets(problems.ROWS[1], dtype, 50 << 20)
        assert count >= 3 and count * problems.ROWS[1].input_bytes(dtype) > 50 << 20
    assert problems.input_sets(problems.SWEPT["Q1000000"], "float32", 50 << 20) == 3


def cells_hit(locations, levels):
    """Distinct pixels at the upper left of a sample, all queries together, by level."""
    sizes = np.asarray(levels)[:, ::-1]
    cell = np.floor(locations.astype(np.float64) * sizes[:, None] - 0.5).astype(int)
    return [len(np.unique(cell[:, :, :, level].reshape(-1, 2), axis=0)) for level in range(len(levels))]


@pytest.mark.parametrize("levels", [problems.SQUARES, problems.IMAGE])
def test_contention_grows(rng, levels):
    sample, query = rng.random((2, 500, 8, 4, 4, 2)), rng.random((2, 500, 1, 1, 1, 2))
    uniform, clustered, single = (cells_hit(problems.place(kind, sample, query), levels) for kind in problems.CONTENTIONS)
    assert single == [1, 1, 1, 1]
    assert all(1 < few < many / 2 for few, many in zip(clustered[:2], uniform))
    spread = problems.place("clustered", sample, query)
    assert spread.min() > 0 and spread.max() < 1 and np.ptp(spread, axis=(2, 3, 4)).max() < 0.041
    assert len(np.unique(np.floor(spread * 4).reshape(-1, 2), axis=0)) == 16
    with pytest.raises(ValueError, match="no contention"):
        problems.place("triple", sample, query)


@pytest.mark.parametrize("bits", [8, 9, 11, 24])  # significant bits of the storage types, one more for safety
def test_the_single_point_is_far_from_every_cell_boundary(bits):
    point = round(problems.POINT * 2**bits) / 2**bits
    for size in {size for level in (*problems.SQUARES, *problems.IMAGE) for size in level}:
        pixel = point * size - 0.5
        assert abs(pixel - round(pixel)) > 0.01, size


def test_promises():
    """Limits and ratios by hand: the slower dialect beside the fastest peer."""
    good = [cell(det=0.05, det_triton=0.06, atomic=0.04, triton=0.1, torch=1.0, detr=0.2),
            cell("single", det=0.18, det_triton=0.1), cell("clustered", det=0.181, det_triton=0.1),
            cell(dtype="float64", det=0.5, det_triton=0.3, triton=0.3), cell(dtype="float16", det=9.0, triton=1.0)]
    found = judged(good)
    assert found == {
        ("deterministic / fastest peer", "uniform"): (pytest.approx(0.6), True), ("atomic / fastest peer", "uniform"): (pytest.approx(0.4), True),
        ("deterministic / its own time on uniform inputs", "single"): (pytest.approx(3.0), True),
        ("deterministic / its own time on uniform inputs", "clustered"): (pytest.approx(3.0167, abs=1e-4), False),
        ("deterministic / msda-triton", "uniform"): (1.0, True)}
    # Short calls have limits of their own, and one for the host.
    short = {**cell(row=5, det=0.05, det_triton=0.079, atomic=0.071, triton=0.1)}
    short["contenders"]["deterministic"]["host"], short["contenders"]["atomic"]["host"] = times(6.0), times(10.1)
    assert judged([short]) == {("deterministic / fastest peer", "uniform"): (pytest.approx(0.79), True),
                               ("atomic / fastest peer", "uniform"): (pytest.approx(0.71), False)}
    assert [(entry["what"], entry["figure"], entry["held"]) for entry in report.promises([short]) if entry["where"].endswith("host")] == [
        ("host, microseconds, deterministic", 6.0, True), ("host, microseconds, atomic", 10.1, False)]
    # An absent peer sets no limit; without any peer, nothing is judged.
    assert judged([cell(det=0.05, triton="no Triton", torch=1.0)])["deterministic / fastest peer", "uniform"] == (0.05, True)
    assert set(judged([cell(det=0.05, atomic=1.0, triton="no Triton")]).values()) == {(None, None)}
    alone = report.promises([{**cell(det=0.05), "contenders": {"deterministic": {"cold": times(0.05)}}}])
    assert [entry["held"] for entry in alone] == [None, None]
    assert "nothing to judge by" in report.promises_table(alone) and "0 of 0, 1 not judged" in report.promises_table(alone)


def test_tables():
    slow = cell(det=0.0512, atomic=0.03, triton=0.1, detr="no symbol")
    slow["contenders"]["deterministic"]["cold"] = times(0.0512, 0.05, 0.06)
    text = report.markdown(made_report([slow, cell(dtype="float16", det=12.34, triton=123.4)]))
    lines = text.splitlines()
    assert "| 4 1000 8 4 3 32 | float32 | uniform | cold | 0.0512 | 0.0300 | 0.100 | 0.51 | 0.30 | 20 % |" in lines
    assert "| 4 1000 8 4 3 32 | float16 | uniform | warm | 12.3 |  | 123 | 0.10 |  | 0 % |" in lines
    assert "medians of 30 runs" in text and "    python3 tools/bench/gpu_bench.py" in lines and "2026-11-21" in text
    assert "- Deformable DETR: absent: no symbol (float32)" in lines and "- other: absent: not here (everywhere)" in lines
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_the_table_of_the_host():
    """Microseconds."""
    entry = cell(det=0.05, triton=0.1)
    entry["contenders"]["deterministic"]["host"] = times(6.04)
    assert "| 4 1000 8 4 3 32 | float32 | 6.0 |  |" in report.markdown(made_report([entry])).splitlines()


def test_the_other_rows_change_one_size_at_a_time():
    for name, problem in problems.SWEPT.items():
        changed = sum(getattr(problem, field) != getattr(problems.BASE, field) for field in ("B", "Q", "M", "P", "D", "levels"))
        assert changed == (0 if problem == problems.BASE else 1) and name not in problems.ROWS, name
    assert problems.SWEPT["Q10000"] == problems.BASE and len(set(problems.SWEPT.values())) == len(problems.SWEPT)
    alone = report.promises([{**cell(det=1.0, triton=0.1), "problem": problems.SWEPT["D64"].name}])
    assert alone == []  # nothing is promised there


def test_wrong_results_of_ours_are_failures():
    wrong = cell(atomic="wrong: 0.5 of grad_value differ", triton="no Triton")
    assert report.failures([wrong, cell(det=0.1)]) == ["4 1000 8 4 3 32 float32 uniform: atomic: wrong: 0.5 of grad_value differ"]


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_on_the_cpu(tmp_path):
    """The whole benchmark with the CPU's contenders: both sides compute the same, and everything is measured."""
    out = tmp_path / "a.json"
    done = run("--device", "cpu", "--library", LIBRARY, "--rows", "1", "--types", "float32,float64", "--runs", 2, "--json", out)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert [cell["contention"] for cell in found["cells"]] == ["uniform", "clustered", "single", "uniform"]
    for entry in found["cells"]:
        for name in ("deterministic", "atomic", names.GRID_SAMPLE):
            assert entry["contenders"][name]["warm"]["runs"] == 2, (entry, name)


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_a_run_cut_short_leaves_what_it_found(tmp_path, monkeypatch):
    from gpu import measure

    seen = []

    def measured(self, problem, dtype, contention, *limits, hosts):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(contention)
        return {"deterministic": {"warm": times(len(seen) * 1.0)}}

    monkeypatch.setattr(measure.Measuring, "cell", measured)
    out = tmp_path / "a.json"
    with pytest.raises(KeyboardInterrupt):
        gpu_bench.main(["--device", "cpu", "--library", str(LIBRARY), "--rows", "2", "--json", str(out)])
    found = json.loads(out.read_text())
    assert [(cell["problem"], cell["contention"]) for cell in found["cells"]] == [("4 1000 8 4 4 32", "uniform"), ("4 1000 8 4 4 32", "clustered")]
    assert list(tmp_path.iterdir()) == [out]
    assert [entry["figure"] for entry in found["promises"] if entry["where"].endswith("clustered warm")] == [2.0]  # twice uniform's time


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_rounds_end_in_time_and_one_that_fails_leaves():
    import types

    from gpu import clock, measure

    class Contender:
        def __init__(self, name, failing_turn=None):
            self.name, self.failing_turn, self.turns = name, failing_turn, []

        def prepare(self, inputs):
            self.turns.append(inputs)
            if len(self.turns) - 1 == self.failing_turn:
                raise ValueError("no more")
            return lambda: now.append(now[-1] + 1)

    now = [0.0]  # seconds: each call takes one
    steady, failing = Contender("steady"), Contender("failing", 3)
    measuring = measure.Measuring(None, [steady, failing], clock.HostClock(), None)
    for seconds, rounds in ((None, 30), (20, 18), (2, 5)):
        steady.turns, failing.turns, found = [], [], {"steady": {}, "failing": {}}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measure, "time", types.SimpleNamespace(perf_counter=lambda: now[-1]))
            measuring._rounds(found, {steady: clock.Track(), failing: clock.Track()}, ["a", "b", "c"], ["warm"], 30, seconds, 5)
        assert found["failing"] == {"absent": "ValueError: no more"} and len(failing.turns) == 4
        assert found["steady"]["warm"]["runs"] == len(steady.turns) == rounds and steady.turns[:4] == ["a", "b", "c", "a"]


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_a_deformable_detr_build_gets_what_it_expects(rng):
    """A function of those parameters that computes by NumPy what they say, and adds to grad_value."""
    import ctypes
    import types

    import torch
    from gpu import contenders
    from support.problems import backward, make_problem

    def array(pointer, kind, *shape):
        return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(kind)), shape)

    def dd_backward_f32(*arguments):
        pointers, sizes, results = arguments[:6], [size.value for size in arguments[6:13]], arguments[13:]
        B, S, M, D, L, Q, P = sizes
        go, value, locations, weights = (
            array(pointers[i], ctypes.c_float, *shape)
            for i, shape in ((0, (B, Q, M, D)), (1, (B, S, M, D)), (4, (B, Q, M, L, P, 2)), (5, (B, Q, M, L, P))))
        levels = array(pointers[2], ctypes.c_int64, L, 2)
        assert array(pointers[3], ctypes.c_int64, L).tolist() == [0, *levels.prod(1).cumsum()[:-1]]
        found = backward({"value": value, "spatial_shapes": levels, "sampling_locations": locations, "attention_weights": weights,
                          "grad_output": go})
        array(results[0], ctypes.c_float, *value.shape)[:] += found["grad_value"]
        array(results[1], ctypes.c_float, *locations.shape)[:] = found["grad_sampling_locations"]
        array(results[2], ctypes.c_float, *weights.shape)[:] = found["grad_attention_weights"]

    inputs = make_problem(rng, batch=2)
    contender = contenders.DeformableDetr(types.SimpleNamespace(dd_backward_f32=dd_backward_f32))
    call = contender.prepare({name: torch.from_numpy(tensor) for name, tensor in inputs.items()})
    call()
    for result, truth in zip(call(), backward(inputs).values()):  # the second call's gradients, not the sum of both
        np.testing.assert_allclose(result.numpy(), truth, rtol=1e-5, atol=1e-5)
    with pytest.raises(contenders.Failed, match="no dd_backward_f64"):
        contender.prepare({name: torch.from_numpy(tensor).double() if tensor.dtype == np.float32 else torch.from_numpy(tensor)
                           for name, tensor in inputs.items()})


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_the_clock_takes_no_time_that_the_host_shows_in(monkeypatch):
    """A device that is simulated: a host that needs 1 ms to enqueue a call, and a device that runs it in half."""
    import torch
    from gpu import clock

    class Device:
        host, free = 0.0, 0.0  # the host's time now, and when the device has done all that is enqueued

        def enqueue(self, host, device):
            self.host += host
            self.free = max(self.free, self.host) + device
            return self.free

    device, log = Device(), []

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            self.at = device.enqueue(0, 0)

        def query(self):
            return self.at <= device.host

        def synchronize(self):
            device.host = max(device.host, self.at)

        def elapsed_time(self, another):
            return another.at - self.at

    class Junk:
        def zero_(self):
            log.append("flush")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: setattr(device, "host", max(device.host, device.free)))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: device.enqueue(0, cycles / 2e6))
    measured = object.__new__(clock.DeviceClock)
    measured.junk = Junk()

    def call(waits=False):
        log.append("call")
        for _ in range(10):  # kernels
            done = device.enqueue(0.1, 0.05)
        if waits:
            device.host = done

    for cache, went_before in (("cold", ["flush", "call"]), ("warm", ["call", "call"])):
        track = clock.Track()
        assert measured.milliseconds(call, cache, track) == pytest.approx(0.5) and not track.waits
        assert log[-2:] == went_before
    assert track.cycles >= 500_000
    slow = clock.Track()
    measured.milliseconds(lambda: call(waits=True), "cold", slow)
    assert slow.waits and slow.cycles == clock.DeviceClock.MOST_CYCLES


@pytest.mark.skipif(not has_torch, reason="no PyTorch")
def test_wrong_results_are_found():
    import torch
    from gpu import clock, contenders, measure, verify

    library = contenders.load(str(LIBRARY))

    class Flipped(contenders.Ours):
        def prepare(self, inputs):
            call = super().prepare(inputs)
            return lambda: [-result for result in call()]

    class Alternating(contenders.Ours):
        turn = 0

        def prepare(self, inputs):
            call = super().prepare(inputs)

            def run():
                Alternating.turn += 1
                return [result * (1 + 1e-6 * Alternating.turn) for result in call()]

            return run

    class Broken(contenders.GridSample):
        def prepare(self, inputs):
            raise torch.OutOfMemoryError("too much\nand more")

    problem = problems.Problem(1, 50, 2, 2, 8, ((8, 6), (4, 3)))
    for contender, why in ((Flipped(library, "atomic"), "wrong: .* of grad_value"), (Alternating(library, "deterministic"), "two runs differ"),
                           (Broken(), "OutOfMemoryError: too much$")):
        cells = measure.Measuring(library, [contender], clock.HostClock(), torch.device("cpu")).cell(problem, "float32", "uniform", 2)
        assert re.search(why, cells[contender.name]["absent"])
    assert verify.share_off(torch.tensor([1.0, float("nan")]), torch.ones(2, dtype=torch.float64), "float32") == 0.5
