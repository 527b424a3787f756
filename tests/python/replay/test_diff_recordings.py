"""msda-replay diff of two recordings of one deterministic program is Equal, however they were made; on the CPU and the stand-in driver."""

import json
import re
import subprocess
import sys

import h5py
import pytest
from conftest import REPLAY, SOURCE
from support.launches import CLIENT
from support.recording import FLAKY, environment, pytestmark, record  # noqa: F401
from support.schemas import check
from support.surveys import SURVEY_CLIENT

MODES = {
    "plain": [],
    "digest-only": ["--digest-only"],
    "last": ["--keep", "last:2"],
    "stages": ["--stages", "full"],
    "driver": ["--hook", "driver"],
    "cupti": ["--hook", "cupti"],
    "survey": ["--survey", "--hook", "driver"],
}
CPU = f"""
import sys, tempfile
sys.path.insert(0, {str(SOURCE / 'tools' / 'bench')!r})
from libmsda import Operator, make_inputs
for seed in range(4):
    Operator().backward(make_inputs(B=1, Q=8, M=2, P=2, D=4, levels=((5, 6),), seed=seed))
"""


def compare(a, b, *flags, expect):
    done = subprocess.run([REPLAY, "diff", a, b, "--json", "-", *flags], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr
    result = json.loads(done.stdout)
    check(result, "diff-survey" if result["kind"] == "survey" else "diff")
    assert result["equal"] == (expect == 0)
    return result


def record_twice(tmp_path, command, options, names="ab", **variables):
    captures = []
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        done = record(*command(folder), options=["-o", folder / "x.h5", *options], **variables)
        assert done.returncode == 0, done.stderr
        captures.append(folder / "x.h5")
    return captures


def decisive(result):
    return [entry for entry in result.get("runs", result["notes"]) if entry.get("may_decide", False)]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("survey", "cupti")])
def test_calls_on_the_cpu(tmp_path, mode):
    def command(folder):
        (folder / "train.py").write_text(CPU)  # another folder in each run
        return sys.executable, folder / "train.py"

    result = compare(*record_twice(tmp_path, command, MODES[mode]), expect=0)
    assert result["compared"]["invocations"] == (2 if mode == "last" else 4) and result["compared"]["tensors"] >= 8
    assert decisive(result) == []


@pytest.mark.parametrize("kernel", ["triton", "col2im17", "grid_sample", "index_add", "index_put", "embedding"])
@pytest.mark.parametrize("mode", MODES)
def test_launches(tmp_path, mode, kernel):
    client = ["--kernel", kernel, *(["--launches", "3"] if kernel in ("triton", "col2im17") else []), "--seed", "5", "--cupti"]
    result = compare(*record_twice(tmp_path, lambda folder: [CLIENT, *client], MODES[mode]), expect=0)
    assert result["kind"] == ("survey" if mode == "survey" else "captures")
    assert sum(result["compared"][what] for what in ("kernels" if mode == "survey" else "invocations",)) > 0
    assert decisive(result) == [] and result["notes"] == []


def test_captures_of_failing_tests(tmp_path):
    """Recordings of pytest --msda, which ran in other folders."""
    captures = []
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test_step.py").write_text(f"def test_step():\n    exec({CPU!r}, {{}})\n    assert False\n")
        done = subprocess.run([sys.executable, "-m", "pytest", "-p", "msda_replay.pytest_plugin", "--msda", "-p", "no:cacheprovider", "test_step.py"],
                              capture_output=True, text=True, cwd=folder, timeout=120, env=environment(PYTHONPATH=SOURCE / "tools" / "python"))
        assert done.returncode == 1, done.stdout + done.stderr
        captures += folder.rglob("*.h5")
    result = compare(*captures, expect=0)
    assert result["compared"]["invocations"] == 4 and decisive(result) == []


def test_launches_of_several_threads(tmp_path):
    """Which are recorded in the order in which they come."""
    client = [CLIENT, "--kernel", "triton", "--launches", "12", "--threads", "4", "--streams", "3", "--seed", "5"]
    captures = record_twice(tmp_path, lambda folder: client, [], names="abcdef", MSDA_STAND_IN_ASYNC=1)
    orders = set()
    for capture in captures[1:]:
        result = compare(captures[0], capture, expect=0)
        assert result["differences"] == [] and result["compared"]["invocations"] > 3
        orders.update(note["b"] for note in result["notes"] if note["section"] == "order")
        assert [entry for entry in decisive(result) if entry["section"] != "order"] == []
    assert orders, "no two runs had other orders: nothing was tested"


def test_every_mode_with_every_other(tmp_path):
    """Tensors are compared with the recorder's digests of others."""
    captures = {}
    for mode in ("plain", "digest-only", "driver", "stages"):
        (tmp_path / mode).mkdir()
        (captures[mode],) = record_twice(tmp_path / mode, lambda folder: [FLAKY, "--seed", "3"], MODES[mode], names="a")
    with h5py.File(captures["digest-only"]) as file:
        assert not any(len(invocation["inputs"]) or len(invocation["outputs"]) for invocation in file["invocations"].values())
    for a in captures:
        for b in captures:
            assert compare(captures[a], captures[b], expect=0)["compared"]["tensors"] > 0, (a, b)
    (tmp_path / "other").mkdir()
    (another,) = record_twice(tmp_path / "other", lambda folder: [FLAKY, "--seed", "4"], [], names="a")
    for mode in captures:
        assert compare(captures[mode], another, expect=1)["first"]["section"] == "inputs"


def test_one_altered_element_is_found(tmp_path):
    """Two equal recordings of launches, by digests alone, too."""
    client = [CLIENT, "--kernel", "triton", "--launches", "3", "--seed", "5"]
    whole, another = record_twice(tmp_path, lambda folder: client, [])
    with h5py.File(another, "r+") as file:
        data = file["invocations/000001/outputs/grad_value"]
        value = data[()]
        value.flat[3] += 1
        data[...] = value
        del data.attrs["digest"]
    first = compare(whole, another, expect=1)["first"]
    assert (first["invocations"], first["section"], first["name"], first["elements"]["different"]) == ([1, 1], "outputs", "grad_value", 1)
    digests = tmp_path / "digests.h5"
    assert record(*client, options=["-o", digests, "--digest-only"]).returncode == 0
    assert compare(whole, digests, expect=0)["differences"] == []
    with h5py.File(digests, "r+") as file:
        attributes = file["invocations/000001/digests"].attrs
        attributes["outputs/grad_value"] = re.sub(".$", lambda last: "0" if last[0] != "0" else "1", attributes["outputs/grad_value"])
    assert compare(whole, digests, expect=1)["first"]["invocations"] == [1, 1]


def test_the_recorder_names_diff_after_digests_alone(tmp_path):
    done = record(FLAKY, "--seed", "3", options=["-o", tmp_path / "d.h5", "--digest-only"])
    assert f"next: msda-replay diff {tmp_path / 'd.h5'} OTHER.h5" in done.stderr
    assert "msda-replay run" not in done.stderr
    compare(tmp_path / "d.h5", tmp_path / "d.h5", expect=0)


def test_surveys_of_kernels_that_vary(tmp_path):
    """How often they varied is a note: which launches do is chance."""
    captures = record_twice(tmp_path, lambda folder: [SURVEY_CLIENT, "often", "twice", "fixed"], MODES["survey"])
    assert compare(*captures, expect=0)["compared"]["kernels"] == 2
