"""What is peculiar to grid_sample: edges, points of reflection, coordinates far outside and nowhere, sums over channels in 16 bits."""

import itertools

import numpy as np
import pytest
from support.grid_sample_loop import gradients
from support.operators import OPERATORS
from support.run_results import causes_of, judged, mistakes_of  # noqa: F401

from msda_replay import Invocation, Result, write_capture

recorded, GRADIENTS = OPERATORS["grid_sample"].recorded, ("grad_input", "grad_grid")


def without_outputs(call):
    call.outputs = {}
    return call


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_a_nearest_pixel_that_is_lost_on_the_edge_is_named(judged, padding, align, kind, rng):
    """Samples on the four corners, where coordinates are clipped or turn round: the nearest pixel is the corner in any case."""
    corners = np.array(list(itertools.product([-1, 1], repeat=2)), kind).reshape(1, 2, 2, 2)[..., ::-1]
    grad_output = rng.uniform(1, 2, (1, 3, 2, 2)).astype(kind)
    right = np.zeros((1, 3, 6, 5), kind)
    right[:, :, ::5, ::4] = grad_output
    lost = right.copy()
    lost[:, :, 5] = lost[:, :, :, 4] = 0
    calls = [Invocation({"grad_output": grad_output, "input": rng.standard_normal(right.shape).astype(kind), "grid": corners},
                        {"grad_input": grad_input, "grad_grid": np.zeros_like(corners)}, "",
                        facts={"interpolation": "nearest", "padding_mode": padding, "align_corners": align}) for grad_input in (right, lost)]
    of_right, of_lost = judged(calls)
    assert causes_of(of_right) == {}
    assert causes_of(of_lost) == {("grad_input", "implementation_error", "observed"): 3 * 3}


@pytest.mark.parametrize("wrong", ["never computed", "of the other align_corners"])
def test_conventions_that_one_gradient_contradicts_do_not_fit(judged, wrong):
    """grad_grid, of both sides, is that of other conventions; grad_input is right, which it would not be under those."""
    call = recorded("2d-float32-bilinear-zeros-0")
    another = gradients(call.inputs, {**call.facts, "align_corners": 1})["grad_grid"]
    call.outputs["grad_grid"] = np.zeros_like(call.outputs["grad_grid"]) if wrong == "never computed" else another.astype(np.float32)
    for results in ({}, {"torch": Result(call.outputs, "reference")}):
        call.results = results
        (result,) = judged([call])
        assert result["fits"] == [] and result["verdict"]["at_fault"] == "observed"


def test_mode_mixed(judged, replay, tmp_path):
    (result,) = judged([recorded("2d-float32-bilinear-zeros-0")], "--mode", "mixed,deterministic", "--float64-stages", "grad_grid,pixel_coordinates", expect=0)
    mixed, deterministic = (result["digests"][mode].values() for mode in ("mixed", "deterministic"))
    assert all(digest != another for digest, another in zip(mixed, deterministic))
    done = replay("run", tmp_path / "a.h5", "--mode", "mixed", "--float64-stages", "cell", expect=2)
    assert "no such stage; there are pixel_coordinates, interpolation_weights, grad_grid, input_contributions, grad_input" in done.err


def test_a_nan_location_reads_nothing(judged):
    """As PyTorch: for linear interpolation it lies outside."""
    call = recorded("2d-float64-bilinear-zeros-0")
    call.inputs["grid"][0, 0, 0] = np.nan
    (result,) = judged([call])
    grid = [finding for finding in result["findings"] if finding["tensor"] == "grad_grid"]
    assert {tuple(entry["index"][:3]) for entry in grid} == {(0, 0, 0)} and all(entry["float64"] == 0 for entry in grid)


@pytest.mark.parametrize("variant", ["2d-float64-bilinear-border-0", "2d-float64-nearest-border-1", "3d-float64-bilinear-border-1",
                                     "2d-float64-bilinear-zeros-0", "2d-float64-bicubic-zeros-1"])
def test_far_coordinates(judged, variant):
    """Padding border clips them, however far; padding zeros reads nothing there."""
    digests = []
    for far in (50.0, 1e6, 1e12, 1e300):
        call = recorded(variant)
        call.inputs["grid"][0, 1:3] = np.sign(call.inputs["grid"][0, 1:3]) * far
        digests.append(judged([without_outputs(call), recorded("2d-float64-bilinear-zeros-0")], expect=0)[0]["digests"]["float64"])
    assert all(digest == digests[0] for digest in digests)


