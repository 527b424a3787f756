"""Sessions of pytest --msda."""

import functools
import subprocess
import sys
import textwrap

import pytest
from conftest import BUILD, SOURCE
from support.recording import environment

from msda_replay import read_capture

HEAD = f"""
import os, pathlib, signal, subprocess, sys
sys.path.insert(0, {str(SOURCE / 'tools' / 'bench')!r})
import msda_replay.libmsda, numpy as np, pytest
from libmsda import Operator, make_inputs
msda_replay.libmsda.find_program = lambda name: {str(BUILD / 'bin')!r} + "/" + name  # also where a test hides it

def gradients(seed=0):
    return Operator(dialect=1, padding=1).backward(make_inputs(B=1, Q=8, M=2, P=2, D=4, levels=((5, 6), (3, 2)), seed=seed))
"""


class Session:
    """A pytest that has ended."""

    def __init__(self, folder, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.folder, captures = folder, folder / "msda-captures"
        self.captures = {path.name: path for path in sorted(captures.iterdir())} if captures.exists() else {}

    def invocations(self, name):
        return read_capture(self.captures[name]).invocations


def run_session(folder, lines, *arguments, on=("--msda",), ini="", package=SOURCE / "tools" / "python", pytorch=True, **variables):
    """Runs pytest with the plugin on a test file with these lines. Of other plugins it loads those that are named alone: importing
    the others, twice in each session, would take as long as all else. `pytorch=False` hides PyTorch where it is installed."""
    if not pytorch:
        (folder / "no_pytorch.py").write_text("import sys\nsys.modules['torch'] = None\n")
        arguments = ("-p", "no_pytorch", *arguments)
    (folder / "test_it.py").write_text(HEAD + textwrap.dedent(lines))
    (folder / "pytest.ini").write_text("[pytest]\n" + ini)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "msda_replay.pytest_plugin", *on, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300,
                          env=environment(PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **variables))
    return Session(folder, done)


@pytest.fixture
def session(tmp_path):
    return functools.partial(run_session, tmp_path)


def with_workers(count):
    pytest.importorskip("xdist")
    return "-p", "xdist", "-n", str(count)
