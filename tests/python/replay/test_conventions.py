"""Where the capture names other conventions than its gradients follow, the conventions are doubted before the kernel."""

import numpy as np
import pytest
from support.problems import backward, make_problem
from support.run_results import check_schema

from msda_replay import Invocation, Result, write_capture

LEVELS = ((6, 5), (3, 4))


def problem(rng, dtype=np.float32):
    """With samples on the edges too, where the paddings differ."""
    inputs = make_problem(rng, dtype=dtype, levels=LEVELS)
    near = rng.random(inputs["sampling_locations"].shape) < 0.2
    inputs["sampling_locations"][near] = rng.uniform(0.01, 0.04, near.sum())
    return inputs


def invocation(inputs, follows, says, reference, **tolerance):
    outputs = {name: array.astype(inputs["value"].dtype) for name, array in backward(inputs, **follows).items()}
    results = {"torch": Result(outputs, "reference", "grid_sample")} if reference else {}
    return Invocation(inputs, outputs, "msda_triton", results=results, **says, **(tolerance or {"atol": 1e-3, "rtol": 1e-2}))


CASES = [
    ({"padding_mode": "border"}, {"padding_mode": "zeros"}, "padding border in place of zeros"),
    ({"padding_mode": "zeros"}, {"padding_mode": "border"}, "padding zeros in place of border"),
    ({"align_corners": True}, {"align_corners": False}, "align_corners true in place of false"),
    ({"align_corners": False}, {"align_corners": True}, "align_corners false in place of true"),
    ({"padding_mode": "border", "align_corners": True}, {}, "padding border in place of zeros and align_corners true in place of false"),
]


@pytest.mark.parametrize("follows, says, text", CASES, ids=[text for *_, text in CASES])
@pytest.mark.parametrize("tolerance", [{}, {"atol": 0, "rtol": 1e-7}], ids=["customary", "tight"])
def test_what_fits_is_named(replay, tmp_path, rng, follows, says, text, tolerance):
    inputs = problem(rng)
    path = tmp_path / "a.h5"
    write_capture(path, invocation(inputs, follows, says, True, **tolerance))
    result = replay("run", path, "--json", "-", expect=1).json
    check_schema(result)
    (call,) = result["invocations"]
    assert text in call["fits"] and result["verdict"]["at_fault"] == "convention"
    assert "agree with" not in text and text in result["verdict"]["summary"]
    assert result["verdict"]["summary"].startswith("The recorded kernel and the reference agree, and float64 agrees with them under")
    assert "wrong" not in result["verdict"]["summary"].replace("Neither side is wrong", "")
    # Without a reference nobody agrees with the kernel: it is at fault, and the fit is reported.
    write_capture(path, invocation(inputs, follows, says, False, **tolerance), overwrite=True)
    result = replay("run", path, "--json", "-", expect=1).json
    assert result["verdict"]["at_fault"] == "observed" and text in result["verdict"]["summary"]


def test_swapped_shapes(replay, tmp_path, rng):
    inputs = problem(rng)
    right = invocation(inputs, {}, {}, True)
    inputs["spatial_shapes"] = np.ascontiguousarray(inputs["spatial_shapes"][:, ::-1])
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, right.outputs, "msda_triton", results=right.results, atol=1e-3, rtol=1e-2))
    result = replay("run", path, "--json", "-", expect=1).json
    assert result["invocations"][0]["fits"] == ["spatial_shapes as (width, height) in place of (height, width)"]
    assert result["verdict"]["at_fault"] == "convention"


@pytest.mark.parametrize("whole", [True, False])
def test_few_elements_of_one_gradient_contradict_what_the_others_fit(replay, tmp_path, rng, whole):
    """Half of the samples lie on the edge of a single pixel, whose gradient alone distinguishes the paddings: one element of grad_value in 121."""
    inputs = make_problem(rng, queries=60, levels=((10, 12), (1, 1)))
    inside, on_edge = np.moveaxis(inputs["sampling_locations"], 3, 0)
    inside[:] = (rng.integers(0, 9, inside.shape) + rng.uniform(0.55, 1.45, inside.shape)) / (12, 10)
    on_edge[:] = rng.uniform(0.02, 0.2, on_edge.shape)
    call = invocation(inputs, {"padding_mode": "border"}, {}, True)
    if not whole:
        call.outputs["grad_value"] = backward(inputs)["grad_value"].astype(np.float32)
    path = tmp_path / "a.h5"
    write_capture(path, call)
    result = replay("run", path, "--json", "-", expect=1).json
    assert result["invocations"][0]["fits"] == (["padding border in place of zeros"] if whole else [])


def test_a_mistake_that_both_make_fits_nothing(replay, tmp_path, rng):
    right = invocation(problem(rng), {}, {}, True)
    for name in ("grad_sampling_locations", "grad_attention_weights"):
        right.outputs[name][:, 10:] *= -1
    path = tmp_path / "a.h5"
    write_capture(path, right)
    result = replay("run", path, "--json", "-", expect=1).json
    assert result["invocations"][0]["fits"] == []
    assert result["verdict"]["at_fault"] == "observed"
    assert "check the capture's shapes and conventions before the kernel" in result["verdict"]["summary"]


@pytest.mark.parametrize("wrong", ["sign", "scale", "noise"])
def test_a_mistake_of_the_kernel_alone_is_no_convention(replay, tmp_path, rng, wrong):
    call = invocation(problem(rng), {}, {}, True)
    call.results["torch"] = Result({name: array.copy() for name, array in call.outputs.items()}, "reference", "grid_sample")
    change = {"sign": -1, "scale": 1.25, "noise": rng.uniform(1.5, 2, call.outputs["grad_attention_weights"].shape)}[wrong]
    call.outputs["grad_attention_weights"] = (call.outputs["grad_attention_weights"] * change).astype(np.float32)
    path = tmp_path / "a.h5"
    write_capture(path, call)
    result = replay("run", path, "--json", "-", expect=1).json
    assert result["invocations"][0]["fits"] == [] and result["verdict"]["at_fault"] == "observed"
    assert "convention" not in result["verdict"]["summary"]
