"""`run --mode original --poison` fills what nobody had written of a launch's memory, as a survey keeps it in the capture."""

import json
import subprocess

import h5py
import pytest
from conftest import REPLAY
from support.original import on_stand_in
from support.poisoned import COUNT, launched  # noqa: F401
from support.recording import pytestmark, record  # noqa: F401
from support.schemas import check
from support.survey_poison import CLIENT

# The client's kernels with that verdict that change something when they run as recorded; and the memory that they depend on.
KEPT = {
    "sum": ("inputs", 200000), "add_to": ("outputs", 200000), "in_place": ("outputs", 200000), "maximum": ("inputs", 200000),
    "times_zero": ("inputs", 200000), "index": ("inputs", 200000), "rest": ("inputs", 196400), "beside_memset": ("inputs", 100000), "again": ("inputs", 200000)}


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "a.h5"
    done = record(CLIENT, options=["--survey", "--survey-poison", "--hook", "driver", "-o", path])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def capture(survey, tmp_path):
    """A copy that a test may change."""
    (tmp_path / "a.h5").write_bytes(survey.read_bytes())
    return tmp_path / "a.h5"


def poisoned(capture, *arguments, expect):
    done = subprocess.run([REPLAY, "run", capture, "--mode", "original", "--poison", "--json", "-", *map(str, arguments)],
                          capture_output=True, text=True, timeout=300, env=on_stand_in())
    assert done.returncode == expect, done.stderr
    result = json.loads(done.stdout)
    check(result, "run")
    return {entry["kernel"]: entry["poison"] for entry in result["relaunched"]}


def set_unwritten(capture, text, number=0):
    """Sets the unwritten bytes of an invocation with one input. In `text` it is memory_1; in the capture it is that or memory_0, as the addresses happened to be."""
    with h5py.File(capture, "r+") as file:
        entry = file[f"invocations/{number:06}"]
        (name,) = entry["inputs"]
        entry.attrs["unwritten"] = text.replace("memory_1", name)


def test_a_survey_keeps_what_nobody_had_written(survey):
    with h5py.File(survey) as file:
        kept = {invocation.attrs["kernel"].removeprefix("reads_unwritten_"): invocation for invocation in file["invocations"].values()}
        assert set(kept) - {"race_drawn"} == set(KEPT)
        for name, (where, count) in KEPT.items():
            runs = dict(run.split("@") for run in kept[name].attrs["unwritten"].split())
            (whole,) = [tensor for tensor, run in runs.items() if run.endswith(f":{count}")][:1] or [None]
            assert whole and whole.startswith(where), (name, runs)
            # The rest of that memory was written: 900 numbers of x, or zeros.
            data = bytes(file[kept[name].name][whole.replace("outputs/", "outputs_before/")][()])
            begin = int(runs[whole].split(":")[0])
            fresh = [data[at:at + 4] == b"\xcd" * 4 for at in range(0, len(data), 4)]
            assert begin + count == len(data) == 200000 and fresh == [False] * (begin // 4) + [True] * (count // 4)


def test_results_depend_on_these_bytes(survey):
    for name, poison in poisoned(survey, expect=1).items():
        kernel = name.removeprefix("reads_unwritten_")
        if kernel == "race_drawn":
            assert poison["verdict"] == "race"
            continue
        (tensor,) = poison["tensors"].values()
        where = tensor["varies_across"]
        assert poison["verdict"] == tensor["verdict"] == "reads_unwritten" and len(where) == 1, kernel
        assert where[0].startswith("the unwritten bytes of memory_")
        # Only an index from unwritten memory faults, where it is no place in the table.
        failed = [(setting["memory"], setting["contents"]) for setting in poison["settings"] if setting["state"] != "ran"]
        assert failed == ([(where[0], "nan"), (where[0], "pattern")] if kernel == "index" else []), kernel
        values = {poison["settings"][value["setting"]]["memory"]: value for value in tensor["example"]["values"]}
        assert "beside the tensors" in values and "shared memory" in values


def test_without_the_list_nothing_is_found(capture):
    with h5py.File(capture, "r+") as file:
        for invocation in file["invocations"].values():
            del invocation.attrs["unwritten"]
    verdicts = {name: poison["verdict"] for name, poison in poisoned(capture, expect=1).items()}
    assert verdicts.pop("race_drawn") == "race" and set(verdicts.values()) == {"deterministic"}


@pytest.mark.parametrize("kernel, text, verdict", [
    ("none", f"outputs/y@0:{4 * COUNT}", "deterministic"),  # writes every second number, and leaves the others as they were
    ("none", f"outputs/y@4:4*{COUNT // 2}/8", "deterministic"),
    ("reads_output", f"outputs/y@0:{4 * COUNT}", "reads_unwritten")])
def test_what_the_launch_does_not_write_is_no_result(launched, kernel, text, verdict):  # noqa: F811
    capture = launched(kernel)
    set_unwritten(capture, text)
    (poison,) = poisoned(capture, expect=int(verdict != "deterministic")).values()
    assert poison["verdict"] == verdict
    assert ("the unwritten bytes of y" in poison["tensors"]["y"].get("varies_across", [])) == (verdict != "deterministic")
    assert [setting["contents"] for setting in poison["settings"] if setting["memory"] == "the unwritten bytes of y"] == ["zero", "nan", "pattern"]


@pytest.mark.parametrize("text, why", [
    *((text, "its attribute unwritten cannot be read") for text in (
        "x", "inputs/memory_1", "inputs/memory_1@4", "inputs/memory_1@0:0", "inputs/memory_1@-4:4", "inputs/memory_1@0:4*0/8", "inputs/memory_1@0:4*2",
        "inputs/memory_1@0:8*2/4", "inputs/memory_1@0:4 y", "inputs/memory_1@0:4x", f"inputs/memory_1@{1 << 64}:4", "inputs/memory_1@0:4  inputs/memory_1@8:4")),
    *((text, "which the capture does not have") for text in (
        "inputs/memory_1@199997:4", "inputs/memory_1@0:200001", "inputs/memory_9@0:4", "memory_1@0:4", "@0:4", "outputs/memory_1@0:4",
        f"inputs/memory_1@{2**64 - 4}:4", f"inputs/memory_1@8:{2**64 - 4}", f"inputs/memory_1@0:4*{2**63}/4", f"inputs/memory_1@0:4*2/{2**64 - 1}"))])
def test_a_damaged_list_is_refused(capture, replay, text, why):
    set_unwritten(capture, text)
    printed = replay("run", capture, "--mode", "original", "--poison", "--invocation", 0, expect=3, env=on_stand_in()).err
    assert printed.count("\n") == 1 and why in printed and str(capture) in printed


def test_it_is_verified_shown_and_compared(capture, replay):
    replay("verify", capture, expect=0)
    before = capture.with_name("before.h5")
    before.write_bytes(capture.read_bytes())
    set_unwritten(capture, "inputs/memory_1@0:" + "4*2/8 inputs/memory_1@16:" * 600 + "4")
    assert "/invocations/000000" in replay("verify", capture, expect=2).err
    replay("show", capture, expect=0)
    printed = replay("diff", f"{before}:0", f"{capture}:0", expect=0).out
    assert "unwritten" in printed and max(map(len, printed.splitlines())) < 1000
