"""torchvision's deform_conv2d on a GPU: both kernels of its backward pass are recorded as they are, explained, and their mistakes are found."""

import collections
import json
import os
import shutil

import numpy as np
import pytest
from support.gpu import assert_same, invocations_of, saved_tensors, share_of
from support.gpu_kernels import assert_explained

from msda_replay import write_capture

pytestmark = [pytest.mark.gpu("torch", "torchvision")]
PROBLEMS, LIMIT_S = 96, 240
# By kernel, what it computes.
KERNELS = {"deformable_col2im_coord_kernel": ("grad_offset", "grad_mask"), "deformable_col2im_kernel": ("grad_input",)}
FOUND = 0.99  # orders of elements with 1 to 15 additions: each is added by an atomic of its own


@pytest.fixture(scope="module")
def recording(programs):
    """The capture, and pairs of a recorded call and the program's tensors, with its name. MSDA_KEEP names a folder that gets a copy."""
    done, capture, saved_in = programs.record_unchanged(programs.python("deform_conv2d", "--problems", share_of(PROBLEMS)),
                                                        unstable=["grad_input"], limit=LIMIT_S)
    if os.environ.get("MSDA_KEEP"):
        shutil.copy(capture, os.path.join(os.environ["MSDA_KEEP"], "deform_conv2d.h5"))
    saved = list(saved_tensors(saved_in).items())
    calls = invocations_of(capture, done, 2 * len(saved))
    return capture, [(call, saved[i // 2]) for i, call in enumerate(calls)]


def judged(programs, capture, *arguments):
    return json.loads(programs.replay("run", capture, "--invocation", "all", "--json", "-", *arguments, expected=(0, 1), limit=LIMIT_S).stdout)


def test_tensors_as_saved(recording):
    for call, (name, real) in recording[1]:
        results = next(names for kernel, names in KERNELS.items() if kernel in call.kernel)
        assert call.facts["operator"] == "deform_conv2d"
        assert set(call.outputs) == {result for result in results if result in real}, name
        assert ("mask" in call.inputs) == ("mask" in real) and ("input" in call.inputs) == (results[0] == "grad_offset")
        for tensor, array in {**call.inputs, **call.outputs}.items():
            if tensor != "columns":
                assert_same(array, real[tensor], f"{name}: {tensor}")


def test_calls_are_explained(programs, recording):
    """Within the customary tolerance, and with none, where rounding explains every difference."""
    assert_explained(programs, recording[0], len(recording[1]), LIMIT_S)
    found = judged(programs, recording[0], "--atol", "0", "--rtol", "0")
    causes = collections.Counter()
    for invocation, (call, (name, _)) in zip(found["invocations"], recording[1]):
        verdict = invocation["verdict"]
        assert verdict["at_fault"] != "observed" and "implementation_error" not in verdict["causes"], (name, verdict)
        causes.update(verdict["causes"])
        if "beside" in name and "grad_offset" in call.outputs and name.endswith("float32"):
            causes["beside"] += verdict["causes"].get("cell_boundary", 0)
    print(dict(causes))
    assert causes["beside"] > 0 and causes["cell_boundary"] >= causes["beside"]


def test_orders_are_found(programs, recording):
    done = programs.replay("order", "--invocation", "all", "--list", "0", "--quiet", "--json", "-", recording[0], expected=(0, 1, 3), limit=LIMIT_S)
    calls = json.loads(done.stdout)["invocations"]
    assert len(calls) == len(recording[1])
    found = [call["summary"] for call, (real, _) in zip(calls, recording[1]) if "grad_input" in real.outputs]  # the other kernel fuses its sums
    few = sum(call["with_1_to_15"] for call in found)
    explained = sum(call["explained_to_15"] + call["in_parts_to_15"] for call in found)
    print(f"{explained} of {few}")
    assert explained >= FOUND * few > 0


def largest(array):
    return np.unravel_index(np.argmax(np.abs(np.where(np.isfinite(array), array, 0))), array.shape)


def scaled(array):
    array[largest(array)] *= array.dtype.type(1.01)


def missing(array):
    array[largest(array)] = 0


def doubled(array):
    array[largest(array)] *= 2


def negated(array):
    np.negative(array, out=array)


@pytest.mark.parametrize("fault", [scaled, missing, doubled, negated])
def test_planted_faults_are_named(programs, recording, tmp_path, fault):
    """In each result of float32 and float64 that is not all zeros, and not so close to 0 that the tolerance allows it."""
    planted = []
    for call, (name, _) in recording[1]:
        if name.endswith("float16") or "anywhere" not in name:  # on a boundary, another cell may explain a wrong value
            continue
        for array in call.outputs.values():
            kept = array.copy()
            if np.abs(array).max() < 0.5:
                continue
            fault(array)
            copy = tmp_path / f"{len(planted)}.h5"
            write_capture(copy, call)
            planted.append((name, copy, largest(kept)))
            array[...] = kept
    assert planted
    for name, copy, at in planted[:24]:
        (invocation,) = judged(programs, copy)["invocations"]
        assert invocation["verdict"]["at_fault"] == "observed" and "implementation_error" in invocation["verdict"]["causes"], (fault.__name__, name)
        if fault is not negated:  # of so many, some are listed
            assert list(at) in [finding["index"] for finding in invocation["findings"]], (fault.__name__, name)


def test_commands_take_recorded_calls(programs, recording, tmp_path):
    """minimize and export of a wrong element, gradcheck and stages of a right call: for a call of each kernel."""
    for wanted in ("grad_input", "grad_offset"):
        fitting = [(call.inputs["offset"].size, i, call, name) for i, (call, (name, _)) in enumerate(recording[1])
                   if wanted in call.outputs and "mask-float32" in name and np.abs(call.outputs[wanted]).max() > 0.5]
        _, number, call, name = min(fitting, key=lambda entry: entry[:2])  # a small one: minimize tries hundreds of smaller ones
        gradcheck = json.loads(programs.replay("gradcheck", recording[0], "--invocation", number, "--json", "-", limit=LIMIT_S).stdout)
        assert gradcheck["passed"] and gradcheck["invocations"][0]["gradients"], name
        programs.replay("stages", recording[0], "--invocation", number, "--element", f"{wanted}[0,0,0,0]", limit=LIMIT_S)
        array = call.outputs[wanted]
        kept = array.copy()
        scaled(array)
        write_capture(tmp_path / f"{wanted}.h5", call)
        array[...] = kept
        programs.replay("minimize", tmp_path / f"{wanted}.h5", "-o", tmp_path / f"{wanted}-small.h5", limit=LIMIT_S)
        (small,) = judged(programs, tmp_path / f"{wanted}-small.h5")["invocations"]
        assert small["verdict"]["causes"] == {"implementation_error": 1}
        programs.replay("export", tmp_path / f"{wanted}.h5", "--to", "pytest", "-o", tmp_path / f"test_{wanted}.py", limit=LIMIT_S)
