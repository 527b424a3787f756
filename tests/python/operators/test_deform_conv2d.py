"""deform_conv2d: an operator that consists of data, analysis/operators/deform_conv2d/. What holds for each operator, on calls made by hand."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from support.deform_conv2d import anywhere, beside, drawn, outside, pixels

from msda_replay import read_capture, write_capture

PLACES = (anywhere, pixels, beside, outside)
KERNELS = pytest.mark.parametrize("kernel", ["input", "offset"])


def judged(replay, capture, *arguments):
    return json.loads(replay("run", capture, "--json", "-", *arguments).out)


@KERNELS
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_computed_is_explained(replay, tmp_path, kernel, kind, place):
    """With a tolerance of 0, and float64 is what the definition in NumPy gives."""
    problem = drawn(PLACES.index(place), kind, place, has_mask=(PLACES.index(place) + (kernel == "input")) % 2 == 0)
    samples = problem.tensors["offset"].size // 2
    values = problem.gradients(kind, np.random.default_rng(1).permutation(samples))
    write_capture(tmp_path / "a.h5", problem.call(kernel, values))
    found = judged(replay, tmp_path / "a.h5", "--atol", "0", "--rtol", "0")
    verdict, exact = found["verdict"], problem.gradients(np.float64)
    assert verdict["at_fault"] != "observed" and "implementation_error" not in verdict["causes"], verdict
    for finding in found["invocations"][0]["findings"]:
        assert finding["float64"] == pytest.approx(exact[finding["tensor"]][tuple(finding["index"])], rel=1e-11, abs=1e-12)
    if kernel == "offset" and place is beside and kind is np.float32:
        assert verdict["causes"]["cell_boundary"] > 10


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_who_skips_samples_on_the_border_is_right_too(replay, tmp_path, kind):
    """As mmcv's kernel does at -1, where the gradient of the offset jumps to 0."""
    problem = drawn(1, kind, pixels)
    write_capture(tmp_path / "a.h5", problem.call("offset", problem.gradients(kind, skips_border=True)))
    verdict = judged(replay, tmp_path / "a.h5")["verdict"]
    assert verdict["at_fault"] == "convention" and list(verdict["causes"]) == ["border_clamp"], verdict


@KERNELS
@pytest.mark.parametrize("fault", [lambda x: x * 1.001, lambda x: 0, lambda x: 2 * x, lambda x: -x])
def test_a_planted_fault_is_named(replay, tmp_path, kernel, fault):
    problem = drawn(5)
    call = problem.call(kernel)
    for name, array in call.outputs.items():
        kept = array.copy()
        at = np.unravel_index(np.argmax(np.abs(array)), array.shape)
        array[at] = fault(array[at])
        write_capture(tmp_path / f"{name}.h5", call)
        found = judged(replay, tmp_path / f"{name}.h5")
        assert found["verdict"]["causes"] == {"implementation_error": 1} and found["verdict"]["at_fault"] == "observed"
        (finding,) = found["invocations"][0]["findings"]
        assert (finding["tensor"], tuple(finding["index"])) == (name, tuple(map(int, at)))
        array[...] = kept


@pytest.mark.parametrize("wrong", ["stride_height", "dilation_width", "padding_width", "offset_groups"])
def test_another_number_is_another_operator(replay, tmp_path, wrong):
    """Numbers that contradict the sizes are refused; others give other gradients."""
    problem = drawn(2, channels=4)
    values = problem.gradients(np.float32)
    problem.numbers[wrong] = 1 if problem.numbers[wrong] == 2 else 2
    write_capture(tmp_path / "a.h5", problem.call("input", values))
    done = replay("run", tmp_path / "a.h5", "--json", "-")
    assert done.status == 2 if wrong == "offset_groups" else json.loads(done.out)["verdict"]["at_fault"] == "observed"


def test_orders_are_found(replay, tmp_path):
    problem = drawn(3, height=9, width=9, kernel_height=2, kernel_width=2, dilation_width=1, padding_height=0, padding_width=0)
    values = problem.gradients(np.float32, np.random.default_rng(1).permutation(problem.tensors["offset"].size // 2))
    write_capture(tmp_path / "a.h5", problem.call("input", values))
    (found,) = json.loads(replay("order", tmp_path / "a.h5", "--json", "-").out)["invocations"]
    assert found["summary"]["with_1_to_15"] > 200 and found["summary"]["explained_to_15"] == found["summary"]["with_1_to_15"]


@KERNELS
def test_commands(replay, tmp_path, kernel):
    problem = drawn(4, channels=2, height=4, width=3, kernel_width=1, kernel_height=2, offset_groups=1, padding_width=0)
    call = problem.call(kernel)
    write_capture(tmp_path / "right.h5", call)
    listed = replay("list", tmp_path / "right.h5", expect=0).out
    assert "deform_conv2d" in listed
    name = next(iter(call.outputs))
    at = np.unravel_index(np.argmax(np.abs(call.outputs[name])), call.outputs[name].shape)
    assert "passed" in replay("gradcheck", tmp_path / "right.h5", "--json", "-", expect=0).out
    shown = json.loads(replay("stages", tmp_path / "right.h5", "--element", f"{name}[{','.join(map(str, at))}]", "--json", "-", expect=0).out)
    assert {row["stage"] for row in shown["invocations"][0]["elements"][0]["stages"]} == {"x", "y"}
    replay("report", tmp_path / "right.h5", "-o", tmp_path / "page.html", expect=0)
    assert "of 8 simulated" in replay("stress", tmp_path / "right.h5", "--against", "float64", "--runs", "8", expect=0).out
    call.outputs[name][at] *= np.float32(1.01)
    write_capture(tmp_path / "wrong.h5", call)
    replay("minimize", tmp_path / "wrong.h5", "-o", tmp_path / "small.h5", expect=0)
    (small,) = read_capture(tmp_path / "small.h5").invocations
    assert small.inputs["columns"].size < call.inputs["columns"].size
    assert judged(replay, tmp_path / "small.h5")["verdict"]["causes"] == {"implementation_error": 1}


@KERNELS
@pytest.mark.parametrize("has_mask", [True, False])
def test_a_reproducer_stands_alone(replay, tmp_path, kernel, has_mask):
    """A call as the recorder writes it: its float64 is that of the definition in NumPy."""
    problem = drawn(6, has_mask=has_mask)
    call, exact = problem.call(kernel), problem.gradients()
    (images, channels, height, width), (_, offset_channels, rows, columns) = (problem.tensors[name].shape for name in ("input", "offset"))
    numbers = {**problem.numbers, "count": 0, "channels": channels, "height": height, "width": width, "batch": images, "has_mask": int(has_mask),
               "offset_channels": offset_channels, "output_height": rows, "output_width": columns}
    call.facts.update(adapter=f"deform_conv2d_{kernel}", operator="deform_conv2d", scalars=" ".join(f"{n}={v}" for n, v in numbers.items()))
    name = next(iter(call.outputs))
    at = np.unravel_index(np.argmax(np.abs(call.outputs[name])), call.outputs[name].shape)
    call.outputs[name][at] *= np.float32(1.5)
    write_capture(tmp_path / "a.h5", call)
    replay("export", tmp_path / "a.h5", "--to", "pytest", "-o", tmp_path / "test_it.py", expect=0)
    failed = subprocess.run([sys.executable, "-I", tmp_path / "test_it.py"], capture_output=True, text=True, timeout=120)
    assert failed.returncode == 1 and "is out of tolerance" in failed.stderr, failed.stderr
    assert float(re.search(r"float64: (\S+)", failed.stderr)[1]) == pytest.approx(exact[name][at], rel=1e-12)
