"""Random backward calls of roi_pool, ps_roi_pool and ps_roi_align, with the boxes of ROIAlign's."""

import numpy as np

from msda_replay.libmsda import ROI_POOLINGS, RoiPoolCall

from . import roi_align
from .laid import Laid


class Problem(roi_align.Problem):
    functions = ("roi_pool_backward",)

    def __init__(self, number, work, seed=2026, finite=False):
        super().__init__(number, work, seed, finite)
        rng, shape = self.rng, list(self.inputs["grad_output"].shape)
        self.pooling = list(ROI_POOLINGS)[number % 3]
        if self.pooling != "roi_pool":
            shape[1] = min(shape[1], 3)
            self.C = shape[1] * shape[2] * shape[3]
        pixels = int(np.prod(self.sides))
        most = rng.choice([pixels, min(3, pixels)])  # a few pixels, which many bins name
        numbers = rng.integers(-1, most, int(np.prod(shape)))
        self.inputs = {"boxes": self.inputs["boxes"], "grad_output": self.laid(shape, rng.standard_normal),
                       "indices": Laid("int32", shape, contents=lambda n: numbers[:n], contiguous=True)}

    def call(self, place, function):
        call = RoiPoolCall(ROI_POOLINGS[self.pooling], self.ratio, self.spatial_scale)
        call.boxes, call.grad_output, call.indices = map(place, self.inputs.values())
        return [call]

    def is_crowded(self):
        return super().is_crowded() or self.K >= 300 and self.C > 100 and self.kind == "anywhere" and min(self.sides) > 20

    def __str__(self):
        return f"{self.pooling}, {super().__str__()}"
