"""What is recorded of the Deformable DETR family's kernels (tests/gpu/col2im17.cu), beside what the program saved."""

import json
import re

from support.gpu import assert_same

VARIANTS = ("shm_blocksize_aware_reduce_v1", "shm_blocksize_aware_reduce_v2", "shm_reduce_v1", "shm_reduce_v2",
            "shm_reduce_v2_multi_blocks", "gm")


def variant_of(kernel):
    found = re.search(r"ms_deformable_col2im_gpu_kernel_(\w+?)I[fdN]", kernel)
    return found[1] if found else kernel


def assert_recorded(saved, calls, outputs=True):
    """Checks that each saved call is recorded once, with the very same tensors. Returns the calls by the saved name."""
    assert len(calls) == len(saved), "invocations are recorded, launches were made"
    by_content = {(variant_of(call.kernel), call.inputs["value"].tobytes()): call for call in calls}
    found = {}
    for name, tensors in saved.items():
        call = by_content.get((name.split("-", 2)[2], tensors["value"].tobytes()))
        assert call is not None, f"no invocation has the inputs of launch {name}"
        for tensor in call.inputs:
            assert_same(call.inputs[tensor], tensors[tensor], f"{name}: inputs/{tensor}")
        for tensor in call.outputs if outputs else ():
            assert_same(call.outputs[tensor], tensors[tensor], f"{name}: outputs/{tensor}")
        found[name] = call
    return found


def assert_explained(programs, capture, calls=None, limit=None):
    """msda-replay run replays all calls, and finds no implementation_error. Returns what it found."""
    found = json.loads(programs.replay("run", "--invocation", "all", "--json", "-", capture, expected=(0, 1), limit=limit).stdout)
    assert calls in (None, len(found["invocations"]))
    assert "implementation_error" not in found["verdict"]["causes"], found["verdict"]["summary"]
    return found
