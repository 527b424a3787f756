"""pytest --msda-survey, as a user runs it, on the stand-in CUDA driver: tests that launch kernels which vary, and others."""

import subprocess
import sys
import textwrap

import pytest
from conftest import BUILD, REPLAY, SOURCE
from support.cubins import make_cubin
from support.recording import environment, pytestmark  # noqa: F401

HEAD = f"""
import ctypes
driver = ctypes.CDLL({str(BUILD / "stand_in" / "libcuda.so.1")!r})
context, memory = ctypes.c_void_p(), ctypes.c_void_p()

def check(result):
    assert result == 0, result

def launch(name):
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(driver.cuModuleLoadData(ctypes.byref(module), open(name + ".image", "rb").read()))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    if not memory.value:
        check(driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)))
    check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (ctypes.c_void_p * 1)(ctypes.addressof(memory)), None))
    check(driver.cuCtxSynchronize())
"""
TESTS = """
def test_varies():
    launch("survey_number"), launch("survey_number")

def test_does_not_vary():
    launch("survey_steady")

def test_varies_and_fails():
    launch("survey_number")
    assert False

def test_launches_nothing():
    pass
"""


@pytest.fixture
def run(tmp_path):
    def run(*options, tests=TESTS, starter=("-m", "pytest"), **variables):
        (tmp_path / "test_them.py").write_text(textwrap.dedent(HEAD + tests))
        for name in ("survey_number", "survey_steady"):
            (tmp_path / f"{name}.image").write_bytes(make_cubin([name], bytes(16)))
        settings = {**environment(), "PYTHONPATH": str(SOURCE / "tools/python"), "MSDA_BUILD": str(BUILD), "MSDA_RECORD_HOOK": "driver", **variables}
        for name in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
            settings.pop(name, None)
        command = [sys.executable, *starter, "-p", "no:cacheprovider", "-p", "msda_replay.pytest_plugin", *options, "test_them.py"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=settings)
    return run


def test_tests_whose_launches_vary_are_named(run, tmp_path):
    done = run("--msda-survey", "-rN")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout[done.stdout.index("= msda-replay survey ="):].splitlines()
    (capture,) = tmp_path.glob("msda-captures/survey-*.h5")
    assert lines[1:6] == [
        "PASSED test_them.py::test_varies", "  2 of 2 launches varied: survey_number",
        "FAILED test_them.py::test_varies_and_fails", "  1 of 1 launches varied: survey_number",
        "2 of 3 tests with launches have launches that vary; 4 of 4 launches surveyed"]
    assert lines[6].endswith(f" survey {capture}")
    assert "- msda-replay survey -" in done.stdout, "the failure's own report names the launch"
    printed = subprocess.run([REPLAY, "survey", capture], capture_output=True, text=True, timeout=60)
    assert printed.returncode == 1 and "race  survey_number" in printed.stdout
    assert [path.name for path in tmp_path.glob("msda-captures/*")] == [capture.name]


def test_results_are_those_without(run):
    with_survey, without = run("--msda-survey", "-rN", "-q"), run("-rN", "-q")
    assert with_survey.returncode == without.returncode == 1
    assert without.stdout.splitlines()[-1].split(" in ")[0] == with_survey.stdout.splitlines()[-1].split(" in ")[0]
    assert "msda" not in without.stdout


def test_what_cannot_be_surveyed_is_said(run):
    both = run("--msda", "--msda-survey")
    assert both.returncode == 4 and "--msda and --msda-survey: a survey records no calls; run pytest once with each" in both.stderr
    none = run("--msda-survey", starter=["-c", "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"])
    assert none.returncode == 1 and "nothing was surveyed: pytest was started by another program" in none.stdout
    nothing = run("--msda-survey", tests="def test_alone():\n    pass\n")
    assert nothing.returncode == 0 and "0 of 0 tests with launches have launches that vary; 0 of 0 launches surveyed" in nothing.stdout
