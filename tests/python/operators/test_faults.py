"""Faults planted in calls that a kernel computed: each is named, and the side that has it; nothing else is."""

import numpy as np
import pytest
from support.operators import EXACT, OPERATORS, invocation, operator, whole  # noqa: F401
from support.run_results import causes_of, judged, mistakes_of  # noqa: F401

from msda_replay import Result


def whys(call):
    return " ".join(finding["why"] for finding in call["findings"])


def largest(array):
    return np.unravel_index(np.abs(array).argmax(), array.shape)


def planted(operator, gradient, change, *types):
    """Variants in which a gradient is not 0, and their calls with that gradient changed."""
    calls = [(variant, call) for variant, call in zip(operator.typed(*types), operator.all_recorded(*types)) if np.any(call.outputs[gradient])]
    for _, call in calls:
        call.outputs[gradient][...] = change(call.outputs[gradient])
    return zip(*calls)


def at_the_largest(change):
    def everywhere_else_the_same(array):
        array[largest(array)] = change(array[largest(array)])
        return array
    return everywhere_else_the_same


def test_a_flipped_sign_is_named(operator, judged):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: -x))
        for variant, call in zip(variants, judged(list(calls))):
            assert mistakes_of(call) == {(gradient, "implementation_error", "observed"): 1}, variant
            finding = next(finding for finding in call["findings"] if finding["cause"] == "implementation_error")
            assert "its sign were flipped" in finding["evidence"]["as_if"]
            assert tuple(finding["index"]) == largest(calls[variants.index(variant)].outputs[gradient])


def test_a_flipped_sign_of_the_reference_is_named(operator, judged):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: -x))
        for variant, call in zip(variants, calls):
            call.results, call.outputs = {"torch": Result(call.outputs, "reference")}, operator.recorded(variant).outputs
        for variant, call in zip(variants, judged(list(calls))):
            assert mistakes_of(call) == {(gradient, "implementation_error", "reference"): 1}, variant
            assert call["verdict"]["at_fault"] == "reference"


def test_a_wrong_fourth_digit_is_named(operator, judged):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: x * 1.0001), "float32")
        for variant, call in zip(variants, judged(list(calls), "--atol", 0, "--rtol", 2e-5)):
            assert mistakes_of(call) == {(gradient, "implementation_error", "observed"): 1}, variant


@pytest.mark.parametrize("written", [np.nan, np.inf])
def test_what_is_not_finite_is_named(operator, judged, written):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: written))
        for variant, call in zip(variants, judged(list(calls))):
            assert mistakes_of(call) == {(gradient, "non_finite", "observed"): 1}, variant


@pytest.mark.parametrize("change", [lambda x: -x, lambda x: 2 * x, lambda x: x * 1.001, lambda x: 0 * x], ids=["sign", "twice", "fourth digit", "zeros"])
def test_a_mistake_everywhere_is_named(operator, judged, change):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, change, "float32")
        for variant, call in zip(variants, judged(list(calls), "--atol", 0, "--rtol", 1e-5)):
            assert (gradient, "implementation_error", "observed") in causes_of(call), variant
            assert call["verdict"]["at_fault"] == "observed"


def test_a_buffer_that_was_not_zeroed_is_named(operator, judged):
    names, facts = operator.unheld
    variants = [variant for variant in operator.variants if variant.startswith(names)]
    calls = [operator.recorded(variant, **facts) for variant in variants]
    for call in calls:
        call.outputs_before = {operator.summed: np.full_like(call.outputs[operator.summed], 3)}
        call.outputs[operator.summed] += 3
    for variant, call in zip(variants, judged(calls)):
        assert set(mistakes_of(call)) == {(operator.summed, "uninitialized_output", "observed")}, variant


@pytest.mark.parametrize("kind, words", [("addend_lost", "were missing"), ("addend_twice", "were added twice")])
def test_a_lost_and_a_doubled_addend_are_named(operator, judged, rng, kind, words):
    """One atomic addition, of all channels. Many are named; not those of sources that add to an element several times."""
    plant, calls, touched = operator.subject.kinds[kind].plant, [], []
    for conventions in operator.conventions * 3:
        problem, exact = operator.random(conventions, rng, "float64")
        values = operator.subject.backward(problem, *plant(conventions, EXACT, problem, rng))
        calls.append(invocation(problem, conventions, values))
        touched.append({name: np.abs(exact[name] - values[name]) > 1e-9 * np.abs(values[name]).max() for name in exact})
    results = judged(calls)
    for changed, call in zip(touched, results):
        counts = {(name, "implementation_error", "observed"): np.count_nonzero(mask) for name, mask in changed.items() if mask.any()}
        assert mistakes_of(call) == counts
    named = sum("the contribution of " in whys(call) and words in whys(call) for call in results)
    assert named >= 0.3 * sum(changed[operator.summed].any() for changed in touched)


@pytest.mark.parametrize("step, change, words", [
    ("weights", lambda weights, s, rng: weights[:, [0, 2, 1, 3]], "the corners (y0,x1) and (y1,x0) were swapped"),
    ("weights", lambda weights, s, rng: np.ones_like(weights), "the interpolation weights were not multiplied in"),
    ("location_attention", lambda attention, s, rng: np.ones_like(attention), "the attention weight were not multiplied in"),
    ("value_attention", lambda attention, s, rng: np.ones_like(attention), "the attention weights were not multiplied in"),
    ("starts", lambda starts, s, rng: np.maximum(starts - 1, 0), "it read one pixel early"),
])
def test_a_wrong_step_of_msda_is_named(judged, rng, step, change, words):
    """In kernels of all conventions, throughout."""
    msda = OPERATORS["msda"]
    for conventions in msda.conventions:
        problem, _ = msda.random(conventions, rng, place=msda.places[0], shape=(1, 12, 1, 2, 4, ((7, 5), (3, 9))))
        values = msda.subject.backward(problem, *whole(step, change)(conventions, EXACT, problem, rng))
        call = judged(invocation(problem, conventions, values))
        assert call["verdict"]["at_fault"] == "observed" and {key[1:] for key in mistakes_of(call)} == {("implementation_error", "observed")}
        named = sum(words in finding["evidence"].get("as_if", ()) for finding in call["findings"])
        assert named > 10, conventions


def conventions_that_differ():
    for name, row in OPERATORS.items():
        for convention in row.others:
            yield pytest.param(row, convention, id=f"{name}-{convention}")


@pytest.mark.parametrize("row, convention", conventions_that_differ())
def test_other_conventions_are_named(judged, row, convention):
    """A kernel that has another convention than the capture says."""
    left_out = {"interpolation": "3d", "align_corners": "interpolate_nearest"}.get(convention, "no variant")  # which have no others
    variants, calls, rights = zip(*(found for found in row.with_another(convention) if left_out not in found[0]))
    fits = 0
    for variant, right, call in zip(variants, rights, judged(list(calls))):
        if causes_of(call):  # in some variants nothing lies where these conventions differ
            assert call["verdict"]["at_fault"] == "observed"
            right = ("false", "true")[right] if right in (0, 1) and convention != "sampling_ratio" else right
            named = f"{convention.replace('_mode', '')} {right} in place of"
            assert named in call["fits"][0] and call["verdict"]["summary"].count(named) == sum(named in fit for fit in call["fits"]), variant
            fits += 1
    assert fits >= 0.5 * len(calls)
