"""A scattering operator's gradient, exactly or as a kernel of a given arithmetic computes it. Each step can be tampered with.

An operator's problem says what it sends where (`Sent`), what the gradient holds before anything is added, and by what it is divided. Places
are numbers: of sources and of targets; all else is a channel."""

from dataclasses import dataclass
from functools import reduce
from typing import Tuple

import numpy as np

from ..rounding import round_to
from ..steps import EXACT, Tampering, scatter


class SharedConventions:
    """Conventions that a reference has, too, so that a capture names them once."""

    def of_reference(self):
        """The attributes of the results of a reference that has these conventions."""
        return {}


class ImageGradient:
    """A problem whose result is an image's gradient, which begins with 0 and is not divided."""

    gradients = ("grad_input",)
    scattered = "grad_input"
    begins_with = {}

    def held(self, conventions):
        return np.zeros((self.target_count, self.rows().shape[1]))

    def divisor(self, conventions):
        return np.ones(self.target_count)


@dataclass
class Samples:
    """What sends: the source place of each, and the part of the call that it belongs to: a batch, or a box."""

    source: np.ndarray  # [N]
    b: np.ndarray       # [N]
    problem: object

    def alike(self, entry):
        """Sets of samples: all, those of the part of one, those of its source, and that one."""
        count = len(self.b)
        return [np.ones(count, bool), self.b == self.b[entry], self.source == self.source[entry], np.arange(count) == entry]


@dataclass
class Sent:
    targets: np.ndarray  # [N,T]
    there: np.ndarray    # [N,T]
    factors: Tuple[np.ndarray, ...] = ()  # each [N,T]


def addends_of(rows, factors, t):
    """What each target gets of each sample [N,T,C]."""
    rows = rows[:, None]
    if t.factors == "weights" and factors:
        return t.multiply(reduce(t.multiply, factors)[:, :, None], rows)
    for factor in factors:
        rows = t.multiply(rows, factor[:, :, None])
    return rows


def backward(problem, conventions, arithmetic=EXACT, tampering=None):
    """The gradient by its name."""
    tampering = tampering or Tampering()
    t = arithmetic
    working = np.longdouble if t.real == "exact" else np.float64
    with np.errstate(all="ignore"):
        s = problem.samples(conventions, t, tampering)
        rows = tampering("numbers", t.round(problem.rows().astype(working)[s.source]), s)
        sent = problem.send(conventions, t, tampering, s)
        targets, there = tampering("lands", (sent.targets, sent.there), s)
        factors = tampering("factors", sent.factors, s)
        channels, count = rows.shape[1], problem.target_count
        addends = np.broadcast_to(addends_of(rows, factors, t), (*targets.shape, channels)).astype(working)
        keys = np.where(there & (targets >= 0) & (targets < count), targets, -1)
        keys, addends = tampering("addends", (keys.reshape(-1), addends.reshape(-1, channels)), s)
        held = tampering("held", problem.held(conventions).astype(working), s)
        total = scatter((count, channels), keys, addends, t, held)
        divisor = tampering("divisor", problem.divisor(conventions).astype(working), s)
        total = np.where(divisor[:, None] == 1, total, t.round(total / divisor[:, None]))
    return {problem.scattered: problem.tensor(round_to(t.stored, total))}
