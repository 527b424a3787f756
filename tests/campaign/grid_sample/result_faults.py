"""Faults planted in results: what a kernel writes differs from what it computed. Each takes a side's gradients by name and changes them in
place; `rng` draws where. A fault that the shape leaves no room for changes nothing."""

from ..altering import COMMON, change_all, cut, rolled, shifted, swap

INPUT, GRID = ("grad_input",), ("grad_grid",)


def transposed(values, rng):
    x = values["grad_input"]
    x[...] = x.swapaxes(-1, -2).reshape(x.shape)


def channels_last(values, rng):
    x = values["grad_input"]
    x[...] = x.swapaxes(1, -1).reshape(x.shape)


def axes_exchanged(entry, another):
    def plant(values, rng):
        x = values["grad_grid"]
        x[..., [entry, another]] = x[..., [another, entry]]
    return plant


FAULTS = {
    **COMMON,
    "scale_1.01": ("a gradient is 1 % too large", change_all(lambda x, rng: x * 1.01)),
    "scale_1.0001": ("a gradient is too large by 1e-4 of itself", change_all(lambda x, rng: x * 1.0001)),
    "rows_swapped": ("the gradients of two rows (in 3D slices) of the grid are exchanged", swap(1, GRID)),
    "batches_swapped": ("those of two batches are exchanged", swap(0, INPUT + GRID)),
    "channels_swapped": ("those of two channels are exchanged", swap(1, INPUT)),
    "channels_rolled": ("grad_input lies one channel on", rolled(1, INPUT)),
    "columns_rolled": ("grad_input lies one column on", rolled(-1, INPUT)),
    "axes_swapped": ("x and y of grad_grid are exchanged", axes_exchanged(0, 1)),
    "x_z_swapped": ("x and z of grad_grid are exchanged, in 3D", axes_exchanged(0, -1)),
    "transposed": ("grad_input is written with rows and columns exchanged", transposed),
    "channels_last": ("grad_input is written with channels and columns exchanged", channels_last),
    "stride_error": ("every element of a gradient lies one place on", shifted),
    "last_channels_missing": ("the last channels of grad_input are 0", cut(1, INPUT)),
    "last_rows_missing": ("the last rows of the grid are not handled", cut(1, GRID)),
}
