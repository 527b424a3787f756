"""grid_sample's backward, 2D and 3D, all modes: gradients that PyTorch's kernels computed on an H200 (tests/data/grid_sample/h200.npz)
are explained to the last bit, and mistakes planted in them are named."""

import itertools
import os

import numpy as np
import pytest
from support.grid_sample_calls import GRADIENTS, INPUTS, RECORDED, VARIANTS, call_of, conventions_of, without_outputs
from support.grid_sample_loop import gradients
from support.run_results import check_schema

from msda_replay import Invocation, Result, read_capture, write_capture
from msda_replay.__main__ import main

ROUNDING = {"rounding", "ill_conditioned", "accumulation_order", "cell_boundary", "border_clamp"}


@pytest.fixture
def judged(replay, tmp_path):
    """Returns for each invocation what `run` said."""

    def run(calls, *options, expect=1):
        path = tmp_path / "a.h5"
        write_capture(path, calls, overwrite=True)
        result = replay("run", path, "--json", "-", *options, expect=expect).json
        check_schema(result)
        return result["invocations"]

    return run


def causes_of(call):
    return {(entry["tensor"], entry["cause"], entry["at_fault"]): entry["count"] for entry in call["judged"]}


def mistakes_of(call):
    return {key: count for key, count in causes_of(call).items() if key[1] not in ROUNDING}


def test_there_are_all_modes():
    assert len(VARIANTS) == 3 * (3 * 3 * 2 + 2 * 3 * 2)
    for variant in VARIANTS:
        assert np.any(RECORDED[f"{variant}/grad_input"])
        assert np.any(RECORDED[f"{variant}/grad_grid"]) == ("nearest" not in variant)


def test_a_gpus_results_are_within_tolerance(judged):
    """But for two coordinates that float16, in which that kernel computes, moves beyond a point of reflection."""
    for variant, call in zip(VARIANTS, judged([call_of(variant) for variant in VARIANTS])):
        assert call["operator"] == "grid_sample" and call["dialect"] == ""
        assert set(causes_of(call)) <= ({("grad_grid", "cell_boundary", "tolerance")} if "float16" in variant else set()), variant


def test_rounding_explains_a_gpus_results_to_the_last_bit(judged):
    for variant, call in zip(VARIANTS, judged([call_of(variant) for variant in VARIANTS], "--atol", 0, "--rtol", 0)):
        assert mistakes_of(call) == {}, variant


def test_float64_is_what_pytorchs_float64_kernel_gives(judged):
    variants = [variant for variant in VARIANTS if "float64" in variant]
    for variant, call in zip(variants, judged([call_of(variant) for variant in variants], expect=0)):
        compared = [comparison for comparison in call["comparisons"] if (comparison["observed"], comparison["expected"]) == ("recorded", "float64")]
        assert len(compared) == 2
        assert all(entry["max_abs"] < 1e-13 for entry in compared), variant


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_a_flipped_sign_is_named(judged, gradient):
    variants = [variant for variant in VARIANTS if np.any(RECORDED[f"{variant}/{gradient}"])]
    calls = [call_of(variant) for variant in variants]
    for call in calls:
        values = call.outputs[gradient].reshape(-1)
        values[np.argmax(np.abs(values))] *= -1
    for variant, call in zip(variants, judged(calls)):
        assert mistakes_of(call) == {(gradient, "implementation_error", "observed"): 1}, variant
        finding = next(finding for finding in call["findings"] if finding["cause"] == "implementation_error")
        assert "its sign were flipped" in finding["evidence"]["as_if"]


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
    call = call_of("2d-float32-bilinear-zeros-0")
    another = gradients(call.inputs, {**call.facts, "align_corners": 1})["grad_grid"]
    call.outputs["grad_grid"] = np.zeros_like(call.outputs["grad_grid"]) if wrong == "never computed" else another.astype(np.float32)
    for results in ({}, {"torch": Result(call.outputs, "reference")}):
        call.results = results
        (result,) = judged([call])
        assert result["fits"] == [] and result["verdict"]["at_fault"] == "observed"


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_a_wrong_fourth_digit_is_named(judged, gradient):
    variants = [variant for variant in VARIANTS if "float32" in variant and np.any(RECORDED[f"{variant}/{gradient}"])]
    calls = [call_of(variant) for variant in variants]
    for call in calls:
        values = call.outputs[gradient].reshape(-1)
        values[np.argmax(np.abs(values))] *= 1.0001
    for variant, call in zip(variants, judged(calls, "--atol", 0, "--rtol", 2e-5)):
        assert mistakes_of(call) == {(gradient, "implementation_error", "observed"): 1}, variant


