"""pytest --msda with tests that do what tests should not: each failure still has one capture, named after its test."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import h5py
import pytest
from conftest import SOURCE
from support.pytest_sessions import HEAD, session, with_workers  # noqa: F401 (a fixture)
from support.recording import PRELOAD, environment, pytestmark  # noqa: F401

from msda_replay.pytest_plugin import files, recorder

PACKAGE = SOURCE / "tools" / "python"


def labels(path):
    with h5py.File(path) as file:
        return [invocation.attrs.get("label", b"") for invocation in file["invocations"].values()]


def test_a_test_that_ends_the_process(session, tmp_path):  # noqa: F811
    lines = """
        def test_before(): gradients(1)
        def test_ends():
            gradients(2)
            os._exit(3)
        def test_after(): gradients(3)
    """
    assert session(lines).status == 3
    (folder,) = (tmp_path / "msda-captures").glob(".session-*")
    for _ in range(100):  # the recorder's writer outlives it
        with files.abandoned(str(folder)) as is_abandoned:
            if is_abandoned:
                break
        time.sleep(0.1)
    done = session(lines, "-k", "before")
    assert done.status == 0 and "an earlier session was interrupted in test_it.py::test_ends" in done.out
    assert list(done.captures) == ["test_it.py-test_ends.h5"] and labels(done.captures["test_it.py-test_ends.h5"]) == ["test_it.py::test_ends"]
    done = session(lines, *with_workers(1))
    assert done.status == 1 and "1 failed, 2 passed" in done.out
    assert set(done.captures) == {"test_it.py-test_ends.h5", "test_it.py-test_ends.2.h5"}


REPLACES = """
import builtins, time

def broken(*_, **__): raise ZeroDivisionError("broken")

