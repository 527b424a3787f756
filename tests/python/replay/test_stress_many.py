"""stress over several captures: which tests fail how often, and how often at least one does; by one process and by ranks."""

import json
import os
import shutil

import numpy as np
import pytest
from conftest import DATA, REPLAY
from support.many import mpirun, needs_mpi
from support.problems import make_problem
from support.schemas import check
from support.terminal import Shown

from msda_replay import Invocation, write_capture

TIGHT = {"atol": 5e-7, "rtol": 3e-4}  # fails now and then
WIDE = {"atol": 1e-3, "rtol": 1e-2}  # hardly ever


def call(seed, label="", outputs=None, **facts):
    rng = np.random.default_rng(seed)
    inputs = make_problem(rng, heads=1, channels=4, queries=25, levels=((32, 30), (9, 8)))
    inputs["sampling_locations"] = rng.random(inputs["sampling_locations"].shape).astype(np.float32)
    return Invocation(inputs, outputs or {}, "msda_triton", facts={"label": label}, **{**TIGHT, **facts})


def of_another_kernel():
    return Invocation({"x": np.ones(3, np.float32)}, {"y": np.ones(3, np.float32)}, "", kernel="another")


def write(path, calls, rank=None):
    write_capture(path, calls, {"environment": {"RANK": str(rank)}} if rank is not None else None, overwrite=True)


@pytest.fixture(scope="module")
def nightly(tmp_path_factory):
    """Two ranks that recorded test_a with equal inputs; a call without a label beside one that cannot be simulated."""
    folder = tmp_path_factory.mktemp("nightly")
    write(folder / "a.h5", [call(1, "test_a"), call(2, "test_b", **WIDE)], rank=0)
    write(folder / "b.h5", [call(1, "test_a"), call(3, "test_c")], rank=1)
    write(folder / "c.h5", [of_another_kernel(), call(4)])
    return folder


@pytest.fixture
def captures(nightly, tmp_path):
    """A copy of them that a test may change."""
    return shutil.copytree(nightly, tmp_path / "nightly")


@pytest.fixture(scope="module")
def simulated(replay, nightly, tmp_path_factory):
    """What the command says of them, and writes."""
    result = tmp_path_factory.mktemp("simulated") / "result.json"
    done = replay("stress", nightly, "--json", result, expect=1)
    return done.out, json.loads(result.read_text())


@pytest.fixture
def stress(replay):
    def run(*arguments, expect):
        done = replay("stress", *arguments, "--json", "-", expect=expect)
        check(done.json, "stress-many")
        return done.json

    return run


def test_each_test_has_its_probability_and_its_places(nightly, simulated):
    _, result = simulated
    check(result, "stress-many")
    assert [capture["status"] for capture in result["captures"]] == [1, 1, 1]
    assert [capture.get("calls") for capture in result["captures"]] == [[0, 1], [0, 2], [3]]
    assert result["captures"][0]["labels"] == ["test_a", "test_b"] and result["captures"][1]["rank"] == "1"
    assert result["captures"][2]["not_simulated"] == [{"id": 0, "why": "kernel another is known only by its machine code"}]
    a, b = str(nightly / "a.h5"), str(nightly / "b.h5")
    assert result["calls"][0]["recorded"] == [{"capture": a, "invocation": 0, "rank": "0"}, {"capture": b, "invocation": 0, "rank": "1"}]
    assert [call.get("label") for call in result["calls"]] == ["test_a", "test_b", "test_c", None]
    assert len({call["seed"] for call in result["calls"]}) == 4
    tests = {test.get("label", test.get("capture")): test for test in result["tests"]}
    assert set(tests) == {"test_a", "test_b", "test_c", str(nightly / "c.h5")}
    rates = [test["failure_probability"]["estimate"] for test in result["tests"]]
    assert rates == sorted(rates, reverse=True)
    assert tests["test_b"]["failure_probability"]["failures"] == 0 and tests["test_b"]["by_cause"] == {}
    for name, number in (("test_a", 0), ("test_c", 2)):
        for part in ("failure_probability", "by_cause"):
            assert tests[name][part] == result["calls"][number][part]
        assert 0 < tests[name]["failure_probability"]["low"] < tests[name]["failure_probability"]["high"] < 0.2
    assert result["by_cause"] and not result["interrupted"]
    for cause, part in result["by_cause"].items():
        assert part["calls"] == [place for place, entry in enumerate(result["calls"]) if cause in entry["by_cause"]]


