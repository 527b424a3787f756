"""pytest --msda, as a user runs it: whole sessions in processes of their own, with the CPU operator."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

import h5py
import numpy as np
import pytest
from conftest import BUILD, REPLAY, SOURCE
from support.pytest_sessions import HEAD, run_session, session, with_workers  # noqa: F401
from support.recording import PRELOAD, environment, pytestmark  # noqa: F401

from msda_replay import read_capture
from msda_replay.pytest_plugin import files
from msda_replay.pytest_plugin.assertions import Comparison
from msda_replay.pytest_plugin.settings import CAUSES, DIALECTS

# The reference of the second is wrong in one element; the third fails when it is run for the first time.
THREE = """
def test_passes():
    assert np.isfinite(gradients()["grad_value"]).all()

def test_fails():
    found = gradients(1)
    expected = found["grad_value"].copy()
    expected[0, 3, 1, 2] += 1
    np.testing.assert_allclose(found["grad_value"], expected, rtol=1e-3, atol=1e-4)

def test_flaky():
    found, ran = gradients(2), pathlib.Path("ran")
    expected = found["grad_sampling_locations"].astype(np.float64)
    if not ran.exists():
        ran.touch()
        expected[0, 2, 1, 0, 1, 0] += 1
    np.testing.assert_allclose(found["grad_sampling_locations"], expected, rtol=1e-2)