@pytest.mark.parametrize("where, name, value", [
    (subprocess, "run", broken), (subprocess, "Popen", broken), (time, "time", lambda: 0), (os, "rename", lambda *_: None),
    (builtins, "open", broken), (os.path, "exists", lambda _: False), (os, "environ", {}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_it(monkeypatch, where, name, value):
    gradients(ord(name[0]))
    monkeypatch.setattr(where, name, value)
    assert False

def test_after():
    gradients(10)
    assert False
"""


def test_functions_that_a_test_replaces(session):  # noqa: F811
    done = session(REPLACES)
    assert done.status == 1 and "8 failed" in done.out
    assert set(done.captures) == {"test_it.py-test_after.h5", *(f"test_it.py-test_it-{name}.h5" for name in (
        "run", "Popen", "time", "rename", "open", "exists", "environ"))}, done.out
    assert "ended early" not in done.out
    for name, path in done.captures.items():
        (label,) = labels(path)
        assert files.name_of(label, 0) == name.removesuffix(".h5")


@pytest.mark.parametrize("pause", [0.002, None])
def test_a_thread_that_calls_all_the_time(session, pause):  # noqa: F811
    """Also between the end of a capture and its move, and faster than the writer writes."""
    done = session(f"""
        import threading, time
        def work():
            for seed in range(1000, 1 << 30):
                gradients(seed)
                if {pause}: time.sleep({pause})
        threading.Thread(target=work, daemon=True).start()
        @pytest.mark.parametrize("seed", range(6))
        def test_it(seed):
            gradients(seed)
            assert False
    """)
    assert done.status == 1 and "ended early" not in done.out and "cannot create" not in done.out + done.err
    assert set(done.captures) == {f"test_it.py-test_it-{seed}.h5" for seed in range(6)}


def test_a_writer_that_is_too_slow_costs_one_capture(monkeypatch):
    """The recording goes on."""
    library = SimpleNamespace(msda_record_label=lambda _: None, msda_record_discard=lambda: None, msda_record_complete=lambda *_: -1)
    times = iter([0, 1, 10, 71])
    monkeypatch.setattr(recorder, "monotonic", lambda: next(times))
    with pytest.raises(recorder.RecorderError, match="has ended"):
        recorder.Recorder(library).complete()
    with pytest.raises(recorder.TooSlowError, match="more than a minute"):
        recorder.Recorder(library).complete()


def test_an_error_costs_the_calls_of_one_test(session):  # noqa: F811
    """With --msda-fail-on that one fails too: a check that silently checks nothing is worse than none."""
    lines = """
        def test_breaks(monkeypatch):
            gradients(1)
            from msda_replay.pytest_plugin import recording
            def broken(*_): raise ZeroDivisionError("broken")
            monkeypatch.setattr(recording.files, "rename", broken)
            assert {verdict}
        def test_after():
            gradients(2)
            assert False
    """
    done = session(lines.replace("{verdict}", "False"))
    assert done.status == 1 and list(done.captures) == ["test_it.py-test_after.h5"]
    assert "test_it.py::test_breaks: its calls are lost: ZeroDivisionError: broken" in done.out
    done = session(lines.replace("{verdict}", "True"), "--msda-fail-on", "non_finite")
    assert "test_breaks: --msda-fail-on: the calls of this test could not be judged: ZeroDivisionError: broken" in " ".join(
        done.out.split()) or "could not be judged: ZeroDivisionError: broken" in done.out
    assert "2 failed" in done.out


@pytest.mark.parametrize("options", [("-x",), ("-p", "cacheprovider", "--lf"), ("-p", "no:cacheprovider"), ("--maxfail", "1"), ("--setup-show",), ("-W", "error")])
def test_options_of_pytest(session, options):  # noqa: F811
    lines = """
        def test_passes(): gradients(0)
        def test_fails():
            gradients(1)
            assert False
    """
    alone, done = session(lines, *options, on=()), session(lines, *options)
    assert done.status == alone.status == 1
    assert list(done.captures) == ["test_it.py-test_fails.h5"]


def test_names_that_are_hard_to_write(session):  # noqa: F811
    """Node ids as pytest makes them, function names of any language; a number distinguishes those that give one name."""
    done = session("""
        IDS = ["a/b", "a b", 'a"b', "$(rm -rf x)", "..", "a\\nb", "ü", "x" * 300]
        @pytest.mark.parametrize("value", IDS)
        def test_it(value):
            gradients(IDS.index(value))
            assert False
        def test_größe():
            gradients(20)
            assert False
    """)
    assert done.status == 1 and "9 failed" in done.out
    names = [name.removeprefix("test_it.py-").removesuffix(".h5") for name in done.captures]
    assert {"test_größe", "test_it-a-b", "test_it-a-b.2", "test_it-a-b.3", "test_it-rm-rf-x", "test_it"} <= set(names), names
    found = sorted(label for path in done.captures.values() for label in labels(path))
    assert len(found) == len(set(found)) == 9 and "test_it.py::test_it[$(rm -rf x)]" in found
    assert len(files.name_of("test_" + "数" * 200, 0).encode()) < 200


def test_unittest(session):  # noqa: F811
    done = session("""
        import unittest
        class T(unittest.TestCase):
            @classmethod
            def setUpClass(cls): gradients(1)
            def setUp(self): gradients(2)
            def tearDown(self): gradients(3)
            def test_passes(self): gradients(4)
            def test_fails(self):
                gradients(5)
                self.fail()
            @unittest.expectedFailure
            def test_expected(self):
                gradients(6)
                self.fail()
            @unittest.skip("")
            def test_skipped(self): gradients(7)
    """)
    assert done.status == 1
    (path,) = done.captures.values()
    assert path.name == "test_it.py-T-test_fails.h5" and labels(path)[1:] == ["test_it.py::T::test_fails"] * 3
    assert "(class fixture)" in labels(path)[0]


def test_a_pytest_in_a_test(session):  # noqa: F811
    """In its process: it must leave the names of the calls around it alone. In another: it records by itself."""
    done = session("""
        pytest_plugins = "pytester"
        INNER = "def test_inner(): assert False"
        def run(how): return how("--msda", "-p", "msda_replay.pytest_plugin").assert_outcomes(failed=1)
        def test_in_process(pytester):
            pytester.makepyfile(INNER)
            gradients(1)
            run(pytester.runpytest_inprocess)
            gradients(2)
            assert False
        def test_in_another(pytester):
            pytester.makepyfile(INNER)
            run(pytester.runpytest_subprocess)
            gradients(3)
            assert False
    """)
    assert done.status == 1 and "2 failed" in done.out, done.out
    assert "this pytest runs in a test of another" in done.out
    assert {name: labels(path) for name, path in done.captures.items()} == {
        "test_it.py-test_in_process.h5": ["test_it.py::test_in_process"] * 2,
        "test_it.py-test_in_another.h5": ["test_it.py::test_in_another"]}


def test_an_interrupt(session):  # noqa: F811
    done = session("""
        def test_fails():
            gradients(1)
            assert False
        def test_interrupted():
            gradients(2)
            raise KeyboardInterrupt
        def test_never(): gradients(3)
    """)
    assert done.status == 2 and list(done.captures) == ["test_it.py-test_fails.h5"]


def test_fixtures_that_fail(session):  # noqa: F811
    done = session("""
        @pytest.fixture(scope="module")
        def broken():
            gradients(1)
            assert False
        @pytest.fixture(scope="class")
        def late():
            yield gradients(2)
            gradients(3)
            assert False
        def test_first(broken): pass
        def test_second(broken): pass
        class TestX:
            def test_third(self, late): pass
    """)
    assert done.status == 1 and "ERROR test_it.py::test_first" in done.out.split("= msda-replay =")[1]
    assert {name: labels(path) for name, path in done.captures.items()} == {
        "test_it.py-test_first.h5": ["test_it.py::broken (module fixture)"],
        "test_it.py-test_second.h5": ["test_it.py::broken (module fixture)"],
        "test_it.py-TestX-test_third.h5": ["test_it.py::late (class fixture)", "test_it.py::TestX::test_third (teardown)"]}


def test_folders(tmp_path):
    """A conftest and a test that go elsewhere, one of them for good; a folder with a space; options relative to the first folder."""
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "conftest.py").write_text("import os\nos.chdir('/')\n")
    (folder / "test_it.py").write_text(HEAD + "import shutil\ndef test_it(tmp_path):\n    gradients(1)\n    os.chdir(tmp_path)\n"
                                       "    shutil.rmtree(tmp_path)\n    assert False\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "msda_replay.pytest_plugin", "--msda",
                           "--msda-dir", "kept here/ü"], cwd=folder, capture_output=True, text=True,
                          env=environment(PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"))
    assert done.returncode == 1, done.stdout
    (path,) = (folder / "kept here" / "ü").iterdir()
    (command,) = [line.strip() for line in done.stdout.split("= msda-replay =")[1].splitlines() if line.endswith(".h5'")]
    assert subprocess.run(["sh", "-c", command.split(" run ")[0] + " list " + command.split(" run ")[1]], cwd=folder,
                          capture_output=True).returncode == 0


@pytest.mark.parametrize("folder, why", [("file", "File exists"), ("file/below", "Not a directory"), ("readonly", "Permission denied"), ("n" * 300, "File name too long"),
                                         ("folder/" * 1000 + "end", "File name too long")],
                         ids=["file", "below", "readonly", "name", "path"])
def test_folders_that_cannot_be_used(session, tmp_path, folder, why):  # noqa: F811
    (tmp_path / "file").touch()
    (tmp_path / "readonly").mkdir(mode=0o555)
    if folder == "readonly" and os.access(tmp_path / "readonly", os.W_OK):
        pytest.skip("root writes everywhere")
    done = session("def test_it(): assert False", "--msda-dir", folder, pytorch=False)
    assert done.status == 1 and f"{folder}: cannot create a folder there: {why}" in done.out
    done = session("def test_it(): pass", "--msda-dir", folder, "--msda-fail-on", "non_finite", pytorch=False)
    assert done.status == 4


def test_a_test_that_closes_all_descriptors(session):  # noqa: F811
    """The recorder's among them. What pytest itself has open stays: without that it cannot go on."""
    done = session("""
        def test_closes():
            gradients(1)
            for number in os.listdir("/proc/self/fd"):
                try:
                    kind = os.readlink(f"/proc/self/fd/{number}")
                except OSError:
                    continue
                if "memfd:msda-record" in kind or kind.startswith("socket:") or kind.endswith(".spool"):
                    os.close(int(number))
            gradients(2)
            assert False
        def test_later():
            gradients(3)
            assert False
    """)
    assert done.status == 1 and "recording ended early" not in done.out, done.out
    assert {name: len(labels(path)) for name, path in done.captures.items()} == {"test_it.py-test_closes.h5": 2, "test_it.py-test_later.h5": 1}
