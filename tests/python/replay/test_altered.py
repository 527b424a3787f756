"""Captures whose data do not match their digests: no verdict, except with --damaged."""

import shutil
import subprocess

import h5py
import numpy as np
import pytest
from conftest import BUILD
from support.problems import backward, make_problem
from support.run_results import check_schema
from support.schemas import Mismatch

from msda_replay import Invocation, Result, write_capture

COMMANDS = ("run", "stages", "verify")
CALL = "/invocations/000000/"


def invocation(rng):
    """One with a tensor of every kind."""
    inputs = make_problem(rng, queries=3, heads=1, channels=4, levels=((3, 2), (2, 2)))
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    inputs["level_start_index"] = np.array([0, 6])
    copies = [{name: array.copy() for name, array in outputs.items()} for _ in range(2)]
    before = {name: np.zeros_like(array) for name, array in outputs.items()}
    results = {"torch": Result(copies[0], "reference", "grid_sample"), "other": Result(copies[1], "", "msda_triton")}
    return Invocation(inputs, outputs, "msda_triton", outputs_before=before, results=results, atol=1e-3, rtol=1e-2)


@pytest.fixture
def capture(tmp_path, rng):
    """A right call, and a kernel that is not the operator's."""
    path = tmp_path / "a capture.h5"
    another = Invocation({"x": np.arange(6, dtype=np.float16)}, {"y": np.arange(4, dtype=np.uint8)}, "", kernel="another")
    write_capture(path, [invocation(rng), another])
    return path


def tensors_of(capture):
    names = []
    with h5py.File(capture) as file:
        file["invocations"].visititems(
            lambda name, item: names.append("/invocations/" + name) if isinstance(item, h5py.Dataset) else None)
    return names


def overwrite(capture, *names):
    """In place: the attribute `digest` stays."""
    with h5py.File(capture, "r+") as file:
        for name in names:
            file[name][...] = file[name][()] + 1


def expect_refusal(finished, capture, *names):
    assert finished.out == ""
    (line,) = finished.err.splitlines()
    assert line.startswith(f"msda-replay: {capture}: ")
    for part in (*names, "no verdict", f"msda-replay verify {capture}", "--damaged"):
        assert part in line, line


def test_any_tensor_overwritten(replay, capture, tmp_path):
    for command in COMMANDS:
        replay(command, capture, expect=0)
    names = tensors_of(capture)
    assert len(names) == 6 + 3 + 3 + 6 + 2
    path = tmp_path / "overwritten.h5"
    for name in names:
        shutil.copy(capture, path)
        overwrite(path, name)
        for command in COMMANDS:
            for options in ((), ("--json", "-")):
                finished = replay(command, path, *options, expect=2)
                if command == "verify":
                    assert name + " is damaged" in finished.err
                else:
                    expect_refusal(finished, path, name)
    # Data that are not used are not checked.
    shutil.copy(capture, path)
    overwrite(path, "/invocations/000001/inputs/x")
    replay("run", path, "--invocation", 0, expect=0)


def expect_refusals(replay, capture, names):
    path = capture.parent / "overwritten.h5"
    for name in names:
        shutil.copy(capture, path)
        overwrite(path, name)
        replay("verify", path, expect=2)
        for command in ("run", "stages"):
            expect_refusal(replay(command, path, expect=2), path, name)


def test_any_tensor_of_calls_that_are_compared_with_each_other(replay, tmp_path, rng):
    path = tmp_path / "a.h5"
    tested = invocation(rng)
    tested.results = {}
    others = [Invocation(tested.inputs, tested.outputs, "grid_sample") for _ in range(2)]
    write_capture(path, [tested, *others])
    for command in COMMANDS:
        replay(command, path, expect=0)
    names = tensors_of(path)
    assert len(names) == 6 + 3 + 3 + 2 * (6 + 3)
    expect_refusals(replay, path, names)
    overwrite(path, "/invocations/000001/inputs/value")
    (call,) = replay("run", path, "--damaged", "--json", "-", expect=0).json["invocations"]
    assert call["altered"] == ["/invocations/000001/inputs/value"]


