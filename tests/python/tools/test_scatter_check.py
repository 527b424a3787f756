"""The random problems of tools/gpu-check's check `scatter`: what it makes of made-up captures and answers."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import BUILD, SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
from gpu_check import bench as benches  # noqa: E402
from gpu_check import scatter  # noqa: E402

from msda_replay import Invocation  # noqa: E402


def digest(array):
    return hashlib.sha1(array.tobytes()).hexdigest()


def recorded(rng, kind="float32"):
    """The lines of a call and the invocation that should be in the capture."""
    source = rng.standard_normal((5, 3)).astype(np.float32)
    index = rng.integers(0, 4, 5)
    total = rng.standard_normal((4, 3)).astype(np.float32)
    in_file = (source, total)
    if kind == "bfloat16":  # 16 bits in the program, float32 as the package reads them
        bits = [(array.view(np.uint32) >> 16).astype(np.uint16) for array in in_file]
        in_file = [(array.astype(np.uint32) << 16).view(np.float32) for array in bits]
        source, total = bits
    lines = [f"0000-scatter_add-index_add-{kind} {name} {digest(array)}" for name, array in (("index", index), ("source", source), ("result", total))]
    return lines, Invocation({"index": index, "source": in_file[0], "self": in_file[1]}, {"sum": in_file[1]}, "")


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_tensors_are_compared(rng, kind):
    lines, call = recorded(rng, kind)
    told = scatter.told_by("\n".join(lines))
    pairs = list(zip(told.items(), [call]))
    assert scatter.as_told(pairs) == "1 calls, 3 tensors" and scatter.first_missing(told, [call]) == "none"
    assert scatter.first_missing(told, []) == f"0000-scatter_add-index_add-{kind}"
    call.inputs["source"] = call.inputs["source"] * np.float32(2)
    with pytest.raises(benches.Failed, match="1 of 1 calls have other tensors than the program: 0000-.*: source"):
        scatter.as_told(pairs)
    del call.inputs["source"]
    with pytest.raises(benches.Failed, match=": source"):
        scatter.as_told(pairs)


def test_replays_are_judged():
    verdict = {"summary": "as they say"}
    good = {"verdict": verdict, "invocations": [{"id": i, "verdict": {"causes": {"accumulation_order": 3}}} for i in range(3)]}
    assert scatter.judge_run(good, 3) == ("3 calls", "as they say")
    with pytest.raises(benches.Failed, match="3 of 4 calls are replayed"):
        scatter.judge_run(good, 4)
    good["invocations"][1]["verdict"]["causes"]["implementation_error"] = 1
    with pytest.raises(benches.Failed, match="an implementation_error in 1 of 3 calls, as in --invocation 1: as they say"):
        scatter.judge_run(good, 3)


def orders(*found, operator="scatter_add", single=True):
    return [{"id": i, "operator": operator, "one_at_a_time": single,
             "summary": {"with_1_to_15": few, "explained_to_15": explained - 1, "in_parts_to_15": 1} if explained else
             {"with_1_to_15": few, "explained_to_15": 0, "in_parts_to_15": 0}}
            for i, (few, explained) in enumerate(found)]


def test_orders_are_judged():
    told = {"invocations": [*orders((100, 100), (100, 98)), *orders((50, 0), single=False), *orders((9, 0), operator="roi_align")]}
    assert scatter.judge_orders(told, "scatter_add") == ("99.00% of 200", "2 calls whose kernel adds one at a time")
    told["invocations"][1]["summary"]["explained_to_15"] = 96
    with pytest.raises(benches.Failed, match="an order for 197 of 200 elements .* at least 99% is promised; most are missing in --invocation 1"):
        scatter.judge_orders(told, "scatter_add")
    with pytest.raises(benches.Failed, match="no element of interpolate has 1 to 15 additions"):
        scatter.judge_orders(told, "interpolate")


def test_the_cases_of_the_check(rng, monkeypatch, tmp_path):
    """Without torchvision roi_align is skipped, and the others are checked."""
    lines, call = recorded(rng)
    bench = benches.Bench(BUILD / "bin", sys.executable, tmp_path, scatter_problems=7)
    commands = []
    monkeypatch.setattr(bench, "missing", lambda need: "no torchvision here" if need == "torchvision" else "")
    monkeypatch.setattr(bench, "record", lambda command, **_: commands.append(list(map(str, command))) or (
        subprocess.CompletedProcess([], 0, "\n".join(lines), ""), tmp_path / "a.h5"))
    monkeypatch.setattr(scatter, "invocations_of", lambda *_: [call])
    monkeypatch.setattr(scatter, "orders_of", lambda *_: {"invocations": orders((3, 3))})
    cases = dict(scatter.random_problems(bench))
    assert commands[0][2:] == ["--problems", "7", "--operators", "scatter_add,interpolate"]
    assert cases["random, every call once"]() == "1 calls" and cases["random scatter_add, tensors"]() == "1 calls, 3 tensors"
    assert cases["random scatter_add, orders"]()[0] == "100.00% of 3" and "random roi_align, orders" not in cases
    with pytest.raises(benches.Skip, match="no torchvision here"):
        cases["random roi_align, tensors"]()


def test_the_program_draws_the_same_in_every_run():
    pytest.importorskip("torch")
    command = [sys.executable, SOURCE / "tests" / "gpu" / "scatter_random.py", "--device", "cpu", "--problems", "16",
               "--operators", "scatter_add,interpolate"]
    one, other = (subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout for _ in range(2))
    told = scatter.told_by(one)
    assert one == other and len(told) == 32
    assert {name.split("-")[2] for name in told if "-scatter_add-" in name} == {
        "index_add", "index_select", "scatter_add", "scatter_rows", "scatter_reduce", "gather", "index_put", "embedding"}


def test_the_command_needs_no_numpy(tmp_path):
    """Its help is for those, too, who have yet to install what the checks need."""
    for name in ("numpy", "h5py", "torch"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is hidden')\n")
    done = subprocess.run([sys.executable, SOURCE / "tools" / "gpu-check", "--help"], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0 and "--scatter-problems" in done.stdout, done.stderr
