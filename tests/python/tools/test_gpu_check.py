"""tools/gpu-check as far as no GPU is needed: its list, what it does without one, its programs and its comparisons."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import BUILD, SOURCE
from support.launches import CLIENT, COL2IM
from support.problems import backward, recorder_digest
from support.recording import pytestmark  # noqa: F401

sys.path.insert(0, str(SOURCE / "tools"))
from gpu_check import bench as benches  # noqa: E402
from gpu_check import digests, kernels, main, registry, speed, subnormals, triton  # noqa: E402

SCRIPT = SOURCE / "tools" / "gpu-check"
NVCC = benches.find_nvcc()
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc in PATH, CUDA_HOME/bin or /usr/local/cuda/bin")
PROGRAMS = sorted(path.stem for path in (SOURCE / "tests" / "gpu").glob("*.cu"))


def gpu_check(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def bench(tmp_path):
    return benches.Bench(BUILD / "bin", sys.executable, tmp_path, arch="sm_90")


def compiled(name, folder):
    path = folder / name
    done = subprocess.run([NVCC, "-std=c++17", "-O0", "-arch=sm_90", "-no-compress", "-Werror", "all-warnings", "-o", path,
                           SOURCE / "tests" / "gpu" / f"{name}.cu"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def test_list_is_documented():
    done = gpu_check("--list")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(names) >= 12
    text = (SOURCE / "docs" / "internals" / "gpu-check.md").read_text()
    assert re.findall(r"^\| `(\w[\w-]*)` \|", text, re.M) == names
    for flag in re.findall(r"^  (--[\w-]+)", gpu_check("--help").stdout, re.M):
        assert f"`{flag}" in text, flag


@pytest.mark.skipif(not benches.gpu_missing(), reason="there is a GPU here: run tools/gpu-check")
def test_without_a_gpu(tmp_path):
    done = gpu_check("--json", tmp_path / "table.json")
    first, *rows = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == "" and first.startswith("gpu-check: no GPU here: ")
    table = json.loads((tmp_path / "table.json").read_text())
    assert [row["check"] for row in table] == [row.split()[0] for row in rows] and len(rows) == len(registry.CHECKS)
    assert {row["result"] for row in table} == {"skipped"}
    assert len(gpu_check("--only", "seeds,stall").stdout.splitlines()) == 3


def test_bad_usage():
    done = gpu_check("--only", "stall,nothing")
    assert done.returncode == 2 and "no check nothing; --list names them" in done.stderr


def test_what_is_missing_or_wrong_is_told_and_the_rest_goes_on(bench, capsys):
    def cases(_):
        yield "good", lambda: ("7 of 7", "a note\nof two lines")
        yield "bad", lambda: benches.expect(False, "3 of 7")
        yield "not here", lambda: (_ for _ in ()).throw(benches.Skip("no such thing"))
        yield "broken", lambda: {}["key"]
        raise benches.Failed("in common")

    table = main.Table()
    main.run_check(table, bench, registry.Check("test", "", (), cases))
    main.run_check(table, bench, registry.Check("other", "", ("no_such_module",), cases))
    assert [(row["check"], row["result"]) for row in table.rows] == [
        ("test: good", "passed"), ("test: bad", "FAILED"), ("test: not here", "skipped"), ("test: broken", "FAILED"),
        ("test", "FAILED"), ("other", "skipped")]
    notes = [row["note"] for row in table.rows]
    assert notes[0] == "a note of two lines" and notes[1] == "3 of 7" and "KeyError" in notes[3]
    assert "no module no_such_module" in notes[5]
    assert len(capsys.readouterr().out.splitlines()) == 6


@needs_nvcc
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_compiles(tmp_path, name):
    path = compiled(name, tmp_path)
    symbols = subprocess.run(["nm", path], capture_output=True, text=True).stdout
    if name == "scale_add":
        assert kernels.SCALE_ADD["adapters"][0]["kernel"].strip("^$") in symbols
    if name == "subnormals":
        cubin = tmp_path / "code.cubin"
        subprocess.run([NVCC, "-std=c++17", "-O2", "-arch=sm_90", "-cubin", "-o", cubin, SOURCE / "tests" / "gpu" / "subnormals.cu"], check=True)
        words = np.frombuffer(cubin.read_bytes()[:cubin.stat().st_size // 16 * 16], np.uint64).reshape(-1, 2)
        # RED, ATOMG and ATOM of float16 and bfloat16 pairs, float32, float64: bits 9 to 12 of the second word.
        found = {(int(first) & 0xfff, int(second) >> 9 & 0xf) for first, second in words}
        assert found >= {(opcode, kind) for opcode in (0x9a6, 0x9a3, 0x9a2) for kind in (0, 3, 9, 15)}
    if name != "col2im17":
        return
    # The host's stubs bear the kernels' names, which are those of the real ones.
    names = set(re.findall(r" (_Z\d+ms_deformable_col2im_gpu_kernel\w+)$", symbols, re.M))
    assert COL2IM in names
    assert len(names) == 18 and {kernels.variant_of(name) for name in names} == set(kernels.VARIANTS)
    assert sum("IN3c104HalfE" in name for name in names) == 6
    for kind, limit in (("double", 1e-12), ("float", 1e-4), ("half", 0.05)):
        folder = tmp_path / kind
        folder.mkdir()
        done = subprocess.run([path, "--host", "--type", kind, "--launches", "2", "--save", folder], capture_output=True, text=True)
        saved = benches.saved_tensors(folder)
        assert done.returncode == 0 and set(saved) == {"0-0000-host", "0-0001-host"}
        for tensors in saved.values():
            assert tensors["value"].dtype == {"double": np.float64, "float": np.float32, "half": np.float16}[kind]
            for gradient, truth in backward(tensors).items():
                away = np.abs(tensors[gradient] - truth)
                scale = limit * (1 + np.abs(truth).max())
                # In 16 and 32 bits a location may be rounded across the edge of a pixel.
                assert np.mean(away > scale) < (0.02 if kind == "half" else 1e-9), gradient


def test_outcome_and_capture_are_compared(bench):
    command = [CLIENT, "--kernel", "col2im17", "--launches", "2"]
    done, capture, _ = bench.outcome_kept(command, saves=False)
    calls = benches.invocations_of(capture, done)
    saved = {f"0-{i}-{kernels.VARIANTS[0]}": {**call.inputs, **call.outputs} for i, call in enumerate(calls)}
    assert len(kernels.expect_recorded(saved, calls)) == 2
    assert benches.expect_calls(2, capture, done) == "2 launches"
    with pytest.raises(benches.Failed, match="2 of 3 launches are recorded: "):
        benches.expect_calls(3, capture, done)
    status, _ = kernels.expect_explained(bench, capture)
    assert status == "exit status 0"
    with pytest.raises(benches.Failed, match="1 invocations are recorded, 2 were launched"):
        kernels.expect_recorded(saved, calls[:1])
    changed = next(iter(saved.values()))
    changed["grad_value"] = changed["grad_value"] + np.float32(1)
    with pytest.raises(benches.Failed, match=r"outputs/grad_value differs from the program's in \d+ of"):
        kernels.expect_recorded(saved, calls)
    changed["value"] = changed["value"] + 1
    with pytest.raises(benches.Failed, match="no invocation has the inputs of launch"):
        kernels.expect_recorded(saved, calls)
    assert all(digests.digests_in(capture))  # none of the recorder's own, and no error
    with pytest.raises(benches.Failed, match="no capture: .*nothing"):
        benches.invocations_of(bench.work / "none.h5", subprocess.CompletedProcess([], 0, "", "nothing was recorded"))


def test_programs_are_held_to_their_time_and_status(bench, monkeypatch):
    with pytest.raises(benches.Failed, match="bash has not ended within 1 s: here"):
        bench.run(["bash", "-c", "echo here; sleep 60 & wait"], limit=1)
    with pytest.raises(benches.Failed, match="bash ended with 3: a / b"):
        bench.run(["bash", "-c", "echo a >&2; echo b >&2; exit 3"])
    monkeypatch.setenv("MSDA_RECORD_KEEP", "last:1")
    assert bench.run(["bash", "-c", "echo $MSDA_RECORD_KEEP"]).stdout == "\n"
    with pytest.raises(benches.Failed, match="prints other than without"):
        bench.outcome_kept(["bash", "-c", "echo a $LD_PRELOAD"], saves=False)
    assert bench.outcome_kept(["bash", "-c", "echo grad_value $LD_PRELOAD"], unstable=["grad_value"], saves=False)


def test_programs_find_the_packages_that_the_caller_finds(bench, monkeypatch, tmp_path):
    """They run in a folder of their own, so what PYTHONPATH has relative to the caller's must not be taken from there."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "here_only.py").touch()
    monkeypatch.chdir(tmp_path)
    bench.work = tmp_path / "elsewhere"
    bench.work.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["packages", "/absolute"]))
    found = bench.run([sys.executable, "-c", "import os, here_only; print(os.environ['PYTHONPATH'])"]).stdout
    assert found == os.pathsep.join([str(tmp_path / "packages"), "/absolute"]) + "\n"


