"""Random calls of scatter_add, in every layout and type, with lists short and long."""

import numpy as np

from msda_replay.libmsda import ScatterCall

from .laid import REALS, Drawn, Laid

SUM, MEAN, BY_FREQUENCY = range(3)
CHANNELS = (1, 2, 4, 8, 30, 32, 64, 71, 256, 300)


class Problem(Drawn):
    functions = ("scatter_add",)

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.begin(finite)
        self.scale, self.include_self = int(rng.choice([SUM, SUM, MEAN, BY_FREQUENCY])), int(rng.integers(2))
        self.rank = int(rng.choice([1, 2, 2, 2, 3, 4]))
        self.dim = int(rng.integers(self.rank)) if number % 3 == 0 else 0
        n = int(rng.choice([1, 7, 33, 400, 3000, 20000, 300000]))
        self.kind = str(rng.choice(["uniform", "uniform", "hot", "power", "one row", "sorted", "few"]))
        rows = 3 if self.kind == "few" else int(rng.choice([1, 5, 100, 3000]))
        shape = [int(rng.choice([1, 2, 3])) for _ in range(self.rank)]
        shape[self.dim] = n
        if self.rank > 1 and self.dim < self.rank - 1:
            shape[-1] = CHANNELS[number % len(CHANNELS)]
        while np.prod(shape) > work and shape[self.dim] > 1:
            shape[self.dim] = (shape[self.dim] + 1) // 2
        if number % 17 == 5:  # one size is 0
            shape[int(rng.integers(self.rank))] = 0
        if number % 25 == 7 and np.prod(shape) <= 4 * shape[self.dim]:
            rows = 600_000  # more than are dealt out to buckets: the index is sorted
        of_sum = list(shape)
        of_sum[self.dim] = rows
        self.padding = int(rng.integers(rows)) if rng.random() < 0.2 else -1
        whole = self.rank > 1 and rng.random() < 0.3  # an index for each element
        of_index = shape if whole or (self.rank == 1 and rng.random() < 0.5) else shape[self.dim:self.dim + 1]
        self.index = Laid(str(rng.choice(["int32", "int64"])), of_index, rng, lambda n: self.indices(n, rows))
        if whole and rng.random() < 0.4:  # expanded from one dimension, as graph libraries do
            self.index.strides = [stride if axis == self.dim else 0 for axis, stride in enumerate(self.index.strides)]
        self.inputs = {"index": self.index, "source": self.laid(shape, rng.standard_normal)}
        self.sum_shape = tuple(of_sum)

    def shapes_of(self, function):
        return {"sum": self.sum_shape}

    def result(self, shape, dtype=None):
        """Holds numbers that the call adds to."""
        result = Laid(dtype or str(self.rng.choice([*REALS, self.dtype, self.dtype])), shape, self.rng)
        result.fill(self.rng.standard_normal)
        return result

    def indices(self, n, rows):
        rng = self.rng
        if self.kind == "one row":
            return np.full(n, rng.integers(rows))
        if self.kind == "hot":
            return np.where(rng.random(n) < 0.8, rows // 2, rng.integers(0, rows, n))
        if self.kind == "power":
            return np.minimum((rows * rng.random(n) ** 4).astype(np.int64), rows - 1)
        drawn = rng.integers(0, rows, n)
        return np.sort(drawn) if self.kind == "sorted" else drawn

    def call(self, place, function):
        call = ScatterCall(self.scale, self.dim, self.include_self, self.padding)
        call.index, call.source = map(place, self.inputs.values())
        return [call]

    def is_crowded(self):
        return self.kind == "power" and self.dim == 0 and np.prod(self.inputs["source"].shape) > 200000

    def __str__(self):
        return f"scale {self.scale}, dim {self.dim}, include_self {self.include_self}, padding {self.padding}, {self.kind}, {super().__str__()}"
