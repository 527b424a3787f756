"""Mode original: recorded machine code, launched again by msda-replay on a GPU."""

import functools
import json
import shutil

import h5py
import pytest
from support.adapters import SCALE_ADD
from support.gpu import ORDER_DEPENDENT, invocations_of
from support.gpu_kernels import VARIANTS, variant_of

REPEAT = 200
FIRST_RESULT_LIMIT_S, RUNS_A_SECOND, LAUNCH_MS = 1.0, 1000, 0.25
ROW_1 = ["--sizes", "4,1000,8,3,32", "--levels", "64x64,32x32,16x16,8x8"]
needs_nvcc = pytest.mark.gpu("nvcc")


def relaunch(programs, capture, *options):
    """Returns the result of mode original and the kernel, by invocation number."""
    done = programs.replay("run", capture, "--mode", "original", "--repeat", REPEAT, "--json", "-", *options, expected=(0, 1))
    found = json.loads(done.stdout)
    results = {call["id"]: (call["original"], call["kernel"]) for call in found["invocations"] + found.get("relaunched", [])}
    assert results
    return results


def assert_the_recorded(original, order_dependent=()):
    """Checks that every run gave the recorded bits, except in tensors whose order of summation the hardware chooses."""
    assert original["runs"] == REPEAT and 0 < original["launch_ms"] < 1000 and 0 < original["runs_per_s"] < 1e6
    for name, tensor in original["tensors"].items():
        assert (tensor["distinct"] > 1) == (tensor["varying"] > 0), name
        assert not any(element["highest"] < element["lowest"] for element in tensor["widest"]), name
        if name not in order_dependent:
            assert tensor["recorded_among_them"] and tensor["distinct"] == 1, (name, tensor.get("first_against_recorded"))


def assert_all_as_recorded(programs, recording, count=None, order_dependent=()):
    """Launches every invocation of a finished recording again, and compares."""
    done, capture = recording
    found = relaunch(programs, capture)
    assert len(found) == len(invocations_of(capture, done, count)) > 0
    for original, _ in found.values():
        assert_the_recorded(original, order_dependent)


@pytest.fixture(scope="module")
def recorded(programs):
    """The recording of all variants in a type, with these options of the program."""
    @functools.cache
    def run(kind, *options):
        return programs.record([programs.compiled("col2im17"), "--variant", "all", "--type", kind, "--seed", "5", *options])

    return run


@needs_nvcc
@pytest.mark.parametrize("kind", ["float", "double", "half"])
@pytest.mark.parametrize("options, order_dependent", [((), ORDER_DEPENDENT), (("--ordered",), ())], ids=["all threads", "one thread"])
def test_variants(programs, recorded, kind, options, order_dependent):
    assert_all_as_recorded(programs, recorded(kind, *options), len(VARIANTS), order_dependent)


@needs_nvcc
@pytest.mark.parametrize("block", [32, 256])
def test_other_blocks(programs, recorded, block):
    _, capture = recorded("float")
    number = next(i for i, (_, kernel) in relaunch(programs, capture).items() if variant_of(kernel) == "gm")
    ((original, _),) = relaunch(programs, capture, "--invocation", number, "--block", block).values()
    assert original["block"] == [block, 1, 1] and original["changed"]
    assert_the_recorded(original, ORDER_DEPENDENT)


def of_older_gpu(file):
    for kernel in file["kernels"].values():
        kernel.attrs["architecture"] = "sm_50"


def without_code(file):
    for kernel in file["kernels"].values():
        if "image" in kernel:  # not in the groups of its other functions
            kernel["image"][-64:] = 0


def of_a_million_heads(file):
    """The kernel reads far beyond its tensors."""
    parameters = file["invocations/000000/parameters"]
    at = parameters.attrs["offsets"][9]
    parameters[at:at + 4] = [0, 0, 16, 0]


@needs_nvcc
@pytest.mark.parametrize("change, message", [(of_older_gpu, "its machine code is for sm_50"), (without_code, "its digest differs"),
                                             (of_a_million_heads, "CUDA error")])
def test_faults_end_with_one_line(programs, recorded, change, message):
    capture = programs.folder() / "damaged.h5"
    shutil.copy(recorded("float")[1], capture)
    with h5py.File(capture, "r+") as file:
        change(file)
    done = programs.replay("run", capture, "--invocation", 0, "--mode", "original", expected=(3,))
    assert done.stderr.count("\n") == 1 and not done.stdout and message in done.stderr


@needs_nvcc
def test_speed(programs):
    """1,000 runs a second, proportionally fewer of a longer launch."""
    _, capture = programs.record([programs.compiled("col2im17"), "--type", "float", "--seed", "5", *ROW_1])
    ((original, _),) = relaunch(programs, capture).values()
    assert_the_recorded(original, ORDER_DEPENDENT)
    print({name: original[name] for name in ("runs_per_s", "launch_ms", "first_result_s")})
    assert original["runs_per_s"] >= RUNS_A_SECOND * min(1.0, LAUNCH_MS / original["launch_ms"])
    assert original["first_result_s"] <= FIRST_RESULT_LIMIT_S


@needs_nvcc
def test_a_users_kernel_in_clusters(programs):
    adapter = programs.folder() / "scale_add.json"
    adapter.write_text(json.dumps(SCALE_ADD))
    assert_all_as_recorded(programs, programs.record([programs.compiled("scale_add")], ["--adapter", adapter]))


@pytest.mark.gpu("torch")
@pytest.mark.parametrize("axes", [2, 3])
def test_grid_sample(programs, axes):
    assert_all_as_recorded(programs, programs.record(programs.python("grid_sample", "--axes", axes)), order_dependent=["grad_input"])


@pytest.fixture(scope="module")
def triton_calls(programs):
    return programs.record(programs.python("msda"), limit=300, TRITON_CACHE_DIR=programs.folder())


@pytest.mark.gpu("torch", "triton", "msda_triton")
def test_msda_triton(programs, triton_calls):
    assert_all_as_recorded(programs, triton_calls, order_dependent=ORDER_DEPENDENT)


@pytest.mark.gpu("torch", "triton", "msda_triton")
def test_another_variant_of_the_autotuner(programs, triton_calls):
    """Also variants of other conventions and types, whose results are reported, not judged."""
    _, capture = triton_calls
    with h5py.File(capture, "r") as file:
        others = sorted(set(file["kernels"]) - {file["invocations/000000"].attrs["kernel_digest"]})
    for digest in others[:4]:
        done = programs.replay("run", capture, "--invocation", 0, "--kernel-digest", digest, "--json", "-", expected=(0, 1, 3))
        if done.returncode == 3:
            assert done.stderr.count("\n") == 1
            print(done.stderr.strip())
            continue
        original = json.loads(done.stdout)["invocations"][0]["original"]
        assert original["kernel_digest"] == digest and original["changed"]
        print(original["block"], {name: tensor["first_against_recorded"]["different"] for name, tensor in original["tensors"].items()})