def made_up_rounds(rng, ratio, scatter=0.04):
    """Times of 15 rounds: each a few percent off, on a machine that slows down by half; one contender is `ratio` slower."""
    def around(time):
        return lambda: time * next(drift) * np.exp(rng.normal(0, scatter))

    drift = iter(np.linspace(1, 1.5, 45))
    return speed.rounds_of({"alone": around(2.5), "control": around(2.5), "auto": around(2.5 * ratio)})


@pytest.mark.parametrize("ratio, least, most", [(1, 0, 0.03), (1.01, 0, 0.06), (1.1, 0.95, 1), (1.5, 1, 1)])
def test_slowdown_is_judged_past_the_noise(rng, ratio, least, most):
    """By the share of 400 checks that fail, of made-up times whose true ratio is known."""
    def fails():
        try:
            speed.judge_slowdown(made_up_rounds(rng, ratio), "auto", "alone", "control")
        except benches.Failed:
            return True
        return False

    assert least <= sum(fails() for _ in range(400)) / 400 <= most


def test_slowdown_is_told():
    # By hand: ratios 1.1 (4 times), 1.0, 1.02, 1.04; the median is 1.1; 6 of 7 are slower, by chance in (7 + 1) / 128.
    ratios, stray = (1.1, 1, 1.1, 1.02, 1.1, 1.04, 1.1), (0.9, 1.2, 1.2, 0.9, 0.9, 1.2, 1.2)
    rounds = [{"alone": 2, "control": 2 * again, "auto": 2 * ratio} for ratio, again in zip(ratios, stray)]
    assert speed.slowdown(rounds, "auto", "alone") == pytest.approx((1.1, 1, 1.1, 8 / 128))
    figure, note = speed.judge_slowdown(rounds, "auto", "alone", "control")
    assert figure == "1.100"
    assert note.startswith("above 1.03, but so by chance in 6%: 1.000 to 1.100 times, 2.200 us a launch, 2.000 without")
    assert "once more: 1.200 times, 0.900 to 1.200; 7 rounds" in note
    rounds[1]["auto"] = 2.01  # 7 of 7: 1 / 128
    with pytest.raises(benches.Failed, match=r"^1\.100, limit 1\.03: 1\.005 to 1\.100 times"):
        speed.judge_slowdown(rounds, "auto", "alone", "control")


