"""msda_cuda_backward of libmsda on torch's memory, recorded: each call once, bit for bit, and replayed with its bits."""

import json

import h5py
import numpy as np
import pytest
from conftest import BUILD
from support.gpu import ORDER_DEPENDENT, assert_same, invocations_of, saved_tensors

pytestmark = pytest.mark.gpu("torch")
LIBRARY = BUILD / "lib" / "libmsda.so"
DIALECTS, PADDINGS = ("deformable_detr", "msda_triton", "grid_sample"), ("zeros", "border")


@pytest.fixture(scope="module")
def recording(programs):
    """The finished program, its capture, and pairs of a recorded call and the program's tensors, with its name. In the mode atomic
    grad_value varies; its line begins with the call's name."""
    done, capture, folder = programs.record_unchanged(programs.python("own_calls", "--library", LIBRARY), unstable=ORDER_DEPENDENT)
    saved = sorted(saved_tensors(folder).items(), key=lambda item: int(item[0].split("-")[0]))
    return done, capture, list(zip(invocations_of(capture, done, len(saved)), saved))


def test_every_call_once(recording):
    done, _, pairs = recording
    assert {line.split()[-1] for line in done.stdout.splitlines() if " status " in line} == {"0"}
    first, _ = pairs[0]  # came again with the same result
    assert (first.facts["duplicates"], first.facts["distinct_outputs"]) == (1, 1)


def test_tensors(recording):
    for call, (name, real) in recording[2]:
        tensors = {**call.inputs, **call.outputs}
        assert call.kernel == "msda_cuda_backward" and tensors.keys() == real.keys(), name
        for tensor, array in tensors.items():
            assert_same(array, real[tensor], f"{name}: {tensor}")
        assert call.facts["mode"] == name.rsplit("-", 1)[1] and {"device", "stream"} <= call.facts.keys()
        if "-conventions" in name:
            dialect, padding, align = map(int, name.split("conventions")[1][:3])
            assert (call.dialect, call.padding_mode, int(call.align_corners)) == (DIALECTS[dialect], PADDINGS[padding], align)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_replayed(programs, recording, device):
    _, capture, pairs = recording
    programs.replay("verify", capture)
    found = json.loads(programs.replay("run", capture, "--device", device, "--json", "-", expected=(0, 1)).stdout)["invocations"]
    compared = 0
    with h5py.File(capture, "r") as file:
        for result, (call, (name, _)) in zip(found, pairs, strict=True):
            if name.endswith("-deterministic"):
                assert not result["findings"], name
                for tensor in call.outputs:
                    digest = np.asarray(file[f"invocations/{result['id']:06}/outputs/{tensor}"].attrs["digest"]).astype(str).item()
                    assert result["digests"]["deterministic"][tensor] == digest, f"{name}: {tensor}"
                    compared += 1
    assert compared


def test_digests_alone(programs, recording):
    done, capture, _ = programs.record_unchanged(programs.python("own_calls", "--library", LIBRARY), ["--digest-only"], ORDER_DEPENDENT)
    for call, (whole, _) in zip(invocations_of(capture, done), recording[2], strict=True):
        assert not call.inputs and not call.outputs
        assert {f"inputs/{tensor}" for tensor in whole.inputs} <= call.digests.keys()


def test_a_call_captured_into_a_graph(programs):
    done, capture, _ = programs.record_unchanged(programs.python("own_calls", "--library", LIBRARY, "--phase", "graph"), saves=False)
    assert "1-graph-deterministic status 0" in done.stdout and "being captured into a CUDA graph" in done.stderr
    invocations_of(capture, done, 1)
