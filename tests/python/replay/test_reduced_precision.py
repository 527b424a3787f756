"""reduced_precision, and whose result an unzeroed buffer held: through the command, on captures that Python writes. The roundings are NumPy's
own, or made of bits here."""

import numpy as np
import pytest
from support.problems import backward, bfloat16, make_problem, stages
from support.run_results import check_schema

from msda_replay import Invocation, Result, write_capture

TIGHT = {"atol": 1e-6, "rtol": 1e-5}


def cut(array, last, carry):
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + carry(bits)) & ~np.uint32((1 << last) - 1)).view(np.float32)


def tf32(array):
    """As cvt.rna.tf32 rounds."""
    return cut(array, 13, lambda bits: np.uint32(0x1000))


def truncated_tf32(array):
    """As a tensor core reads float32."""
    return cut(array, 13, lambda bits: np.uint32(0))


def float16(array):
    return np.asarray(array, np.float32).astype(np.float16).astype(np.float32)


def float32(gradients):
    return {name: array.astype(np.float32) for name, array in gradients.items()}


def autocast(inputs, narrow):
    """A reference in PyTorch under autocast: `grad_output` and `attention_weights` meet in a batched product of 16 bits, whose result
    has 16 bits; grid_sample runs in float32; so the sampled values meet `grad_output` in 16 bits."""
    reduced = {name: narrow(inputs[name]) for name in ("grad_output", "attention_weights")}
    gradients = backward({**inputs, **reduced})
    weighted = narrow(reduced["grad_output"][:, :, :, None, None] * reduced["attention_weights"][..., None])
    sampled = narrow(stages(inputs)["sampled_value"].astype(np.float32))
    # One sample at a time: `weighted` stands in for grad_output, with a weight of 1.
    for key in ("grad_value", "grad_sampling_locations"):
        gradients[key] = np.zeros_like(gradients[key])
    for level, point in np.ndindex(weighted.shape[3:5]):
        alone = np.zeros_like(inputs["attention_weights"])
        alone[:, :, :, level, point] = 1
        entry = backward({**inputs, "grad_output": weighted[:, :, :, level, point], "attention_weights": alone})
        gradients["grad_value"] += entry["grad_value"]
        gradients["grad_sampling_locations"][:, :, :, level, point] = entry["grad_sampling_locations"][:, :, :, level, point]
    go = reduced["grad_output"][:, :, :, None, None].astype(np.float64)
    gradients["grad_attention_weights"] = narrow((go * sampled).sum(-1).astype(np.float32))
    return float32(gradients)


def findings_of(call, cause):
    return [finding for finding in call["findings"] if finding["cause"] == cause and "advisory" not in finding]


@pytest.mark.parametrize("narrow, type_name", [(bfloat16, "bfloat16"), (float16, "float16")])
def test_a_pytorch_reference_under_autocast(replay, tmp_path, rng, narrow, type_name):
    inputs = make_problem(rng)
    results = {"torch": Result(autocast(inputs, narrow), "reference", "grid_sample")}
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, float32(backward(inputs)), "msda_triton", results=results, **TIGHT))
    result = replay("run", path, "--json", "-", expect=1).json
    check_schema(result)
    assert result["verdict"]["at_fault"] == "reference"
    assert result["verdict"]["causes"]["reduced_precision"] > 500
    assert set(result["verdict"]["causes"]) <= {"reduced_precision", "rounding", "ill_conditioned", "accumulation_order"}
    product = "grad_output*attention_weights"
    rounded = {
        "grad_value": ["grad_output", "attention_weights", product],
        "grad_sampling_locations": ["grad_output", "attention_weights", product],
        "grad_attention_weights": ["grad_output", "sampled_value", "result"],
    }
    seen = set()
    for finding in findings_of(result["invocations"][0], "reduced_precision"):
        evidence = finding["evidence"]
        seen.add(finding["tensor"])
        assert (evidence["side"], evidence["rounded"]) == ("reference", rounded[finding["tensor"]]), finding["why"]
        assert type_name in evidence["types"] and "bfloat16" not in set(evidence["types"]) - {type_name}
        assert abs(evidence["reduced_error"]) <= evidence["reduced_bound"] and abs(evidence["error"]) > evidence["rounding_bound"]
    assert seen == set(rounded)
    text = replay("run", path, expect=1).out
    assert "error[reduced_precision]: the reference is wrong in" in text and "autocast" in text


