"""How launches and code are intercepted: by the driver hook, CUPTI, or both; on the stand-in driver and its libcupti."""

import pathlib
import struct
import subprocess

import h5py
import numpy as np
import pytest
from conftest import BUILD, said
from support.cubins import make_cubin
from support.launches import CLIENT, TRITON, alone
from support.recording import RECORD, environment, pytestmark, record  # noqa: F401

from msda_replay import read_capture

HOOKS = ("auto", "cupti", "driver")
NVCC = pathlib.Path("/usr/local/cuda/bin/nvcc")


def launch(capture, hook, *arguments, **variables):
    """The client under msda-record: its output must not change. Returns the lines on standard error."""
    arguments = ["--kernel", "triton", "--seed", "3", *map(str, arguments)]
    plain = alone(*arguments)
    done = record(CLIENT, *arguments, options=["-o", capture, "--hook", hook], **variables)
    assert plain.returncode == 0, plain.stderr
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    return [line for line in said(done.stderr).splitlines() if "us a launch" not in line and "invocation" not in line]


def make_fatbin(*entries):
    """A fatbin of (architecture, cubin) pairs."""
    body = b"".join(struct.pack("<HHIQIIHHI", 2, 0x101, 64, len(cubin), 0, 0, 8, 1, architecture) + bytes(32) + cubin
                    for architecture, cubin in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


VARIANTS = [make_cubin(["helper", TRITON], bytes([i]) * (100 + i)) for i in range(3)]


@pytest.fixture
def images(tmp_path):
    """Arguments for the client: three modules with one kernel name, from what `make` makes of three cubins."""

    def write(make=lambda cubin, file: cubin):
        arguments = []
        for i, cubin in enumerate(VARIANTS):
            file, image = tmp_path / f"{i}.cubin", tmp_path / f"{i}.image"
            file.write_bytes(cubin)
            image.write_bytes(make(cubin, file))
            arguments += ["--image", image]
        return arguments

    return write


def compressed(_, file):
    """Code that the driver hook cannot read, and that the stand-in's CUPTI shows as the cubin."""
    return f"stand-in\n{TRITON}\ncubin {file}\n".encode()


def code_of_launches(capture):
    """For each invocation, the bytes of its kernel's image, or None."""
    with h5py.File(capture) as file:
        digests = [file[f"invocations/{name}"].attrs.get("kernel_digest") for name in sorted(file["invocations"])]
        used = {digest for digest in digests if digest}
        assert set(file.get("kernels", {})) == used
        return [file[f"kernels/{digest}/image"][()].tobytes() if digest else None for digest in digests]


@pytest.mark.parametrize("via", ["dlsym", "procaddress", "linked"])
@pytest.mark.parametrize("entry", [[], ["--ex"], ["--packed", "--ptsz"], ["--as-kernel"]])
def test_every_hook_records_the_same(tmp_path, entry, via):
    seen = []
    for hook in HOOKS:
        capture = tmp_path / f"{hook}.h5"
        assert launch(capture, hook, "--launches", 3, "--via", via, "--cupti", *entry) == []
        calls = read_capture(capture).invocations
        assert [call.facts.get("duplicates", 0) for call in calls] == [0, 0, 0]  # each launch is handled once
        seen.append([{**call.inputs, **call.outputs, "before": call.outputs_before["grad_value"]} for call in calls])
    assert len(seen[0]) == 3
    for others in seen[1:]:
        assert len(others) == 3
        for item, another in zip(seen[0], others):
            assert item.keys() == another.keys()
            assert all(item[name].tobytes() == another[name].tobytes() for name in item)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("threads", [[], ["--threads", "4", "--streams", "3"]])
def test_launches_that_no_symbol_shows(tmp_path, hook, threads):
    capture = tmp_path / "a.h5"
    lines = launch(capture, hook, "--launches", 8, "--cupti", "--hidden", *threads, MSDA_STAND_IN_ASYNC=1)
    if hook == "driver":
        assert lines == ["msda-record: no call was recorded"]
    else:
        assert lines == [] and len(read_capture(capture).invocations) == 8


@pytest.mark.parametrize("via", ["dlsym", "linked"])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_profiler_gets_what_it_would_get(tmp_path, hook, via):
    """CUPTI takes one subscriber, and the program's own comes first."""
    capture = tmp_path / "a.h5"
    lines = launch(capture, hook, "--launches", 6, "--cupti", "--profile", 2, "--via", via)
    assert lines == (["msda-record: the program subscribes to CUPTI itself; launches are caught in the driver's API"]
                     if hook == "cupti" else [])
    assert "profiler: 4 launches" in alone("--kernel", "triton", "--launches", 6, "--profile", 2).stdout
    assert len(read_capture(capture).invocations) == 6


@pytest.mark.parametrize("via", ["dlsym", "linked"])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_program_that_ends_cupti(tmp_path, hook, via):
    capture = tmp_path / "a.h5"
    lines = launch(capture, hook, "--launches", 6, "--cupti", "--finalize", 2, "--via", via)
    assert lines == ([] if hook == "driver" else
                     ["msda-record: the program ends CUPTI (cuptiFinalize); launches are caught in the driver's API"])
    assert len(read_capture(capture).invocations) == 6


def test_another_tool_that_is_injected_stays(tmp_path):
    for hook in HOOKS:
        lines = launch(tmp_path / f"{hook}.h5", hook, "--launches", 2, "--cupti", CUDA_INJECTION64_PATH="/opt/tool.so")
        assert lines == (["msda-record: --hook cupti: the driver did not load the recorder through "
                          "CUDA_INJECTION64_PATH=/opt/tool.so; launches are caught in the driver's API"]
                         if hook == "cupti" else [])
        whole = read_capture(tmp_path / f"{hook}.h5")
        assert len(whole.invocations) == 2
        assert whole.run["environment"]["CUDA_INJECTION64_PATH"] == "/opt/tool.so"


def test_settings(tmp_path):
    done = record("/bin/true", options=["--hook", "none"])
    assert done.returncode == 2 and "--hook" in done.stderr
    done = record("/bin/sh", "-c", "echo $CUDA_INJECTION64_PATH", options=["--hook", "driver"])
    assert done.stdout == "\n"
    plain = environment(LD_PRELOAD=BUILD / "lib" / "libmsda_record.so", MSDA_RECORD_OUTPUT=tmp_path / "a.h5",
                        MSDA_RECORD_HOOK="none")
    done = subprocess.run([CLIENT, "--kernel", "triton"], capture_output=True, text=True, env=plain)
    assert "MSDA_RECORD_HOOK=none is not auto, cupti or driver, and is ignored" in done.stderr


@pytest.mark.parametrize("via", ["dlsym", "procaddress", "linked"])
@pytest.mark.parametrize("load", [["--load", "data"], ["--load", "ex"], ["--load", "fatbin"], ["--as-kernel"]])
@pytest.mark.parametrize("hook", HOOKS)
def test_variants_of_one_name_keep_their_code(tmp_path, images, hook, load, via):
    """Like an autotuner's variants: cubins that the program hands over itself, each with its own module."""
    launch(tmp_path / "a.h5", hook, "--launches", 6, "--via", via, *load, *images())
    assert code_of_launches(tmp_path / "a.h5") == 2 * VARIANTS


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("load", [[], ["--as-kernel"]])
def test_code_that_only_cupti_shows(tmp_path, images, hook, load):
    launch(tmp_path / "a.h5", hook, "--launches", 6, "--cupti", *load, *images(compressed))
    assert code_of_launches(tmp_path / "a.h5") == (6 * [None] if hook == "driver" else 2 * VARIANTS)


def test_code_after_a_profiler_has_come(tmp_path, images):
    """Code found before stays known; nothing is guessed."""
    launch(tmp_path / "a.h5", "auto", "--launches", 6, "--cupti", "--profile", 3, *images(compressed))
    assert code_of_launches(tmp_path / "a.h5") == 2 * VARIANTS
    launch(tmp_path / "b.h5", "auto", "--launches", 6, "--cupti", "--profile", 1, "--as-kernel", *images(compressed))
    assert code_of_launches(tmp_path / "b.h5") == [VARIANTS[0], None, None] * 2


def test_a_fatbin_gives_the_code_for_this_device(tmp_path, images):
    another = make_cubin([TRITON], b"not for sm_90")
    launch(tmp_path / "a.h5", "driver", "--launches", 6, "--load", "fatbin",
           *images(lambda cubin, _: make_fatbin((100, another), (90, cubin), (80, another))))
    assert code_of_launches(tmp_path / "a.h5") == 2 * VARIANTS


@pytest.mark.parametrize("hook", HOOKS)
def test_code_that_is_not_known_is_not_made_up(tmp_path, hook):
    launch(tmp_path / "a.h5", hook, "--launches", 2, "--cupti")
    assert code_of_launches(tmp_path / "a.h5") == [None, None]


def test_facts_of_code(replay, tmp_path, images):
    launch(tmp_path / "a.h5", "auto", "--launches", 3, "--load", "ex", *images())
    kernels = replay("show", tmp_path / "a.h5", "--json", "-", expect=0).json["run"]["kernels"]
    assert len(kernels) == 3
    for kernel in kernels:
        assert (kernel["name"], kernel["architecture"]) == (TRITON, "sm_90")
        driver = {"max_threads": 1024, "shared_bytes": 16, "constant_bytes": 8, "local_bytes": 0, "registers": 40}
        assert {name: kernel["facts"][name] for name in driver} == driver
    replay("verify", tmp_path / "a.h5", expect=0)


@pytest.mark.skipif(not NVCC.exists(), reason="no nvcc here")
def test_a_real_cubin_and_its_atomics(tmp_path):
    source, cubin = tmp_path / "k.cu", tmp_path / "k.cubin"
    source.write_text(f'extern "C" __global__ void {TRITON}(float* p) {{ atomicAdd(p, 1); atomicAdd(p + 1, 2); }}\n'
                      'extern "C" __global__ void other(float* p) { atomicAdd(p, p[1]); }\n')
    subprocess.run([NVCC, "-cubin", "-arch=sm_90", source, "-o", cubin], check=True)
    launch(tmp_path / "a.h5", "auto", "--launches", 1, "--image", cubin)
    assert code_of_launches(tmp_path / "a.h5") == [cubin.read_bytes()]
    with h5py.File(tmp_path / "a.h5") as file:
        (kernel,) = file["kernels"].values()
        assert (kernel.attrs["atomics"], kernel.attrs["reductions"], kernel.attrs["shared_atomics"]) == (2, 2, 0)
        assert kernel.attrs["float_atomics"] == 2
        assert np.issubdtype(kernel.attrs["instructions"].dtype, np.integer) and kernel.attrs["instructions"] > 4
