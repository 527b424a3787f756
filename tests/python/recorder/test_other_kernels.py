"""Recording of kernels that are not the operator's: PyTorch's grid_sampler_2d and 3d backward, and a user's own, by a JSON
adapter."""

import itertools
import json
import pathlib
import re
import subprocess

import h5py
import jsonschema
import numpy as np
import pytest
from conftest import SOURCE
from support.launches import CLIENT, alone
from support.recording import PRELOAD, environment, pytestmark, record, wait_for  # noqa: F401
from support.user_adapter import EXAMPLE

from msda_replay import Invocation, read_capture, write_capture

ENTRIES = [[], ["--ex"], ["--packed"], ["--as-kernel"]]


def pixels(grid, size, padding, align_corners):
    """Grid coordinates in pixels, as torch.nn.functional.grid_sample documents them."""
    x = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    if padding == "reflection":
        low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
        span = high - low  # a triangle wave, mirrored at low and at high
        x = low + span - np.abs((x - low) % (2 * span) - span)
    if padding != "zeros":
        x = np.clip(x, 0, size - 1)
    return x


def forward(inputs, facts):
    """grid_sample in float64, in 2D or 3D."""
    image, grid = inputs["input"].astype(np.float64), inputs["grid"].astype(np.float64)
    axes = grid.shape[-1]
    at = [pixels(grid[..., axes - 1 - i], image.shape[2 + i], facts["padding_mode"], facts["align_corners"]) for i in range(axes)]
    padded = np.pad(image, [(0, 0), (0, 0)] + axes * [(9, 9)])
    n = np.arange(len(image)).reshape([-1] + axes * [1])
    pick = lambda cell: np.moveaxis(padded[(n, slice(None), *(i + 9 for i in cell))], -1, 1)  # noqa: E731
    if facts["interpolation"] == "nearest":
        return pick([np.rint(x).astype(int) for x in at])
    low, result = [np.floor(x).astype(int) for x in at], 0
    for corner in itertools.product((0, 1), repeat=axes):
        weights = [x - i if up else 1 - (x - i) for x, i, up in zip(at, low, corner)]
        result = result + np.prod(weights, axis=0)[:, None] * pick([i + up for i, up in zip(low, corner)])
    return result


def gradient_of_input(inputs, facts):
    """The gradient of sum(grad_output * forward), which is linear in the input: one pixel at a time, in all batches and channels."""
    result = np.empty(inputs["input"].shape)
    places = tuple(range(2, result.ndim))
    for pixel in np.ndindex(result.shape[2:]):
        image = np.zeros(result.shape)
        image[(..., *pixel)] = 1
        result[(..., *pixel)] = (inputs["grad_output"] * forward({**inputs, "input": image}, facts)).sum(axis=places)
    return result


def gradient_of_grid(inputs, facts, step=1e-7):
    """By central differences of one coordinate at a time, in all samples: each result depends on its own sample's."""
    result = np.empty(inputs["grid"].shape)
    for axis in range(result.shape[-1]):
        sides = []
        for sign in (1, -1):
            moved = inputs["grid"].astype(np.float64)
            moved[..., axis] += sign * step
            sides.append((inputs["grad_output"] * forward({**inputs, "grid": moved}, facts)).sum(axis=1))
        result[..., axis] = (sides[0] - sides[1]) / (2 * step)
    return result


# By axes: the stand-in's kernel, the shapes of its tensors, the strides of a slice of grad_output.
SAMPLERS = {
    2: ("grid_sample", {"grad_output": (2, 3, 3, 6), "input": (2, 3, 5, 4), "grid": (2, 3, 6, 2)}, [162, 54, 18, 3]),
    3: ("grid_sample_3d", {"grad_output": (2, 3, 2, 3, 6), "input": (2, 3, 3, 5, 4), "grid": (2, 2, 3, 6, 3)}, [324, 108, 54, 18, 3]),
}