def test_a_call_alone_gives_the_same_runs(captures, replay, stress):
    result = stress(captures, "--runs", 200, expect=1)
    for number, (name, invocation) in enumerate((("a", 0), ("a", 1), ("b", 1), ("c", 1))):
        entry = result["calls"][number]
        alone = replay("stress", captures / f"{name}.h5", "--invocation", invocation, "--seed", entry["seed"], "--runs", 200,
                       "--curve-runs", 0, "--json", "-").json
        for part in set(entry) - {"recorded", "label"}:
            assert entry[part] == alone[part], part


def test_a_run_of_the_suite_fails_if_a_run_of_any_test_does(captures, replay, stress):
    """Run by run: the command with one run more shows whether that one failed."""
    runs = 12
    tight = ("--rtol", 3e-5, "--width", 0.001, "--runs")
    result = stress(captures, *tight, runs, expect=1)
    failing, by_call = set(), []
    for name, invocation, seed in (("a", 0, result["calls"][0]["seed"]), ("b", 1, result["calls"][2]["seed"]), ("c", 1, result["calls"][3]["seed"]),
                                   ("a", 1, result["calls"][1]["seed"])):
        counts = [replay("stress", captures / f"{name}.h5", "--invocation", invocation, "--seed", seed, *tight, count,
                         "--curve-runs", 0, "--json", "-").json["failure_probability"]["failures"] for count in range(1, runs + 1)]
        by_call.append({run for run in range(runs) if counts[run] > (counts[run - 1] if run else 0)})
        failing |= by_call[-1]
    assert result["failure_probability"]["failures"] == len(failing) and result["failure_probability"]["runs"] == runs
    # Tests fail in different runs, and some in the same: neither the sum nor the largest is the answer.
    assert max(map(len, by_call)) < len(failing) < sum(map(len, by_call))


def test_tests_draw_inputs_of_their_own(tmp_path, stress):
    """Equal inputs under another label, and other inputs under one: each draws its own; calls of one test with equal inputs do not."""
    write(tmp_path / "a.h5", [call(1, "test_a")])
    write(tmp_path / "b.h5", [call(1, "test_b"), call(2, "test_b")])
    write(tmp_path / "c.h5", [call(1, "test_a", padding_mode="border")])
    result = stress(tmp_path, "--runs", 10, expect=None)
    assert [call.get("label") for call in result["calls"]] == ["test_a", "test_b", "test_b", "test_a"]
    seeds = [call["seed"] for call in result["calls"]]
    assert seeds[0] == seeds[3] and len(set(seeds)) == 3
    assert [(test["label"], test["calls"]) for test in sorted(result["tests"], key=lambda test: test["label"])] == [("test_a", [0, 3]), ("test_b", [1, 2])]
    another = stress(tmp_path, "--runs", 10, "--seed", 7, expect=None)
    assert not set(seeds) & {call["seed"] for call in another["calls"]}


def test_every_call_of_one_capture(captures, replay, stress):
    result = stress(captures / "b.h5", "--invocation", "all", "--least-runs", 2500, expect=1)
    assert [call["label"] for call in result["calls"]] == ["test_a", "test_c"]
    assert result["captures"][0]["failure_probability"] == result["failure_probability"]
    assert result["failure_probability"]["runs"] == 2560  # whole batches of 64
    # Without --invocation it is the first call, reported as ever.
    alone = replay("stress", captures / "b.h5", "--runs", 20, "--json", "-", "--curve-runs", 0).json
    assert alone["invocation"] == 0 and "captures" not in alone
    assert [call["label"] for call in stress(captures / "a.h5", captures / "b.h5", "--invocation", 1, "--runs", 10, expect=None)["calls"]] == [
        "test_b", "test_c"]


