"""Random calls of scatter_add, and what each source sends where."""

from dataclasses import dataclass, field, replace
from typing import Dict, Optional

import numpy as np

from ..rounding import round_to
from ..scatter.numbers import NUMBERS, TYPES, chosen, draw_arithmetic, draw_reference  # noqa: F401
from ..scatter.operator import Samples, Sent, SharedConventions

MOST_ADDENDS = 4000  # rows times channels


@dataclass(frozen=True)
class Conventions(SharedConventions):
    reduce: str = "sum"
    include_self: bool = True
    by_frequency: bool = False       # each row is divided by how many have its index
    padding_idx: Optional[int] = None
    wraps: bool = False              # a negative index counts from the end
    per_element: bool = False        # each element has an index of its own, not each row
    in_buffer: bool = False          # what the sum held is known by the buffer before the launch alone

    @property
    def family(self):
        """What faults ask for: not where the sum's first addend and the indices are recorded, or which index is left out."""
        return replace(self, in_buffer=False, per_element=False, padding_idx=None if self.padding_idx is None else 0)

    def attributes(self):
        padding = {} if self.padding_idx is None else {"padding_idx": self.padding_idx}
        return {"reduce": self.reduce, "include_self": int(self.include_self), "scale_grad_by_freq": int(self.by_frequency),
                "wraps_negative": int(self.wraps), **padding}


INDEX_ADD, SCATTER = Conventions(), Conventions(per_element=True)
INTO_BUFFER = Conventions(in_buffer=True)
EMBEDDING = Conventions(include_self=False, padding_idx=0)
BY_FREQUENCY = Conventions(include_self=False, by_frequency=True)
MEAN, MEAN_OF_ADDED = Conventions(reduce="mean", per_element=True), Conventions(reduce="mean", include_self=False, per_element=True)
INDEX_PUT = Conventions(wraps=True)
SELECT = Conventions(include_self=False)
CONVENTIONS = (INDEX_ADD, INDEX_ADD, SCATTER, INTO_BUFFER, EMBEDDING, BY_FREQUENCY, MEAN, MEAN_OF_ADDED, INDEX_PUT, SELECT, SELECT)
UNHELD = (EMBEDDING, BY_FREQUENCY, SELECT)  # the sum begins with 0, whatever the buffer held


@dataclass(frozen=True)
class Problem:
    """Inputs, in float64 arrays of numbers that `type` has. Places are rows, or with an index for each element the elements."""

    index: np.ndarray
    numbers: np.ndarray  # the source
    before: np.ndarray   # what the sum held
    dim: int
    conventions: Conventions
    type: str = "float32"
    strides: Dict[str, tuple] = field(default_factory=dict)

    operator = "scatter_add"
    gradients = ("sum",)
    scattered = "sum"
    narrow_kernels = False

    @property
    def begins_with(self):
        """The output buffers that the sum goes on from."""
        return {"sum": self.before} if self.conventions.in_buffer else {}

    def shape_of(self, name):
        return self.before.shape

    def inputs(self):
        yield "index", self.index, "int64"
        yield "source", self.numbers, self.type
        if not self.conventions.in_buffer:
            yield "self", self.before, self.type

    def attributes(self):
        return {"dim": self.dim, "dim_size": self.before.shape[self.dim]}

    # Places by channels

    def matrix(self, x):
        if self.conventions.per_element:
            return x.reshape(-1, 1)
        channels = int(np.prod(self.before.shape)) // self.before.shape[self.dim]
        return np.moveaxis(x, self.dim, 0).reshape(x.shape[self.dim], channels)

    def rows(self):
        return self.matrix(self.numbers)

    def places(self, x):
        return self.matrix(x)

    def tensor(self, x):
        if self.conventions.per_element:
            return x.reshape(self.before.shape)
        shape = np.moveaxis(self.before, self.dim, 0).shape
        return np.moveaxis(x.reshape(shape), 0, self.dim)

    @property
    def target_count(self):
        return self.matrix(self.before).shape[0]

    def named(self, index):
        """Places of the sum that an index names."""
        if not self.conventions.per_element:
            return index.reshape(-1)
        places = list(np.indices(index.shape))
        places[self.dim] = index
        flat = np.zeros(index.shape, np.int64)
        for place, size in zip(places, self.before.shape):
            flat = flat * size + place
        return np.where((index >= 0) & (index < self.before.shape[self.dim]), flat, -1).reshape(-1)

    def targets(self, conventions):
        """Returns the target of each source; -1 for a source that is left out."""
        index = self.index
        if conventions.wraps:
            index = np.where(index < 0, index + self.before.shape[self.dim], index)
        targets = self.named(index)
        if conventions.padding_idx is not None:
            targets = np.where(self.index.reshape(-1) == conventions.padding_idx, -1, targets)
        return targets

    def count(self, conventions):
        targets = self.targets(conventions)
        return np.bincount(targets[targets >= 0], minlength=self.target_count)

    # As a kernel computes it

    def samples(self, conventions, t, tampering):
        count = self.index.size
        return Samples(np.arange(count), self.targets(conventions), self)

    def send(self, conventions, t, tampering, s):
        targets = tampering("targets", self.targets(conventions), s)
        factors = ()
        if conventions.by_frequency:
            share = t.round(1 / np.maximum(self.count(conventions), 1).astype(np.longdouble if t.real == "exact" else float))
            factors = (share[np.maximum(targets, 0)][:, None],)
        return Sent(targets[:, None], (targets >= 0)[:, None], factors)

    def held(self, conventions):
        before = self.matrix(self.before)
        if conventions.include_self:
            return before
        return np.where(self.count(conventions)[:, None] == 0, before, 0)

    def divisor(self, conventions):
        if conventions.reduce == "sum":
            return np.ones(self.target_count)
        return np.maximum(self.count(conventions) + int(conventions.include_self), 1).astype(float)

    # Bounds

    def reach(self, conventions, real):
        targets, share = self.targets(conventions), 1 / np.maximum(self.count(conventions), 1)
        to = targets[:, None] == np.arange(self.target_count)
        given = to * (share if conventions.by_frequency else 1.0)
        return given, np.zeros(given.shape), to.astype(float)


