"""Plots show the numbers that they are about: what they draw is compared with gradients computed another way."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import SOURCE
from support.grid_sample_calls import call_of
from support.problems import backward, make_problem

from msda_replay import CaptureError, Invocation, Result, open_capture, plot_cell, plot_errors, plot_pyramid, run, save_call, write_capture
from msda_replay.plots.errors import ulp_distance
from msda_replay.plots.samples import addends_of, coordinate, exact_coordinate, sample_of

EVERYTHING = {"atol": 0, "rtol": 0}  # a tolerance that makes findings of all rounding


def drawn(figure, tmp_path):
    """Draws it, as a notebook would, and returns all of its text."""
    figure.canvas.print_png(tmp_path / "a.png")  # savefig draws twice, first to lay it out, which drawing does as well
    assert (tmp_path / "a.png").stat().st_size > 10000
    texts = [text.get_text() for axes in figure.axes for text in (axes.title, axes.xaxis.label, *axes.texts)]
    return "\n".join([*texts, figure._suptitle.get_text()])


@pytest.fixture
def msda(tmp_path, rng):
    """One with a wrong element in each gradient, the other right."""
    inputs = make_problem(rng)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    wrong = {name: array.copy() for name, array in outputs.items()}
    wrong["grad_value"][0, 35, 1, 2] += 1
    wrong["grad_sampling_locations"][0, 3, 1, 1, 1, 0] += 5
    wrong["grad_attention_weights"][0, 4, 0, 1, 0] += 5
    path = tmp_path / "a.h5"
    write_capture(path, [Invocation(inputs, one, "msda_triton", atol=1e-3, rtol=1e-2) for one in (wrong, outputs)])
    return path


@pytest.fixture
def grid_sample(tmp_path):
    """A call in 2D and one in 3D."""
    calls = [call_of("2d-float32-bilinear-zeros-0"), call_of("3d-float32-bilinear-border-1"), call_of("2d-float64-bilinear-reflection-1")]
    path = tmp_path / "a.h5"
    write_capture(path, calls)
    return path


class TestCells:
    def test_a_real_boundary(self, demo_capture, tmp_path):
        finding = run(demo_capture).findings()[0]
        figure = plot_cell(finding)
        text = drawn(figure, tmp_path)
        assert "x at the boundary 3, enlarged" in text and "2.99999976: -1 ULP" in text and "3: on the boundary" in text
        assert "grad_sampling_locations[0,948,0,0,2,0] of call 0: cell_boundary, at fault: reference" in text
        steps = next(axes for axes in figure.axes if "gradient in each cell" in axes.get_title())
        (stairs,) = [patch for patch in steps.patches if hasattr(patch, "get_data")]
        values = dict(zip(stairs.get_data().edges, stairs.get_data().values))
        assert values[2] == pytest.approx(-128.077826) and values[3] == pytest.approx(131.808206)

    @pytest.mark.parametrize("capture", ["msda", "grid_sample"])
    def test_the_gradient_in_the_samples_cell_is_float64s(self, capture, request):
        """For every sample in a cell's inside, of findings of mere rounding."""
        path = request.getfixturevalue(capture)
        findings = [one for one in run(path, **EVERYTHING).findings() if one.tensor in ("grad_sampling_locations", "grad_grid")]
        checked = set()
        with open_capture(path) as opened:
            for one in findings:
                sample, axis = sample_of(opened[one.invocation], one), one.index[-1]
                cell = int(np.floor(sample.exact[axis]))
                if abs(sample.exact[axis] - round(sample.exact[axis])) > 1e-4:
                    assert sample.gradient_in(cell, axis) == pytest.approx(one.float64, rel=1e-9, abs=1e-12), one
                    checked.add((one.invocation, axis))
        assert len(checked) >= 4

    @pytest.mark.parametrize("capture", ["msda", "grid_sample"])
    def test_the_addends_of_a_pixel_add_up_to_float64(self, capture, request):
        path = request.getfixturevalue(capture)
        findings = [one for one in run(path, **EVERYTHING).findings() if one.tensor in ("grad_value", "grad_input")]
        with open_capture(path) as opened:
            for one in findings:
                _, addends, _, _ = addends_of(opened[one.invocation], one)
                assert addends.sum() == pytest.approx(one.float64, rel=1e-9, abs=1e-12), one
        assert len(findings) > 20

    @pytest.mark.parametrize("capture", ["msda", "grid_sample"])
    def test_every_gradient_is_drawn(self, capture, request, tmp_path):
        path = request.getfixturevalue(capture)
        seen = {}
        for one in run(path, **EVERYTHING).findings():
            seen.setdefault((one.invocation, one.tensor), one)
        assert len(seen) >= 5
        for one in seen.values():
            assert one.name in drawn(plot_cell(one), tmp_path)

    def test_a_sample_that_is_nowhere(self, tmp_path, rng):
        inputs = make_problem(rng)
        inputs["sampling_locations"][0, 0, 0, 0, 0, 0] = np.nan
        outputs = {name: array.astype(np.float32) for name, array in backward(make_problem(rng)).items()}
        write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "msda_triton"))
        one = [one for one in run(tmp_path / "a.h5").findings() if one.tensor == "grad_sampling_locations" and one.index[:5] == (0,) * 5][0]
        with pytest.raises(CaptureError, match="its sample lies at nan, .*not finite"):
            plot_cell(one)

    def test_coordinates_of_the_dialects(self, rng):
        """As determinism.md writes them, rounded after every operation by way of float64."""
        def rounded(x):
            return np.float64(np.float32(x))

        for place in rng.uniform(0, 1, 50).astype(np.float32).astype(np.float64):
            grid = rounded(2 * place - 1)
            assert coordinate("deformable_detr", False, place, 37, np.float32) == rounded(place * 37 - 0.5)
            assert coordinate("msda_triton", False, place, 37, np.float32) == rounded(rounded(place * 37) - 0.5)
            assert coordinate("msda_triton", True, place, 37, np.float32) == rounded(place * 36)
            assert coordinate("grid_sample", False, place, 37, np.float32) == rounded(rounded(rounded(grid + 1) * 37) - 1) / 2
            assert coordinate("grid_sample", True, place, 37, np.float32) == rounded(rounded(grid + 1) / 2 * 36)
            assert exact_coordinate("grid_sample", False, place, 37) == pytest.approx(place * 37 - 0.5, rel=1e-14)


