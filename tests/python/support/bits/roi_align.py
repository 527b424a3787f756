"""Random backward calls of ROIAlign, with boxes inside, across the borders and outside, empty and turned around, in every type and layout."""

import numpy as np

from msda_replay.libmsda import RoiAlignCall

from .laid import Drawn, Laid


class Problem(Drawn):
    functions = ("roi_align_backward",)

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.begin(finite)
        self.N, self.C = int(rng.integers(1, 4)), int(rng.choice([1, 3, 8, 13, 32]))
        self.sides = [int(rng.integers(1, most)) for most in rng.choice([2, 10, 70], 2)]
        bins = [(7, 7), (7, 7), (14, 14), (1, 1), (2, 5), (17, 3)][int(rng.integers(6))]
        self.K = int(rng.choice([1, 5, 40, 300]))
        while self.K * self.C * np.prod(bins) > work and self.K > 1:
            self.K //= 2
        if number % 13 == 5:
            self.K, self.N, self.C = [(0, 2, 3), (0, 0, 3), (4, 2, 0)][number // 13 % 3]
        self.ratio, self.aligned = int(rng.choice([0, 0, 1, 2, 3, -1])), int(rng.integers(2))
        self.spatial_scale = float(rng.choice([1, 0.25, 1 / 16, 0.3]))
        self.kind = str(rng.choice(["anywhere", "anywhere", "small", "one place", "whole", "ties"]))
        boxes = np.zeros((self.K, 5))
        boxes[:, 0] = rng.integers(0, max(self.N, 1), self.K)
        boxes[:, 1:] = self.edges().reshape(self.K, 4) / self.spatial_scale
        self.inputs = {"boxes": Laid(self.dtype, boxes.shape, contents=lambda n: boxes.reshape(-1)[:n]),
                       "grad_output": self.laid((self.K, self.C, *bins), rng.standard_normal)}

    def shapes_of(self, function):
        return {"grad_input": (self.N, self.C, *self.sides)}

    def edges(self):
        """In pixels: x1, y1, x2, y2."""
        rng, size = self.rng, np.array(self.sides[::-1])
        if self.kind == "whole":
            return np.tile([0, 0, *size], (self.K, 1)).astype(float)
        spread = {"small": 1.5, "one place": 2}.get(self.kind)
        first = rng.uniform(-0.3, 1.2, (self.K, 2)) * size
        if self.kind == "one place":
            first = np.tile(size * rng.random(2), (self.K, 1))
        second = first + rng.random((self.K, 2)) * (size if spread is None else spread)
        turned = rng.random(self.K) < 0.1
        first[turned], second[turned] = second[turned], first[turned].copy()
        edges = np.concatenate([first, second], axis=1)
        if self.kind == "ties":
            edges = np.round(2 * edges) / 2
        if self.is_strange and self.K:
            which = rng.integers(0, 4 * self.K, max(1, self.K // 8))
            edges.reshape(-1)[which] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30, 1e7, -0.0], len(which))
        return edges

    def call(self, place, function):
        call = RoiAlignCall(self.spatial_scale, self.ratio, self.aligned)
        call.boxes, call.grad_output = map(place, self.inputs.values())
        return [call]

    def is_crowded(self):
        return self.K >= 300 and self.C >= 13 and self.kind == "anywhere" and min(self.sides) > 20

    def __str__(self):
        return (f"image {self.N}x{self.C}x{self.sides}, scale {self.spatial_scale}, ratio {self.ratio}, aligned {self.aligned}, {self.kind}, "
                f"{super().__str__()}")