def test_progress_on_a_terminal(captures):
    """Each distinct call is simulated once: four, of the five that were recorded."""
    process = Shown(REPLAY, "stress", captures, "--runs", "5", "--json", os.devnull)
    _, shown = process.finish()
    assert process.returncode in (0, 1)
    assert f"capture 3 of 3: {captures}/c.h5" in shown
    assert [line.split(":")[0] for line in shown.split("\r\033[K") if line.startswith("call")] == [f"call {i} of 4" for i in (1, 2, 3, 4)]
    assert f"call 3 of 4: {captures}/b.h5, invocation 1" in shown


def test_text(nightly, simulated, replay):
    out, result = simulated
    lines, joined = out.splitlines(), result["failure_probability"]
    assert " ".join(out.split()).startswith(f"At least one of 4 tests fails in {100 * joined['estimate']:.2f} % ({100 * joined['low']:.2f} to {100 * joined['high']:.2f}) "
                                            f"of runs: {joined['failures']} of {joined['runs']} simulated, 95 % interval. ")
    assert lines[2] == "  4 calls of 3 captures, which draw their inputs independently of each other"
    assert f"in {nightly}/b.h5, invocation 0 (rank 1)" in " ".join(out.split())
    assert "  0 of the simulated runs: 1 test in at most 1.43 % (--verbose lists)" in lines and "test_b" not in out
    assert " ".join(out.split()).endswith(f" Not simulated {nightly}/c.h5, invocation 0: kernel another is known only by its machine code")
    in_short = ("stress", nightly, "--runs", 20)
    verbose = replay(*in_short, "--verbose", expect=None).out
    assert "  test_b\n" in verbose
    assert replay(*in_short, "--quiet", expect=None).out.splitlines() == verbose.splitlines()[:2]


def test_captures_that_cannot_be_simulated_are_named_and_the_others_are(captures, replay, stress, tmp_path):
    (captures / "d.h5").write_bytes(b"no capture")
    write(captures / "e.h5", [of_another_kernel()])
    empty = call(5, "test_e")
    empty.inputs["value"][0, 0, 0, 0] = np.nan
    write(captures / "f.h5", [empty, call(6, "test_f")])
    done = replay("stress", captures, tmp_path / "no.h5", "--runs", 50, "--json", "-", expect=2)
    result = done.json
    check(result, "stress-many")
    assert [capture["status"] for capture in result["captures"]][3:] == [2, 3, 2, 2]
    errors = [capture.get("error", "") for capture in result["captures"]]
    assert "d.h5: cannot read it" in errors[3] and "e.h5: no call can be simulated; invocation 0: kernel another" in errors[4]
    assert "f.h5: invocation 0: value is not finite throughout: say with --draw" in errors[5] and "no.h5: no such file" in errors[6]
    assert result["captures"][5]["not_simulated"][0]["id"] == 0 and result["calls"][-1]["label"] == "test_f"
    assert done.err.splitlines() == ["msda-replay: " + error for error in errors if error]
    assert replay("stress", captures / "e.h5", captures / "e.h5", captures, "--runs", 5, "--quiet", expect=2).out
    nothing = stress(captures / "e.h5", "--invocation", "all", expect=3)
    assert nothing["calls"] == [] and nothing["failure_probability"] == {"estimate": 0, "low": 0, "high": 1, "failures": 0, "runs": 0}
    assert replay("stress", captures / "e.h5", "--invocation", "all", expect=3).out.startswith("No call was simulated.\nNot simulated\n")


def test_damaged_data(captures, replay):
    data = bytearray((captures / "a.h5").read_bytes())
    value = call(1).inputs["value"].tobytes()
    data[data.index(value) + 5] ^= 1
    (captures / "a.h5").write_bytes(data)
    done = replay("stress", captures, "--runs", 10, "--json", "-", expect=2)
    check(done.json, "stress-many")
    assert "a.h5: invocation 0: damaged, so there is no verdict: the data of /invocations/000000/inputs/value" in done.err and done.err.count("\n") == 1
    # The whole copy of rank 1 is simulated.
    assert done.json["calls"][1]["recorded"] == [{"capture": str(captures / "b.h5"), "invocation": 0, "rank": "1"}]
    # The damaged inputs are no longer those of the other rank, whatever their digest says.
    damaged = replay("stress", captures, "--runs", 10, "--damaged", "--json", "-").json
    assert [len(call["recorded"]) for call in damaged["calls"]] == [1] * 5 and [capture["status"] for capture in damaged["captures"]] != [2, 0, 0]
    assert damaged["calls"][0]["label"] == damaged["calls"][2]["label"] == "test_a"