"""


def with_reruns():
    pytest.importorskip("pytest_rerunfailures")
    xdist = ("-p", "xdist") if importlib.util.find_spec("xdist") else ()  # where that is installed, the plugin has hooks for it
    return *xdist, "-p", "pytest_rerunfailures", "--reruns", "1"


@pytest.fixture(scope="module")
def three_alone(tmp_path_factory):
    """THREE without the plugin, with reruns or not."""
    return functools.cache(lambda *reruns: run_session(tmp_path_factory.mktemp("alone"), THREE, *reruns, on=()))


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """THREE with the plugin and these options: the session, and its folder."""

    @functools.cache
    def run(*options):
        folder = tmp_path_factory.mktemp("three")
        return run_session(folder, THREE, *options, "--junitxml", "junit.xml"), folder

    return run


@pytest.mark.parametrize("workers", [False, True], ids=["", "xdist"])
@pytest.mark.parametrize("reruns", [False, True], ids=["", "reruns"])
def test_failures_are_kept_and_explained(three, three_alone, replay, workers, reruns):
    again = with_reruns() if reruns else ()
    alone = three_alone(*again)
    done, folder = three(*(with_workers(2) if workers else ()), *again)
    assert done.status == alone.status == 1, done.out + done.err

    def counts(out):
        return sorted(re.findall(r"\d+ (?:passed|failed|rerun)", out.splitlines()[-1]))

    assert counts(done.out) == counts(alone.out)
    # Two attempts of test_fails were equal: the last is kept.
    fails, flaky = ("test_it.py-test_fails.attempt-2", "test_it.py-test_flaky.attempt-1") if reruns else (
        "test_it.py-test_fails", "test_it.py-test_flaky")
    assert set(done.captures) == {f"{fails}.h5", f"{flaky}.h5"}
    section = done.out.split("= msda-replay =")[1]
    for name, tensor, index, tolerance in (
        (fails, "grad_value", [0, 3, 1, 2], (1e-4, 1e-3)), (flaky, "grad_sampling_locations", [0, 2, 1, 0, 1, 0], (0, 1e-2)),
    ):
        path = done.captures[f"{name}.h5"]
        replay("verify", path, expect=0)
        assert path.stat().st_mode & 0o777 == 0o600
        # The element that pytest's assertion was about, with its tolerance and its reference.
        result = replay("run", path, "--json", "-", expect=1).json
        (finding,) = [finding for finding in result["invocations"][0]["findings"] if not finding.get("advisory")]
        assert (finding["tensor"], finding["index"], finding["against"]) == (tensor, index, "reference")
        assert result["invocations"][0]["tolerance"] == dict(zip(("atol", "rtol"), tolerance))
        assert "The reference is wrong, the recorded kernel right" in section and result["verdict"]["at_fault"] == "reference"
        (command,) = [line.strip() for line in section.splitlines() if line.endswith(f"{name}.h5")]
        assert subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True).returncode == 1
        (invocation,) = done.invocations(f"{name}.h5")
        test, _, attempt = name.partition(".py-")[2].partition(".attempt-")
        assert invocation.facts["label"] == f"test_it.py::{test}" + (f" (attempt {attempt})" if attempt else "")
    # In the failure's own report, too.
    assert re.search(r"-+ msda-replay -+\nThe reference is wrong", done.out)


def test_what_a_run_without_failures_leaves(session, tmp_path):
    done = session("""
        def test_it():
            assert gradients() and os.environ["LD_PRELOAD"] and not [n for n in os.environ if n.startswith("MSDA_PYTEST")]
            assert sys.argv[1:3] == ["-p", "no:cacheprovider"] and not sys.stdin.read()
    """, "-s")
    assert done.status == 0, done.out
    assert done.captures == {} and not (tmp_path / "msda-captures").exists()
    assert re.search(r"msda-replay: recording kernels \(by LD_PRELOAD\).*; captures of failing tests in", done.out) and "= msda-replay =" not in done.out
    assert session("", on=("--msda",)).status == 5  # pytest's own: no tests


def test_junit(three, replay):
    _, folder = three()
    cases = {case.get("name"): {entry.get("name"): entry.get("value") for entry in case.iter("property")}
             for case in xml.etree.ElementTree.parse(folder / "junit.xml").iter("testcase")}
    assert cases["test_passes"] == {}
    assert cases["test_fails"]["msda_capture"] == str(folder / "msda-captures" / "test_it.py-test_fails.h5")
    assert cases["test_fails"]["msda_causes"] == "implementation_error: 1"
    assert cases["test_fails"]["msda_verdict"].startswith("The reference is wrong")
    with h5py.File(cases["test_fails"]["msda_capture"]) as file:
        assert file.attrs["verdict"] == cases["test_fails"]["msda_verdict"]
    replay("verify", cases["test_fails"]["msda_capture"], expect=0)


@pytest.mark.parametrize("keep, kept", [
    ("all", {"a", "b", "c", "d"}), ("last:2", {"a", "c", "d"}), ("failed", {"a"}),
])
def test_keep(session, tmp_path, keep, kept):
    lines = """
        def test_a():
            gradients(0)
            assert False
        def test_b(): gradients(1)
        def test_c(): gradients(2)
        def test_d(): gradients(3)
    """
    (tmp_path / "elsewhere").mkdir()
    there = tmp_path / "elsewhere" / "test_it.py-test_a.h5"
    there.write_text("an earlier session's")
    done = session(lines, ini=f"msda = true\nmsda_dir = elsewhere\nmsda_keep = {keep}\n", on=())
    assert done.status == 1 and not done.captures
    # Nothing is replaced.
    assert there.read_text() == "an earlier session's"
    there.unlink()
    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {
        "test_it.py-test_a.2.h5" if test == "a" else f"test_it.py-test_{test}.h5" for test in kept}


def test_fail_on(session):
    lines = """
        @pytest.mark.msda(atol=0, rtol=1e-12)
        def test_rounds(): gradients()
        def test_fine(): gradients()
        def test_makes_no_call(): pass
    """
    done = session(lines, "--msda-fail-on", "ill_conditioned,accumulation_order")
    assert done.status == 1 and "1 failed, 2 passed" in done.out
    assert re.search(r"--msda-fail-on: \d+ elements by (accumulation_order|ill_conditioned)", done.out)
    assert set(done.captures) == {"test_it.py-test_rounds.h5"}
    assert session(lines, "--msda-fail-on", "cell_boundary").status == 0
    done = session(lines, "--msda-fail-on", "nonsense")
    assert done.status == 4 and "'nonsense' is no cause" in done.err
    unrecorded = session(lines, "--msda-fail-on", "ill_conditioned", on=())
    assert unrecorded.status == 4 and "nothing is recorded without --msda" in unrecorded.err
    assert session(lines, "--msda-fail-on", "cell_boundary", on=(), ini="msda = true\n").status == 0
    assert session(lines, on=(), ini="msda_fail_on = ill_conditioned\n").status == 0


ENDS = """
def test_ends():
    from msda_replay.pytest_plugin.recorder import Recorder, RecorderError
    def ended(self): raise RecorderError("no space is left")
    Recorder.complete = ended
    gradients()