class TestPyramids:
    def test_a_map_for_each_level(self, msda, tmp_path):
        with open_capture(msda) as opened:
            figure = plot_pyramid(opened[0], "grad_value")
            expected = opened[0].replay("float64")["grad_value"]
            errors = np.abs(opened[0].outputs["grad_value"][()] - expected).max(axis=(0, 2, 3))
        text = drawn(figure, tmp_path)
        assert "level 0, 6 x 5\nwithin tolerance" in text and "level 1, 3 x 4\n1 pixel out of tolerance" in text
        images = [axes.images[0] for axes in figure.axes if axes.images]
        assert [image.get_array().shape for image in images] == [(6, 5), (3, 4)]
        np.testing.assert_array_equal(images[0].get_array().ravel(), errors[:30])
        np.testing.assert_array_equal(images[1].get_array().ravel(), errors[30:])
        assert images[0].norm.vmax == errors[:30].max() and images[1].norm.vmax == errors[30:].max() != images[0].norm.vmax
        (circle,) = figure.axes[1].collections[0].get_offsets()
        assert tuple(circle) == (35 - 30 - 4, 1)  # x, y of pixel 35

    def test_samples_lie_where_they_sample(self, msda):
        with open_capture(msda) as opened:
            figure = plot_pyramid(opened[0], "grad_sampling_locations")
            x, y = opened[0].inputs["sampling_locations"][0, 3, 1, 1, 1]
        (circle,) = figure.axes[1].collections[0].get_offsets()
        assert tuple(circle) == (int(min(x, 0.999) * 4), int(min(y, 0.999) * 3))

    def test_without_a_name_the_first_that_is_out(self, demo_capture, tmp_path):
        assert "largest |recorded - reference| of grad_sampling_locations" in drawn(plot_pyramid(demo_capture), tmp_path)

    def test_slices_of_a_volume(self, grid_sample, tmp_path):
        with open_capture(grid_sample) as opened:
            for name in ("grad_input", "grad_grid"):
                depth = opened[1].outputs[name].sizes["depth" if name == "grad_input" else "output_depth"]
                figure = plot_pyramid(opened[1], name)
                assert sum(bool(axes.images) for axes in figure.axes) == depth
                assert "slice 0 of " in drawn(figure, tmp_path)