def test_contenders_take_turns():
    called = []
    contenders = {name: lambda name=name: called.append(name) or len(called) for name in "abc"}
    rounds = speed.rounds_of(contenders, count=4)
    assert "".join(called) == "abc" "bca" "cab" "abc"
    assert rounds[1] == {"b": 4, "c": 5, "a": 6}
    assert len(speed.rounds_of(contenders, seconds=0)) == 7 and len(speed.rounds_of(contenders)) == 15


def test_digest_is_that_of_the_recorder(rng):
    for size in (1, 15, 16, 17, 1000, 4096):
        data = rng.bytes(size)
        assert digests.digest(data) == recorder_digest(data)


def test_tuner_output_is_read():
    digest = "0" * 40
    out = (f"case a\n0 grad_output {digest}\nTriton autotuning for function x_bwd_kernel,\nwith key as (1,),\nfinished after "
           f"1.00s,\nbest config selected: BLOCK: 4, num_warps: 2;\na grad_value {digest}\na value {digest}\n"
           f"case b\nb grad_value {digest}\nb value {digest[:-1]}1\n")
    assert triton.by_case(out) == {
        "a": ("BLOCK: 4, num_warps: 2", {"grad_output": digest, "value": digest}),
        "b": ("BLOCK: 4, num_warps: 2", {"value": digest[:-1] + "1"})}