@pytest.mark.parametrize("narrow, rounding", [(tf32, "to nearest"), (truncated_tf32, "truncated")])
@pytest.mark.parametrize("dialect", ["msda_triton", "deformable_detr", "grid_sample"])
def test_a_kernel_on_tensor_cores(replay, tmp_path, rng, dialect, narrow, rounding):
    """Operands in TF32, everything else in float32."""
    inputs = make_problem(rng, channels=32)
    inputs["grad_output"] *= 1e-5  # below float16's normal numbers, so that TF32 differs from it
    operands = {name: narrow(inputs[name]) for name in ("grad_output", "value", "attention_weights")}
    outputs = float32(backward({**inputs, **operands}))
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, outputs, dialect, atol=1e-11, rtol=1e-5))
    result = replay("run", path, "--json", "-", expect=1).json
    check_schema(result)
    assert result["verdict"]["at_fault"] == "observed"
    assert set(result["verdict"]["causes"]) <= {"reduced_precision", "rounding", "ill_conditioned", "accumulation_order"}
    found = findings_of(result["invocations"][0], "reduced_precision")
    assert {f["tensor"] for f in found} == {"grad_value", "grad_sampling_locations", "grad_attention_weights"}
    for finding in found:
        evidence = finding["evidence"]
        if "sampling_locations" in finding["tensor"]:
            assert evidence["rounded"] == ["grad_output", "attention_weights", "value"]
        assert (evidence["type"], evidence["types"]) == ("tf32", ["tf32"]), finding["why"]
        assert evidence["rounding"].startswith(rounding)
    assert "allow_tf32" in replay("run", path, expect=1).out
    # The customary tolerance has room for TF32, rounding has none.
    write_capture(path, Invocation(inputs, outputs, dialect), overwrite=True)
    verdict = replay("run", path, "--json", "-", expect=1).json["verdict"]
    assert set(verdict["causes"]) == {"reduced_precision"} and verdict["within_customary"] == verdict["causes"]["reduced_precision"]
    assert replay("run", path, "--customary", "--json", "-", expect=0).json["verdict"]["causes"] == {}


@pytest.mark.parametrize("factor", [1.0005, 0.9997, 1.003, 1.1, -1])
def test_an_error_of_that_size_is_not_excused(replay, tmp_path, rng, factor):
    inputs = make_problem(rng)
    outputs = {name: (factor * array).astype(np.float32) for name, array in backward(inputs).items()}
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, outputs, "msda_triton", **TIGHT))
    verdict = replay("run", path, "--json", "-", expect=1).json["verdict"]
    assert verdict["at_fault"] == "observed"
    assert "reduced_precision" not in verdict["causes"] and verdict["causes"]["implementation_error"] > 500


def accumulated(rng, zeroed=None, recorded=True):
    """Two calls, whose gradients for `value` go into one buffer."""
    first, second = (make_problem(rng) for _ in range(2))
    earlier = float32(backward(first))
    before = earlier["grad_value"].copy()
    if zeroed is not None:
        before[:, zeroed] = 0
    outputs = float32(backward(second))
    outputs["grad_value"] = outputs["grad_value"] + before
    buffers = {"grad_value": before} if recorded else {}
    return [Invocation(first, earlier, "msda_triton", **TIGHT),
            Invocation(second, outputs, "msda_triton", outputs_before=buffers, **TIGHT)]


@pytest.mark.parametrize("zeroed, recorded", [(None, True), (slice(0, 9), True), (None, False)])
def test_an_earlier_call_left_its_result(replay, tmp_path, rng, zeroed, recorded):
    path = tmp_path / "a.h5"
    write_capture(path, accumulated(rng, zeroed, recorded))
    result = replay("run", path, "--json", "-", expect=1).json
    check_schema(result)
    assert result["invocations"][0]["findings"] == []
    assert set(result["invocations"][1]["verdict"]["causes"]) == {"uninitialized_output"}
    assert result["verdict"]["at_fault"] == "observed"
    digests = replay("show", path, "--invocation", 0, "--json", "-", expect=0).json["invocations"][0]["tensors"]
    (digest,) = [tensor["digest"] for tensor in digests if tensor["path"].endswith("outputs/grad_value")]
    for finding in findings_of(result["invocations"][1], "uninitialized_output"):
        assert finding["evidence"]["left_by"] == {"invocation": 0, "tensor": "grad_value", "digest": digest, "launches": 1,
                                                  "before_recorded": recorded}
        assert finding["evidence"]["kind"] == "added"
        assert "what invocation 0 left in grad_value" in finding["why"]
    # An explanation of the call alone says the same.
    alone = replay("run", path, "--invocation", 1, "--json", "-", expect=1).json
    assert alone["invocations"][0]["findings"] == result["invocations"][1]["findings"]


@pytest.mark.parametrize("launches", [1, 3])
def test_an_autotuner_left_its_sums(replay, tmp_path, rng, launches):
    inputs = make_problem(rng)
    outputs = float32(backward(inputs))
    before = sum([outputs["grad_value"]] * launches)
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, {**outputs, "grad_value": outputs["grad_value"] + before}, "msda_triton",
                                   outputs_before={"grad_value": before}, **TIGHT))
    result = replay("run", path, "--json", "-", expect=1).json
    check_schema(result)
    assert set(result["verdict"]["causes"]) == {"uninitialized_output"}
    for finding in findings_of(result["invocations"][0], "uninitialized_output"):
        left_by = finding["evidence"]["left_by"]
        assert (left_by["launches"], "invocation" in left_by) == (launches, False)
        assert "an autotuner or a loop without a reset" in finding["why"]


def test_nothing_is_blamed_that_did_not_leave_it(replay, tmp_path, rng):
    """Other numbers in the buffer, and an error that no earlier result explains."""
    path = tmp_path / "a.h5"
    first, second = accumulated(rng)
    noise = rng.standard_normal(first.outputs["grad_value"].shape).astype(np.float32)
    second.outputs["grad_value"] = float32(backward(second.inputs))["grad_value"] + noise
    for before, cause in (({"grad_value": noise}, "uninitialized_output"), ({}, "implementation_error")):
        second.outputs_before = before
        write_capture(path, [first, second], overwrite=True)
        call = replay("run", path, "--json", "-", expect=1).json["invocations"][1]
        assert set(call["verdict"]["causes"]) == {cause}
        assert all("left_by" not in finding["evidence"] for finding in call["findings"])
