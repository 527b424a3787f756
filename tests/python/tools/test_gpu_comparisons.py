"""The comparisons with PyTorch in tools/bench without a GPU: turns, and tables of made-up times."""

import importlib.util
import json
import subprocess
import sys
import types

import pytest
from conftest import SOURCE

BENCH = SOURCE / "tools" / "bench"
sys.path.insert(0, str(BENCH))
import harness  # noqa: E402
from gpu import comparison  # noqa: E402

PROGRAMS = ("against_torch", "gpu_bench", "grid_bench", "replaced_bench", "scatter_bench", "separable_bench")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is here")
@pytest.mark.parametrize("name", PROGRAMS)
def test_without_pytorch(name):
    library = ["--library", __file__] if name == "gpu_bench" else []  # which has to be there
    done = subprocess.run([sys.executable, BENCH / f"{name}.py", *library], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (77, "")
    assert done.stdout.startswith(f"{name}: PyTorch is not installed here: nothing to ")


def test_promises_of_made_up_times():
    import grid_bench

    promised, another = grid_bench.ROWS["rtdetr-1-80"], grid_bench.ROWS["warp-4-512"]
    fast = {"deterministic": {"cold": [1e-3, 2e-3, 3e-3]}, "PyTorch": {"cold": [4e-3, 4e-3, 5e-3]}}
    cells = comparison.cells_of(promised, "float32", "cold", fast, ["deterministic"])
    assert list(map(str, cells)) == ["8 32 80x80 300x4 uniform", "float32", "cold", "2.0", "4.0", "0.50"]
    slow = {**fast, "deterministic": {"cold": [5e-3]}}

    def missed(row, dtype, found):
        return comparison.missed(row, dtype, "cold", found, "deterministic")

    assert missed(promised, "float32", fast) is False
    assert missed(promised, "float32", slow) is True
    assert missed(another, "float32", slow) is False  # nothing is promised there
    assert missed(promised, "bfloat16", {"deterministic": slow["deterministic"]}) is False


class MadeUpClock:
    """Says what a call returns: its time. Keeps the order of calls."""

    caches, cache_bytes, released = ("cold", "warm"), 1000, False

    def __init__(self):
        self.calls = []

    def milliseconds(self, call, cache, track):
        assert track.widened <= 1
        self.calls.append((call(), cache, track.widened))
        return call()

    def release(self):
        self.released = True


class MadeUpTrack:
    widened = 0

    def widen(self):
        self.widened += 1


@pytest.fixture
def made_up(monkeypatch):
    """PyTorch, libmsda and a clock that are none, in place of those of a GPU."""
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(get_device_name=lambda: "a GPU"), __version__="1.2")
    monkeypatch.setitem(sys.modules, "gpu.clock", types.SimpleNamespace(DeviceClock=MadeUpClock, Track=MadeUpTrack))
    monkeypatch.setattr(comparison, "pytorch", lambda purpose: torch)
    monkeypatch.setattr(comparison, "on_gpu", lambda torch, path: "a library")


def test_contenders_take_turns(made_up):
    clock, calls = MadeUpClock(), [{name: lambda name=name, n=n: f"{name}{n}" for name in "ab"} for n in range(2)]
    found = comparison.alternating(clock, calls, 3)
    assert found == {name: {cache: [f"{name}0", f"{name}1", f"{name}0"] for cache in clock.caches} for name in "ab"} and clock.released
    before, timed = clock.calls[:8], clock.calls[8:]
    assert [(call, widened) for call, _, widened in before] == 4 * [("a0", 0)] + 4 * [("b0", 0)]
    assert [call for call, _, _ in timed[::2]] == ["a0", "b0", "b1", "a1", "a0", "b0"]


def test_inputs_exceed_the_cache():
    drawn = [len(comparison.input_sets(lambda seed, size=size: [types.SimpleNamespace(nbytes=size)], 1000, 3)) for size in (1, 300, 5000)]
    assert drawn == [8, 4, 3]


def test_table_figures_and_status(made_up, tmp_path, capsys):
    class Row(str):
        types = ("float32", "float16")

    rows, file = {"a": Row("row a"), "b": Row("row b")}, tmp_path / "a.json"
    chosen = types.SimpleNamespace(rows=["b"], types=["float64", "float32"], runs=7, library="a path", json=file)
    times = {"ours": {"cold": [3e-3], "warm": [6e-3]}, "PyTorch": {"cold": [2e-3], "warm": [4e-3]}}

    def measured(asked, torch, library, clock, row, dtype):
        assert (asked, library, row, dtype) == (chosen, "a library", "row b", "float32")
        return {"off": 0.5, "contenders": times}, [f"{row}: slow"]

    status = harness.ended("a_bench", lambda: comparison.compare(chosen, rows, "call", ["ours", "absent"], measured))
    printed = capsys.readouterr()
    first, empty, *table = printed.out.splitlines()
    assert (status, printed.err, empty) == (1, "a_bench: row b: slow\n", "")
    assert first.startswith("a GPU, PyTorch 1.2, 20") and first.endswith(", microseconds, medians of 7 runs")
    assert table == ["| call | type | L2 | ours | absent | PyTorch | ours / PyTorch | absent / PyTorch |", "|---|---|---|---|---|---|---|---|",
                     "| row b | float32 | cold | 3.0 |  | 2.0 | 1.50 |  |", "| row b | float32 | warm | 6.0 |  | 4.0 | 1.50 |  |"]
    assert json.loads(file.read_text()) == [{"row": "b", "type": "float32", "off": 0.5, "contenders": times}]
