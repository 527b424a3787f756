"""The backward pass of grid_sample, written from its definition: exactly, or as a kernel of a given arithmetic computes it, in PyTorch's
order of operations or in others. Each step can be tampered with: that is how faults are planted.

Axes are x, y, z: the last one of an image first, as the grid has them."""

from dataclasses import dataclass, field
from typing import Dict

import numpy as np

from ..rounding import round_to
from ..steps import EXACT, Tampering, scatter, sum_over_channels
from .taps import locate

GRADIENTS = ("grad_input", "grad_grid")


@dataclass(frozen=True)
class Conventions:
    interpolation: str = "bilinear"
    padding: str = "zeros"
    align_corners: bool = False

    def attributes(self):
        """Returns the attributes of a capture's invocation."""
        return {"interpolation": self.interpolation, "padding_mode": self.padding, "align_corners": int(self.align_corners)}

    def of_reference(self):
        """The attributes of the results of a reference that has these conventions."""
        return {}


@dataclass(frozen=True)
class Problem:
    """Inputs, in float64 arrays of numbers that `type` has."""

    input: np.ndarray        # [N,C,(D,)H,W]
    grid: np.ndarray         # [N,(D,)H,W,2 or 3]
    grad_output: np.ndarray  # [N,C,(D,)H,W]
    type: str = "float32"
    strides: Dict[str, tuple] = field(default_factory=dict)  # of inputs that were not row-major in the recorded program

    operator = "grid_sample"
    gradients = GRADIENTS
    scattered = "grad_input"
    begins_with = {}  # output buffers that results go on from

    @property
    def axes(self):
        return self.grid.shape[-1]

    @property
    def sides(self):
        """By axis."""
        return self.input.shape[:1:-1]

    def shape_of(self, gradient):
        return {"grad_input": self.input, "grad_grid": self.grid}[gradient].shape

    def attributes(self):
        """Returns the attributes of a capture's invocation, besides the conventions."""
        return {}

    def inputs(self):
        """As a capture has them: name, numbers and type."""
        yield "grad_output", self.grad_output, self.type
        yield "input", self.input, self.type
        yield "grid", self.grid, self.type


@dataclass
class Samples:
    """All samples of a call, flat, in the order of the grid."""

    b: np.ndarray   # the batch
    at: np.ndarray  # the place in it
    problem: Problem

    def alike(self, entry):
        """Sets of samples: all, those of the batch and of the column of one, and that one."""
        count, width = len(self.b), self.problem.grid.shape[-2]
        return [np.ones(count, bool), self.b == self.b[entry], self.at % width == self.at[entry] % width, np.arange(count) == entry]


