"""Random backward calls of deform_conv2d, with samples inside, on whole pixels and outside."""

import numpy as np

from msda_replay.libmsda import DeformCall, derived

from .laid import STRANGE, Drawn, Laid


class Problem(Drawn):
    functions, needs_all = ("deform_conv2d_backward",), True

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.begin(finite)
        self.N, self.groups, of_group = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 4])), int(rng.choice([1, 3, 8, 16, 40]))
        self.sides, self.out = ([int(side) for side in rng.integers(1, most, 2)] for most in (30, 25))
        self.conventions = [[int(x) for x in rng.integers(low, 4, 2)] for low in (1, 1, 0, 1)]  # kernel, stride, padding, dilation
        taps = int(np.prod(self.conventions[0]))
        while self.N * self.groups * of_group * taps * np.prod(self.out) > work and max(self.out) > 1:
            self.out = [max(1, side // 2) for side in self.out]
        if number % 13 == 5:
            self.N, of_group = [(0, 2), (2, 0)][number // 13 % 2]
        self.C, spread = self.groups * of_group, float(rng.choice([0, 1, 20]))
        self.shapes = {"input": (self.N, self.C, *self.sides), "offset": (self.N, 2 * self.groups * taps, *self.out),
                       "mask": (self.N, self.groups * taps, *self.out), "columns": (self.N, self.C, taps, int(np.prod(self.out)))}  # fmt: skip
        self.has_mask, is_whole = bool(rng.integers(2)), rng.random() < 0.3
        contents = {"offset": lambda n: (np.round if is_whole else np.asarray)(spread * rng.standard_normal(n))}
        self.inputs = {name: Laid(self.dtype, shape, contents=self.strange(contents.get(name, rng.standard_normal)), contiguous=True)
                       for name, shape in self.shapes.items() if name != "mask" or self.has_mask}

    def strange(self, contents):
        def numbers(n):
            x = contents(n)
            if self.is_strange and n:
                x[self.rng.integers(0, n, max(1, n // 60))] = self.rng.choice(STRANGE)
            return x
        return numbers

    def shapes_of(self, function):
        return {f"grad_{name}": self.shapes[name] for name in self.shapes}

    def results_of(self, function, dtype=None):
        return [Laid(self.dtype, shape, contiguous=True) if name != "mask" or self.has_mask else None for name, shape in self.shapes.items()]

    def call(self, place, function):
        call = DeformCall(*(tuple(pair) for pair in self.conventions), self.groups)
        call.mask = derived()  # none
        for name, laid in self.inputs.items():
            setattr(call, "grad_columns" if name == "columns" else name, place(laid))
        return [call]

    def is_crowded(self):
        return self.N > 1 and self.C >= 8 and self.has_mask and self.dtype == "float32" and min(self.sides) > 5

    def __str__(self):
        return f"conventions {self.conventions}, {self.groups} groups, {super().__str__()}"