@pytest.mark.parametrize("options, message", [
    (("--state", "state.json"), "--state: keeps the runs of one call"),
    (("--runs", 2_000_000), "--runs 2000000: from 1 to 1048576"),
    (("--runs", 5, "--least-runs", 6), "--least-runs 6: from 0 to 5"),
    (("--against", "torch"), "there are float64, grid_sample"),
    (("--invocation", 9), "9"),
    (("--invocation", "some"), "give a number or all"),
])
def test_bad_flags_are_refused(captures, replay, tmp_path, options, message):
    assert message in replay("stress", captures, *options, expect=2, cwd=tmp_path).err


def test_an_interrupt_tells_what_is_known(captures, tmp_path):
    """Ctrl-C while the second of three captures is simulated: the first is reported whole, the last not at all."""
    write(tmp_path / "a.h5", [call(1, "test_a", **WIDE)])
    slow = Invocation(make_problem(np.random.default_rng(1), batch=4, heads=8, channels=32, queries=300, levels=((64, 64),)), {}, "msda_triton",
                      facts={"label": "test_b"}, **WIDE)
    write(tmp_path / "b.h5", [slow])
    write(tmp_path / "c.h5", [call(3, "test_c")])
    names = [tmp_path / f"{name}.h5" for name in "abc"]
    process = Shown(REPLAY, "stress", *names, "--json", tmp_path / "result.json", "--least-runs", "400", "--threads", "1")
    process.wait_for("call 2 of 3")
    process.wait_for_work(0.5)  # some ten of its runs
    process.interrupt()
    out, shown = process.finish()
    result = json.loads((tmp_path / "result.json").read_text())
    check(result, "stress-many")
    assert process.returncode == 2 and result["interrupted"]
    assert "Interrupted: this is the result so far." in out.splitlines()[1:3]
    assert [call["label"] for call in result["calls"]] == ["test_a", "test_b"]
    assert [call["interrupted"] for call in result["calls"]] == [False, True]
    assert result["calls"][0]["failure_probability"]["runs"] == 448
    assert 0 < result["failure_probability"]["runs"] == result["calls"][1]["failure_probability"]["runs"] < 400
    assert shown.endswith(f"\x1b[Kmsda-replay: {tmp_path}/c.h5: invocation 0: interrupted before it was simulated\r\n")
    assert result["captures"][2]["not_simulated"] == [{"id": 0, "why": "interrupted before it was simulated"}]


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_give_the_report_of_one_process(captures, replay, tmp_path, ranks):
    (captures / "d.h5").write_bytes(b"no capture")
    arguments = ("stress", captures, "--invocation", "all", "--runs", "40", "--json")
    alone = replay(*arguments, tmp_path / "alone.json", expect=2)
    done = mpirun(ranks, *arguments, tmp_path / "ranks.json")
    assert done.returncode == 2, done.stderr
    assert done.stdout == alone.out
    assert (tmp_path / "ranks.json").read_bytes() == (tmp_path / "alone.json").read_bytes()


@needs_mpi
def test_ranks_divide_the_calls_of_one_capture(captures, stress, tmp_path):
    """With one file: under mpirun the report is that of --invocation all."""
    alone = stress(captures / "b.h5", "--invocation", "all", "--runs", 50, expect=None)
    done = mpirun(2, "stress", captures / "b.h5", "--runs", "50", "--json", tmp_path / "ranks.json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads((tmp_path / "ranks.json").read_text()) == alone and len(alone["calls"]) == 2


def test_a_recorded_capture(replay, stress):
    """A call of PyTorch's, not one of ours."""
    result = stress(DATA / "v0.1", "--runs", 20, expect=None)
    assert result["calls"] and all(call["failure_probability"]["runs"] == 20 for call in result["calls"])
