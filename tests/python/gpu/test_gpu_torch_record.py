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

# What says where and how often a call was made, not which call it was.
OF_THE_PROCESS = {"device", "stream", "duplicates", "distinct_outputs", "grid", "block"}


@pytest.fixture(scope="module")
def on_gpu(programs):
    """The recorded calls by the names of CALLS."""
    done, capture = programs.record(programs.python("torch_calls"))
    calls, found = invocations_of(capture, done), {}
    with h5py.File(capture, "r") as file:
        for call, group in zip(calls, file["invocations"].values(), strict=True):
            found.setdefault(np.asarray(group.attrs["label"]).astype(str).item(), []).append(call)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_the_same_on_both(name, on_gpu, tmp_path):
    torch.manual_seed(5)
    with msda_replay.record(tmp_path / "x.h5"):
        CALLS[name][0]()
    (mine,), (other,) = read_capture(tmp_path / "x.h5").invocations, on_gpu[name]
    assert mine.inputs.keys() == other.inputs.keys() and mine.outputs.keys() == other.outputs.keys()
    for key, array in other.inputs.items():
        assert_same(mine.inputs[key], array, key)
    for key, array in other.outputs.items():
        assert (mine.outputs[key].dtype, mine.outputs[key].shape) == (array.dtype, array.shape), key
    meaning = [{key: value for key, value in call.facts.items() if key not in OF_THE_PROCESS} for call in (mine, other)]
    assert meaning[0] == meaning[1]