def test_later(request):
    gradients()
    assert request.config.pluginmanager.get_plugin("msda_recording").watch.notes is None  # they would pile up
"""


def test_fail_on_when_recording_has_ended(session):
    done = session(ENDS, "--msda-fail-on", "non_finite")
    assert done.status == 1 and "2 failed" in done.out, done.out
    assert done.out.count("the calls of this test could not be judged: recording ended early: no space is left") >= 2
    assert session(ENDS, "--msda-keep", "all").status == 0


def test_fail_on_in_a_worker_that_cannot_record(session, tmp_path):
    pytest.importorskip("xdist")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    options = ["-p", "xdist", "--dist", "load", "--tx", f"popen//python={python}"]
    done = session("def test_it(): gradients()", "--msda-fail-on", "non_finite", *options, pytorch=False)
    assert done.status == 1 and "could not be judged: nothing is recorded: this worker runs without the recorder" in done.out, done.out
    assert session("def test_it(): gradients()", *options).status == 0


def test_fail_on_judges_a_tensor_by_its_own_tolerance(session):
    """grad_value is rounded, which an exact comparison of another gradient, all zeros, does not forbid."""
    done = session("""
        def compare(difference, **tolerance):
            inputs = make_inputs(B=1, Q=8, M=2, P=2, D=4, levels=((5, 6), (3, 2)), seed=0)
            inputs["value"][:] = 0
            found = Operator(dialect=1, padding=1).backward(inputs)
            np.testing.assert_array_equal(found["grad_attention_weights"], np.zeros_like(found["grad_attention_weights"]))
            np.testing.assert_allclose(found["grad_value"], found["grad_value"] + np.float32(difference), **tolerance)

        def test_with_its_own(): compare(1e-4, atol=1e-3)
        def test_exactly(): compare(0, rtol=0, atol=0.0)
    """, "--msda-fail-on", ",".join(CAUSES), "-rA")
    assert done.status == 1 and "1 failed, 1 passed" in done.out, done.out
    assert "PASSED test_it.py::test_with_its_own" in done.out and "FAILED test_it.py::test_exactly" in done.out


@pytest.mark.parametrize("option, why", [
    (["--msda-keep", "last:0"], "'last:0' is not failed, all or last:N"), (["--msda-keep", "some"], "'some' is not"),
])
def test_wrong_options(session, option, why):
    done = session("def test_it(): pass", *option)
    assert done.status == 4 and why in done.err


WRONG_MARKERS = {
    "atol=1": "atol and rtol go together", "atol=-1, rtol=0": "not a finite number", "1": "by name", "tolerance=1": "by name",
    "reference='torch'": "not one of deformable_detr",
}


@pytest.fixture(scope="module")
def marked_wrongly(tmp_path_factory):
    """A session of a test with each of them, with the plugin; and the same without."""
    lines = "\n".join(f"@pytest.mark.msda({marker})\ndef test_{number}(): pass" for number, marker in enumerate(WRONG_MARKERS))
    return [run_session(tmp_path_factory.mktemp("marked"), lines, "-rA", on=on) for on in (("--msda",), ())]


@pytest.mark.parametrize("marker, why", WRONG_MARKERS.items())
def test_wrong_markers(marked_wrongly, marker, why):
    done, off = marked_wrongly
    name = f"test_{list(WRONG_MARKERS).index(marker)}"
    assert done.status == 1 and f"{len(WRONG_MARKERS)} errors" in done.out and "passed" not in done.out
    (said,) = re.findall(rf"_ ERROR at setup of {name} _+\n(.*?)\n(?:_+ ERROR|=+)", done.out, re.S)
    assert re.search(f"marker msda: .*{why}", said)
    assert off.status == 0 and f"PASSED test_it.py::{name}\n" in off.out  # it may be another plugin's


@pytest.fixture
def package_alone(tmp_path):
    """The package where no msda-record is near it."""
    return shutil.copytree(SOURCE / "tools" / "python", tmp_path / "package" / "tools" / "python")


def test_without_a_recorder(session, package_alone, tmp_path):
    alone = {"package": package_alone, "pytorch": False, "MSDA_BUILD": "", "PATH": "/usr/bin:/bin"}
    done = session(THREE, **alone)
    assert done.status == 1 and "2 failed, 1 passed" in done.out and not done.captures
    assert "nothing was recorded: msda-record is not found: add its folder to PATH" in done.out
    done = session(THREE, "--msda-fail-on", "non_finite", **alone)
    assert done.status == 4 and "--msda-fail-on: nothing is recorded" in done.err
    # A library that cannot be loaded.
    (tmp_path / "broken" / "lib").mkdir(parents=True)
    (tmp_path / "broken" / "lib" / "libmsda_record.so").write_text("none")
    (tmp_path / "broken" / "bin").mkdir()
    (tmp_path / "broken" / "bin" / "msda-record").symlink_to(BUILD / "bin" / "msda-replay")
    program = tmp_path / "broken" / "bin" / "msda-record"
    program.unlink()
    shutil.copy2("/bin/true", program)
    done = session("def test_it(): pass", package=package_alone, pytorch=False, MSDA_BUILD=tmp_path / "broken")
    assert done.status == 0 and "nothing was recorded: the dynamic loader did not load" in done.out


def test_a_program_that_calls_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(HEAD + THREE)
    (tmp_path / "run.py").write_text("import sys, pytest\nsys.exit(pytest.main(['--msda', '-p', 'msda_replay.pytest_plugin']))\n")
    command = [sys.executable, "run.py"]
    settings = environment(PYTHONPATH=SOURCE / "tools" / "python", PYTHONDONTWRITEBYTECODE="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=settings)
    assert done.returncode == 1 and f"start that with LD_PRELOAD={PRELOAD.resolve()}" in done.stdout
    assert not (tmp_path / "msda-captures").exists()
    (tmp_path / "ran").unlink()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**settings, "LD_PRELOAD": str(PRELOAD)})
    assert done.returncode == 1, done.stdout
    assert len(list((tmp_path / "msda-captures").iterdir())) == 2


def test_whose_calls_a_capture_has(session, replay):
    done = session("""
        OUTSIDE = gradients(100)

        @pytest.fixture(scope="module")
        def shared(): return gradients(1)
        @pytest.fixture(scope="module")
        def unused(): return gradients(2)
        @pytest.fixture
        def own():
            gradients(3)
            yield
            gradients(4)
        @pytest.fixture
        def fails_late():
            yield
            gradients(5)
            assert False

        def test_first(shared, unused): pass
        def test_shared(shared): np.testing.assert_allclose(shared["grad_value"] + 1, shared["grad_value"])
        def test_own(own):
            gradients(6)
            assert False
        def test_setup(request):
            request.getfixturevalue("shared")
            assert False
        def test_teardown(fails_late): gradients(7)
        @pytest.mark.xfail
        def test_expected():
            gradients(8)
            assert False
        def test_no_call(): assert False
        def test_child():
            code = "from test_it import *; gradients(9)"
            subprocess.run([sys.executable, "-c", code], check=True)
            if os.fork() == 0:
                gradients(10)
                os._exit(0)
            os.wait()
            assert False
    """)
    assert done.status == 1
    labels = {name: [entry.facts["label"].partition("::")[2] for entry in done.invocations(name)] for name in done.captures}
    assert labels == {
        "test_it.py-test_shared.h5": ["shared (module fixture)"],
        "test_it.py-test_own.h5": ["test_own (setup)", "test_own"],
        "test_it.py-test_teardown.h5": ["test_teardown", "test_teardown (teardown)"],
        # What the program imports again is done again.
        "test_it.py-test_child.h5": ["test_child"] * 3,
    }
    assert "2 failed without a call that is recorded" in done.out and "save_call" not in done.out  # where some were recorded
    for path in done.captures.values():
        replay("verify", path, expect=0)
    # The expected result was named first, and lies as the output does.
    (shared,) = done.invocations("test_it.py-test_shared.h5")
    found = shared.results["reference"].tensors["grad_value"]
    np.testing.assert_array_equal(found, shared.outputs["grad_value"] + 1)
    assert shared.results["reference"].role == "reference" and (shared.atol, shared.rtol) == (0, 1e-7)


def test_the_headline_says_whose_side_is_whose(session):
    """A new kernel that is not recorded, off by 2, against a recorded one: the verdict's reference is the test's `actual`."""
    done = session("""
        def off_by_two(found):
            new = found["grad_value"].copy()
            new[0, 3, 1, 2] += 2
            return new

        def test_new_kernel():
            found = gradients(1)
            np.testing.assert_allclose(actual=off_by_two(found), desired=found["grad_value"], rtol=1e-3, atol=1e-4)

        def test_as_usual():
            found = gradients(2)
            np.testing.assert_allclose(actual=found["grad_value"], desired=off_by_two(found), rtol=1e-3, atol=1e-4)
    """, "--junitxml=junit.xml")
    assert done.status == 1 and len(done.captures) == 2
    says = {case.get("name"): entry.get("value") for case in xml.etree.ElementTree.parse(done.folder / "junit.xml").iter("testcase")
            for entry in case.iter("property") if entry.get("name") == "msda_verdict"}
    assert all(text.startswith("The reference is wrong") for text in says.values())
    whose = "The recorded grad_value is the test's `desired`, the reference its `actual`."
    assert says["test_new_kernel"].endswith(whose) and "`" not in says["test_as_usual"]
    assert whose in " ".join(done.out.split())
    for test, is_said in ("new_kernel", True), ("as_usual", False):  # and so of the capture alone
        run = subprocess.run([REPLAY, "run", done.folder / "msda-captures" / f"test_it.py-test_{test}.h5"], capture_output=True, text=True)
        assert run.returncode == 1 and (f"note: {whose} " in " ".join(run.stdout.split())) == is_said


def test_marker(session):
    done = session("""
        @pytest.mark.msda(atol=0.5, rtol=0.25, reference="msda_triton")
        def test_it():
            found = gradients()["grad_value"]
            np.testing.assert_allclose(found.transpose(0, 2, 1, 3), found.transpose(0, 2, 1, 3) + 1, rtol=0)
    """)
    (invocation,) = done.invocations("test_it.py-test_it.h5")
    assert (invocation.atol, invocation.rtol, invocation.results["reference"].dialect) == (0.5, 0.25, "msda_triton")
    np.testing.assert_array_equal(invocation.results["reference"].tensors["grad_value"], invocation.outputs["grad_value"] + 1)


CRASH = """
def test_before(): gradients(1)
def test_crash():
    gradients(2)
    os.kill(os.getpid(), signal.SIGSEGV)
