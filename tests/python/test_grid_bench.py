"""tools/bench/grid_bench.py, without what it measures with."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import SOURCE

PROGRAM = SOURCE / "tools" / "bench" / "grid_bench.py"


def run(*arguments):
    return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is here")
def test_without_pytorch(tmp_path):
    done = run("--json", tmp_path / "no.json")
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (77, "", 1) and "PyTorch" in done.stdout
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize("arguments, message", [
    (["--rows", "rtdetr-3-80"], "'rtdetr-3-80' is none of rtdetr-1-80"), (["--types", "int8"], "'int8' is none of float32"),
    (["--modes", "mixed"], "'mixed' is none of deterministic"),
])
def test_bad_arguments(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2 and message in done.stderr


def test_promises_of_made_up_times():
    sys.path.insert(0, str(PROGRAM.parent))
    import grid_bench

    fast = {"deterministic": {"cold": [1e-3, 2e-3, 3e-3]}, "PyTorch": {"cold": [4e-3, 4e-3, 5e-3]}}
    assert grid_bench.line(grid_bench.ROWS["rtdetr-1-80"], "float32", "cold", fast, ["deterministic"]) == (
        "| 8 32 80x80 300x4 uniform | float32 | cold | 2.0 | 4.0 | 0.50 |")
    assert grid_bench.missed(grid_bench.ROWS["rtdetr-1-80"], "float32", "cold", fast) is False
    slow = {**fast, "deterministic": {"cold": [5e-3]}}
    assert grid_bench.missed(grid_bench.ROWS["rtdetr-1-80"], "float32", "cold", slow) is True
    assert grid_bench.missed(grid_bench.ROWS["warp-4-512"], "float32", "cold", slow) is False  # nothing is promised there
    assert grid_bench.missed(grid_bench.ROWS["rtdetr-1-80"], "bfloat16", "cold", {"deterministic": slow["deterministic"]}) is False
