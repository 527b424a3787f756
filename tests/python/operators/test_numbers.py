"""Numbers that make gradients hard to judge, and that are none: no right kernel is accused, and what is not finite is traced to its input."""

import numpy as np
import pytest
from support.operators import invocation, operator  # noqa: F401
from support.run_results import causes_of, judged, mistakes_of  # noqa: F401


OVERFLOW = {("non_finite", "tolerance"), ("non_finite", "none")}  # of float16, whose kernel is right


def kernels_calls(operator, rng, kind, numbers):
    """A call of each set of conventions, by kernels of different arithmetics and orders of additions."""
    for conventions in operator.conventions:
        problem, _ = operator.random(conventions, rng, kind, **operator.named(numbers))
        arithmetic = operator.subject.draw_arithmetic(rng, problem, {"scatter": ""})
        yield invocation(problem, conventions, operator.subject.backward(problem, conventions, arithmetic))


@pytest.mark.parametrize("numbers", ["equal", "cancelling", "large", "small", "underflowing", "spread", "sparse", "positive"])
def test_no_right_kernel_is_accused(operator, judged, rng, numbers):
    types = ("float32",) if numbers == "underflowing" else ("float32", "float64", "float16", "bfloat16")  # subnormal numbers of float32
    calls = [call for kind in types for call in kernels_calls(operator, rng, kind, numbers)]
    for call in judged(calls, expect=None):
        assert {key[1:] for key in mistakes_of(call)} <= OVERFLOW


def test_sums_beyond_the_largest_number_are_no_mistakes(operator, judged, rng):
    calls = [call for _ in range(2) for call in kernels_calls(operator, rng, "float16", "beyond")]
    assert any(np.isinf(gradient).any() for call in calls for gradient in call.outputs.values())
    for call in judged(calls, expect=None):
        assert {key[1:] for key in mistakes_of(call)} <= OVERFLOW


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_traced_to_its_input(operator, judged, number):
    """Beside gradients that a kernel computed without it."""
    traced = set()
    for name, array in operator.recorded(operator.variants[0]).inputs.items():
        if array.dtype.kind != "f" or name == "boxes":  # a box is refused
            continue
        calls = operator.all_recorded("float32")
        for call in calls:
            call.inputs[name].reshape(-1)[7] = number
        for result in judged(calls, expect=None):
            firsts = {finding["evidence"]["first"] for finding in result["findings"] if finding["cause"] == "non_finite" and "first" in finding["evidence"]}
            assert firsts <= {f"inputs/{name}"}
            traced |= firsts
    expected = {"msda": {"value", "attention_weights", "grad_output"}, "grid_sample": {"input", "grad_output"}, "scatter_add": {"source"}}
    assert traced >= {f"inputs/{name}" for name in expected.get(operator.name, {"grad_output"})}


def test_nothing_in_a_call(operator, judged, rng):
    """No query, sample, source, output pixel or box."""
    kind = operator.subject.kinds.get({"msda": "no_queries", "grid_sample": "no_samples", "scatter_add": "no_sources", "roi_align": "no_boxes"}.get(operator.name))
    if kind is None:
        pytest.skip("interpolate has no such call: an image without pixels is refused")
    conventions = (kind.conventions or operator.conventions)[0]
    problem = operator.subject.draw(rng, conventions, **kind.call)
    (result,) = judged([invocation(problem, conventions, operator.subject.backward(problem, conventions))], expect=0)
    assert causes_of(result) == {}
