"""tools/bench/scatter_bench.py, without what it measures with."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import SOURCE

PROGRAM = SOURCE / "tools" / "bench" / "scatter_bench.py"


def run(*arguments):
    return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is here")
def test_without_pytorch(tmp_path):
    done = run("--json", tmp_path / "no.json")
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (77, "", 1) and "PyTorch" in done.stdout
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize("arguments, message", [
    (["--rows", "edges-2m"], "'edges-2m' is none of edges-1m"), (["--types", "int8"], "'int8' is none of float32")])
def test_bad_arguments(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2 and message in done.stderr
