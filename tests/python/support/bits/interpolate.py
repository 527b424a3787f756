"""Random backward calls of interpolate, in every mode, type and layout, enlarged and reduced."""

import numpy as np

from msda_replay.libmsda import InterpolateCall

from .laid import Drawn

NEAREST, NEAREST_EXACT, LINEAR, CUBIC = range(4)


class Problem(Drawn):
    functions = ("interpolate_backward",)

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.begin(finite)
        self.mode, self.align = int(rng.choice([NEAREST, NEAREST_EXACT, LINEAR, LINEAR, CUBIC])), int(rng.integers(2))
        axes = int(rng.choice([1, 2, 2, 2, 3]))
        self.image = [int(rng.integers(1, {1: 400, 2: 60, 3: 14}[axes])) for _ in range(axes)]
        self.out = [max(1, round(side * rng.choice([0.3, 0.5, 1, 1.7, 2, 2, 3.3, 12]))) for side in self.image]
        self.N, self.C = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 4, 5, 16]))
        if number % 7 == 3:  # few pixels with many readers
            self.image, self.out = [int(rng.integers(1, 3)) for _ in range(axes)], [int(rng.integers(20, 200)) for _ in range(axes)]
        while self.N * self.C * np.prod(self.out) > work and max(self.out) > 1:
            self.C = max(1, self.C // 2)
            self.out[int(np.argmax(self.out))] //= 2
        if number % 13 == 5:
            self.N, self.C = [(0, 2), (2, 0)][number // 13 % 2]
        given = rng.random() < 0.4  # a factor that does not quite fit the sizes, as PyTorch's recompute_scale_factor leaves it
        self.scale = [float(out / side * rng.uniform(0.97, 1.03)) if given else 0.0 for side, out in zip(self.image, self.out)]
        self.inputs = {"grad_output": self.laid((self.N, self.C, *self.out), rng.standard_normal)}

    def shapes_of(self, function):
        return {"grad_input": (self.N, self.C, *self.image)}

    def call(self, place, function):
        call = InterpolateCall(self.mode, self.align)
        call.scale[:len(self.scale)] = self.scale[::-1]
        call.grad_output = place(self.inputs["grad_output"])
        return [call]

    def is_crowded(self):
        return self.mode == LINEAR and len(self.image) == 2 and np.prod(self.inputs["grad_output"].shape) > 60000

    def __str__(self):
        return f"mode {self.mode}, align_corners {self.align}, image {self.image}, scale {self.scale}, {super().__str__()}"
