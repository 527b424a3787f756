"""Random calls of operators that definitions state, a family each, and what each source sends where: out[s, c] is the sum of
weight * numbers[source, c] over what a source sends to s."""

import json
from dataclasses import dataclass, field
from typing import Dict, Optional

import numpy as np

from ..rounding import round_to
from ..scatter.numbers import NUMBERS, TYPES, chosen, draw_arithmetic, draw_reference  # noqa: F401
from ..scatter.operator import Samples, Sent, SharedConventions
from ..scatter_add.problems import PLACES, hot
from ..steps import Arithmetic, Tampering


@dataclass(frozen=True)
class Conventions(SharedConventions):
    """A family: by how many taps a source has, what its sum says."""

    name: str
    taps: bool       # index and weight have several for each row
    per_tap: bool    # so have the numbers
    output: Dict[str, object] = field(hash=False)
    stages: tuple = field(hash=False, default=())

    @property
    def family(self):
        return self

    def attributes(self):
        ranks = {"numbers": 2 + self.per_tap, "index": 2 if self.name == "gather" else 1, "out": 2}
        if self is not SEGMENTS:
            ranks["weight"] = 1 + self.taps
        tensors = [{"name": name, "role": "output" if name == "out" else "input", "type": "int64" if name == "index" else "float32", "rank": rank}
                   for name, rank in ranks.items()]
        stages = {"stages": list(self.stages)} if self.stages else {}
        output = {"tensor": "out", "index": ["s", "c"], "channels": ["c"], **self.output}
        adapter = {"name": self.name, "tensors": tensors, "operator": {"name": self.name, **stages, "outputs": [output]}}
        definition = json.dumps({"format": "msda-adapter", "version": 1, "adapters": [adapter]})
        return {"adapter": self.name, "operator": self.name, "scalars": "", "definition": definition}


SEGMENTS = Conventions("segments", False, False, {"over": ["r"], "where": ["index[r] == s"], "addends": "numbers[r, c]"})
GATHER = Conventions("gather", True, False, {"over": ["r", "k"], "where": ["index[r, k] == s"], "addends": "weight[r, k] * numbers[r, c]"})
LINEAR = Conventions("linear", False, False, {"over": ["r"], "where": ["abs(s - place[r]) < 1"], "addends": "(1 - abs(s - place[r])) * numbers[r, c]"},
                     ({"name": "place", "index": ["r"], "value": "index[r] + weight[r]"},))
SOFTMAX = Conventions("softmax", True, True, {"over": ["r", "j"], "where": ["index[r] == s"], "addends": "exp(weight[r, j]) / total[r] * numbers[r, j, c]"},
                      ({"name": "total", "index": ["r"], "over": ["k"], "value": "exp(weight[r, k])"},))
CONVENTIONS = (SEGMENTS, GATHER, LINEAR, SOFTMAX)


@dataclass(frozen=True)
class Problem:
    """Inputs, in float64 arrays of numbers that `type` has. A row's numbers, or those of each of its taps, are a source."""

    index: np.ndarray
    numbers: np.ndarray
    weight: Optional[np.ndarray]
    target_count: int
    conventions: Conventions
    type: str = "float32"
    strides: Dict[str, tuple] = field(default_factory=dict)

    operator = "own"
    gradients = ("out",)
    scattered = "out"
    narrow_kernels = False
    begins_with = {}

    def shape_of(self, name):
        return (self.target_count, self.numbers.shape[-1])

    def inputs(self):
        yield "index", self.index, "int64"
        yield "numbers", self.numbers, self.type
        if self.weight is not None:
            yield "weight", self.weight, self.type

    def attributes(self):
        return {}

    # Places by channels

    def rows(self):
        return self.numbers.reshape(-1, self.numbers.shape[-1])

    def places(self, x):
        return x

    tensor = places

    # As a kernel computes it

    def place(self, t):
        return t.round(self.index + t.round(self.weight.astype(np.longdouble)))

    def shares(self, t):
        power = t.round(np.exp(self.weight.astype(np.longdouble if t.real == "exact" else float)))
        total = power[:, 0]
        for tap in range(1, power.shape[1]):
            total = t.round(total + power[:, tap])
        return t.round(power / total[:, None])

    def samples(self, conventions, t, tampering):
        rows = np.arange(len(self.rows()))
        return Samples(rows, rows // (self.numbers.shape[1] if conventions.per_tap else 1), self)

    def send(self, conventions, t, tampering, s):
        if conventions is SEGMENTS:
            targets, factors = self.index[:, None], ()
        elif conventions is GATHER:
            targets, factors = self.index, (self.weight,)
        elif conventions is SOFTMAX:
            targets, factors = np.repeat(self.index, self.numbers.shape[1])[:, None], (self.shares(t).reshape(-1, 1),)
        else:
            (place,) = tampering("pixel", (self.place(t),), s)
            low = np.floor(place)
            (fraction,) = tampering("fractions", (t.round(place - low),), s)
            targets = low.astype(np.int64)[:, None] + [0, 1]
            factors = (np.stack([t.round(1 - fraction), fraction], 1),)
        return Sent(targets, (targets >= 0) & (targets < self.target_count), factors)

    def held(self, conventions):
        return np.zeros(self.shape_of("out"))

    def divisor(self, conventions):
        return np.ones(self.target_count)

    # Bounds

    def reach(self, conventions, real):
        """What each source gives to each target, how far rounding may change that, and in how many addends."""
        exact = Arithmetic(real="exact")
        targets = np.arange(self.target_count)
        if conventions is LINEAR:
            place = self.place(exact)
            error = (4 * real.unit * (np.abs(place) + 1)).astype(float)[:, None]
            distance = np.abs(targets - place[:, None]).astype(float)
            reached = distance < 1 + error
            return np.where(reached, np.maximum(0, 1 - distance), 0), np.where(reached, error, 0), reached.astype(float)
        sent = self.send(conventions, exact, Tampering(), None)
        weight = (sent.factors[0] if sent.factors else np.ones(sent.targets.shape)).astype(float)
        to = sent.targets[:, :, None] == targets
        given = (to * weight[:, :, None]).sum(1)
        relative = 0.0
        if conventions is SOFTMAX:  # two powers, by CUDA's bound on __expf, their sum and a quotient
            relative = real.unit * (2 * (4 + 2.4 * np.abs(self.weight).max(initial=0)) + self.weight.shape[1] + 4)
        return given, relative * given, to.sum(1).astype(float)


CROWDED = {"place": hot}


def draw(rng, conventions, kind=None, place=None, values=None, shape=None):
    """A problem; what is not given is drawn. `shape`: rows, channels, targets."""
    rows, channels, size = shape or (int(rng.choice([1, 20, 60, 200])), int(rng.choice([1, 4, 8, 24])), int(rng.choice([1, 8, 20, 60])))
    taps = (int(rng.choice([1, 2, 5])),) if conventions.taps else ()
    kind, place, values = kind or chosen(rng, TYPES), place or chosen(rng, PLACES), values or chosen(rng, NUMBERS)
    index = place(rng, (rows, *taps) if conventions is GATHER else (rows,), size).astype(np.int64)
    numbers = values(rng, (rows, *(taps if conventions.per_tap else ()), channels))
    weight = None
    if conventions is GATHER:  # of one sign, so that those of a row that meet do not cancel
        weight = rng.uniform(0.25, 2, (rows, *taps))
    elif conventions is not SEGMENTS:
        weight = rng.standard_normal((rows, *taps))
    return Problem(index, round_to(kind, numbers), None if weight is None else round_to(kind, weight), size, conventions, str(kind))
