"""The Python package's type hints: they hold within the package, and a program that uses it is checked by them."""

import importlib.util
import inspect
import os
import subprocess
import sys
import typing

import pytest
from conftest import SOURCE

import msda_replay
import msda_replay.importer

PACKAGE = SOURCE / "tools" / "python"
needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")

PROGRAM = """
import numpy as np
import msda_replay
from msda_replay import Finding, OpenCapture, open_capture, read_capture, replay, run, save_call, write_capture

def names(path: str) -> list[str]:
    with open_capture(path) as capture:
        return [finding.name for finding in capture[0].findings(mode="float64")]

result = run("a.h5", invocation=0, atol=1e-3)
worst: Finding = result.findings().where(cause="cell_boundary")[0]
gradient: np.ndarray[typing.Any, typing.Any] = replay("a.h5", 0)["grad_value"]
write_capture("b.h5", read_capture("a.h5").invocations)
save_call("c.h5", value=gradient)
msda_replay.report("a.h5", invocation=worst.invocation).save("a.html")
found: bool = msda_replay.gradcheck("a.h5", samples=7).passed and msda_replay.survey(["true"], from_=2).varied > 0
"""
MISTAKES = """
msda_replay.open_captures("a.h5")
run("a.h5", invocations=0)
run("a.h5").findings()[0].cause + 1
write_capture(1, [])
read_capture("a.h5").nonsense
msda_replay.stress("a.h5", run=3)
msda_replay.order("a.h5").nothing
"""


def mypy(*arguments, cwd):
    # No cache: the sources may be another user's.
    return subprocess.run([sys.executable, "-m", "mypy", "--enable-incomplete-feature", "Unpack", "--cache-dir", os.devnull, *map(str, arguments)], cwd=cwd, capture_output=True,
                          text=True, timeout=300, env={**os.environ, "MYPYPATH": str(PACKAGE)})


@needs_mypy
def test_the_package():
    done = mypy(cwd=PACKAGE)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_mypy
def test_a_program_that_uses_it(tmp_path):
    """Under --strict: every name is found, and has hints. The line of each mistake is reported, and no other."""
    right = "import typing\n" + PROGRAM
    (tmp_path / "program.py").write_text(right + MISTAKES)
    # Only what the package offers: its own mistakes are the other test's.
    done = mypy("--strict", "--follow-imports", "silent", "program.py", cwd=tmp_path)
    printed = {int(line.split(":")[1]) for line in done.stdout.splitlines() if line.startswith("program.py:") and ": error: " in line}
    first = right.count("\n") + 2
    assert printed == set(range(first, first + MISTAKES.count("\n") - 1)), done.stdout + done.stderr


def test_public_functions_have_hints():
    """Also without mypy."""
    functions = {"import_case": msda_replay.importer.import_case}
    for name in msda_replay.__all__:
        thing = getattr(msda_replay, name)
        functions.update({name: thing} if inspect.isfunction(thing) else {
            f"{name}.{member}": getattr(entry, "fget", entry) for member, entry in vars(thing).items()
            if not member.startswith("_") and (inspect.isfunction(entry) or isinstance(entry, property))
        })  # fmt: skip
    assert {"write_capture", "Call.findings", "Tensor.dtype"} <= set(functions)
    for name, function in functions.items():
        hints = typing.get_type_hints(function)
        assert set(hints) >= {*inspect.signature(function).parameters, "return"} - {"self"}, name


def test_the_package_says_that_it_has_hints():
    assert (PACKAGE / "msda_replay" / "py.typed").exists()
    assert '"py.typed"' in (PACKAGE / "pyproject.toml").read_text()