@pytest.mark.parametrize("name", ["padding_mode", "align_corners", "interpolation"])
def test_other_conventions_are_named(judged, name):
    variants = [variant for variant in VARIANTS if "float32" in variant and "nearest" not in variant]
    if name == "interpolation":
        variants = [variant for variant in variants if "2d" in variant]
    others = {"zeros": "border", "border": "reflection", "reflection": "zeros", 0: 1, 1: 0, "bilinear": "bicubic", "bicubic": "bilinear"}
    rights = [conventions_of(variant)[name] for variant in variants]
    calls = [call_of(variant, **{name: others[right]}) for variant, right in zip(variants, rights)]
    for variant, right, call in zip(variants, rights, judged(calls)):
        assert call["verdict"]["at_fault"] == "observed"
        right = ("false", "true")[right] if name == "align_corners" else right
        assert f"{name.replace('_mode', '')} {right} in place of" in call["fits"][0], variant


def test_replays(judged, replay, tmp_path):
    calls = [call_of("2d-float32-bilinear-zeros-0"), call_of("3d-float16-bilinear-border-1")]
    first, again = (judged(calls, "--mode", "deterministic,atomic", "--repeat", 5, expect=0) for _ in range(2))
    for entry, another in zip(first, again):
        assert entry["digests"] == another["digests"]
        assert set(entry["digests"]) == {"deterministic", "atomic", "float64"}
        assert entry["repeats"]["deterministic"]["grad_input"]["distinct"] == 1
        assert entry["devices"] == {"deterministic": ["cpu"], "atomic": ["cpu"], "float64": ["cpu"]}
    assert first[0]["repeats"]["atomic"]["grad_input"]["distinct"] > 1
    assert first[0]["repeats"]["atomic"]["grad_grid"]["distinct"] == 1
    mixed = judged(calls, "--mode", "mixed,deterministic", "--float64-stages", "grad_grid,pixel_coordinates", expect=0)[0]["digests"]
    assert all(entry != another for entry, another in zip(mixed["mixed"].values(), mixed["deterministic"].values()))
    done = replay("run", tmp_path / "a.h5", "--mode", "mixed", "--float64-stages", "cell", expect=2)
    assert "no such stage; there are pixel_coordinates, interpolation_weights, grad_grid, input_contributions, grad_input" in done.err


def test_a_nan_is_traced_to_its_input(judged):
    for name in INPUTS:
        call = call_of("2d-float32-bilinear-border-1")
        call.inputs[name].reshape(-1)[7] = np.nan
        findings = judged([call])[0]["findings"]
        firsts = {finding["evidence"]["first"] for finding in findings if finding["cause"] == "non_finite"}
        assert firsts <= {f"inputs/{name}"} and (firsts or name == "grid")  # a sample at NaN is nowhere


def test_a_buffer_that_was_not_zeroed(judged):
    call = call_of("2d-float32-bilinear-zeros-0")
    call.outputs_before = {"grad_input": np.full_like(call.outputs["grad_input"], 3)}
    call.outputs["grad_input"] += 3
    (result,) = judged([call])
    assert set(mistakes_of(result)) == {("grad_input", "uninitialized_output", "observed")}


def test_a_nan_location_reads_nothing(judged):
    """As PyTorch: for linear interpolation it lies outside."""
    call = call_of("2d-float64-bilinear-zeros-0")
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
        call = call_of(variant)
        call.inputs["grid"][0, 1:3] = np.sign(call.inputs["grid"][0, 1:3]) * far
        digests.append(judged([without_outputs(call), call_of("2d-float64-bilinear-zeros-0")], expect=0)[0]["digests"]["float64"])
    assert all(digest == digests[0] for digest in digests)


def test_infinity_is_clipped_at_the_border_and_nowhere_else(judged):
    for padding, same in (("border", 1e6), ("zeros", 1e6), ("reflection", None)):
        digests = []
        for far in (np.inf, same or np.nan):
            call = call_of(f"2d-float64-bilinear-{padding}-0")
            call.inputs["grid"][0, 1] = np.sign(call.inputs["grid"][0, 1]) * far
            digests.append(judged([without_outputs(call), call_of("2d-float64-bilinear-zeros-0")], expect=0)[0]["digests"]["float64"])
        assert digests[0] == digests[1], padding


