"""Mistakes of kernels that scatter, which show in many wrong sums together: each is named, by what every operator's calls are, and no
other mistake is called so."""

import dataclasses
import re

import numpy as np
import pytest
from support.operators import EXACT, OPERATORS, invocation, operator  # noqa: F401
from support.run_results import judged  # noqa: F401

RNG = np.random.default_rng


def as_if_of(call, tensor):
    """Returns what the largest group of mistakes in a tensor is said to look like."""
    groups = [group for group in call["groups"] if group["tensor"] == tensor and group["cause"] == "implementation_error" and not group.get("advisory")]
    return max(groups, key=lambda group: group["count"])["as_if"] if groups else None


def shifted(array, axis, by):
    moved = np.zeros_like(array)
    index = [slice(None)] * array.ndim
    written, read = (slice(by, None), slice(None, -by)) if by > 0 else (slice(None, by), slice(-by, None))
    moved[(*index[:axis], written)] = array[(*index[:axis], read)]
    return moved


def recorded(operator, change):
    """Calls that a kernel computed, of sums in which this changes enough; and which axis was changed."""
    for kind in ("float32", "float64"):
        for call in operator.all_recorded(kind):
            array = call.outputs[operator.summed]
            for axis in np.argsort(array.shape)[::-1][:2]:
                changed = change(array, int(axis))
                if changed is not None and np.count_nonzero((changed != array) & (changed != 0)) >= 32:
                    call.outputs[operator.summed] = changed
                    yield call
                    break


def names_of(operator, judged, calls):
    return [as_if_of(call, operator.summed) for call in judged(list(calls))]


@pytest.mark.parametrize("by", [1, 2, -1])
def test_a_shifted_index(operator, judged, by):
    names = names_of(operator, judged, recorded(operator, lambda array, axis: shifted(array, axis, by) if array.shape[axis] >= 3 * abs(by) else None))
    others = [name for name in names if not name.startswith("everything had been added at ") or f" {'-' if by < 0 else '+'} {abs(by)} in place of " not in name]
    assert names and set(others) <= {""} and 10 * len(others) <= len(names)


def test_swapped_axes(operator, judged):
    def change(array, axis):
        longest = [int(by_size) for by_size in np.argsort(array.shape)[::-1] if by_size != axis][0]
        return np.ascontiguousarray(array.swapaxes(axis, longest)).reshape(array.shape) if array.shape[longest] > 1 else None

    names = names_of(operator, judged, recorded(operator, change))
    assert names and all(name.endswith(" were swapped") for name in names), names


@pytest.mark.parametrize("launches", [3, 7])
def test_a_sum_of_several_launches(operator, judged, launches):
    calls = list(recorded(operator, lambda array, axis: array * array.dtype.type(launches)))
    divided = [call.facts.get("reduce") == "mean" or call.facts.get("scale_grad_by_freq") == 1 for call in calls]
    assert not all(divided)
    for name, is_divided in zip(names_of(operator, judged, calls), divided):  # a division may have been left out
        text = f"the sums of {launches} launches had been added up"
        assert name in ({text, ""} if is_divided else {text})


def test_a_missing_division_is_no_sum_of_launches(judged):
    """roi_align's addends are divided by the number of points of a bin: four here."""
    roi_align = OPERATORS["roi_align"]
    calls = [call for call in recorded(roi_align, lambda array, axis: array * 4) if call.facts["sampling_ratio"] == 2]
    assert calls and not any("launches" in name for name in names_of(roi_align, judged, calls))


def source_of(problem):
    return "grad_output" if hasattr(problem, "grad_output") else "numbers"


def with_another_source(operator, change, kind="float32"):
    """Random calls, with the sums that a kernel has of a changed source."""
    for number, conventions in enumerate(operator.conventions * 3):
        problem, _ = operator.random(conventions, RNG(number), kind)
        name = source_of(problem)
        changed = change(getattr(problem, name))
        if changed is None:
            continue
        right = operator.subject.backward(problem, conventions, EXACT)
        wrong = operator.subject.backward(dataclasses.replace(problem, **{name: changed}), conventions, EXACT)
        apart = np.abs(wrong[operator.summed] - right[operator.summed])
        if np.count_nonzero(apart > 1e-3) >= 48:
            yield invocation(problem, conventions, {**right, operator.summed: wrong[operator.summed]})


# Along which axis of the source a launch numbers what it adds.
LAUNCHED = {"msda": 1, "grid_sample": 2, "scatter_add": 0, "interpolate": 2, "roi_align": 0}


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_a_lost_last_block(operator, judged, kind):
    axis, first = LAUNCHED[operator.name], []

    def change(source):
        size = source.shape[axis]
        if size < 4:
            return None
        kept = source.copy()
        np.moveaxis(kept, axis, 0)[size - size // 4 - 1:] = 0
        first.append(size - size // 4 - 1)
        return kept

    named = [name for name in names_of(operator, judged, with_another_source(operator, change, kind)) if name != "it had never been computed"]
    assert all(re.fullmatch(r"(query|sample|source row|output pixel|bin) \d+ and all after it were missing|", name) for name in named)
    assert named and 2 * named.count("") <= len(named)


def test_a_source_that_was_read_as_if_contiguous(operator, judged):
    def change(source):
        if sum(size > 1 for size in source.shape) < 2:
            return None
        return np.ascontiguousarray(np.moveaxis(source, 1, -1)).reshape(source.shape)

    names = names_of(operator, judged, with_another_source(operator, change))
    right = re.compile(r"grad_output, whose axes lie in memory in the order [\d ]+, had been read as if it were contiguous"
                       if operator.name != "scatter_add" else r"axes \d and \d were swapped")  # its channels stay what they are
    assert all(right.fullmatch(name) or name == "" for name in names) and names and 4 * names.count("") <= len(names)


def test_chance_is_no_pattern(operator, judged):
    """Sources of 1 give few different sums, which are exchanged: many are as if moved by some index."""
    calls = []
    for number, conventions in enumerate(operator.conventions * 3):
        problem, _ = operator.random(conventions, RNG(number))
        name = source_of(problem)
        problem = dataclasses.replace(problem, **{name: np.ones_like(getattr(problem, name))})
        right = operator.subject.backward(problem, conventions, EXACT)
        sums = right[operator.summed]
        wrong = RNG(number).permutation(sums.ravel()).reshape(sums.shape)
        if np.count_nonzero(np.abs(wrong - sums) > 1e-2) >= 32:
            calls.append(invocation(problem, conventions, {**right, operator.summed: wrong}))
    named = re.compile("everything had been added at|were swapped|and all after it|as if it were contiguous|launches had been")
    assert calls and not [name for name in names_of(operator, judged, calls) if name and named.search(name)]
