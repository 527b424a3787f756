"""tools/bench/record_cost.py: every model on a CPU, as short as can be, and its arithmetic."""

import importlib.util
import json
import re
import subprocess
import sys

import pytest
from conftest import SOURCE

BENCH = SOURCE / "tools" / "bench"
sys.path.insert(0, str(BENCH))
import record_cost  # noqa: E402

HIDDEN = "import runpy, sys\nsys.modules['torch'] = None\nsys.argv = sys.argv[1:]\nsys.path.insert(0, {!r})\nrunpy.run_path(sys.argv[0], run_name='__main__')"


def bench(*arguments, before=()):
    command = [sys.executable, *before, BENCH / "record_cost.py", "--threads", "1", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)


def test_the_table():
    def found(plain, record):
        return {"plain": plain, "record": record, "calls": 2.0, "bytes": 3e6, "written": 0.25}

    row = record_cost.row_of("cnn", [found(0.001, 0.002), found(0.002, 0.002), found(0.004, 0.012)])
    assert record_cost.cells_of(row) == ("cnn", "2.00 ms", "2.00 ms", "2.00 (1.50 to 2.50)", "2", "3.00", "250.00 ms")


def test_without_pytorch():
    done = bench(before=("-c", HIDDEN.format(str(BENCH))))
    assert done.returncode == 77 and done.stdout == "record_cost: PyTorch is not installed here: nothing to train with\n", done.stderr


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed here")
def test_models(tmp_path):
    done = bench("--rounds", "2", "--steps", "1", "--most", "0", "--json", tmp_path / "cost.json")
    assert done.returncode == 1 and set(re.findall(r"record_cost: ([a-z]+): [\d.]+ times as long, at most 0.0", done.stderr)) == set(record_cost.MODELS)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("|")]
    assert tuple(rows[0]) == record_cost.HEADER and {row[0]: row[4] for row in rows[2:]} == {"cnn": "2", "embedding": "1", "graph": "4", "mlp": "0"}
    rounds = json.loads((tmp_path / "cost.json").read_text())
    assert len(rounds) == 8 and all(entry["plain"] > 0 and entry["record"] > 0 for entry in rounds)
