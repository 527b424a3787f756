"""`msda-replay stages` for grid_sample: its intermediate tensors against a slow loop, in every variant."""

import functools
import re

import numpy as np
import pytest
from support.grid_sample_loop import stages
from support.operators import OPERATORS, tensors_of

from msda_replay import Invocation, write_capture

VARIANTS, call_of = OPERATORS["grid_sample"].variants, OPERATORS["grid_sample"].recorded

ORDER = ("pixel_coordinates", "padded_coordinates", "cell", "interpolation_weights", "corner_values", "grad_grid",
         "input_contributions", "grad_input")


def arrays_of(variant):
    return {name: array.astype(np.float64) for name, array in call_of(variant).inputs.items()}


def conventions_of(variant):
    return call_of(variant).facts


def without_outputs(call):
    call.outputs = {}
    return call


@functools.cache
def truth_of(variant):
    return stages(arrays_of(variant), conventions_of(variant))


def taps_of(variant):
    """The names of the pixels that a sample reads, x fastest."""
    count = {"bilinear": 2, "nearest": 1, "bicubic": 4}[conventions_of(variant)["interpolation"]]
    names = [f"y{y},x{x}" for y in range(count) for x in range(count)]
    return names if variant.startswith("2d") else [f"z{z},{name}" for z in range(count) for name in names]


@pytest.fixture
def result(replay, tmp_path):
    """What `stages` says of calls in one capture."""

    def run(calls, *options, expect=0):
        write_capture(tmp_path / "a.h5", calls, overwrite=True)
        return replay("stages", tmp_path / "a.h5", "--json", "-", *options, expect=expect).json["invocations"]

    return run


def elements_of(result, call, *names):
    options = [option for name in names for option in ("--element", name)]
    return result([call], *options)[0]["elements"]


def test_summaries_of_every_variant(result):
    for variant, call in zip(VARIANTS, result([without_outputs(call_of(variant)) for variant in VARIANTS])):
        assert (call["operator"], call["dialect"]) == ("grid_sample", "")
        truth = truth_of(variant)
        assert [stage["stage"] for stage in call["summary"]] == [name for name in ORDER if name in truth], variant
        for stage in call["summary"]:
            name, wide, narrow = stage["stage"], stage["float64"], stage["deterministic"]
            right = truth[name]
            assert wide["count"] == narrow["count"] == right.size, (variant, name)
            assert (wide["nan"], wide["infinite"]) == (0, 0)
            assert wide["lowest"] == pytest.approx(right.min(), rel=1e-12, abs=1e-13), (variant, name)
            assert wide["highest"] == pytest.approx(right.max(), rel=1e-12, abs=1e-13), (variant, name)
            if name in ("cell", "corner_values"):
                assert wide["zero"] == (right == 0).sum(), (variant, name)
            # Only a result has the type of the recorded one.
            largest = 2e-2 if name == "grad_input" and "float16" in variant else 1e-3
            assert stage["max_abs"] <= (0 if "float64" in variant else largest), (variant, name)
            assert "recorded" not in stage


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if "float32" in variant])
def test_an_element_of_grad_grid(result, variant):
    """Every number on the way to it; of the pixels one channel, that farthest from float64."""
    truth, call = truth_of(variant), call_of(variant)
    shape = call.inputs["grid"].shape
    rng = np.random.default_rng(VARIANTS.index(variant))
    for _ in range(3):
        index = tuple(int(rng.integers(size)) for size in shape)
        sample, axes = int(np.ravel_multi_index(index[:-1], shape[:-1])), "xyz"[:shape[-1]]
        (element,) = elements_of(result, call, f"grad_grid[{','.join(map(str, index))}]")
        assert (element["tensor"], element["index"]) == ("grad_grid", list(index))
        rows = [(row["stage"], row["component"]) for row in element["stages"]]
        for name in ORDER[:6]:
            if name not in truth:
                continue
            components = taps_of(variant) if name == "interpolation_weights" else axes
            for row in (row for row in element["stages"] if row["stage"] == name):
                value, component = row["values"]["float64"], row["component"]
                assert list(row["values"]) == ["recorded", "deterministic", "float64"]
                if name == "corner_values":
                    tap, channel = re.fullmatch(r"(.*) channel (\d+), the worst", component).groups()
                    right = truth[name][sample, taps_of(variant).index(tap), int(channel)]
                elif name == "grad_grid":
                    right = truth[name][index]
                    assert component == axes[index[-1]]
                    assert row["values"]["recorded"] == pytest.approx(tensors_of(variant)["grad_grid"][index], rel=1e-6)
                else:
                    right = truth[name][sample, components.index(component)]
                assert value == pytest.approx(right, rel=1e-11, abs=1e-12), (name, component)
                assert (name == "grad_grid") == (row["values"]["recorded"] is not None)
            shown = {"corner_values": 1, "grad_grid": 1}.get(name, len(components))
            assert sum(row[0] == name for row in rows) == shown, name
        assert [name for name in ORDER[:6] if name in truth] == list(dict.fromkeys(row[0] for row in rows))


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if "float32" in variant])
def test_an_element_of_grad_input(result, variant):
    """All of its addends, by sample and tap, and their sum."""
    inputs = arrays_of(variant)
    truth, call = stages(inputs, conventions_of(variant)), call_of(variant)
    gradient = truth["grad_input"]
    n, c, *pixel = (int(i) for i in np.unravel_index(np.argmax(np.abs(gradient)), gradient.shape))
    (element,) = elements_of(result, call, f"grad_input[{','.join(map(str, (n, c, *pixel)))}]")
    *addends, total = element["stages"]
    assert (total["stage"], total["component"]) == ("grad_input", "")
    assert total["values"]["float64"] == pytest.approx(gradient[(n, c, *pixel)], rel=1e-11)
    assert total["values"]["recorded"] == pytest.approx(tensors_of(variant)["grad_input"][(n, c, *pixel)], rel=1e-6)
    samples = call.inputs["grid"].shape[1:-1]
    for row in addends:
        assert row["stage"] == "input_contributions"
        at, tap = re.fullmatch(r"sample \((.*)\), pixel tap (.*)", row["component"]).groups()
        flat = np.ravel_multi_index((n, *map(int, at.split(", "))), (inputs["grid"].shape[0], *samples))
        assert row["values"]["float64"] == pytest.approx(truth["input_contributions"][flat, taps_of(variant).index(tap), c], rel=1e-11, abs=1e-13)
    assert sum(row["values"]["float64"] for row in addends) == pytest.approx(gradient[(n, c, *pixel)], rel=1e-11)