@pytest.mark.parametrize("axes", SAMPLERS)
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
def test_grid_sample(replay, tmp_path, entry, double, axes):
    capture = tmp_path / "a.h5"
    kernel, shapes, slices = SAMPLERS[axes]
    arguments = ["--kernel", kernel, "--launches", "12", "--seed", "5", *entry, *(["--double"] if double else [])]
    done = record(CLIENT, *arguments, options=["-o", capture])
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout), done.stderr
    invocations = read_capture(capture).invocations
    assert len(invocations) == 12
    for i, call in enumerate(invocations):
        assert f"31grid_sampler_{axes}d_backward_kernelI" + ("dl" if double else "fi") in call.kernel and call.dialect == ""
        expected = {"padding_mode": ("zeros", "border", "reflection")[i % 3], "align_corners": i // 3 % 2,
                    "interpolation": ("bilinear", "nearest")[i // 6 % 2]}
        assert {name: call.facts[name] for name in expected} == expected
        assert {name: tensor.shape for name, tensor in call.inputs.items()} == shapes
        assert set(call.outputs) == {"grad_grid"} | ({"grad_input"} if i % 5 != 4 else set())
        assert np.all(call.outputs_before["grad_grid"] == 7)
        tolerance = dict(rtol=1e-6, atol=1e-6) if double else dict(rtol=1e-4, atol=1e-5)
        if "grad_input" in call.outputs:
            assert not np.any(call.outputs_before["grad_input"])
            np.testing.assert_allclose(call.outputs["grad_input"], gradient_of_input(call.inputs, call.facts), **tolerance)
        np.testing.assert_allclose(call.outputs["grad_grid"], gradient_of_grid(call.inputs, call.facts), rtol=1e-4, atol=1e-5)
    with h5py.File(capture) as file:
        strides = [call["inputs/grad_output"].attrs.get("strides") for call in file["invocations"].values()]
    assert [list(of_call) if of_call is not None else None for of_call in strides] == [None, slices, None, None] * 3
    replay("verify", capture, expect=0)
    listed = replay("list", capture, "--json", "-", expect=0).json[0]["invocations"]
    assert listed[0]["dialect"] is None and listed[2]["padding_mode"] == "reflection" and listed[3]["align_corners"] == 1
    assert f"input[{','.join(map(str, shapes['input']))}]" in listed[0]["sizes"]
    assert listed[0]["type"] == ("float64" if double else "float32")
    shown = replay("show", capture, "--invocation", 7, expect=0).out
    assert "interpolation = nearest" in shown and "inputs/grid " in shown and "outputs_before/grad_input " in shown
    result = replay("run", capture, "--json", "-", expect=0).json["invocations"]
    assert [(call["operator"], call["judged"]) for call in result] == 12 * [("grid_sample", [])]


# By the stand-in's kernel: the operator, the shapes of its tensors, facts of the first call.
SCATTERS = {
    "roi_align": ("roi_align", {"grad_output": (5, 3, 2, 3), "boxes": (5, 5)}, (2, 3, 8, 10),
                  {"spatial_scale": 0.25, "sampling_ratio": 2, "aligned": False, "input_batch": 2, "input_height": 8, "input_width": 10}),
    "deform_conv2d": ("deform_conv2d", {"columns": (4, 6, 2, 4, 8), "offset": (2, 24, 4, 8), "mask": (2, 12, 4, 8)}, (2, 4, 7, 6),
                      {"kernel_height": 3, "stride_height": 2, "padding_width": 2, "dilation_width": 2, "offset_groups": 2}),
    "upsample_bilinear2d": ("interpolate", {"grad_output": (1, 6, 7, 15)}, (1, 6, 4, 5),
                            {"mode": "bilinear", "align_corners": 0, "input_height": 4, "input_width": 5}),
    "upsample_nearest2d": ("interpolate", {"grad_output": (2, 3, 8, 15)}, (2, 3, 4, 5),
                           {"mode": "nearest", "input_height": 4, "input_width": 5}),
}


def recorded(capture, kernel, launches):
    """The calls of a kernel that adds, written to `capture`; the program's results are those that it has alone."""
    arguments = ["--kernel", kernel, "--launches", str(launches), "--seed", "5"]
    done = record(CLIENT, *arguments, options=["-o", capture])
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout), done.stderr
    assert capture.exists(), done.stderr
    invocations = read_capture(capture).invocations
    assert len(invocations) == launches, done.stderr
    return invocations


def expect_rounding_alone(replay, capture, operator):
    result = replay("run", capture, "--json", "-", "--atol", 0, "--rtol", 0, expect=None).json["invocations"]
    assert {call["operator"] for call in result} == {operator}
    causes = {judged["cause"] for call in result for judged in call["judged"]}
    assert causes <= {"accumulation_order", "rounding", "ill_conditioned"}, causes


def expect_errors(replay, capture, invocations):
    """All of them are implementation errors."""
    write_capture(capture, invocations, overwrite=True)
    result = replay("run", capture, "--json", "-", expect=1).json["invocations"]
    assert all({judged["cause"] for judged in call["judged"]} == {"implementation_error"} for call in result)


@pytest.mark.parametrize("kernel", SCATTERS)
def test_operators_that_scatter(replay, tmp_path, kernel):
    """Recorded, and explained by rounding alone; a doubled gradient is not."""
    operator, shapes, result, facts = SCATTERS[kernel]
    capture = tmp_path / "a.h5"
    invocations = recorded(capture, kernel, 6)
    for number, call in enumerate(invocations):
        has_mask = kernel != "deform_conv2d" or number % 2 == 0
        assert {name: tensor.shape for name, tensor in call.inputs.items()} == {n: s for n, s in shapes.items() if n != "mask" or has_mask}
        assert {name: tensor.shape for name, tensor in call.outputs.items()} == {"grad_input": result}
        assert np.all(call.outputs_before["grad_input"] == (7 if kernel == "upsample_nearest2d" else 0))
    assert {name: invocations[0].facts.get(name) for name in facts} == facts
    if kernel == "upsample_bilinear2d":
        assert [call.facts["align_corners"] for call in invocations] == [0, 1] * 3
        assert ["scale_height" in call.facts for call in invocations] == [False, False, True] + 3 * [False]
    expect_rounding_alone(replay, capture, operator)
    for call in invocations:
        call.outputs["grad_input"] *= 2
    expect_errors(replay, capture, invocations)


SUMS = {
    "index_add": {"index": (20,), "source": (20, 5)},
    "index_put": {"index": (20,), "source_row": (20,), "source": (20, 5)},
    "embedding": {"index": (20,), "source": (20, 5)},
}


@pytest.mark.parametrize("kernel", SUMS)
def test_sums_of_rows(replay, tmp_path, kernel):
    """Recorded with the numbers that NumPy sums to the result, and explained; a sum without what it held before is not."""
    capture = tmp_path / "a.h5"
    invocations = recorded(capture, kernel, 4)
    for number, call in enumerate(invocations):
        assert {name: tensor.shape for name, tensor in call.inputs.items()} == SUMS[kernel]
        assert (call.facts["reduce"], call.facts["dim"], call.facts["dim_size"]) == ("sum", 0, 9)
        assert call.facts.get("padding_idx") == (3 if kernel == "embedding" and number % 2 else None)
        expected = call.outputs_before["sum"].astype(np.float64)
        index, source = call.inputs["index"], call.inputs["source"].astype(np.float64)
        if kernel == "index_put":
            assert np.all(np.diff(index) >= 0)
            source = source[call.inputs["source_row"]]
        kept = index != call.facts.get("padding_idx")
        np.add.at(expected, index[kept], source[kept])
        np.testing.assert_allclose(call.outputs["sum"], expected, rtol=1e-5, atol=1e-6)
    replay("verify", capture, expect=0)
    expect_rounding_alone(replay, capture, "scatter_add")
    for call in invocations:
        call.outputs["sum"] = call.outputs["sum"] - call.outputs_before["sum"] + (kernel == "embedding")
    expect_errors(replay, capture, invocations)


@pytest.mark.parametrize("rows, text", [
    ([0, 1, 1], "source_row[2] is 1; it must name each of 3 rows once"), ([0, 1, 3], "source_row[2] is 3"), ([0, -1, 1], "source_row[1] is -1"),
    ([0, 1], "source_row"),
])
def test_source_rows_that_are_none(replay, tmp_path, rows, text):
    call = Invocation(dialect="", inputs={"index": np.array([0, 1, 1]), "source_row": np.array(rows), "source": np.ones((3, 2), np.float32)},
                      outputs={"sum": np.array([[1, 1], [2, 2]], np.float32)}, facts={"reduce": "sum", "dim": 0, "dim_size": 2, "include_self": 0})
    write_capture(tmp_path / "a.h5", [call])
    done = replay("run", tmp_path / "a.h5", expect=2)
    assert text in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("axes", SAMPLERS)
def test_recorded_grid_sample_is_explained(replay, tmp_path, axes):
    """With a tolerance of 0 by rounding alone; a gradient of the last axis that is doubled, as such."""
    capture, changed = tmp_path / "a.h5", tmp_path / "changed.h5"
    record(CLIENT, "--kernel", SAMPLERS[axes][0], "--launches", "6", options=["-o", capture])
    exact = replay("run", capture, "--atol", 0, "--rtol", 0, "--json", "-", expect=1).json
    assert set(exact["verdict"]["causes"]) <= {"accumulation_order", "rounding", "ill_conditioned"}
    calls = read_capture(capture).invocations
    calls[0].outputs["grad_grid"][..., -1] *= 2
    write_capture(changed, calls)
    result = replay("run", changed, "--json", "-", expect=1).json
    (group,) = result["invocations"][0]["groups"]
    assert (group["tensor"], group["cause"], group["shared"]["axis"]) == ("grad_grid", "implementation_error", "xyz"[axes - 1])
    assert group["patterns"] == [{"count": group["count"], "ratio": pytest.approx(2, rel=1e-6)}]
    assert not any(call["groups"] for call in result["invocations"][1:])


def test_strided_tensors_are_copied_without_their_gaps(replay, tmp_path):
    """With gaps if the device cannot reach the recorder's memory. Without a writer, the spool holds all bytes."""
    captures, sizes = [], []
    for reached in (True, False):
        output, capture = tmp_path / f"{reached}.h5", tmp_path / f"{reached}.recovered.h5"
        variables = {} if reached else {"MSDA_STAND_IN_UNREACHABLE": "1"}
        done = subprocess.run([CLIENT, "--kernel", "grid_sample", "--launches", "6"], capture_output=True, text=True, env=environment(
            LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=output, MSDA_RECORD_WRITER="/none", **variables))
        assert done.returncode == 0 and "cannot start the writer" in done.stderr
        replay("recover", f"{output}.spool", "-o", capture, expect=0)
        replay("verify", capture, expect=0)
        captures.append(read_capture(capture).invocations)
        sizes.append(pathlib.Path(f"{output}.spool").stat().st_size)
    for call, another in zip(*captures, strict=True):
        for name, tensor in {**call.inputs, **call.outputs}.items():
            np.testing.assert_array_equal(tensor, {**another.inputs, **another.outputs}[name])
    launches, elements, gap, last = 2, 2 * 3 * 3 * 6, 3, 2  # of six launches two have slices; nothing lies behind the last element
    assert len(captures[0]) == 6
    assert sizes[1] - sizes[0] == pytest.approx(launches * 4 * (elements * (gap - 1) - last), abs=64)  # other text in facts


def test_scale_add(replay, tmp_path):
    adapter, capture = tmp_path / "mine.json", tmp_path / "a.h5"
    adapter.write_text(json.dumps(EXAMPLE))
    for entry in ENTRIES:
        arguments = ["--kernel", "scale_add", "--launches", "3", *entry]
        done = record(CLIENT, *arguments, options=["-o", capture, "--force", "--adapter", "mine.json"], cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout), done.stderr
        invocations = read_capture(capture).invocations
        assert len(invocations) == 3
        for i, call in enumerate(invocations):
            assert (call.kernel, call.dialect) == ("_Z9scale_addi5ScalePKfPfPh", "")
            assert call.facts["adapter"] == "scale_add"
            assert call.facts["scalars"] == f"rows={6 + i} scale.columns=5 scale.alpha=0.5"
            assert set(call.inputs) == {"x", "y"} and set(call.outputs) == set(call.outputs_before) == {"y", "positive"}
            x, before, after = call.inputs["x"], call.inputs["y"], call.outputs["y"]
            assert x.shape == (6 + i, 5) and x.dtype == np.float32 and np.ptp(x) > 0
            np.testing.assert_array_equal(before, call.outputs_before["y"])
            np.testing.assert_allclose(after, before + np.float32(0.5) * x, rtol=1e-6)
            assert call.outputs["positive"].dtype == np.uint8
            np.testing.assert_array_equal(call.outputs["positive"], after > 0)
            assert np.all(call.outputs_before["positive"] == 0xFF)
    replay("verify", capture, expect=0)
    # What was read can be written, and read again.
    write_capture(tmp_path / "b.h5", invocations)
    for item, again in zip(invocations, read_capture(tmp_path / "b.h5").invocations):
        assert again.facts["scalars"] == item.facts["scalars"] and again.dialect == ""
        np.testing.assert_array_equal(again.outputs["positive"], item.outputs["positive"])
    replay("verify", tmp_path / "b.h5", expect=0)


def test_commands_that_replay(replay, tmp_path, demo_capture):
    capture, mixed = tmp_path / "a.h5", tmp_path / "mixed.h5"
    record(CLIENT, "--kernel", "grid_sample", "--launches", "2", options=["-o", tmp_path / "known.h5"])
    calls = read_capture(tmp_path / "known.h5").invocations
    for call in calls:
        del call.facts["interpolation"]  # a kernel of no operator that is known
    write_capture(capture, calls)
    for command in ("run", "stages"):
        done = replay(command, capture, "--invocation", 1, expect=3)
        assert done.err.count("\n") == 1 and not done.out
        assert str(capture) in done.err and "invocation 1" in done.err and "is known only by its machine code" in done.err
    done = replay("run", capture, expect=3)
    assert re.findall(r"Invocation (\d): not replayed: kernel \S+ is known only by its machine code; mode original is left out: ", done.words) == ["0", "1"]
    # Beside a call that can be replayed they are reported, and change nothing.
    another = read_capture(capture).invocations[0]
    write_capture(mixed, [another, *read_capture(demo_capture).invocations])
    alone_, both = replay("run", demo_capture, "--json", "-").json, replay("run", mixed, "--json", "-", expect=1).json
    assert [result["id"] for result in both["not_replayed"]] == [0] and both["verdict"] == alone_["verdict"]
    assert both["invocations"][0]["comparisons"] == alone_["invocations"][0]["comparisons"]
    jsonschema.validate(both, json.loads((SOURCE / "docs" / "run.schema.json").read_text()))
    assert "Invocation 0: not replayed: kernel _ZN" in replay("run", mixed, expect=1).words


def test_user_adapters_come_first_and_kernel_filters(tmp_path):
    capture, adapter = tmp_path / "a.h5", tmp_path / "mine.json"
    mine = json.loads(json.dumps(EXAMPLE))
    entry = mine["adapters"][0]
    entry.update(name="mine", kernel="31grid_sampler_2d", conditions=[], parameters=[
        {"type": "int32"}, {"type": "bytes", "size": 216}, {"type": "bytes", "size": 216},
        {"type": "bytes", "size": 216}, {"type": "bytes", "size": 216},
        {"name": "grad_grid", "type": "bytes", "size": 216, "fields": [
            {"name": "data", "offset": 0, "type": "pointer"}, {"name": "n", "offset": 8, "type": "int32"}]},
        {"type": "int32"}, {"type": "int32"}, {"type": "bool"}, {"type": "int32"}, {"type": "bool"}],
        tensors=[{"name": "mine", "role": "output", "pointer": "grad_grid.data", "type": "float32",
                  "shape": ["grad_grid.n", 36]}])
    adapter.write_text(json.dumps(mine))
    done = record(CLIENT, "--kernel", "grid_sample", options=["-o", capture, "--adapter", adapter])
    (call,) = read_capture(capture).invocations
    assert done.returncode == 0 and call.facts["adapter"] == "mine"
    assert call.outputs["mine"].shape == (2, 36) and not call.inputs
    done = record(CLIENT, "--kernel", "grid_sample",
                  options=["-o", tmp_path / "b.h5", "--adapter", adapter, "--kernel", "scale_add"])
    assert done.returncode == 0 and "no call was recorded" in done.stderr


def test_launches_that_the_adapter_does_not_fit(tmp_path):
    adapter = tmp_path / "mine.json"
    mine = json.loads(json.dumps(EXAMPLE))
    mine["adapters"][0]["conditions"].append("scale.columns == 6")
    adapter.write_text(json.dumps(mine))
    arguments = ["--kernel", "scale_add", "--launches", "3"]
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "a.h5", "--adapter", adapter])
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout)
    assert done.stderr.count("adapter scale_add: scale.columns == 6 does not hold: its sides are 5 and 6") == 1