def test_a_coordinate_that_lands_on_the_point_of_reflection(judged):
    """1 - 2^-24 becomes the last pixel's centre in float32, where PyTorch clips, and the gradient along that axis is 0."""
    call = call_of("2d-float32-bilinear-reflection-1")
    call.inputs["grid"][0, 0, 0, 0] = 1 - 2.0**-24
    call.outputs = {name: array.astype(np.float32) for name, array in gradients(call.inputs, call.facts).items()}
    assert call.outputs["grad_grid"][0, 0, 0, 0] != 0
    call.outputs["grad_grid"][0, 0, 0, 0] = 0
    (result,) = judged([call])
    assert causes_of(result) == {("grad_grid", "cell_boundary", "tolerance"): 1}


def test_samples_that_only_rounding_brings(judged):
    """Ties, which exact arithmetic takes to the lower pixel and float32 to the upper one: so many that rounding their sum shows."""
    call = call_of("2d-float32-nearest-border-0")
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


@pytest.mark.parametrize("variant", ["2d-float16-bilinear-zeros-0", "2d-float16-bicubic-border-1", "3d-float16-bilinear-border-1"])
def test_a_buffer_that_was_not_zeroed_by_a_kernel_in_16_bits(judged, variant):
    call = call_of(variant)
    before = np.full_like(call.outputs["grad_input"], 3)
    call.outputs_before = {"grad_input": before}
    call.outputs["grad_input"] = (call.outputs["grad_input"] + before).astype(np.float16)
    (result,) = judged([call])
    assert set(mistakes_of(result)) == {("grad_input", "uninitialized_output", "observed")}


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest", "bicubic"])
def test_a_sample_that_rounding_carries_anywhere(judged, interpolation):
    """3000 images away float16 distinguishes whole images, not pixels: whatever reflection makes of it there."""
    call = call_of(f"2d-float16-{interpolation}-reflection-0")
    near, away = gradients(call.inputs, call.facts), call.inputs["grid"].copy()
    away[0, 1, 1] = 0.3
    moved = gradients({**call.inputs, "grid": away}, call.facts)
    call.inputs["grid"][0, 1, 1] = 3001
    call.outputs = {name: (call.outputs[name] + moved[name] - near[name]).astype(np.float16) for name in GRADIENTS}
    (printed,) = judged([call], "--atol", 1e-4, "--rtol", 1e-2)
    assert mistakes_of(printed) == {} and causes_of(printed)


@pytest.mark.parametrize("change, words", [
    (lambda call: call.facts.update(interpolation="cubic"), ("unknown interpolation", "bilinear")),
    (lambda call: call.facts.update(padding_mode="wrap"), ("unknown padding_mode", "reflection")),
    (lambda call: call.facts.update(align_corners=2), ("align_corners",)),
    (lambda call: call.inputs.update(grid=call.inputs["grid"][..., :1].copy()), ("grid", "[N,(D,)H,W,2 or 3]")),
    (lambda call: call.inputs.update(grad_output=call.inputs["grad_output"][:1].copy()), ("grad_output has shape",)),
    (lambda call: call.inputs.update(input=call.inputs["input"].astype(np.int32)), ("input has type int32",)),
    (lambda call: call.inputs.update(input=call.inputs["input"][:, :, :0].copy()), ("sides",)),
    (lambda call: call.outputs.update(grad_grid=call.outputs["grad_grid"][:1].copy()), ("grad_grid has shape",)),
    (lambda call: call.outputs.update(grad_grid=call.outputs["grad_grid"].astype(np.int32)), ("outputs/grad_grid has type int32",)),
    (lambda call: call.results.update(x=Result({"grad_input": call.inputs["input"].astype(int)})), ("results/x/grad_input has type int64",)),
])
def test_bad_calls(replay, tmp_path, change, words):
    call = call_of("2d-float32-bilinear-zeros-0")
    change(call)
    write_capture(tmp_path / "a.h5", call)
    done = replay("run", tmp_path / "a.h5", expect=2)
    assert done.out == "" and done.err.count("\n") == 1
    for word in (str(tmp_path / "a.h5"), "/invocations/000000", *words):
        assert word in done.err


def test_3d_has_no_bicubic(replay, tmp_path):
    write_capture(tmp_path / "a.h5", call_of("3d-float32-bilinear-zeros-0", interpolation="bicubic"))
    assert "bicubic" in replay("run", tmp_path / "a.h5", expect=2).err