def test_coordinates_have_the_bits_of_float32(result):
    for variant in ("2d-float32-bilinear-reflection-0", "2d-float32-bicubic-zeros-1", "3d-float32-nearest-border-0"):
        call = call_of(variant)
        index = tuple(size - 1 for size in call.inputs["grid"].shape)
        (element,) = elements_of(result, call, f"grad_grid[{','.join(map(str, index))}]")
        entry, half = np.float32(1), np.float32(0.5)
        for axis, row in enumerate(row for row in element["stages"] if row["stage"] == "pixel_coordinates"):
            g, size = call.inputs["grid"][index[:-1]][axis], np.float32(call.inputs["input"].shape[-1 - axis])
            aligned = conventions_of(variant)["align_corners"]
            assert row["values"]["deterministic"] == ((g + entry) * half * (size - entry) if aligned else ((g + entry) * size - entry) * half)


def test_a_cell_that_rounding_chose_drifts_there(result):
    size, entry, half = 9, np.float32(1), np.float32(0.5)

    def lands_elsewhere(g):
        narrow = ((g + entry) * np.float32(size) - entry) * half
        return np.floor(narrow) != np.floor(((float(g) + 1) * size - 1) / 2)

    centres = (np.arange(size) * 2 + 1) / size - 1
    grid = next(g for g in centres.astype(np.float32) if lands_elsewhere(g))
    rng = np.random.default_rng(0)
    call = Invocation({"input": rng.standard_normal((1, 2, size, size)).astype(np.float32),
                       "grid": np.array([[[[grid, 0.05]]]], np.float32),
                       "grad_output": rng.standard_normal((1, 2, 1, 1)).astype(np.float32)}, {}, "",
                      facts={"interpolation": "bilinear", "padding_mode": "zeros", "align_corners": 0})
    (element,) = elements_of(result, call, "grad_grid[0,0,0,0]")
    assert element["first_drift"] == "cell"
    assert [row["drifts"] for row in element["stages"] if row["stage"] == "cell"] == [True, False]


def test_what_reads_nothing(result):
    """NaN, and what lies outside: weights of 0 for the one, pixels of 0 for both."""
    call = without_outputs(call_of("2d-float32-bilinear-zeros-0"))
    call.inputs["grid"][0, 0, 0] = np.nan
    call.inputs["grid"][0, 0, 1] = 50
    nowhere, outside = elements_of(result, call, "grad_grid[0,0,0,1]", "grad_grid[0,0,1,1]")
    for element in (nowhere, outside):
        values = {(row["stage"], row["component"]): row["values"]["float64"] for row in element["stages"]}
        assert values["grad_grid", "y"] == 0
        assert all(value == 0 for (stage, _), value in values.items() if stage == "corner_values")
        weights = [value for (stage, _), value in values.items() if stage == "interpolation_weights"]
        assert sum(weights) == (0 if element is nowhere else pytest.approx(1))
    assert nowhere["stages"][0]["values"]["float64"] == "NaN"


def test_other_tensors_are_refused(replay, tmp_path):
    write_capture(tmp_path / "a.h5", [call_of("2d-float32-bilinear-zeros-0")])
    for name in ("grad_value[0,0,0,0]", "input[0,0,0,0]"):
        assert "there are grad_input and grad_grid\n" in replay("stages", tmp_path / "a.h5", "--element", name, expect=2).err
    assert "give 4 indices within [2," in replay("stages", tmp_path / "a.h5", "--element", "grad_grid[0]", expect=2).err


def test_no_samples(result):
    call = without_outputs(call_of("2d-float32-bilinear-zeros-0"))
    call.inputs["grid"] = call.inputs["grid"][:, :0].copy()
    call.inputs["grad_output"] = call.inputs["grad_output"][:, :, :0].copy()
    (said,) = result([call])
    assert {stage["stage"]: stage["float64"]["count"] for stage in said["summary"] if stage["float64"]["count"]} == {
        "grad_input": call.inputs["input"].size}