class TestErrors:
    def test_counts_and_scales(self, msda, tmp_path):
        with open_capture(msda) as opened:
            text = drawn(plot_errors(opened[0]), tmp_path)
            assert text.count(": 1 of ") == 3 and "grad_value against float64: 1 of 672 out of tolerance" in text
            assert "atol 0.001, rtol 0.01, the test's" in text and "distance in ULP of float32" in text
            assert drawn(plot_errors(opened[1]), tmp_path).count(": 0 of ") == 3
            strict = drawn(plot_errors(opened[1], "grad_value", "deterministic", 0, 1e-30), tmp_path)
            assert "grad_value against deterministic" in strict and ": 0 of" not in strict

    def test_bars_hold_every_element(self, msda):
        with open_capture(msda) as opened:
            figure = plot_errors(opened[0], "grad_value")
        for axes in figure.axes:
            assert sum(bar.get_height() for bar in axes.patches) == 672

    def test_not_finite(self, tmp_path, rng):
        inputs = make_problem(rng)
        outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
        outputs["grad_value"][0, 0, 0, :2] = np.nan, np.inf
        write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "msda_triton"))
        text = drawn(plot_errors(tmp_path / "a.h5"), tmp_path)
        assert "2 not finite" in text and "grad_value against float64: 2 of 672" in text and "customary for float32" in text
        drawn(plot_pyramid(tmp_path / "a.h5", "grad_value"), tmp_path)

    def test_not_finite_elements_are_judged_as_by_run(self, tmp_path, rng, replay):
        """Against a reference equal infinities are no difference, against float64 they are one; NaN always is."""
        inputs = make_problem(rng)
        outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
        expected = {name: array.copy() for name, array in outputs.items()}
        for tensors in (outputs, expected):
            tensors["grad_value"][0, 0, 0, :3] = np.inf, -np.inf, np.nan
        outputs["grad_value"][0, 3, 0, 0] = expected["grad_value"][0, 3, 0, 0] = np.inf  # the only one of its pixel
        path = tmp_path / "a.h5"
        write_capture(path, Invocation(inputs, outputs, "msda_triton", results={"reference": Result(expected, "reference")}))
        (call,) = replay("run", path, "--json", "-", expect=1).json["invocations"]
        for against in ("reference", "float64"):
            (judged,) = [one["mismatched"] for one in call["comparisons"]
                         if (one["tensor"], one["observed"], one["expected"]) == ("grad_value", "recorded", against)]
            assert judged == {"reference": 1, "float64": 4}[against]
            text = drawn(plot_errors(path, "grad_value", against), tmp_path)
            assert f"grad_value against {against}: {judged} of 672" in text and f"{judged} not finite" in text
            pixels = "1 pixel" if against == "reference" else "2 pixels"
            assert f"level 0, 6 x 5\n{pixels} out of tolerance" in drawn(plot_pyramid(path, "grad_value", against), tmp_path)

    def test_units_in_the_last_place(self):
        one = np.float32(1)
        values = np.array([one, np.nextafter(one, 2, dtype=np.float32), -one, 0, np.nan])
        others = np.array([one, one, np.nextafter(-one, 0, dtype=np.float32), -1e-45, 1])
        np.testing.assert_array_equal(ulp_distance(values, others, "float32"), [0, 1, 1, 1, np.nan])
        assert ulp_distance(np.array([1.0]), np.array([1 + 2.0**-52]), "float64") == 1
        assert ulp_distance(np.array([-1e308]), np.array([1e308]), "float64") > 2**63
        assert ulp_distance(np.array([1.0]), np.array([1 + 2.0**-10]), "float16") == 1
        np.testing.assert_array_equal(ulp_distance(np.array([1.0, -1.0]), np.array([1 + 2.0**-7, -1 - 3 * 2.0**-7]), "bfloat16"), [1, 3])


def test_what_cannot_be_drawn(msda, tmp_path, monkeypatch):
    with pytest.raises(CaptureError, match="has 2 calls; give one of them"):
        plot_errors(msda)
    with open_capture(msda) as opened:
        with pytest.raises(CaptureError, match="has no output grad_input; it has grad_attention_weights"):
            plot_errors(opened[0], "grad_input")
    write_capture(tmp_path / "b.h5", Invocation(make_problem(np.random.default_rng(1)), {}, "msda_triton"))
    with pytest.raises(CaptureError, match="has no gradients in its outputs"):
        plot_pyramid(tmp_path / "b.h5")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with open_capture(msda) as opened, pytest.raises(ModuleNotFoundError, match="python3-matplotlib, or pip install matplotlib"):
        plot_errors(opened[0])