def test_infinity_is_clipped_at_the_border_and_nowhere_else(judged):
    for padding, same in (("border", 1e6), ("zeros", 1e6), ("reflection", None)):
        digests = []
        for far in (np.inf, same or np.nan):
            call = recorded(f"2d-float64-bilinear-{padding}-0")
            call.inputs["grid"][0, 1] = np.sign(call.inputs["grid"][0, 1]) * far
            digests.append(judged([without_outputs(call), recorded("2d-float64-bilinear-zeros-0")], expect=0)[0]["digests"]["float64"])
        assert digests[0] == digests[1], padding


def test_a_coordinate_that_lands_on_the_point_of_reflection(judged):
    """1 - 2^-24 becomes the last pixel's centre in float32, where PyTorch clips, and the gradient along that axis is 0."""
    call = recorded("2d-float32-bilinear-reflection-1")
    call.inputs["grid"][0, 0, 0, 0] = 1 - 2.0**-24
    call.outputs = {name: array.astype(np.float32) for name, array in gradients(call.inputs, call.facts).items()}
    assert call.outputs["grad_grid"][0, 0, 0, 0] != 0
    call.outputs["grad_grid"][0, 0, 0, 0] = 0
    (result,) = judged([call])
    assert causes_of(result) == {("grad_grid", "cell_boundary", "tolerance"): 1}


def test_samples_that_only_rounding_brings(judged):
    """Ties, which exact arithmetic takes to the lower pixel and float32 to the upper one: so many that rounding their sum shows."""
    call = recorded("2d-float32-nearest-border-0")
    width = call.inputs["input"].shape[-1]
    tie = np.float32((2 * 2.5 + 1) / width - 1)
    while (float(tie) + 1) * width >= 6:
        tie = np.nextafter(tie, np.float32(-1))
    call.inputs["grid"][..., 0] = tie
    exact = gradients(call.inputs, call.facts)["grad_input"]
    exact[..., 3], exact[..., 2] = exact[..., 2] * (1 + 2e-7), 0
    call.outputs = {"grad_input": exact.astype(np.float32)}
    (printed,) = judged([call], "--atol", 1e-6, "--rtol", 1e-6)
    assert mistakes_of(printed) == {} and causes_of(printed)


def narrow_call(**facts):
    """One sample between two columns whose channels cancel: 60000 + 60000 - 60000 - 60000."""
    image = np.zeros((1, 4, 1, 2), np.float16)
    image[..., 1] = 60000
    signs = np.array([1, 1, -1, -1], np.float16).reshape(1, 4, 1, 1)
    inputs = {"input": image, "grid": np.zeros((1, 1, 1, 2), np.float16), "grad_output": signs}
    outputs = {name: array.astype(np.float16) for name, array in gradients(inputs, facts).items()}
    return Invocation(inputs, outputs, "", facts=facts)


def test_an_overflow_on_the_way_is_the_types(judged):
    call = narrow_call(interpolation="bilinear", padding_mode="zeros", align_corners=0)
    assert call.outputs["grad_grid"][0, 0, 0, 0] == 0
    call.outputs["grad_grid"][0, 0, 0, 0] = np.inf
    (result,) = judged([call])
    assert causes_of(result) == {("grad_grid", "non_finite", "tolerance"): 1}
    (finding,) = result["findings"]
    assert finding["evidence"]["largest_partial"] == 120000 and "120000" in finding["why"].replace("1.2e+05", "120000")


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest", "bicubic"])
def test_a_sample_that_rounding_carries_anywhere(judged, interpolation):
    """3000 images away float16 distinguishes whole images, not pixels: whatever reflection makes of it there."""
    call = recorded(f"2d-float16-{interpolation}-reflection-0")
    near, away = gradients(call.inputs, call.facts), call.inputs["grid"].copy()
    away[0, 1, 1] = 0.3
    moved = gradients({**call.inputs, "grid": away}, call.facts)
    call.inputs["grid"][0, 1, 1] = 3001
    call.outputs = {name: (call.outputs[name] + moved[name] - near[name]).astype(np.float16) for name in GRADIENTS}
    (printed,) = judged([call], "--atol", 1e-4, "--rtol", 1e-2)
    assert mistakes_of(printed) == {} and causes_of(printed)


def test_text(replay, tmp_path):
    call = recorded("3d-float32-bilinear-border-1")
    call.outputs["grad_grid"][0, 1, 2, 3, 2] += 100
    write_capture(tmp_path / "a.h5", call)
    out = replay("run", tmp_path / "a.h5", expect=1).words
    for part in ("grid_sample, interpolation bilinear, padding_mode border,", "input 5 x 4 x 6, grid 4 x 3 x 5, bilinear interpolation",
                 "batch 0, slice 1, row 2, column 3, z"):
        assert part in out, out
    assert "--element 'grad_grid[0,1,2,3,2]'" in out
    assert "first drift: grad_grid" in replay("stages", tmp_path / "a.h5", expect=0).out