def test_any_recorded_stage_overwritten(replay, tmp_path):
    path = tmp_path / "a.h5"
    subprocess.run([BUILD / "bin" / "msda-record", "-o", path, "--stages", "full", "--keep", "last:1", "--",
                    BUILD / "tests" / "hostile_client", "plain"], check=True)
    names = [name for name in tensors_of(path) if "/stages/" in name]
    assert len(names) == 9
    expect_refusals(replay, path, names)


def test_several_tensors_are_counted(replay, capture):
    names = [name for name in tensors_of(capture) if name.startswith(CALL)]
    overwrite(capture, *names)
    for command in ("run", "stages"):
        finished = replay(command, capture, expect=2)
        expect_refusal(finished, capture, "and 15 more do not match their digests")
        assert sum(name in finished.err for name in names) == 3


def test_a_reference_of_another_invocation(replay, tmp_path, rng):
    path = tmp_path / "a.h5"
    entry = invocation(rng)
    write_capture(path, [entry, entry])
    overwrite(path, "/invocations/000001/outputs/grad_value")
    replay("run", path, "--invocation", 0, expect=0)
    finished = replay("run", path, "--invocation", 0, "--reference", 1, expect=2)
    expect_refusal(finished, path, "/invocations/000001/outputs/grad_value")


def test_going_on_all_the_same(replay, capture):
    overwrite(capture, CALL + "outputs/grad_value", CALL + "inputs/grad_output")
    finished = replay("run", capture, "--damaged", expect=1)
    assert finished.out.startswith("On damaged data: The recorded kernel is wrong in ")
    verdict = replay("run", capture, "--damaged", "--quiet", expect=1).out
    assert finished.out.split("\n -->")[0].split() == verdict.split()
    for name in ("outputs/grad_value", "inputs/grad_output"):
        line = f"{CALL}{name} is not what was recorded, its digest differs"
        assert line in finished.err and f" warning: {line} " in finished.words
    result = replay("run", capture, "--damaged", "--json", "-", expect=1).json
    check_schema(result)
    (call,) = result["invocations"]
    assert set(call["altered"]) == {CALL + "outputs/grad_value", CALL + "inputs/grad_output"}
    for verdict in (result["verdict"], call["verdict"]):
        assert verdict["damaged"] is True and verdict["summary"].startswith("On damaged data: ")
    out = replay("stages", capture, "--damaged", expect=0).out
    assert "On damaged data: Invocation 0, dialect msda_triton" in out
    (call,) = replay("stages", capture, "--damaged", "--json", "-", expect=0).json["invocations"]
    assert set(call["altered"]) == {CALL + "outputs/grad_value", CALL + "inputs/grad_output"}


def test_within_tolerance_on_damaged_data(replay, capture):
    overwrite(capture, CALL + "results/other/grad_value")
    finished = replay("run", capture, "--damaged", expect=0)
    assert finished.out.startswith("On damaged data: The recorded gradients are within tolerance ")


def test_sound_data_are_told_as_such(replay, capture):
    for options in ((), ("--damaged",)):
        result = replay("run", capture, *options, "--json", "-", expect=0).json
        check_schema(result)
        assert result["verdict"]["damaged"] is False and result["invocations"][0]["verdict"]["damaged"] is False
        assert result["invocations"][0]["altered"] == []
        assert "damaged data" not in replay("run", capture, *options, expect=0).out


def test_a_verdict_says_whether_the_data_are_damaged(replay, capture):
    result = replay("run", capture, "--json", "-", expect=0).json
    del result["verdict"]["damaged"]
    with pytest.raises(Mismatch):
        check_schema(result)


def test_without_digests_nothing_is_known_to_be_damaged(replay, capture):
    with h5py.File(capture, "r+") as file:
        for name in tensors_of(capture):
            del file[name].attrs["digest"]
    overwrite(capture, CALL + "results/other/grad_value")
    result = replay("run", capture, "--json", "-", expect=0).json
    assert result["verdict"]["damaged"] is False and result["invocations"][0]["altered"] == []
    replay("stages", capture, expect=0)