def test_nothing_in_a_call(judged):
    call = call_of("2d-float32-bilinear-zeros-0")
    call.inputs["grid"] = call.inputs["grid"][:, :0].copy()
    call.inputs["grad_output"] = call.inputs["grad_output"][:, :, :0].copy()
    call.outputs = {"grad_input": np.zeros_like(call.inputs["input"]), "grad_grid": call.inputs["grid"]}
    (result,) = judged([call], expect=0)
    assert causes_of(result) == {}


def test_text(replay, tmp_path):
    call = call_of("3d-float32-bilinear-border-1")
    call.outputs["grad_grid"][0, 1, 2, 3, 2] += 100
    write_capture(tmp_path / "a.h5", call)
    out = replay("run", tmp_path / "a.h5", expect=1).out
    for part in ("grid_sample, interpolation bilinear, padding_mode border,", "input 5 x 4 x 6, grid 4 x 3 x 5, bilinear interpolation",
                 "batch 0, slice 1, row 2, column 3, z"):
        assert part in out.replace("\n", " ").replace("         ", " "), out
    assert "--element 'grad_grid[0,1,2,3,2]'" in out
    assert "first drift: grad_grid" in replay("stages", tmp_path / "a.h5", expect=0).out


@pytest.mark.parametrize("variant", ["2d-float32-bicubic-reflection-1", "3d-float16-nearest-border-0"])
def test_import(replay, tmp_path, variant):
    arrays = {name: RECORDED[f"{variant}/{name}"] for name in INPUTS}
    arrays |= {f"{section}_{name}": RECORDED[f"{variant}/{name}"] for section in ("observed", "reference", "before") for name in GRADIENTS}
    np.savez(tmp_path / "a.npz", operator="grid_sample", atol=1e-3, rtol=1e-2, kernel="k", label="l", **arrays,
             **{name: bool(value) if name == "align_corners" else value for name, value in conventions_of(variant).items()})
    assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0
    replay("verify", tmp_path / "a.h5", expect=0)
    (call,) = read_capture(tmp_path / "a.h5").invocations
    assert {name: call.facts[name] for name in conventions_of(variant)} == conventions_of(variant)
    for name in GRADIENTS:
        for tensors in (call.outputs, call.outputs_before, call.results["reference"].tensors):
            assert np.array_equal(tensors[name], RECORDED[f"{variant}/{name}"])
    replay("run", tmp_path / "a.h5", expect=0)


@pytest.mark.parametrize("change, words", [
    ({"operator": "conv2d"}, ("operator", "msda, grid_sample, scatter_add")),
    ({"padding_mode": "wrap"}, ("padding_mode", "reflection")),
    ({"grid": np.zeros((2, 6, 5, 3), np.float32)}, ("grid", "axis")),
    ({"observed_grad_input": np.zeros((2, 3, 9, 8), np.float32)}, ("observed_grad_input", "width")),
    ({"grid": np.zeros((2, 6, 5, 2), np.int32)}, ("grid", "int32")),
])
def test_archives_that_do_not_fit(tmp_path, capsys, change, words):
    variant = "2d-float32-bilinear-zeros-0"
    np.savez(tmp_path / "a.npz", **({"operator": "grid_sample"} | {name: RECORDED[f"{variant}/{name}"] for name in INPUTS} | change))
    assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 2
    line = capsys.readouterr().err
    assert all(word in line for word in words) and not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize("interpolation, dimensions", [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)])
def test_float64_is_that_of_a_slow_loop(judged, interpolation, dimensions):
    """MSDA_GRID_SAMPLE_PROBLEMS random calls of each padding and value of align_corners."""
    count = int(os.environ.get("MSDA_GRID_SAMPLE_PROBLEMS", "20"))
    rng = np.random.default_rng(dimensions)
    for padding, align in itertools.product(("zeros", "border", "reflection"), (0, 1)):
        calls = []
        for _ in range(count):
            batch, channels = rng.integers(1, 4, 2)
            of_input, of_output = rng.integers(1, 6, dimensions), rng.integers(1, 4, dimensions)
            inputs = {"input": rng.standard_normal((batch, channels, *of_input)),
                      "grid": rng.uniform(-3, 3, (batch, *of_output, dimensions)),
                      "grad_output": rng.standard_normal((batch, channels, *of_output))}
            facts = {"interpolation": interpolation, "padding_mode": padding, "align_corners": align}
            calls.append(Invocation(inputs, gradients(inputs, facts), "", facts=facts))
        assert any(np.any(call.outputs["grad_input"]) for call in calls)
        for result in judged(calls, "--atol", 1e-12, "--rtol", 1e-11, expect=0):
            assert causes_of(result) == {}
