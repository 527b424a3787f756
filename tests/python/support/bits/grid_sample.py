"""Random backward calls of grid_sample, in every variant, type and layout."""

import numpy as np

from msda_replay.libmsda import GridCall

from .laid import Drawn

BILINEAR, NEAREST, BICUBIC = range(3)
CHANNELS = (1, 3, 30, 32, 33, 71)
MANY_SAMPLES = 16384  # too many for one block to group


class Problem(Drawn):
    functions, may_mix_types = ("grid_sample_backward",), True

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.axes = int(rng.choice([2, 2, 3]))
        self.conventions = (int(rng.choice([BILINEAR, BILINEAR, NEAREST])), int(rng.integers(3)), int(rng.integers(2)))
        self.N, self.C = int(rng.integers(1, 4)), int(CHANNELS[number % len(CHANNELS)])
        side = int(rng.choice([1, 3, 9, 40] if self.axes == 2 else [1, 3, 9]))
        self.sides = tuple(int(rng.integers(1, side + 1)) for _ in range(self.axes))
        self.shape = tuple(int(rng.choice([1, 7, 30])) for _ in range(self.axes))
        self.kind = str(rng.choice(["anywhere", "anywhere", "one place", "crowded", "ties"]))
        if number % 7 == 3:  # grouped by counting in global memory
            self.C, self.N, self.shape = 2, 1, (1,) * (self.axes - 1) + (MANY_SAMPLES + 500,)
        elif number % 7 == 4:  # many addends to a pixel
            self.N, self.shape, self.kind = 2, (1,) * (self.axes - 1) + (3000,), str(rng.choice(["one place", "crowded"]))
        elif number % 7 == 5:  # too many samples to copy, so that their channels are put side by side
            self.C, self.N, self.shape = 11, 1, (1,) * (self.axes - 1) + (2500,)
        while self.N * self.C * np.prod(self.shape) > work and self.C > 2:
            self.C //= 2
        if number % 13 == 5:  # one size is 0
            if number // 13 % 3 == 0:
                self.N = 0
            elif number // 13 % 3 == 1:
                self.C = 0
            else:
                self.shape = (0, *self.shape[1:])
        self.begin(finite)
        self.inputs = {
            "input": self.laid((self.N, self.C, *self.sides), rng.standard_normal),
            "grid": self.laid((self.N, *self.shape, self.axes), self.locations),
            "grad_output": self.laid((self.N, self.C, *self.shape), rng.standard_normal),
        }

    def shapes_of(self, function):
        return {"grad_input": self.inputs["input"].shape, "grad_grid": self.inputs["grid"].shape}

    def call(self, place, function):
        call = GridCall(*self.conventions)
        call.input, call.grid, grad_output = map(place, self.inputs.values())
        return [call, grad_output]

    def most_addends(self):
        return 8 * int(np.prod(self.shape))

    def is_crowded(self):
        return self.kind == "crowded" and self.C > 20 and np.prod(self.shape) > 800

    def locations(self, n):
        if self.kind == "one place":
            return np.full(n, self.rng.uniform(-1, 1))
        if self.kind == "crowded":
            return self.rng.normal(0, 0.05, n)
        if self.kind == "ties":  # centres, edges and corners of pixels
            size = self.rng.choice(self.sides, n)
            return self.rng.integers(-2, 2 * size + 3) / size - 1
        return self.rng.uniform(-2.2, 2.2, n)

    def __str__(self):
        return f"conventions {self.conventions}, {self.kind}, {super().__str__()}"
