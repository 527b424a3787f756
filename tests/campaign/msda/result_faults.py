"""Faults planted in results: what a kernel writes differs from what it computed. Each takes a side's gradients by name and changes them in
place; `rng` draws where. A fault that the shape leaves no room for changes nothing."""

from ..altering import COMMON, cut, rolled, shifted, swap
from .operator import GRADIENTS

SAMPLES = GRADIENTS[1:]


def transposed(values, rng):
    x = values["grad_value"]
    x[...] = x.swapaxes(1, 2).reshape(x.shape)


def axes_swapped(values, rng):
    x = values["grad_sampling_locations"]
    x[...] = x[..., ::-1].copy()


FAULTS = {
    **COMMON,
    "queries_swapped": ("the gradients of two queries are exchanged", swap(1, SAMPLES)),
    "batches_swapped": ("those of two batches are exchanged", swap(0, GRADIENTS)),
    "heads_swapped": ("those of two heads are exchanged", swap(2, GRADIENTS)),
    "levels_swapped": ("those of two levels are exchanged", swap(3, SAMPLES)),
    "points_swapped": ("those of two points are exchanged", swap(4, SAMPLES)),
    "channels_rolled": ("grad_value lies one channel on", rolled(3, GRADIENTS[:1])),
    "axes_swapped": ("x and y of grad_sampling_locations are exchanged", axes_swapped),
    "transposed": ("grad_value is written as [B,M,S,D]", transposed),
    "stride_error": ("every element of a gradient lies one place on", shifted),
    "last_channels_missing": ("the last channels of grad_value are 0", cut(3, GRADIENTS[:1])),
    "last_queries_missing": ("the last block of queries is not handled", cut(1, SAMPLES)),
}