def samples_of(problem):
    places = int(np.prod(problem.grid.shape[1:-1]))
    index = np.arange(problem.grid.shape[0] * places)
    return Samples(index // max(places, 1), index % max(places, 1), problem)


def of_samples(problem, s):
    """grad_output [N,C]."""
    shape = problem.grad_output.shape
    return problem.grad_output.reshape(*shape[:2], int(np.prod(shape[2:])))[s.b, :, s.at]


def joined(x):
    """The second and third dimension as one."""
    return x.reshape(len(x), x.shape[1] * x.shape[2], *x.shape[3:])


def corners_of(axes, sides):
    """Pixels that samples read [N,K], row-major, x fastest, and whether each is there."""
    row, there = np.zeros((len(axes[0].pixels), 1), np.int64), np.ones((len(axes[0].pixels), 1), bool)
    for axis, side in zip(axes[::-1], sides[::-1]):
        inside = axis.there & (axis.pixels >= 0) & (axis.pixels < side)
        row = joined(row[:, :, None] * side + np.clip(axis.pixels, 0, side - 1)[:, None])
        there = joined(there[:, :, None] & inside[:, None])
    return row, there


def spread(factors, multiply):
    """The products [N,K] of one factor [N,T] of each axis, x fastest."""
    total = None
    for factor in factors:
        total = factor if total is None else joined(multiply(total[:, None], factor[:, :, None]))
    return total


def in_series(products, grad_output, arithmetic):
    """The sum over [N,C,K] as PyTorch adds: each channel's pixels, one after the other."""
    total = np.zeros(len(products))
    for channel in range(products.shape[1]):
        for corner in range(products.shape[2]):
            total = arithmetic.multiply_add(products[:, channel, corner], grad_output[:, channel, corner], total)
    return total


def nested(value, factors, arithmetic):
    """[N,C,K] interpolated along one axis after the other: [N,C,1]."""
    for factor in factors:
        value = value.reshape(*value.shape[:2], value.shape[2] // factor.shape[1], factor.shape[1])
        total = arithmetic.multiply(value[..., 0], factor[:, None, None, 0])
        for tap in range(1, factor.shape[1]):
            total = arithmetic.multiply_add(value[..., tap], factor[:, None, None, tap], total)
        value = total
    return value


def along_axis(own, axes, value, grad_output, scale, t):
    """The gradient of the grid along one axis [N], of pixels and of gradients of the output [N,C,K]."""
    factors = [axis.slopes if number == own else axis.weights for number, axis in enumerate(axes)]
    if t.real == "exact":
        return (value * spread(factors, np.multiply)[:, None] * grad_output).sum((1, 2)) * scale
    if t.slopes == "differences":
        products, grad_output = nested(value, factors, t), grad_output[:, :, :1]
    else:
        products = t.multiply(value, spread(factors, t.multiply)[:, None])
    if t.scaled == "before":
        grad_output = t.multiply(grad_output, scale[:, None, None])
    if t.channels == "serial":
        total = in_series(products, grad_output, t)
    else:
        total = sum_over_channels(joined(t.multiply(products, grad_output)), t)
    return total if t.scaled == "before" else t.multiply(scale, total)


def addends_of(t, axes, grad_output):
    """What each pixel that a sample reads gets of it [N,K,C]."""
    if t.factors == "axes":
        total = grad_output[:, None]
        for axis in axes:
            total = joined(t.multiply(total[:, None], axis.weights[:, :, None, None]))
        return total
    return t.multiply(spread([axis.weights for axis in axes], t.multiply)[:, :, None], grad_output[:, None])


def grid_gradient(problem, axes, grad_output, t, tampering, s):
    working = grad_output.dtype
    pixels = int(np.prod(problem.sides))
    rows, there = tampering("reads", corners_of(axes, problem.sides), s)
    batch = tampering("source", s.b, s)
    image = problem.input.reshape(*problem.input.shape[:2], pixels).astype(working)
    value = image[batch[:, None], :, np.clip(rows, 0, pixels - 1)].swapaxes(1, 2)
    there = there & (rows >= 0) & (rows < pixels)
    value = np.where(there[:, None], value, 0)
    # A sample that reads nothing has no gradient, whatever the output's is.
    there = there.any(1, keepdims=True) if t.slopes == "differences" else there
    grad_output = np.where(there[:, None], tampering("grid_terms", grad_output, s)[:, :, None], 0)
    scales = tampering("scales", tuple(axis.scale for axis in axes), s)
    gradients = tuple(along_axis(number, axes, value, grad_output, scales[number], t) for number in range(len(axes)))
    return np.stack(tampering("across", gradients, s), -1)


def input_gradient(problem, axes, grad_output, t, tampering, s):
    pixels, channels = int(np.prod(problem.sides)), problem.input.shape[1]
    rows, there = tampering("lands", corners_of(axes, problem.sides), s)
    batch = tampering("target", s.b, s)
    keys = np.where(there & (rows >= 0) & (rows < pixels), batch[:, None] * pixels + rows, -1)
    addends = addends_of(t, axes, grad_output).astype(grad_output.dtype)
    keys, addends = tampering("addends", (keys.reshape(-1), addends.reshape(-1, channels)), s)
    total = scatter((len(problem.input) * pixels, channels), keys, addends, t)
    return total.reshape(len(problem.input), pixels, channels).swapaxes(1, 2)


def backward(problem, conventions, arithmetic=EXACT, tampering=None):
    """Gradients by name."""
    tampering = tampering or Tampering()
    s, t = samples_of(problem), arithmetic
    working = np.longdouble if t.real == "exact" else np.float64
    with np.errstate(all="ignore"):
        grad_output = tampering("grad_output", of_samples(problem, s).astype(working), s)
        # A kernel that has other conventions for one of its gradients than for the other.
        read, added = (tampering(step, conventions, s) for step in ("conventions_read", "conventions_added"))
        axes = locate(problem, read, t, tampering, s)
        grid = grid_gradient(problem, axes, grad_output, t, tampering, s)
        if read.interpolation == "nearest":
            grid = np.zeros_like(grid)
        axes = axes if read == added else locate(problem, added, t, tampering, s)
        gradients = input_gradient(problem, axes, grad_output, t, tampering, s), grid
    return {name: round_to(t.stored, result).reshape(problem.shape_of(name)) for name, result in zip(GRADIENTS, gradients)}
