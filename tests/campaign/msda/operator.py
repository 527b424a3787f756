"""The backward pass of multi-scale deformable attention, written from its definition: exactly, or as a kernel of a given arithmetic
computes it. Each step can be tampered with: that is how faults are planted."""

from dataclasses import dataclass

import numpy as np

from ..rounding import round_to
from ..steps import EXACT, Tampering, scatter, sum_over_channels

GRADIENTS = ("grad_value", "grad_sampling_locations", "grad_attention_weights")


@dataclass(frozen=True)
class Conventions:
    dialect: str
    padding: str = "zeros"
    align_corners: bool = False

    @property
    def clamps(self):
        """Corners outside of the level read the border."""
        return self.dialect == "msda_triton" and self.padding == "border"

    def attributes(self):
        """Returns the attributes of a capture's invocation."""
        return {"dialect": self.dialect, "padding_mode": self.padding, "align_corners": self.align_corners}

    def of_reference(self):
        """The attributes of the results of a reference that has these conventions."""
        return {"dialect": self.dialect}


@dataclass(frozen=True)
class Problem:
    """Inputs, in float64 arrays of numbers that `type` has. Levels are (height, width)."""

    levels: tuple
    value: np.ndarray        # [B,S,M,D]
    locations: np.ndarray    # [B,Q,M,L,P,2]
    attention: np.ndarray    # [B,Q,M,L,P]
    grad_output: np.ndarray  # [B,Q,M,D]
    type: str = "float32"

    operator = "msda"
    gradients = GRADIENTS
    scattered = "grad_value"
    begins_with = {}  # output buffers that results go on from
    strides = {}  # of inputs that were not row-major: none

    @property
    def starts(self):
        return np.cumsum([0] + [h * w for h, w in self.levels])[:-1]

    def shape_of(self, gradient):
        given = {"grad_value": self.value, "grad_sampling_locations": self.locations, "grad_attention_weights": self.attention}
        return given[gradient].shape

    def attributes(self):
        """Returns the attributes of a capture's invocation, besides the conventions."""
        return {}

    def inputs(self):
        """As a capture has them: name, numbers and type."""
        yield "spatial_shapes", np.array(self.levels), "int64"
        yield "level_start_index", np.array(self.starts), "int64"
        yield "value", self.value, self.type
        yield "sampling_locations", self.locations, self.type
        yield "attention_weights", self.attention, self.type
        yield "grad_output", self.grad_output, self.type


@dataclass
class Samples:
    """All samples of a call, flat, in the order of attention_weights: where each belongs, and its level's size."""

    b: np.ndarray
    q: np.ndarray
    m: np.ndarray
    l: np.ndarray
    p: np.ndarray
    height: np.ndarray
    width: np.ndarray
    start: np.ndarray
    problem: Problem

    def alike(self, entry):
        """Sets of samples: all, those of the level, head and query of one, and that one."""
        count = len(self.b)
        return [np.ones(count, bool), self.l == self.l[entry], self.m == self.m[entry], self.q == self.q[entry], np.arange(count) == entry]


def samples_of(problem):
    b, q, m, l, p = (index.ravel() for index in np.indices(problem.attention.shape))
    sizes = np.array(problem.levels)
    return Samples(b, q, m, l, p, sizes[l, 0], sizes[l, 1], problem.starts[l], problem)


@dataclass
class Axis:
    pixel: np.ndarray
    low: np.ndarray  # integers: the corner at or left of the pixel, within [-2, size]
    fraction: np.ndarray
    slope: np.ndarray  # d pixel / d location
    sampled: np.ndarray


def pixel_coordinate(conventions, location, size, arithmetic):
    """By the dialect's formula, as written or contracted."""
    r = arithmetic.round
    if conventions.dialect == "grid_sample":
        grid = r(r(location + location) - 1)
        if conventions.align_corners:
            return r(r(r(grid + 1) * 0.5) * (size - 1))
        if arithmetic.fused:
            return r(arithmetic.multiply_add(r(grid + 1), size, -1.0) * 0.5)
        return r(r(r(r(grid + 1) * size) - 1) * 0.5)
    if conventions.align_corners:
        return r(location * (size - 1))
    return arithmetic.multiply_add(location, size, -0.5)


def locate(conventions, location, size, arithmetic, tampering, samples):
    pixel = tampering("pixel", pixel_coordinate(conventions, location, size, arithmetic), (samples, size))
    last = size - 1
    slope = np.where(np.isnan(location), 1, last if conventions.align_corners else size).astype(pixel.dtype)
    at, sampled = pixel, np.ones(pixel.shape, bool)
    if conventions.dialect == "grid_sample":
        if conventions.padding == "border":
            slope = tampering("border_slope", np.where((pixel <= 0) | (pixel >= last), 0, slope), (samples, slope))
            at = np.where(pixel <= 0, 0, np.where(pixel >= last, last, pixel))
        sampled = np.isfinite(at)
    elif conventions.dialect == "deformable_detr":
        sampled = (pixel > -1) & (pixel < size)
    sampled = tampering("sampled", sampled, (samples, pixel))
    floor = tampering("floor", np.floor(at), at)
    fraction = arithmetic.round(at - floor)
    if arithmetic.refined and conventions.align_corners and conventions.dialect == "msda_triton":
        fraction = arithmetic.multiply_add(location, last, -floor)
    low = np.where(floor >= -1, np.minimum(floor, size), -2)
    return Axis(pixel, np.where(np.isnan(low), -2, low).astype(np.int64), fraction, slope, sampled)


