"""How faults are planted, whatever the operator: kinds of captures, faults of buffers and of a kernel's steps.

A fault of a step takes the conventions, the arithmetic, the problem and `rng`, and returns the conventions and arithmetic that the faulty
kernel has, and how its steps are tampered with."""

from dataclasses import dataclass, field, replace
from typing import Callable

import numpy as np

from .steps import Tampering

MISTAKE = frozenset({"implementation_error"})
NARROW = MISTAKE | {"reduced_precision"}
ODD = {"nan_written": frozenset({"non_finite"}), "infinity_written": frozenset({"non_finite"})}
STALE = frozenset({"uninitialized_output"})


@dataclass(frozen=True)
class Kind:
    name: str
    text: str
    room: str  # "result", "kernel", "buffer", "input", "convention" or "clean"
    causes: frozenset = MISTAKE  # any of these is right of a visible element
    plant: Callable = None
    call: dict = field(default_factory=dict)  # what the operator's problems.draw is to take
    conventions: tuple = ()  # one of these; empty: any
    arithmetic: dict = field(default_factory=dict)
    sides: tuple = ("observed", "observed", "reference", "both")
    alter: Callable = None  # of a problem that was drawn
    tolerances: tuple = ()  # one of these; empty: any
    of_reference: "Kind" = None  # what is planted in the reference in place of the same fault


def clean(name, text, **rest):
    """A variation in which nothing is wrong."""
    return Kind(name, text, "clean", frozenset(), sides=("none",), **rest)


UNTOUCHED = clean("untouched", "nothing is planted in a recorded call")


# Buffers

def added(values, before, clean, rng):
    """The kernel adds to what the buffer held."""
    for name, old in before.items():
        values[name] = clean[name] + old


def unwritten(values, before, clean, rng):
    """A part of the buffer is never written."""
    for name, old in before.items():
        values[name] = np.where(rng.uniform(size=old.shape) < rng.choice([0.02, 0.3, 1.0]), old, clean[name])


def overwritten(values, before, clean, rng):
    """Nothing is wrong: what the buffer held is gone."""


BUFFERS = (
    Kind("not_zeroed", "the kernel adds to what the buffer held", "buffer", STALE, added, sides=("observed",)),
    Kind("unwritten", "a part of the buffer is never written", "buffer", STALE, unwritten, sides=("observed",)),
)


# Calls

def with_nan(given):
    def alter(problem, rng):
        array = getattr(problem, given).copy()
        flat = array.reshape(-1)
        if flat.size:
            flat[rng.integers(0, flat.size, rng.integers(1, 4))] = rng.choice([np.nan, np.nan, np.inf])
        return replace(problem, **{given: array})
    return alter


# Steps

def extent(s, rng):
    """Which samples the fault is in: all, those that share something with one of them, or that one."""
    count = len(s.b)
    if count == 0:
        return np.zeros(0, bool)
    parts = s.alike(rng.integers(count))
    return parts[rng.integers(len(parts))]


def tampering(step, change):
    """Where the fault is, `change` makes the step's result another one."""
    def plant(conventions, arithmetic, problem, rng):
        seed = rng.integers(2**32)

        def tampered(result, context):
            s = context[0] if isinstance(context, tuple) else context
            draw = np.random.default_rng(seed)
            mask = extent(s, draw)
            changed = change(result, context, draw)

            def choose(new, old):
                return np.where(mask.reshape((-1,) + (1,) * (np.ndim(old) - 1)), new, old)

            return tuple(map(choose, changed, result)) if isinstance(result, tuple) else choose(changed, result)

        return conventions, arithmetic, Tampering({step: tampered})
    return plant


def whole(step, change):
    """The same in all samples."""
    def plant(conventions, arithmetic, problem, rng):
        seed = rng.integers(2**32)
        return conventions, arithmetic, Tampering({step: lambda result, context: change(result, context, np.random.default_rng(seed))})
    return plant


def lose(share):
    """Addends that never arrive: one, or a share of all."""
    def change(result, s, rng):
        keys, addends = result
        places = np.flatnonzero(keys >= 0)
        lost = rng.permutation(places)[: max(1, int(share * len(places)))]
        keys = keys.copy()
        keys[lost] = -1
        return keys, addends
    return change


def scale_addend(factor):
    def change(result, s, rng):
        keys, addends = result
        places = np.flatnonzero(keys >= 0)
        addends = addends.copy()
        addends[rng.permutation(places)[:1]] *= factor
        return keys, addends
    return change


def keep_last(result, s, rng):
    """Stores in place of additions: the last one stays."""
    keys, addends = result
    last = np.zeros(len(keys), bool)
    last[len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]] = True
    return np.where(last, keys, -1), addends


def zero_last_channel(result, s, rng):
    result = result.copy()
    result[:, -1] = 0
    return result


def one_of_other_conventions(name, text, change, **rest):
    """One of several gradients follows other conventions, the others the call's."""
    return Kind(name, text, "convention", plant=change, **rest)


def other_conventions(change):
    def plant(conventions, arithmetic, problem, rng):
        return change(conventions), arithmetic, Tampering()
    return plant


def other_arithmetic(**changes):
    def plant(conventions, arithmetic, problem, rng):
        return conventions, replace(arithmetic, **changes), Tampering()
    return plant
