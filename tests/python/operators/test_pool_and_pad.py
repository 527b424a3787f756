"""average_pool and pad_nd: operators that consist of data, analysis/operators/average_pool/ and pad_nd/. What holds for each, on calls made by hand."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.pooling import FAMILIES, drawn

from msda_replay import write_capture

KINDS = (np.float32, np.float64, np.float16)
EACH = pytest.mark.parametrize("family", FAMILIES)
DIMENSIONS = {"avg": (2, 3), "adaptive_avg": (2, 3), "reflect": (1, 2, 3), "replicate": (1, 2, 3)}  # PyTorch pools images of one row in 1D


def judged(replay, capture, *arguments):
    return json.loads(replay("run", capture, "--json", "-", *arguments).out)


def calls(family, seeds):
    for seed in range(seeds):
        for axes in DIMENSIONS[family]:
            yield seed, axes, drawn(family, axes, seed, KINDS[seed % 3])


@EACH
def test_what_is_computed_is_explained(replay, tmp_path, family):
    """With a tolerance of 0, in any order of additions; and float64 is what NumPy computes."""
    problems = [problem for _, _, problem in calls(family, 24)]
    written = [problem.call(problem.gradient(problem.grad_output.dtype.type, np.random.default_rng(i))) for i, problem in enumerate(problems)]
    write_capture(tmp_path / "a.h5", written)
    found = judged(replay, tmp_path / "a.h5", "--invocation", "all", "--atol", "0", "--rtol", "0")
    assert len(found["invocations"]) == len(problems)
    differences = 0
    for problem, invocation in zip(problems, found["invocations"]):
        verdict, exact = invocation["verdict"], problem.gradient(np.float64)
        assert invocation["operator"] == problem.operator
        assert verdict["at_fault"] != "observed" and "implementation_error" not in verdict["causes"], (problem.facts, verdict)
        for finding in invocation["findings"]:
            differences += 1
            assert finding["float64"] == pytest.approx(exact[tuple(finding["index"])], rel=1e-12, abs=1e-13), problem.facts
    assert differences > 100 or family in ("reflect", "replicate")
    assert differences > 0


@EACH
def test_planted_faults_are_named(replay, tmp_path, family):
    """An element of each call is a thousandth off, missing, doubled, or of the wrong sign: it alone is named, and the call is at fault."""
    faults = (lambda x: x * 1.001, lambda x: 0 * x, lambda x: 2 * x, lambda x: -x)
    written, places = [], []
    for seed, _, problem in calls(family, 12):
        values = problem.gradient(np.float64)
        at = np.unravel_index(np.argmax(np.abs(values)), values.shape)
        if problem.grad_output.dtype == np.float16 or abs(values[at]) < 0.1:
            continue
        values[at] = faults[seed % 4](values[at])
        written.append(problem.call(values))
        places.append(list(map(int, at)))
    write_capture(tmp_path / "a.h5", written)
    found = judged(replay, tmp_path / "a.h5", "--invocation", "all", "--atol", "1e-6", "--rtol", "1e-6")
    assert len(places) > 8
    for at, invocation in zip(places, found["invocations"]):
        assert invocation["verdict"]["causes"] == {"implementation_error": 1} and invocation["verdict"]["at_fault"] == "observed"
        assert [finding["index"] for finding in invocation["findings"]] == [at]


@pytest.mark.parametrize("family, wrong", [("avg", "count_include_pad"), ("avg", "stride_width"), ("avg", "padding_height"), ("avg", "divisor_override"),
                                           ("reflect", "padding_left"), ("replicate", "padding_top"), ("reflect", "mode"), ("replicate", "mode")])  # fmt: skip
def test_another_convention_is_another_operator(replay, tmp_path, family, wrong):
    """Calls that name another value than they were computed with are at fault, if that makes a difference."""
    others = {"mode": {"reflect": "replicate", "replicate": "reflect"}, "count_include_pad": {0: 1, 1: 0}}
    at_fault = 0
    for seed in range(30):
        problem = drawn(family, 2, seed, np.float64)
        problem.facts[wrong] = others[wrong][problem.facts[wrong]] if wrong in others else problem.facts[wrong] + 1
        write_capture(tmp_path / f"{seed}.h5", problem.call(problem.gradient(np.float64)))
        at_fault += judged(replay, tmp_path / f"{seed}.h5")["verdict"]["at_fault"] == "observed"
    assert at_fault >= 8


@pytest.mark.parametrize("family", ["avg", "replicate"])
def test_large_images_are_looked_up(replay, tmp_path, family):
    """An element looks only at the outputs that read it: all of them together would be more than can be examined."""
    problem, shape = drawn(family, 2, 1), (1, 4, 96, 96)
    problem.facts.update({"kernel_height": 3, "kernel_width": 3, "stride_height": 1, "stride_width": 1, "padding_height": 1, "padding_width": 1}
                         if family == "avg" else {"padding_top": 0, "padding_left": 0})
    problem.grad_output = np.ones(shape, np.float32)
    write_capture(tmp_path / "a.h5", problem.call(np.zeros(shape, np.float32)))
    assert judged(replay, tmp_path / "a.h5")["verdict"]["at_fault"] == "observed"


@EACH
def test_orders_and_smaller_calls(replay, tmp_path, family):
    """`order` reads how float32 was added, if nothing is divided; `minimize` keeps a wrong element, `gradcheck` differentiates."""
    problem = drawn(family, 2, 7)
    values = problem.gradient(np.float32, np.random.default_rng(2))
    write_capture(tmp_path / "a.h5", problem.call(values))
    (found,) = json.loads(replay("order", tmp_path / "a.h5", "--json", "-").out)["invocations"]
    if family in ("reflect", "replicate"):
        assert found["summary"]["explained_to_15"] + found["summary"]["in_parts_to_15"] == found["summary"]["with_1_to_15"] > 10
    assert json.loads(replay("gradcheck", tmp_path / "a.h5", "--json", "-").out)["passed"]
    values[0, 1, 0, 0] += 1
    write_capture(tmp_path / "b.h5", problem.call(values))
    replay("minimize", tmp_path / "b.h5", "-o", tmp_path / "small.h5", expect=0)
    assert judged(replay, tmp_path / "small.h5")["verdict"]["causes"] == {"implementation_error": 1}


def recorded_numbers(problem):
    """The adapter of a kernel that computes the problem, and what its parameters are."""
    images, channels, *padded = problem.grad_output.shape
    height, width = problem.image
    if problem.family == "avg":
        numbers = {name: value for name, value in problem.facts.items() if name != "pooling"}
        return "avg_pool2d", {"count": images * channels * height * width, "channels": channels, "height": height, "width": width,
                              "output_height": padded[0], "output_width": padded[1], "use_divisor": int(problem.divisor > 0), **numbers}
    top, left = problem.facts["padding_top"], problem.facts["padding_left"]
    return "reflection_pad2d", {"width": width, "height": height, "padding_top": top, "padding_bottom": padded[0] - height - top,
                                "padding_left": left, "padding_right": padded[1] - width - left, "first_channel": 0, "first_image": 0,
                                "channels": channels}


@pytest.mark.parametrize("family", ["avg", "reflect"])
def test_reproducers_compute_the_gradient(replay, tmp_path, family):
    """NumPy, which tries every point of every sum, gives the recorded call's float64."""
    problem = drawn(family, 2, 3)
    values, exact = problem.gradient(np.float32), problem.gradient(np.float64)
    values[0, 0, 0, 0] += 1
    adapter, numbers = recorded_numbers(problem)
    call = problem.call(values)
    call.facts.update(adapter=adapter, scalars=" ".join(f"{name}={value}" for name, value in numbers.items()))
    write_capture(tmp_path / "a.h5", call)
    replay("export", tmp_path / "a.h5", "--to", "pytest", "-o", tmp_path / "test_it.py", expect=0)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "test_it.py"], capture_output=True, text=True)
    assert done.returncode == 1 and f"float64: {float(exact[0, 0, 0, 0])!r} " in done.stdout, done.stdout