def corners_of(conventions, x, y, samples, width, height):
    """Rows of `value` that the corners (y0,x0) (y0,x1) (y1,x0) (y1,x1) read [N,4], and whether each is there."""
    rows, there = [], []
    for upper_y in (0, 1):
        for upper_x in (0, 1):
            column, line = x.low + upper_x, y.low + upper_y
            inside = (column >= 0) & (column < width) & (line >= 0) & (line < height)
            column, line = np.clip(column, 0, width - 1), np.clip(line, 0, height - 1)
            rows.append(line * width + column)
            there.append((inside | conventions.clamps) & x.sampled & y.sampled)
    return np.stack(rows, 1), np.stack(there, 1)


def location_terms(corner, fx, fy, arithmetic):
    """d sampled_value / d pixel along x and y, of each channel [N,D]."""
    v00, v01, v10, v11 = (corner[:, i] for i in range(4))
    fx, fy = fx[:, None], fy[:, None]
    rx, ry = arithmetic.round(1 - fx), arithmetic.round(1 - fy)

    def across(near_low, near_high, far_low, far_high, rest, fraction):
        if arithmetic.slopes == "differences":
            near = arithmetic.multiply(rest, arithmetic.round(near_high - near_low))
            return arithmetic.multiply_add(fraction, arithmetic.round(far_high - far_low), near)
        total = -arithmetic.multiply(rest, near_low)
        for factor, v in ((rest, near_high), (-fraction, far_low), (fraction, far_high)):
            total = arithmetic.multiply_add(factor, v, total)
        return total

    return across(v00, v01, v10, v11, ry, fy), across(v00, v10, v01, v11, rx, fx)


def backward(problem, conventions, arithmetic=EXACT, tampering=None, initial=None):
    """Gradients by name. `initial`: what the buffer of grad_value holds before."""
    tampering = tampering or Tampering()
    s, t = samples_of(problem), arithmetic
    with np.errstate(all="ignore"):
        working = np.longdouble if t.real == "exact" else np.float64
        at = problem.locations.reshape(-1, 2).astype(working)
        location = tampering("locations", (at[:, 0], at[:, 1]), s)
        width, height = tampering("sizes", (s.width, s.height), s)
        x = locate(conventions, location[0], width, t, tampering, s)
        y = locate(conventions, location[1], height, t, tampering, s)
        rows, there = corners_of(conventions, x, y, s, width, height)
        pixels = problem.value.shape[1]
        start = tampering("starts", s.start, s)[:, None]
        read, reads = tampering("reads", (rows + start, there), s)
        batch, head = tampering("source", (s.b, s.m), s)
        corner = problem.value.astype(working)[batch[:, None], np.clip(read, 0, pixels - 1), head[:, None]]
        corner = np.where((reads & (read >= 0) & (read < pixels))[:, :, None], corner, 0)
        fx, fy = tampering("fractions", (x.fraction, y.fraction), s)
        rx, ry = t.round(1 - fx), t.round(1 - fy)
        weights = tampering("weights", np.stack([t.multiply(a, b) for a, b in ((ry, rx), (ry, fx), (fy, rx), (fy, fx))], 1), s)
        grad_output = tampering("grad_output", problem.grad_output.astype(working)[s.b, s.q, s.m], s)
        attention = problem.attention.reshape(-1).astype(working)
        slope_x, slope_y = tampering("slopes", (x.slope, y.slope), s)

        sampled = t.multiply(weights[:, 0, None], corner[:, 0])
        for i in range(1, 4):
            sampled = t.multiply_add(weights[:, i, None], corner[:, i], sampled)
        terms = tampering("attention_terms", t.multiply(grad_output, sampled), s)
        grad_attention = sum_over_channels(terms, t)
        grad_attention = np.where(x.sampled & y.sampled, grad_attention, 0)

        by_location = []
        scale = tampering("location_attention", attention, s)
        for across, slope in zip(tampering("across", location_terms(corner, fx, fy, t), s), (slope_x, slope_y)):
            if t.scaled == "before":
                terms = t.multiply(t.multiply(slope[:, None], across), t.multiply(grad_output, scale[:, None]))
                gradient = sum_over_channels(terms, t)
            else:
                gradient = t.multiply(t.multiply(sum_over_channels(t.multiply(grad_output, across), t), scale), slope)
            by_location.append(np.where(x.sampled & y.sampled, gradient, 0))

        scale = tampering("value_attention", attention, s)
        addends = addends_of(t, weights, (rx, fx, ry, fy), scale, grad_output, "weights" in tampering.steps)
        lands, lands_there = tampering("lands", (rows + start, there), s)
        lands_there = lands_there & (lands >= 0) & (lands < pixels)
        heads = problem.value.shape[2]
        keys = np.where(lands_there, (s.b[:, None] * pixels + lands) * heads + s.m[:, None], -1)
        keys, addends = tampering("addends", (keys.reshape(-1), addends.reshape(-1, addends.shape[-1])), s)
        grad_value = scatter((problem.value[..., 0].size, problem.value.shape[3]), keys, addends, t, initial)
    results = (grad_value, np.stack(by_location, -1), grad_attention)
    return {name: round_to(t.stored, result).reshape(problem.shape_of(name)) for name, result in zip(GRADIENTS, results)}


def addends_of(t, weights, factors, attention, grad_output, tampered):
    """What each corner adds to grad_value [N,4,D]."""
    rx, fx, ry, fy = factors
    attention = attention[:, None]
    if t.factors == "axes" and not tampered:
        weighted = t.multiply(grad_output, attention)
        return np.stack([t.multiply(t.multiply(weighted, a[:, None]), b[:, None]) for a, b in ((ry, rx), (ry, fx), (fy, rx), (fy, fx))], 1)
    if t.factors == "weights":
        return t.multiply(t.multiply(weights, attention)[:, :, None], grad_output[:, None])
    return t.multiply(weights[:, :, None], t.multiply(grad_output, attention)[:, None])
