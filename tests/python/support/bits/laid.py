"""Tensors of random layouts, and what the random calls of all operators draw."""

import numpy as np

from msda_replay.libmsda import FLOATS as REALS
from msda_replay.libmsda import tensor_at

STORED = {"bfloat16": np.dtype("u2")}  # NumPy has no such type
STRANGE = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1e30, -1e30, 1e-40)
GUARD = 64  # bytes after every tensor


class Laid:
    """A tensor somewhere in a piece of memory, with strides in elements. `order`: its dimensions, outermost first."""

    def __init__(self, dtype, shape, rng=None, contents=None, contiguous=False, order=None):
        self.dtype, self.shape, self.rank = dtype, tuple(shape), len(shape)
        self.stored = STORED.get(dtype) or np.dtype(dtype)
        strides, step, self.offset = [0] * self.rank, 1, 0
        plain = contiguous or rng is None or rng.random() < 0.6
        order = order or (range(self.rank) if plain else rng.permutation(self.rank))
        if not plain:
            step = int(rng.choice([1, 1, 2]))
        for axis in reversed(list(order)):
            strides[axis] = step
            step = step * max(shape[axis], 1) + (0 if plain else int(rng.choice([0, 0, 1, 3])))
        if not plain and self.rank:
            self.offset = int(rng.integers(0, 4))
            axis = int(rng.integers(self.rank))
            if rng.random() < 0.3 and shape[axis]:  # negative stride
                self.offset += (shape[axis] - 1) * strides[axis]
                strides[axis] = -strides[axis]
            elif rng.random() < 0.3 and contents is not None:  # stride 0, which a result cannot have
                strides[axis] = 0
        elif rng is not None:
            self.offset = int(rng.choice([0, 0, 1, 2]))
        self.strides = strides
        elements = 0
        if all(shape):
            elements = self.offset + 1 + sum((n - 1) * stride for n, stride in zip(shape, strides) if stride > 0)
        self.memory = np.full(elements * self.stored.itemsize + GUARD, 0xFF, np.uint8)
        if contents is not None:
            self.fill(contents)

    def fill(self, contents):
        """`contents(n)`: n numbers, which fill the memory whatever the strides."""
        numbers = self.memory[:-GUARD].view(self.stored)
        numbers[:] = as_stored(contents(len(numbers)), self.dtype)

    def at(self, pointer):
        data = pointer + self.offset * self.stored.itemsize if all(self.shape) else None
        return tensor_at(data, self.dtype, self.shape, self.strides)

    def __str__(self):
        return f"{self.dtype}{list(self.shape)}/{self.strides}"


def as_stored(numbers, dtype):
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return numbers.astype(dtype)


class Drawn:
    """A random call of an operator. Subclasses draw its sizes, then begin(), then its `inputs`; they have

    functions: the C functions, the last of which is the backward pass; mixes_types: whether inputs and results may have other types;
    shapes_of(function): the results' shapes, by name; call(place, function): the C structures before the options, whose tensors are
    `place(laid)`; is_crowded(): whether many addends meet, for repeated runs.
    needs_all: whether every result must be wanted; `finite`: without NaN and the like."""

    may_mix_types = needs_all = False

    def begin(self, finite):
        rng = self.rng
        self.dtype = str(rng.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
        self.mixes_types = self.may_mix_types and rng.random() < 0.2
        self.is_strange = rng.random() < 0.3 and not finite
        self.in_stream = int(rng.integers(2))

    def a_type(self):
        return str(self.rng.choice(REALS))

    def laid(self, shape, contents):
        def numbers(n):
            x = np.asarray(contents(n), np.float64)
            if self.is_strange and n:
                which = self.rng.integers(0, n, max(1, n // 60))
                x[which] = self.rng.choice(STRANGE, len(which))
            return x
        return Laid(self.a_type() if self.mixes_types else self.dtype, shape, self.rng, numbers)

    def result(self, shape, dtype=None):
        return Laid(dtype or (self.a_type() if self.rng.random() < 0.5 else "float32"), shape, self.rng)

    def results_of(self, function, dtype=None):
        return [self.result(shape, dtype) for shape in self.shapes_of(function).values()]

    def __str__(self):
        return ", ".join(map(str, self.inputs.values()))