def test_a_kernel_that_is_not_relaunched_is_missed(bench, monkeypatch):
    """Whatever the recorder says: no GPU is needed to find nothing."""
    from gpu_check import poison

    done = type("Done", (), {"stdout": '{"relaunched": []}', "stderr": ""})()
    monkeypatch.setattr(bench, "poison_runs", 2)
    monkeypatch.setattr(bench, "program", lambda name: name)
    monkeypatch.setattr(bench, "record", lambda *_: (done, "a.h5"))
    monkeypatch.setattr(bench, "replay", lambda *_, **__: done)
    monkeypatch.setattr(poison, "invocations_of", lambda *_: [None] * len(poison.SHARED))
    checks = dict(poison.poison(bench))
    with pytest.raises(benches.Failed, match="of 2 runs right are"):
        checks["shared memory"]()


# Bits of two numbers, of their sum in global memory and in shared memory.
@pytest.mark.parametrize(("kind", "first", "second", "wanted", "kept"), [
    ("float32", 100, 200, 0, 300), ("float32", 5, 0x3f800000, 0x3f800000, 0x3f800000),
    ("float32", 0x80000001, 0x80000001, 0x80000000, 0x80000002), ("float32", 0x00c00000, 0x80800000, 0, 0x00400000),
    ("float32", 0x00800000, 0x00800000, 0x01000000, 0x01000000), ("float64", 1, 5, 6, 6), ("float16", 1, 0x3ff, 0x400, 0x400),
    ("float16", 5, 0x8001, 4, 4), ("bfloat16", 1, 5, 6, 6), ("bfloat16", 0x80, 0x8001, 0x7f, 0x7f),
    ("bfloat16", 0x3f80, 0x3b80, 0x3f80, 0x3f80)])
def test_sums_of_subnormals(kind, first, second, wanted, kept):
    sums = dict.fromkeys(subnormals.INSTRUCTIONS, wanted) | {"shared": kept}
    lines = [f"{kind} {one} {first:x} {second:x} {found:x}" for one, found in sums.items()]
    assert subnormals.judged(kind, lines).total() == 4
    for at, (one, found) in enumerate(sums.items()):
        with pytest.raises(benches.Failed, match=f"{one}: {first:x}"):
            subnormals.judged(kind, [*lines[:at], f"{kind} {one} {first:x} {second:x} {found + 1:x}", *lines[at + 1:]])
    with pytest.raises(benches.Failed, match="no sums of shared"):
        subnormals.judged(kind, lines[:3])


def test_targets_are_python():
    targets = sorted((SOURCE / "tests" / "gpu").glob("*.py"))
    assert len(targets) >= 8
    for path in targets:
        compile(pathlib.Path(path).read_text(), os.fspath(path), "exec")
