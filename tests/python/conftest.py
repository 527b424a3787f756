"""Shared by the tests of the command and of the package. ctest sets MSDA_BUILD and MSDA_SOURCE."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

SOURCE = pathlib.Path(os.environ.get("MSDA_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("MSDA_BUILD", SOURCE / "build"))
DATA = SOURCE / "tests" / "data"
REPLAY = BUILD / "bin" / "msda-replay"
sys.path.insert(0, str(SOURCE / "tools" / "python"))
pytest.register_assert_rewrite("support")  # what its assertions compared is shown as if they were in a test

# A shell has its background jobs ignore this, which their programs would inherit, and some tests interrupt programs.
signal.signal(signal.SIGINT, signal.default_int_handler)

# These tests expect results of the CPU: GPUs are hidden except from tests that need them.
WITH_GPUS = dict(os.environ)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["MSDA_REPLAY"] = str(REPLAY)  # for the Python package

GRADIENTS = ("grad_value", "grad_sampling_locations", "grad_attention_weights")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes more than 10 s, or many of its kind do; `tools/test long` runs it")
    config.addinivalue_line("markers", "gpu(need, ...): needs a GPU, and modules or nvcc; skipped with the reason where they are missing")
    config.addinivalue_line("markers", "pages(which, how): compares pages of the documentation with the program; on failure, says which to change and how")


@pytest.hookimpl(tryfirst=True)  # before fixtures are made
def pytest_runtest_setup(item):
    from support import gpu

    for mark in item.iter_markers("gpu"):
        why = gpu.gpus()[1] or next(filter(None, map(gpu.missing, mark.args)), "")
        if why:
            pytest.skip(why)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    mark = item.get_closest_marker("pages")
    if report.failed and mark:
        page, how = mark.args
        report.sections.append(("what to do", f"If the program is right, change {page}:\n{how}."))


class Finished:
    """A command that has ended."""

    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    @property
    def words(self):
        """What was printed, without regard to where its lines end."""
        return " ".join(self.out.split())

    @property
    def json(self):
        def refuse(constant):
            raise ValueError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


def said(stderr):
    """msda-record's messages, without those of every run: the limit in force, and the next command."""
    usual = ("msda-record: records at most ", "msda-record: next: ")
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith(usual))


@pytest.fixture(scope="session")
def replay():
    """Runs msda-replay; `expect` is the exit status it must have."""

    def run(*arguments, expect=None, **options):
        process = subprocess.run([str(REPLAY), *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
        finished = Finished(process)
        assert process.returncode >= 0, f"ended by signal {-process.returncode}"
        if expect is not None:
            assert finished.status == expect, finished.out + finished.err
        return finished

    return run


@pytest.fixture(scope="session")
def demo_capture(tmp_path_factory):
    """The shipped real failure as a capture."""
    from msda_replay.importer import import_case

    path = tmp_path_factory.mktemp("demo") / "h200.h5"
    import_case(DATA / "h200_border_noalign_0.npz", path)
    return path


@pytest.fixture(scope="session")
def problem():
    """Makes inputs of a small problem, and right gradients for them by the library's C ABI."""
    from support.problems import make_problem

    return make_problem


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Compiles, runs and records the programs of the tests on a GPU."""
    from support.gpu import Programs

    return Programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def rng():
    return np.random.default_rng(2026)
