"""--write-baseline and --baseline of run, survey and stress: only new findings fail."""

import json
import shutil

import h5py
import numpy as np
import pytest
from support.many import make_capture, mpirun, needs_mpi
from support.problems import make_problem
from support.schemas import check

from msda_replay import Invocation, write_capture


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A labelled call with a mistake, another in a folder below without a label, and a right one."""
    folder = tmp_path_factory.mktemp("nights") / "night"
    (folder / "more").mkdir(parents=True)
    make_capture(folder / "a.h5", 1, wrong=[3], label="test_a.py::test_a")
    make_capture(folder / "more" / "b.h5", 2, wrong=[5, 7])
    make_capture(folder / "c.h5", 3)
    return folder


@pytest.fixture
def night(recorded, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(recorded, tmp_path / "night")


@pytest.fixture
def baseline(replay, night, tmp_path):
    path = tmp_path / "baseline.json"
    replay("run", night, "--write-baseline", path, expect=1)
    check(json.loads(path.read_text()), "baseline")
    return path


def of_tests(findings):
    return sorted(finding["test"] for finding in findings)


def compared(replay, *arguments, expect):
    result = replay(*arguments, "--json", "-", expect=expect).json
    check(result, "run-many" if "captures" in result else "run")
    return result["baseline"]


def test_what_a_baseline_holds(night, baseline):
    kept = json.loads(baseline.read_text())
    assert (kept["schema"], kept["command"]) == ("baseline.schema.json", "run")
    assert of_tests(kept["findings"]) == ["more/b.h5", "test_a.py::test_a"]
    [finding] = [finding for finding in kept["findings"] if finding["test"] == "more/b.h5"]
    assert (finding["kernel"], finding["operator"], finding["tensor"]) == ("ms_deform_attn", "msda", "grad_sampling_locations")
    assert (finding["cause"], finding["at_fault"], finding["pattern"]) == ("implementation_error", "observed", "ratio")


def test_known_findings_do_not_fail(replay, night, baseline):
    assert "2 findings are in the baseline, none is new.\n" in replay("run", night, "--baseline", baseline, expect=0).out
    assert compared(replay, "run", night, "--baseline", baseline, expect=0) == {"file": str(baseline), "known": 2, "new": [], "gone": []}
    quiet = replay("run", night, "--baseline", baseline, "--quiet", expect=0).out
    assert quiet == "2 of 3 captures out of tolerance.\n2 findings are in the baseline, none is new.\n"


def test_other_numbers_and_invocations_are_known(replay, night, baseline):
    """The same mistake in other elements, with other inputs, as the second call of a capture elsewhere."""
    make_capture(night / "a.h5", 11, wrong=[8, 9, 10], label="test_a.py::test_a")
    make_capture(night / "more" / "b.h5", 12, wrong=[0])
    moved = night.rename(night.parent / "next night")
    assert compared(replay, "run", moved, "--baseline", baseline, expect=0)["new"] == []


@pytest.mark.parametrize("change", ["label", "kernel", "tensor", "pattern", "none"])
def test_new_findings_fail(replay, night, baseline, change):
    """Each of what a finding is known by."""
    with h5py.File(night / "a.h5", "r+") as file:
        call = file["invocations/000000"]
        if change in ("label", "kernel"):
            call.attrs[change] = "other"
        elif change != "none":
            doubled = call["outputs/grad_sampling_locations"][...]
            doubled[0, 3] /= 2
            if change == "pattern":
                doubled[0, 3] += np.linspace(-1, 1, doubled[0, 3].size).reshape(doubled[0, 3].shape) ** 3
            else:
                call["outputs/grad_value"][0, :4] *= 3
            call["outputs/grad_sampling_locations"][...] = doubled
    done = replay("run", night, "--baseline", baseline, "--damaged", expect=int(change != "none"))
    if change == "none":
        assert "2 findings are in the baseline, none is new.\n" in done.out
    else:
        assert "\n1 finding is in the baseline, 1 is new; 1 of the baseline was not found.\n  new:   " in done.out
        assert "  gone:  test_a.py::test_a: implementation_error in grad_sampling_locations,\n         kernel ms_deform_attn\n" in done.out


def test_the_status_of_each_capture(replay, night, baseline):
    """A capture is forgiven if the baseline has its findings; not for a finding that an earlier capture has, too."""
    make_capture(night / "new.h5", 4, wrong=[2], label="test_n.py::test_n")
    make_capture(night / "new again.h5", 5, wrong=[2], label="test_n.py::test_n")
    found = replay("run", night, "--baseline", baseline, "--json", "-", expect=1).json
    assert {capture["capture"].rpartition("/")[2]: capture["status"] for capture in found["captures"]} == {
        "a.h5": 0, "b.h5": 0, "c.h5": 0, "new.h5": 1, "new again.h5": 1}
    assert found["verdict"]["out_of_tolerance"] == 4  # which does not depend on the baseline


def test_one_capture(replay, night, baseline):
    done = replay("run", night / "a.h5", "--baseline", baseline, expect=0)
    assert done.out.startswith(replay("run", night / "a.h5", expect=1).out)
    assert "1 finding is in the baseline, none is new; 1 of the baseline was not found.\n  gone:  more/b.h5: " in done.out
    found = compared(replay, "run", night / "more" / "b.h5", "--baseline", baseline, expect=1)  # named by its path below the folder
    assert of_tests(found["new"]) == ["b.h5"] and of_tests(found["gone"]) == ["more/b.h5", "test_a.py::test_a"]


def test_what_cannot_be_read_fails_all_the_same(replay, night, baseline):
    (night / "d.h5").write_bytes(b"no capture")
    assert compared(replay, "run", night, "--baseline", baseline, expect=2)["known"] == 2


def test_a_baseline_is_written_anew(replay, night, baseline):
    make_capture(night / "c.h5", 3, wrong=[1], label="test_c")
    assert of_tests(compared(replay, "run", night, "--baseline", baseline, "--write-baseline", baseline, expect=1)["new"]) == ["test_c"]
    replay("run", night, "--baseline", baseline, expect=0)
    first = baseline.read_bytes()
    replay("run", night / "more", night / "c.h5", night, "--write-baseline", baseline, expect=1)
    assert len(json.loads(first)["findings"]) == len(json.loads(baseline.read_text())["findings"]) == 3


@pytest.mark.parametrize("content", [
    "", "{", "[]", "3", '{"schema": 3}', '{"schema": "run.schema.json", "command": "run", "findings": []}',
    '{"schema": "baseline.schema.json", "findings": []}', '{"schema": "baseline.schema.json", "command": "run", "findings": [{}]}',
    '{"schema": "baseline.schema.json", "command": "run", "findings": 3}', '{"schema": "baseline.schema.json", "command": "stress", "findings": []}',
    "[" * 100_000])
def test_no_baseline(replay, night, tmp_path, content):
    (tmp_path / "b.json").write_text(content)
    printed = replay("run", night, "--baseline", tmp_path / "b.json", expect=2)
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith(f"msda-replay: --baseline {tmp_path}/b.json: is ") and "write one: msda-replay run ... --write-baseline FILE\n" in printed.err


def test_files_that_are_not_there_or_not_ours(replay, night, tmp_path):
    assert "no such file; write one" in replay("run", night, "--baseline", tmp_path / "no.json", expect=2).err
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    assert "cannot replace it" in replay("run", night, "--write-baseline", tmp_path / "mine.json", expect=2).err
    assert (tmp_path / "mine.json").read_text() == '{"mine": 1}'


def test_stress(replay, tmp_path):
    """Causes for which simulated runs fail, of one call and of several."""
    rng = np.random.default_rng(1)
    inputs = make_problem(rng, heads=1, channels=4, queries=25, levels=((32, 30), (9, 8)))
    inputs["sampling_locations"] = rng.random(inputs["sampling_locations"].shape).astype(np.float32)
    path, baseline = tmp_path / "a.h5", tmp_path / "b.json"
    write_capture(path, Invocation(inputs, {}, "msda_triton", kernel="k", facts={"label": "test_a"}, atol=5e-7, rtol=3e-4))
    replay("stress", path, "--runs", "300", "--write-baseline", baseline, expect=1)
    check(json.loads(baseline.read_text()), "baseline")
    kept = json.loads(baseline.read_text())["findings"]
    assert kept and {(finding["test"], finding["kernel"], finding["operator"]) for finding in kept} == {("test_a", "k", "msda")}
    for words in [], ["--invocation", "all"]:
        done = replay("stress", path, *words, "--runs", "300", "--baseline", baseline, "--json", tmp_path / "s.json", expect=0)
        assert "in the baseline, none is new" in done.out
        result = json.loads((tmp_path / "s.json").read_text())
        check(result, "stress-many" if words else "stress")
        assert result["baseline"]["known"] == len(kept)
    write_capture(path, Invocation(inputs, {}, "msda_triton", kernel="k", facts={"label": "test_b"}, atol=5e-7, rtol=3e-4), overwrite=True)
    for words in [], ["--invocation", "all"]:
        text = replay("stress", path, *words, "--runs", "300", "--baseline", baseline, expect=1).out
        assert f"0 findings are in the baseline, {len(kept)} " in text and "  new:   test_b: " in text and "  gone:  test_a: " in text


@needs_mpi
def test_ranks(replay, night, baseline):
    make_capture(night / "c.h5", 3, wrong=[1], label="test_c")
    alone = replay("run", night, "--baseline", baseline, expect=1)
    done = mpirun(2, "run", night, "--baseline", baseline)
    assert (done.returncode, done.stdout) == (1, alone.out)
