"""The backward pass of multi-scale deformable attention, written from its definition: exactly, or as a kernel of a given arithmetic
computes it. Each step can be tampered with: that is how faults are planted."""

from dataclasses import dataclass, field, replace
from typing import Callable, Dict

import numpy as np

from .rounding import round_to

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


@dataclass(frozen=True)
class Problem:
    """Inputs, in float64 arrays of numbers that `type` has. Levels are (height, width)."""

    levels: tuple
    value: np.ndarray        # [B,S,M,D]
    locations: np.ndarray    # [B,Q,M,L,P,2]
    attention: np.ndarray    # [B,Q,M,L,P]
    grad_output: np.ndarray  # [B,Q,M,D]
    type: str = "float32"

    @property
    def starts(self):
        return np.cumsum([0] + [h * w for h, w in self.levels])[:-1]

    def shape_of(self, gradient):
        of = {"grad_value": self.value, "grad_sampling_locations": self.locations, "grad_attention_weights": self.attention}
        return of[gradient].shape


@dataclass(frozen=True)
class Arithmetic:
    """How a kernel rounds. All choices are defensible: none is a fault."""

    real: str = "float32"        # the type that it computes in; "exact": longdouble, without rounding
    scatter: str = ""            # the type that it adds grad_value in; empty: `real`
    stored: str = "float32"      # the type of its results
    fused: bool = True           # multiply-adds have one rounding
    factors: str = "weights"     # an addend is (w*attention)*grad_output; "grad_output": w*(grad_output*attention);
    #                              "axes": ((grad_output*attention)*wy)*wx
    slopes: str = "differences"  # across the cell; "corners": one signed term for each corner
    scaled: str = "after"        # the sum over channels by attention and size, or "before": each channel
    channels: str = "serial"     # order of the sum over channels; or "tree", "random"
    order: str = "forward"       # of the samples in grad_value; or "backward", "random"
    blocks: int = 1              # partial sums of grad_value, added at the end
    refined: bool = False        # the fraction is taken from an unrounded product, as Triton contracts with align_corners
    products: str = ""           # the type that factors are rounded to before they are multiplied, as tensor cores do
    seed: int = 0

    def round(self, x):
        return round_to(self.real, x)

    def multiply(self, a, b):
        if self.products:
            a, b = round_to(self.products, a), round_to(self.products, b)
        return self.round(a * b)

    def multiply_add(self, a, b, c):
        if self.products or not self.fused:
            return self.round(self.multiply(a, b) + c)
        if self.real == "float64":
            return (np.asarray(a, np.longdouble) * b + c).astype(np.float64)
        return self.round(a * b + c)


EXACT = Arithmetic(real="exact", stored="exact")


@dataclass
class Tampering:
    """Steps by name, each a function of the step's result and of the samples, which returns what goes on instead."""

    steps: Dict[str, Callable] = field(default_factory=dict)

    def __call__(self, step, result, samples):
        return self.steps[step](result, samples) if step in self.steps else result


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


def sum_over_channels(terms, arithmetic):
    """Of [N,D]."""
    count = terms.shape[1]
    if arithmetic.real == "exact":
        return terms.sum(1)
    if arithmetic.channels == "random":
        terms = terms[:, np.random.default_rng(arithmetic.seed).permutation(count)]
    if arithmetic.channels == "tree":
        while terms.shape[1] > 1:
            half = (terms.shape[1] + 1) // 2
            upper = np.zeros_like(terms[:, :half])
            upper[:, : terms.shape[1] - half] = terms[:, half:]
            terms = arithmetic.round(terms[:, :half] + upper)
        return terms[:, 0]
    total = np.zeros_like(terms[:, 0])
    for d in range(count):
        total = arithmetic.round(total + terms[:, d])
    return total


def scatter(shape, keys, addends, arithmetic, initial=None):
    """grad_value [B*S*M,D] from addends [K,D], one after the other in the order of the arithmetic; key -1 is left out. Draws the order
    for all K, so that a fault that leaves addends out does not reorder the others."""
    count = len(keys)
    order = np.arange(count)
    if arithmetic.order == "backward":
        order = order[::-1]
    elif arithmetic.order == "random":
        order = np.random.default_rng(arithmetic.seed).permutation(count)
    kind = arithmetic.scatter or arithmetic.real
    addends = round_to(kind, addends)
    total = np.zeros(shape, addends.dtype) if initial is None else initial.reshape(shape).astype(addends.dtype)
    for block in np.array_split(order, arithmetic.blocks):
        block = block[keys[block] >= 0]
        partial = total if arithmetic.blocks == 1 else np.zeros(shape, addends.dtype)
        block = block[np.argsort(keys[block], kind="stable")]
        own = keys[block]
        first = np.searchsorted(own, own)
        rank = np.arange(len(own)) - first
        for turn in range(rank.max() + 1 if len(rank) else 0):
            now = rank == turn
            partial[own[now]] = round_to(kind, partial[own[now]] + addends[block[now]])
        if arithmetic.blocks > 1:
            total = round_to(kind, total + partial)
    return total


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


def with_seed(arithmetic, seed):
    return replace(arithmetic, seed=seed)
