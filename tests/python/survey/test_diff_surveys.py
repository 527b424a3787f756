"""msda-replay diff of two surveys: kernels, code, verdicts and launches are differences; what chance decides is a note."""

import shutil

import h5py
import pytest
from conftest import BUILD
from support.recording import pytestmark, record  # noqa: F401
from support.schemas import check

SURVEY_CLIENT = BUILD / "stand_in" / "stand_in_survey_client"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    capture = tmp_path_factory.mktemp("surveys") / "a.h5"
    done = record(SURVEY_CLIENT, "twice", "drawn", "locked", options=["--survey", "--hook", "driver", "-o", capture])
    assert done.returncode == 0, done.stderr
    return capture


@pytest.fixture
def pair(recorded, tmp_path):
    """Two copies; the second one is to be changed."""
    return shutil.copy(recorded, tmp_path / "a.h5"), shutil.copy(recorded, tmp_path / "b.h5")


def change(capture, survey_name, **facts):
    with h5py.File(capture, "r+") as file:
        entry = next(entry for entry in file["survey"].values() if entry.attrs["kernel"] == f"survey_{survey_name}")
        for name, value in facts.items():
            entry.attrs[name] = value


def remove(capture, kernel):
    with h5py.File(capture, "r+") as file:
        del file["survey"][next(name for name, entry in file["survey"].items() if entry.attrs["kernel"] == f"survey_{kernel}")]


@pytest.fixture
def diff(replay):
    def run(pair, expect):
        result = replay("diff", *pair, "--json", "-", expect=expect).json
        check(result, "diff-survey")
        assert result["kind"] == "survey" and result["equal"] == (expect == 0)
        assert result["first"] == (result["differences"] or [None])[0]
        return result

    return run


def found(result):
    return [(difference["what"], difference["mangled"], difference["a"], difference["b"]) for difference in result["differences"]]


def test_equal(diff, replay, pair):
    result = diff(pair, expect=0)
    assert result["compared"]["kernels"] == 3 and result["notes"] == result["runs"] == []
    assert replay("diff", *pair, expect=0).out == "Equal: 3 kernels, with the same code, verdicts and numbers of launches\n"


@pytest.mark.parametrize("kernel, facts, difference", [
    ("twice", {"launches": 9}, ("launches", "3", "9")),
    ("twice", {"float_atomics": 2}, ("verdict", "deterministic", "may_vary")),
    ("twice", {"kernel_digest": "xxh3-128:" + 32 * "0"}, ("code", None, "xxh3-128:" + 32 * "0"))])
def test_differences(diff, replay, pair, kernel, facts, difference):
    change(pair[1], kernel, **facts)
    ((what, mangled, a, b),) = found(diff(pair, expect=1))
    with h5py.File(pair[0]) as file:
        digest = next(entry.attrs["kernel_digest"] for entry in file["survey"].values() if entry.attrs["kernel"] == "survey_twice")
    assert (what, mangled) == (difference[0], "survey_twice") and (a, b) == (difference[1] or digest, difference[2])
    done = replay("diff", *pair, expect=1)
    assert done.out.startswith(f"Different in 1 kernel; the first is survey_twice: {what}\n") and f" {what}: {a} | {b} " in done.words + " "
    assert replay("diff", *pair, "--quiet", expect=1).out.count("\n") == 1


def test_a_kernel_of_one(diff, pair):
    remove(pair[1], "drawn_sum")
    remove(pair[0], "locked_sum")
    result = diff(pair, expect=1)
    assert found(result) == [("kernel", "survey_drawn_sum", "order_only, 5 launches", ""), ("kernel", "survey_locked_sum", "", "arrival_order, 5 launches")]
    assert result["compared"]["kernels"] == 1


def test_what_chance_decides_is_a_note(diff, replay, pair):
    change(pair[1], "drawn_sum", varied=1, extra_launches=99, first_varied=77, node="OtherBackward0")
    change(pair[1], "twice", kernel_digest="")  # not known: not other code
    with h5py.File(pair[1], "r+") as file:
        file["run"].attrs["gpu"], file["run"].attrs["host"] = "another", "elsewhere"
    result = diff(pair, expect=0)
    assert {(note["mangled"], note["what"]) for note in result["notes"]} == {
        ("survey_twice", "code"), *(("survey_drawn_sum", what) for what in ("varied", "extra_launches", "first_varied", "node"))}
    assert {(run["name"], run["may_decide"]) for run in result["runs"]} == {("gpu", True), ("host", False)}
    text = replay("diff", *pair, expect=0).out
    assert "  the runs differ in what may decide numbers\n    machine, gpu: " in text and "      node: SumBackward0 | OtherBackward0\n" in text


def test_two_codes_of_one_name(diff, pair):
    """As of two shapes that Triton compiled: each code has a row. The order of rows does not matter."""
    for capture, digests in ((pair[0], "12"), (pair[1], "21")):
        change(capture, "locked_sum", kernel="survey_twice")
        with h5py.File(capture, "r+") as file:
            rows = [entry for entry in file["survey"].values() if entry.attrs["kernel"] == "survey_twice"]
            for entry, digest in zip(rows, digests):
                entry.attrs["kernel_digest"], entry.attrs["launches"] = "xxh3-128:" + 32 * digest, int(digest)
                for name in ("varied", "surveyed", "first_varied", "extra_launches", "extra_that_differ", "most_words", "float_atomics", "may_communicate"):
                    entry.attrs[name] = 0
                for name in ("node", "operation"):
                    entry.attrs[name] = ""
    diff(pair, expect=0)
    with h5py.File(pair[1], "r+") as file:
        for entry in file["survey"].values():
            if entry.attrs["kernel_digest"] == "xxh3-128:" + 32 * "2":
                entry.attrs["kernel_digest"] = "xxh3-128:" + 32 * "3"
    assert found(diff(pair, expect=1)) == [("code", "survey_twice", "xxh3-128:" + 32 * "2", "xxh3-128:" + 32 * "3")]


def test_kept_launches_are_compared_by_their_numbers(replay, pair):
    a, b = pair
    result = replay("diff", f"{a}:0", f"{b}:0", "--json", "-", expect=0).json
    assert result["kind"] == "captures" and result["compared"]["invocations"] == 1


def test_a_survey_and_none(replay, pair, demo_capture):
    for operands in ((pair[0], demo_capture), (demo_capture, pair[0])):
        err = replay("diff", *operands, expect=2).err
        assert f"{pair[0]}: is a survey, and {demo_capture} is none: compare it with another survey" in err


def test_a_damaged_survey_is_refused(replay, pair):
    change(pair[1], "twice", launches=-1)
    err = replay("diff", *pair, expect=2).err
    assert f"{pair[1]}: the survey says of survey_twice that launches is -1: the file is damaged; record again" in err
