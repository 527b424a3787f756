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


def planted(operator, gradient, change, *types, side="alone"):
    """Variants in which a gradient is not 0, and their calls with that gradient changed: the recorded one, alone or beside a right
    reference, or the reference's."""
    calls = [(variant, call) for variant, call in zip(operator.typed(*types), operator.all_recorded(*types)) if np.any(call.outputs[gradient])]
    for variant, call in calls:
        right = operator.recorded(variant).outputs
        call.outputs[gradient][...] = change(call.outputs[gradient])
        if side == "reference":
            call.outputs, right = right, call.outputs
        if side != "alone":
            call.results = {"torch": Result(right, "reference")}
    return zip(*calls)


def at_the_largest(change):
    def everywhere_else_the_same(array):
        array[largest(array)] = change(array[largest(array)])
        return array
    return everywhere_else_the_same


SIDES = pytest.mark.parametrize("side", ["alone", "observed", "reference"])


def expect_one(call, gradient, cause, side, variant):
    at_fault = side.replace("alone", "observed")
    assert mistakes_of(call) == {(gradient, cause, at_fault): 1}, variant
    assert call["verdict"]["at_fault"] == at_fault, variant
    return next(finding for finding in call["findings"] if finding["cause"] == cause)


@SIDES
def test_a_flipped_sign_is_named(operator, judged, side):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: -x), side=side)
        for variant, call in zip(variants, judged(list(calls))):
            finding = expect_one(call, gradient, "implementation_error", side, variant)
            assert "its sign were flipped" in finding["evidence"]["as_if"]
            assert tuple(finding["index"]) == largest(operator.recorded(variant).outputs[gradient])


def test_a_wrong_fourth_digit_is_named(operator, judged):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: x * 1.0001), "float32")
        for variant, call in zip(variants, judged(list(calls), "--atol", 0, "--rtol", 2e-5)):
            assert mistakes_of(call) == {(gradient, "implementation_error", "observed"): 1}, variant


@SIDES
@pytest.mark.parametrize("written", [np.nan, np.inf])
def test_what_is_not_finite_is_named(operator, judged, written, side):
    for gradient in operator.gradients:
        variants, calls = planted(operator, gradient, at_the_largest(lambda x: written), side=side)
        for variant, call in zip(variants, judged(list(calls))):
            finding = expect_one(call, gradient, "non_finite", side, variant)
            assert finding["evidence"]["first"] == f"{'results/reference' if side == 'reference' else 'outputs'}/{gradient}"


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


@pytest.mark.parametrize("held, places, cause", [(123.5, lambda flat: np.arange(flat.size // 2, flat.size), "uninitialized_output"),
                                                 (0, lambda flat: np.abs(flat).argmax(), "implementation_error")])
def test_elements_that_were_not_written_are_named(operator, judged, held, places, cause):
    """They have what the buffer held; but a 0 may have been written."""
    names, facts = operator.unheld
    for gradient in operator.gradients:
        calls = [operator.recorded(variant, **facts) for variant in operator.variants if variant.startswith(names)]
        calls = [call for call in calls if np.any(call.outputs[gradient])]
        for call in calls:
            call.outputs_before = {gradient: np.full_like(call.outputs[gradient], held)}
            flat = call.outputs[gradient].reshape(-1)
            flat[places(flat)] = held
        for call in judged(calls):
            assert set(mistakes_of(call)) == {(gradient, cause, "observed")}
            kinds = {finding["evidence"].get("kind") for finding in call["findings"] if finding["cause"] == cause}
            assert kinds == {"unwritten" if held else None}


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