def test_after(): gradients(3)
"""


def test_a_crashed_worker(session):
    done = session(CRASH, *with_workers(1))
    assert done.status == 1 and "1 failed, 2 passed" in done.out
    (invocation,) = done.invocations("test_it.py-test_crash.h5")
    assert list(done.captures) == ["test_it.py-test_crash.h5"] and invocation.facts["label"] == "test_it.py::test_crash"


def test_a_crashed_session(session, tmp_path):
    assert session(CRASH).status == -11
    (folder,) = (tmp_path / "msda-captures").glob(".session-*")
    for _ in range(100):  # the recorder's writer, which inherited the lock, may still be at work
        with files.abandoned(str(folder)) as is_abandoned:
            if is_abandoned:
                break
        time.sleep(0.1)
    done = session("def test_it(): pass")
    assert done.status == 0 and "an earlier session was interrupted in test_it.py::test_crash" in done.out
    assert [entry.facts["label"] for entry in done.invocations("test_it.py-test_crash.h5")] == ["test_it.py::test_crash"]
    assert list(done.captures) == ["test_it.py-test_crash.h5"]  # no folder of the session is left


def test_a_session_that_goes_on_elsewhere(session, tmp_path):
    """Its process id means nothing on this host, or in this container."""
    folder = tmp_path / "msda-captures" / ".session-999999999-x"
    folder.mkdir(parents=True)
    descriptor = files.lock(folder)
    assert session("def test_it(): pass").status == 0 and folder.exists()
    os.close(descriptor)
    assert session("def test_it(): pass").status == 0 and not folder.exists()


def test_a_session_that_does_not_begin(session, tmp_path):
    assert session("def test_it(): pass", "--no-such-option").status == 4
    assert not (tmp_path / "msda-captures").exists()


def test_files_of_the_living_vanish(tmp_path):
    (tmp_path / "999999998.h5").touch()
    (tmp_path / "999999999.h5").symlink_to("gone")
    (tmp_path / f"{os.getpid()}.h5").touch()
    assert [path.name for path in files.of_ended_processes(tmp_path, wait=False)] == ["999999998.h5"]
    assert files.label_of(tmp_path / "999999999.h5") == ""


def test_a_name_that_was_taken_for_nothing_is_given_back(tmp_path):
    with pytest.raises(OSError):
        files.keep(tmp_path / "none", tmp_path / "kept", "a")
    assert list((tmp_path / "kept").iterdir()) == []


def test_whose_fixtures_are_a_tests():
    assert all(files.is_below("tests/a/test_b.py::TestX::test_c[1]", base) for base in (
        "", "tests", "tests/a", "tests/a/test_b.py", "tests/a/test_b.py::TestX"))
    assert not any(files.is_below("tests/ab/test_b.py::TestXY::test_c", base) for base in ("tests/a", "tests/ab/test_b.py::TestX"))


def test_the_command_that_explains(monkeypatch, tmp_path):
    """That of MSDA_REPLAY, and whatever it says."""
    from msda_replay.pytest_plugin.explain import explain

    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nprintf 'no\\377\\n' >&2; exit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("MSDA_REPLAY", str(program))
    assert explain(tmp_path / "a.h5").trouble == "no\ufffd"
    monkeypatch.setenv("MSDA_REPLAY", str(tmp_path / "none"))
    assert "none: is no program" in explain(tmp_path / "a.h5").trouble


def test_torch(session, replay):
    pytest.importorskip("torch")
    done = session("""
        import torch
        from torch.testing import assert_close

        def test_it():
            found = {name: torch.from_numpy(array) for name, array in gradients().items()}
            expected = {name: tensor.double() for name, tensor in found.items()}
            expected["grad_attention_weights"][0, 7, 1, 1, 0] += 1
            assert_close(found, {name: tensor.float() for name, tensor in expected.items()}, msg="no message of ours")
    """)
    (invocation,) = done.invocations("test_it.py-test_it.h5")
    assert (invocation.atol, invocation.rtol) == (1e-5, 1.3e-6) and "no message of ours" in done.out
    result = replay("run", done.captures["test_it.py-test_it.h5"], "--json", "-", expect=1).json
    assert [(finding["tensor"], finding["index"]) for finding in result["invocations"][0]["findings"] if finding["against"] == "reference"] == [
        ("grad_attention_weights", [0, 7, 1, 1, 0])]


@pytest.mark.parametrize("shown", [
    lambda a: a, lambda a: a.reshape(-1, 4), lambda a: a.transpose(0, 2, 1, 3), lambda a: a.astype(np.float64), lambda a: a[..., ::-1],
])
def test_where_an_array_lies_in_an_output(tmp_path, problem, rng, shown):
    from support.problems import backward

    from msda_replay import Invocation, write_capture
    from msda_replay.pytest_plugin.attach import attach

    inputs = problem(rng, channels=4, heads=3)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, outputs, "msda_triton"))
    found = outputs["grad_value"]
    printed = attach(path, [Comparison(shown(found), shown(found + 1), 0.5, 0.25, True, "an assertion")], {})
    (invocation,) = read_capture(path).invocations
    if np.array_equal(shown(found), found[..., ::-1]):  # no layout, but other numbers
        assert printed.by == [] and invocation.results == {} and invocation.atol is None
    else:
        assert printed.by == ["an assertion"] and invocation.atol == 0.5
        np.testing.assert_array_equal(invocation.results["reference"].tensors["grad_value"], found + 1)
    assert subprocess.run([REPLAY, "verify", path], capture_output=True).returncode == 0


@pytest.mark.parametrize("change, links", [(0, True), (1, False)])
def test_a_reference_that_was_recorded_is_stored_once(tmp_path, problem, rng, replay, change, links):
    from support.problems import backward

    from msda_replay import Invocation, write_capture
    from msda_replay.pytest_plugin.attach import attach

    inputs = problem(rng, channels=4, heads=3)
    expected = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    outputs = {name: array * np.float32(1.25) for name, array in expected.items()}
    path = tmp_path / "a.h5"
    write_capture(path, [Invocation(inputs, outputs, "msda_triton"), Invocation(inputs, expected, "grid_sample")])
    compared = expected["grad_value"] + np.float32(change)
    assert attach(path, [Comparison(outputs["grad_value"], compared, 1e-3, 1e-2, True, "an assertion")], {}).by
    with h5py.File(path) as file:
        reference = file["invocations/000000/results/reference/grad_value"]
        np.testing.assert_array_equal(reference[()], compared)
        assert (reference == file["invocations/000001/outputs/grad_value"]) == links
    replay("verify", path, expect=0)


@pytest.fixture
def attached(tmp_path, problem, rng):
    """Attaches comparisons to a call with these outputs, and returns which comparisons counted, the call, and the capture."""
    from support.problems import backward

    from msda_replay import Invocation, write_capture
    from msda_replay.pytest_plugin.attach import attach

    def run(make, change=lambda outputs: outputs, marker=()):
        inputs = problem(rng, channels=4, heads=3)
        outputs = change({name: array.astype(np.float32) for name, array in backward(inputs).items()})
        write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "msda_triton"), overwrite=True)
        printed = attach(tmp_path / "a.h5", make(outputs), dict(marker))
        return printed, read_capture(tmp_path / "a.h5").invocations[0]

    return run


def test_a_reference_is_taken_only_with_its_own_tolerance(attached):
    def make(outputs):
        return [Comparison(array, array + 1, atol, 0.0, False, name) for (name, array), atol in zip(outputs.items(), (0.5, 0.125, 0.5))]

    result, invocation = attached(make)
    assert result.by == ["grad_value", "grad_attention_weights"] and (invocation.atol, invocation.rtol) == (0.5, 0)
    assert set(invocation.results["reference"].tensors) == {"grad_value", "grad_attention_weights"}
    assert result.otherwise_judged == {(0, "grad_sampling_locations")}
    result, invocation = attached(make, marker={"atol": 1.0, "rtol": 0.0})  # it is the tolerance of all
    assert len(invocation.results["reference"].tensors) == 3 and invocation.atol == 1 and not result.otherwise_judged


def test_unrelated_constants_are_no_output(attached):
    def zeros(outputs):
        return {name: np.zeros_like(array) for name, array in outputs.items()}

    def compare(array):
        return lambda _: [Comparison(array, array + 1, 0.5, 0.25, True, "an assertion")]

    size = attached(lambda _: [])[1].outputs["grad_value"].shape
    result, invocation = attached(compare(np.zeros(int(np.prod(size)), np.float32)), zeros)
    assert not result.by and not invocation.results and invocation.atol is None
    result, invocation = attached(compare(np.zeros(size, np.float32)), zeros)
    assert result.by and set(invocation.results["reference"].tensors) == {"grad_value"}


def test_of_two_outputs_with_the_same_numbers_none_is_guessed(attached):
    def both(outputs):
        return {**outputs, "twin": outputs["grad_value"]}

    printed, invocation = attached(lambda outputs: [Comparison(outputs["grad_value"], outputs["grad_value"] + 1, 0.5, 0, True, "x")], both)
    assert not printed.by and not invocation.results


def test_an_assertion_without_a_reference_tells_nothing(attached):
    printed, invocation = attached(lambda outputs: [Comparison(outputs["grad_value"], np.float32(0), 0.5, 0.0, True, "to zero")])
    assert not printed.by and not invocation.results and invocation.atol is None


def test_names():
    assert files.name_of("tests/test_a.py::TestX::test_b[1-a/b]", 0) == "tests-test_a.py-TestX-test_b-1-a-b"
    assert files.name_of("test_a.py::test_b", 3) == "test_a.py-test_b.attempt-3"
    assert files.name_of("::", 0) == "test" and ".." not in files.name_of("../../etc::x", 0)[:3]
    long = [files.name_of("test_a.py::test_b[" + "x" * 300 + end, 0) for end in "ab"]
    assert long[0] != long[1] and all(len(name) < 200 for name in long)


def test_lists_are_those_of_the_schema():
    import json

    definitions = json.loads((SOURCE / "docs" / "run.schema.json").read_text())["definitions"]
    assert set(CAUSES) == set(definitions["cause"]["enum"])
    assert {*DIALECTS, ""} == set(definitions["invocation"]["properties"]["dialect"]["enum"])


def test_every_option_is_documented():
    page = (SOURCE / "docs" / "pytest.md").read_text()
    options = (SOURCE / "tools" / "python" / "msda_replay" / "pytest_plugin" / "settings.py").read_text()
    names = set(re.findall(r'addoption\("(--[a-z-]+)"', options)) | set(re.findall(r'addini\("([a-z_]+)"', options))
    assert len(names) == 10 and all(f"`{name}" in page for name in names)


def test_it_imports_nothing_heavy():
    """Every pytest on a machine with the package loads the plugin."""
    code = "import sys, msda_replay.pytest_plugin; print(sorted({'numpy', 'h5py', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=environment(PYTHONPATH=SOURCE / "tools" / "python"))
    assert done.stdout == "[]\n", done.stderr


def test_passing_comparisons_cost_no_copy():
    """What passed is held weakly, and only as long as it is unchanged."""
    from msda_replay.pytest_plugin.assertions import _Unchanged

    array = np.arange(4.0)
    held = _Unchanged(array)
    np.testing.assert_array_equal(held(), array)
    array[0] = 7
    assert held() is None
    held = _Unchanged(array.copy())
    assert held() is None


def test_what_was_not_seen_is_said(session):
    done = session("""
        def test_bare():
            computed = gradients(1)["grad_value"]
            assert np.allclose(computed + 1, computed)
        def test_seen():
            computed = gradients(2)["grad_value"]
            np.testing.assert_allclose(computed + 1, computed)
    """)
    assert done.status == 1 and done.out.count("what the test compared was not seen") == 1
    done = session("def test_nothing(): assert False")
    assert "1 failed without a call that is recorded: msda-replay doctor" in done.out and "msda_replay.save_call(" in done.out