# Where rows go.

def uniform(rng, rows, size):
    return rng.integers(0, size, rows)


def hot(rng, rows, size):
    """Most go to one: long sums."""
    return np.where(rng.uniform(size=rows) < 0.8, rng.integers(0, size), rng.integers(0, size, rows))


def power(rng, rows, size):
    """As words of a text: few are frequent."""
    return np.minimum((size * rng.uniform(size=rows) ** 4).astype(np.int64), size - 1)


def each_once(rng, rows, size):
    """No two share an index, as far as there are enough."""
    return np.resize(rng.permutation(size), rows)


def sorted_rows(rng, rows, size):
    return np.sort(rng.integers(0, size, rows).reshape(-1)).reshape(rows)


PLACES = (uniform, uniform, hot, power, each_once, sorted_rows)
CROWDED = {"place": hot}


def shapes(rng):
    """Returns the shape of the source, the dimension that is indexed, and how many rows the sum has."""
    while True:
        rank = int(rng.choice([1, 2, 2, 2, 3]))
        dim = int(rng.integers(rank)) if rng.uniform() < 0.5 else 0
        shape = [int(rng.choice([1, 2, 3, 4, 8, 16, 33])) for _ in range(rank)]
        shape[dim] = int(rng.choice([1, 3, 8, 20, 60, 200]))
        if int(np.prod(shape)) <= MOST_ADDENDS:
            return tuple(shape), dim, int(rng.choice([1, 2, 5, 13, 40]))


def draw(rng, conventions, kind=None, place=None, values=None, shape=None):
    """A problem; what is not given is drawn."""
    while True:
        source, dim, size = shape or shapes(rng)
        held = tuple(size if axis == dim else entry for axis, entry in enumerate(source))
        if not conventions.per_element or np.prod(source) * np.prod(held) <= 400_000:
            break
    kind, place, values = kind or chosen(rng, TYPES), place or chosen(rng, PLACES), values or chosen(rng, NUMBERS)
    index = place(rng, source if conventions.per_element else (source[dim],), size).astype(np.int64)
    if conventions.wraps:
        index = np.where(rng.uniform(size=index.shape) < 0.3, index - size, index)
    numbers = round_to(kind, values(rng, source))
    before = round_to(kind, rng.standard_normal(held) * (rng.uniform() < 0.7))
    return Problem(index, numbers, before, dim, conventions, str(kind))
