"""Calls of deform_conv2d's backward kernels, in NumPy: what they compute, from the definition, in any type, and random problems.

A sample lies at offset + output position * stride - padding + tap * dilation. It is the bilinear interpolation of the input, with zeros
outside, times the mask; `columns` holds the gradient by each sample. The gradients are those of sum(columns * samples)."""

from dataclasses import dataclass

import numpy as np

from msda_replay import Invocation

NUMBERS = {"kernel_height": 3, "kernel_width": 2, "padding_height": 1, "padding_width": 2, "stride_height": 2, "stride_width": 1,
           "dilation_height": 1, "dilation_width": 2, "offset_groups": 2}


def anywhere(random, shape):
    return random.standard_normal(shape) * 1.5


def pixels(random, shape):
    return np.round(random.standard_normal(shape)) * (random.random(shape) < 0.5)


def beside(random, shape):
    """Less than half a unit of float32 below whole numbers."""
    return 2 * np.round(random.standard_normal(shape)) - np.abs(random.standard_normal(shape)) * 2.0**-27


def outside(random, shape):
    return random.standard_normal(shape) * 12


@dataclass
class Problem:
    tensors: dict   # input, offset, columns, and mask, if there is one
    numbers: dict

    def cells(self, tap, place, kind):
        """A tap's two coordinates at one output position, in a type, each with its cell; `place` is (image, group, row, column)."""
        image, group, *position = place
        numbers, taps = self.numbers, self.numbers["kernel_height"] * self.numbers["kernel_width"]
        steps = (tap // numbers["kernel_width"], tap % numbers["kernel_width"])
        found = []
        for axis, name in enumerate(("height", "width")):
            base = position[axis] * numbers[f"stride_{name}"] - numbers[f"padding_{name}"] + steps[axis] * numbers[f"dilation_{name}"]
            at = kind(base) + kind(self.tensors["offset"][image, 2 * (group * taps + tap) + axis, position[0], position[1]])
            found.append((at, int(np.floor(at))))
        return found

    def gradients(self, kind=np.float64, order=None, skips_border=False):
        """By name, in a type that every operation rounds to; `order`: of the samples. skips_border: as mmcv's, of a sample at -1, too."""
        image, offset, columns, mask = (self.tensors.get(name) for name in ("input", "offset", "columns", "mask"))
        groups, taps = self.numbers["offset_groups"], self.numbers["kernel_height"] * self.numbers["kernel_width"]
        height, width = image.shape[2:]
        grad_input, grad_offset = np.zeros(image.shape, kind), np.zeros(offset.shape, kind)
        grad_mask = np.zeros((offset.shape[0], groups * taps, *offset.shape[2:]), kind)
        samples = list(np.ndindex(offset.shape[0], groups, *offset.shape[2:], taps))
        for number in range(len(samples)) if order is None else order:
            (b, group, row, column, tap) = samples[number]
            (at_y, y), (at_x, x) = self.cells(tap, (b, group, row, column), kind)
            if skips_border and (at_y <= -1 or at_x <= -1):
                continue
            dy, dx = at_y - kind(y), at_x - kind(x)
            of_group = slice(group * image.shape[1] // groups, (group + 1) * image.shape[1] // groups)
            at = group * taps + tap
            factor = kind(mask[b, at, row, column]) if mask is not None else kind(1)
            gradient = columns[of_group, tap, b, row, column].astype(kind)
            corners = np.zeros((2, 2, gradient.size), kind)
            for lower, right in np.ndindex(2, 2):
                if 0 <= y + lower < height and 0 <= x + right < width:
                    weight = (kind(1) - abs(at_y - kind(y + lower))) * (kind(1) - abs(at_x - kind(x + right)))
                    corners[lower, right] = image[b, of_group, y + lower, x + right]
                    if weight != 0:
                        grad_input[b, of_group, y + lower, x + right] += factor * weight * gradient
            along_y = dx * (corners[1, 1] - corners[0, 1]) + (1 - dx) * (corners[1, 0] - corners[0, 0])
            along_x = dy * (corners[1, 1] - corners[1, 0]) + (1 - dy) * (corners[0, 1] - corners[0, 0])
            value = (1 - dy) * ((1 - dx) * corners[0, 0] + dx * corners[0, 1]) + dy * ((1 - dx) * corners[1, 0] + dx * corners[1, 1])
            for channel in range(gradient.size):
                grad_offset[b, 2 * at, row, column] += factor * along_y[channel] * gradient[channel]
                grad_offset[b, 2 * at + 1, row, column] += factor * along_x[channel] * gradient[channel]
                grad_mask[b, at, row, column] += gradient[channel] * value[channel]
        return {"grad_input": grad_input, "grad_offset": grad_offset, **({"grad_mask": grad_mask} if mask is not None else {})}

    def call(self, kernel, results=None, **more):
        """The invocation of one of the two kernels, "input" or "offset"."""
        results = self.gradients(self.tensors["offset"].dtype.type) if results is None else results
        names = ("columns", "offset", "mask") if kernel == "input" else ("columns", "input", "offset", "mask")
        outputs = ("grad_input",) if kernel == "input" else ("grad_offset", "grad_mask")
        return Invocation({name: self.tensors[name] for name in names if name in self.tensors},
                          {name: results[name].astype(self.tensors["offset"].dtype) for name in outputs if name in results},
                          "", facts=dict(self.numbers), kernel=f"deform_{kernel}", **more)


def drawn(seed=0, kind=np.float32, place=anywhere, has_mask=True, batch=2, channels=4, height=7, width=6, **numbers):
    random, numbers = np.random.default_rng(seed), {**NUMBERS, **numbers}
    rows, columns = ((side + 2 * numbers[f"padding_{name}"] - numbers[f"dilation_{name}"] * (numbers[f"kernel_{name}"] - 1) - 1)
                     // numbers[f"stride_{name}"] + 1 for side, name in ((height, "height"), (width, "width")))
    taps, groups = numbers["kernel_height"] * numbers["kernel_width"], numbers["offset_groups"]
    tensors = {"columns": random.standard_normal((channels, taps, batch, rows, columns)), "input": random.standard_normal((batch, channels, height, width)),
               "offset": place(random, (batch, 2 * groups * taps, rows, columns)),
               **({"mask": random.random((batch, groups * taps, rows, columns))} if has_mask else {})}
    return Problem({name: array.astype(kind) for name, array in tensors.items()}, numbers)
