"""What the tests on a GPU do with programs, as far as no GPU is needed: they compile, are recorded and compared, end in time."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from support.adapters import SCALE_ADD
from support.gpu import PROGRAMS, Programs, find_nvcc, invocations_of, saved_tensors
from support.gpu_kernels import VARIANTS, assert_explained, assert_recorded, variant_of
from support.launches import CLIENT, COL2IM
from support.problems import backward
from support.recording import pytestmark  # noqa: F401

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc in PATH, CUDA_HOME/bin or /usr/local/cuda/bin")


@pytest.fixture
def compiled(tmp_path):
    def make(name, *flags):
        path = tmp_path / name
        subprocess.run([find_nvcc(), "-std=c++17", "-arch=sm_90", *flags, "-o", path, PROGRAMS / f"{name}.cu"], check=True, timeout=300)
        return path

    return make


def symbols_of(program):
    return subprocess.run(["nm", program], capture_output=True, text=True).stdout


@needs_nvcc
@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.cu")))
def test_a_program_compiles(compiled, name):
    symbols = symbols_of(compiled(name, "-O0", "-no-compress", "-Werror", "all-warnings"))
    assert name != "scale_add" or SCALE_ADD["adapters"][0]["kernel"].strip("^$") in symbols


@needs_nvcc
def test_the_instructions_of_subnormals(compiled):
    code = compiled("subnormals", "-O2", "-cubin").read_bytes()
    words = np.frombuffer(code[:len(code) // 16 * 16], np.uint64).reshape(-1, 2)
    # RED, ATOMG and ATOM of float16 and bfloat16 pairs, float32, float64: bits 9 to 12 of the second word.
    found = {(int(first) & 0xfff, int(second) >> 9 & 0xf) for first, second in words}
    assert found >= {(opcode, kind) for opcode in (0x9a6, 0x9a3, 0x9a2) for kind in (0, 3, 9, 15)}


@needs_nvcc
def test_the_kernels_of_deformable_detr_have_their_names_and_compute_their_gradients(compiled, tmp_path):
    """The host's stubs bear the kernels' names, which are those of the real ones."""
    path = compiled("col2im17", "-O0", "-no-compress")
    names = set(re.findall(r" (_Z\d+ms_deformable_col2im_gpu_kernel\w+)$", symbols_of(path), re.M))
    assert COL2IM in names
    assert len(names) == 18 and {variant_of(name) for name in names} == set(VARIANTS)
    assert sum("IN3c104HalfE" in name for name in names) == 6
    for kind, dtype, limit in (("double", np.float64, 1e-12), ("float", np.float32, 1e-4), ("half", np.float16, 0.05)):
        folder = tmp_path / kind
        folder.mkdir()
        subprocess.run([path, "--host", "--type", kind, "--launches", "2", "--save", folder], check=True)
        saved = saved_tensors(folder)
        assert set(saved) == {"0-0000-host", "0-0001-host"}
        for tensors in saved.values():
            assert tensors["value"].dtype == dtype
            for gradient, truth in backward(tensors).items():
                away = np.abs(tensors[gradient] - truth)
                scale = limit * (1 + np.abs(truth).max())
                # In 16 and 32 bits a location may be rounded across the edge of a pixel.
                assert np.mean(away > scale) < (0.02 if kind == "half" else 1e-9), gradient


def test_outcome_and_capture_are_compared(programs):
    done, capture, _ = programs.record_unchanged([CLIENT, "--kernel", "col2im17", "--launches", "2"], saves=False)
    calls = invocations_of(capture, done, 2)
    saved = {f"0-{i}-{VARIANTS[0]}": {**call.inputs, **call.outputs} for i, call in enumerate(calls)}
    assert len(assert_recorded(saved, calls)) == 2
    with pytest.raises(AssertionError, match="2 of 3 launches are recorded: "):
        invocations_of(capture, done, 3)
    assert not assert_explained(programs, capture, 2)["verdict"]["causes"]
    with pytest.raises(AssertionError, match="invocations are recorded"):
        assert_recorded(saved, calls[:1])
    changed = next(iter(saved.values()))
    changed["grad_value"] = changed["grad_value"] + np.float32(1)
    with pytest.raises(AssertionError, match=r"outputs/grad_value differs from the program's in \d+ of"):
        assert_recorded(saved, calls)
    changed["value"] = changed["value"] + 1
    with pytest.raises(AssertionError, match="no invocation has the inputs of launch"):
        assert_recorded(saved, calls)
    with pytest.raises(AssertionError, match="no capture: .*nothing"):
        invocations_of(programs.work / "none.h5", subprocess.CompletedProcess([], 0, "", "nothing was recorded"))


def test_programs_are_held_to_their_time_and_status(programs):
    with pytest.raises(pytest.fail.Exception, match="bash has not ended within 1 s: here"):
        programs.run(["bash", "-c", "echo here; sleep 60 & wait"], limit=1)
    with pytest.raises(AssertionError, match="bash ended with 3: a / b"):
        programs.run(["bash", "-c", "echo a >&2; echo b >&2; exit 3"])
    with pytest.raises(AssertionError, match="prints other than without"):
        programs.record_unchanged(["bash", "-c", "echo a $LD_PRELOAD"], saves=False)
    assert programs.record_unchanged(["bash", "-c", "echo grad_value $LD_PRELOAD"], unstable=["grad_value"], saves=False)


def test_programs_find_what_the_caller_finds_but_not_its_recorder(monkeypatch, tmp_path):
    """They run in a folder of their own, so what PYTHONPATH has relative to the caller's must not be taken from there."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "here_only.py").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("support.gpu.WITH_GPUS", {**os.environ, "PYTHONPATH": os.pathsep.join(["packages", "/absolute"]),
                                                  "MSDA_RECORD_KEEP": "last:1"})
    program = "import os, here_only; print(os.environ['PYTHONPATH'], os.environ.get('MSDA_RECORD_KEEP'))"
    found = Programs(tmp_path / "elsewhere").run([sys.executable, "-c", program]).stdout
    assert found == os.pathsep.join([str(tmp_path / "packages"), "/absolute"]) + " None\n"