def test_files_that_are_wrong(tmp_path):
    adapter, marker = tmp_path / "mine.json", tmp_path / "marker"
    for text, message in (("{", "is not JSON"), ('{"format": 1}', "/format is not a text"), ("[]", "is not an object")):
        adapter.write_text(text)
        done = record("touch", marker, options=["--adapter", adapter])
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and not marker.exists()
        assert str(adapter) in done.stderr and message in done.stderr
        done = record("touch", marker, MSDA_RECORD_ADAPTERS=adapter)
        assert done.returncode == 2 and message in done.stderr and not marker.exists()
    # Inside the program it is too late: with the valid adapters the recording goes on.
    good = tmp_path / "good.json"
    good.write_text(json.dumps(EXAMPLE))
    done = subprocess.run([CLIENT, "--kernel", "scale_add"], capture_output=True, text=True, cwd=tmp_path, env=environment(
        LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT="a.h5", MSDA_RECORD_ADAPTERS=f"mine.json:{tmp_path}/none.json::good.json"))
    assert done.returncode == 0 and done.stdout == alone("--kernel", "scale_add").stdout
    assert "mine.json: the file is not an object" in done.stderr and "none.json: cannot open" in done.stderr
    wait_for(tmp_path / "a.h5")
    assert len(read_capture(tmp_path / "a.h5").invocations) == 1


def test_other_tensors_of_known_names(tmp_path, replay):
    """The format's ranks and labels are those of calls with a dialect."""
    call = Invocation({"value": np.zeros((2, 2), np.float32)}, {"output": np.zeros(3, np.int32)}, "", facts={"mine": "yes", "n": 7})
    write_capture(tmp_path / "a.h5", call)
    (read,) = read_capture(tmp_path / "a.h5").invocations
    assert read.inputs["value"].shape == (2, 2) and read.facts == {"mine": "yes", "n": 7}
    shown = replay("show", tmp_path / "a.h5", expect=0).out
    assert "mine = yes" in shown and "n = 7" in shown
    replay("list", tmp_path / "a.h5", expect=0)
    replay("verify", tmp_path / "a.h5", expect=0)