def test_the_picture_in_the_readme(tmp_path):
    """docs/boundary.svg is what its program draws: the words in it, as drawing differs from one matplotlib to another."""
    program = SOURCE / "tools" / "figures" / "boundary.py"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "tools" / "python")}
    subprocess.run([sys.executable, program, tmp_path / "b.svg"], check=True, env=environment)
    words = [re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text()) for path in (tmp_path / "b.svg", SOURCE / "docs" / "boundary.svg")]
    assert words[0] == words[1] and "recorded: -128.078" in words[0] and "reference: 131.808" in words[0]


def scattering_calls(tmp_path):
    """A call of each operator that scatters, its first gradient one too large in one element: the sums are NumPy's."""
    rng = np.random.default_rng(4)
    grad_output = rng.standard_normal((1, 2, 12, 16)).astype(np.float32)
    halved = grad_output.reshape(1, 2, 6, 2, 8, 2).sum((3, 5), dtype=np.float64)
    source, index = rng.standard_normal((40, 3)).astype(np.float32), rng.integers(0, 7, 40)
    sums = np.zeros((7, 3))
    np.add.at(sums, index, source)
    boxes = np.array([[0, 0, 0, 4, 4]], np.float32)  # four bins of 2 x 2 pixels, a sample in the middle of each: a quarter of it to each pixel
    bins = rng.standard_normal((1, 1, 2, 2)).astype(np.float32)
    pooled = np.zeros((1, 1, 6, 6))
    pooled[0, 0, :4, :4] = np.kron(bins[0, 0], np.full((2, 2), 0.25))
    for name, place, exact, call in (
        ("interpolate", (0, 1, 3, 4), halved, {"grad_output": grad_output, "mode": "nearest", "input_height": 6, "input_width": 8}),
        ("scatter_add", (2, 1), sums, {"index": index, "source": source, "dim_size": 7}),
        ("roi_align", (0, 0, 1, 2), pooled, {"boxes": boxes, "grad_output": bins, "spatial_scale": 1.0, "sampling_ratio": 1, "aligned": True,
                                             "input_batch": 1, "input_height": 6, "input_width": 6}),
    ):
        wrong = exact.astype(np.float32)
        wrong[place] += 1
        path = tmp_path / f"{name}.h5"
        save_call(path, operator=name, atol=1e-3, rtol=1e-2, **call, **{"observed_sum" if name == "scatter_add" else "observed_grad_input": wrong})
        yield name, path, place, exact[place]


def test_operators_that_scatter_are_drawn_too(tmp_path):
    """plot_cell: what each source adds to the element; its last partial sum is NumPy's."""
    seen = set()
    for name, path, place, exact in scattering_calls(tmp_path):
        (finding,) = run(path).findings()
        assert finding.index == place
        figure = plot_cell(finding)
        text = drawn(figure, tmp_path)
        assert finding.name in text and "recorded is +1 off" in text, text
        line = next(line for axes in figure.axes for line in axes.lines if line.get_label() == "exact partial sums")
        assert line.get_ydata()[-1] == pytest.approx(exact, rel=1e-6), name
        for plot in (plot_errors, plot_pyramid):
            drawn(plot(path), tmp_path)
        seen.add(name)
    assert len(seen) == 3


def test_a_side_whose_coordinate_is_unknown_is_left_out(tmp_path):
    """In float16 arithmetic the analysis may know a cell without knowing the coordinate."""
    findings = run(SOURCE / "docs" / "findings" / "grid_sample_on_a_cpu.h5").findings()
    (*_, unknown) = [one for one in findings if any("coordinate" not in side for side in one.evidence.get("sides", []))
                     and one.cause == "cell_boundary"]
    assert unknown.name in drawn(plot_cell(unknown), tmp_path)


def test_titles_are_not_cut_off(tmp_path):
    """Also over a single narrow map."""
    for _, path, _, _ in scattering_calls(tmp_path):
        figure = plot_pyramid(path)
        figure.canvas.draw()
        box = figure._suptitle.get_window_extent()
        assert 0 <= box.x0 and box.x1 <= figure.bbox.width
