"""PyTorch's programs on a GPU, recorded: grid_sample's backward, seeds, and what else a program does; and msda_replay.torch's own tests."""

import functools
import re

import pytest
from support.gpu import assert_same, invocations_of, recorder_lines, saved_tensors
from support.gpu_kernels import assert_explained

from msda_replay import read_capture

pytestmark = pytest.mark.gpu("torch")
PADDINGS, INTERPOLATIONS = ("zeros", "border", "reflection"), ("bilinear", "nearest")
AXES = pytest.mark.parametrize("axes", [2, 3])


@pytest.fixture(scope="module")
def grid_samples(programs):
    """By axes: the capture, and pairs of a recorded call and the program's tensors, with its name."""
    @functools.cache
    def run(axes):
        done, capture, saved_in = programs.record_unchanged(programs.python("grid_sample", "--axes", axes), unstable=["grad_input"])
        saved = saved_tensors(saved_in)
        calls = invocations_of(capture, done, len(saved))
        return capture, list(zip(calls, saved.items()))

    return run


@AXES
def test_grid_sample_as_saved(grid_samples, axes):
    for call, (name, real) in grid_samples(axes)[1]:
        assert f"grid_sampler_{axes}d_backward_kernel" in call.kernel
        tensors = {**call.inputs, **call.outputs}
        assert len(call.inputs) + len(call.outputs) == 5, name
        for tensor, array in tensors.items():
            assert_same(array, real[tensor], f"{name}: {tensor}")
        padding, align, interpolation = map(int, name.rsplit("-", 1)[1])
        facts = (call.facts["padding_mode"], int(call.facts["align_corners"]), call.facts["interpolation"])
        assert facts == (PADDINGS[padding], align, INTERPOLATIONS[interpolation]), name


@AXES
def test_grid_sample_is_explained(programs, grid_samples, axes):
    assert_explained(programs, grid_samples(axes)[0])


def test_seeds(programs):
    """torch.manual_seed(42) is in the capture, and the generators are as without the recorder."""
    done, capture, _ = programs.record_unchanged(programs.python("seeds"), saves=False)
    invocations_of(capture, done)
    rows = {(seed["source"], int(seed["value"])) for seed in read_capture(capture).run.get("seeds", [])}
    assert rows >= {("torch_cpu", 42), ("torch_cuda", 42)}


@pytest.mark.parametrize("hook", ["auto", "cupti", "driver"])
def test_the_profiler_sees_the_programs_kernels(programs, hook):
    done, capture, _ = programs.record_unchanged(programs.python("profiler"), ["--hook", hook], saves=False)
    assert int(re.search(r"^kernels (\d+)", done.stdout, re.M)[1]) > 0
    invocations_of(capture, done, 11)
    print(recorder_lines(done))


def test_a_captured_graph_is_left_out(programs):
    done, capture, _ = programs.record_unchanged(programs.python("graph"), saves=False)
    assert "captured into a CUDA graph" in done.stderr
    invocations_of(capture, done, 3)


@pytest.mark.parametrize("name, calls, arguments", [
    pytest.param("h5", 5, (), marks=pytest.mark.gpu("h5py")), ("loader", 7, ("--phase", "fork")), ("loader", 7, ("--phase", "spawn"))])
def test_surroundings(programs, name, calls, arguments):
    done, capture, _ = programs.record_unchanged(programs.python(name, *arguments), saves=False)
    invocations_of(capture, done, calls)


@pytest.mark.gpu("triton")
def test_torch_compile(programs):
    """Each run has caches of its own; otherwise the second would compile nothing."""
    caches = [{"TORCHINDUCTOR_CACHE_DIR": programs.folder(), "TRITON_CACHE_DIR": programs.folder()} for _ in range(2)]
    plain = programs.run(programs.python("compiled"), **caches[0])
    done, capture = programs.record(programs.python("compiled"), **caches[1])
    assert plain.stdout == done.stdout
    invocations_of(capture, done, 3)


@pytest.mark.parametrize("name", ["torch", "torch_ctc", "torch_deform", "torch_roi", "torch_separable"])
def test_deterministic_operators(programs, name):
    """The tests of msda_replay.torch; one of them needs a machine without a GPU. test_gpu_by_index.py runs the others."""
    programs.run_pytorch_tests(f"test_{name}", "not libmsda_does_not_reach", 300)
