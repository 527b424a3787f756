"""What `msda_replay.record` keeps of PyTorch's operators on a CPU is what the preloaded recorder keeps of their kernels on a GPU."""

import h5py
import numpy as np
import pytest

pytestmark = pytest.mark.gpu("torch", "torchvision")
torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

import msda_replay  # noqa: E402 (after PyTorch)
from msda_replay import read_capture  # noqa: E402
from support.gpu import assert_same, invocations_of  # noqa: E402
from support.torch_calls import CALLS  # noqa: E402

NOT_ON_A_GPU = {"linear": "no adapter is for PyTorch's kernel of one dimension", "mean": "PyTorch divides after a launch that counts"}


@pytest.fixture(scope="module")
def on_gpu(programs):
    """The recorded calls by the names of CALLS."""
    done, capture = programs.record(programs.python("torch_calls"))
    calls, found = invocations_of(capture, done), {}
    with h5py.File(capture, "r") as file:
        for call, group in zip(calls, file["invocations"].values(), strict=True):
            found.setdefault(np.asarray(group.attrs["label"]).astype(str).item(), []).append(call)
    return found


def in_the_order_of_the_program(call):
    """Inputs, with those that PyTorch sorted by their targets first as the program gave them."""
    inputs = dict(call.inputs)
    if "source_row" in inputs:
        inputs["index"][inputs["source_row"]] = inputs["index"].copy()
        del inputs["source_row"]
    return inputs


@pytest.mark.parametrize("name", [name for name in CALLS if name not in NOT_ON_A_GPU])
def test_a_call_is_the_same_on_both(name, on_gpu, tmp_path):
    """Kernels for which a batch's images are but more channels say so; bits and conventions are the same."""
    torch.manual_seed(5)
    with msda_replay.record(tmp_path / "x.h5"):
        CALLS[name][0]()
    (mine,), (its,) = read_capture(tmp_path / "x.h5").invocations, on_gpu[name]
    inputs = in_the_order_of_the_program(its)
    assert mine.inputs.keys() == inputs.keys() and mine.outputs.keys() == its.outputs.keys()
    for key, array in inputs.items():
        assert_same(mine.inputs[key].reshape(array.shape), array, key)
    for key, array in its.outputs.items():
        assert (mine.outputs[key].dtype, mine.outputs[key].size) == (array.dtype, array.size), key
    meaning = {key: value for key, value in mine.facts.items() if key not in ("source_line", "label")}
    of_kernel = {key: its.facts.get(key) for key in meaning}
    for key in ("scale_depth", "scale_height", "scale_width"):
        if key in meaning:  # the kernel has the reciprocal, in float32
            assert of_kernel[key] == pytest.approx(meaning.pop(key), rel=2**-23)
            of_kernel.pop(key)
    assert of_kernel == meaning
