"""What rounding can give, bounded for certain: intervals around the exact gradients of every cell that a sample may land in. A value in
none of them is visibly wrong. First-order error analysis (Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4)."""

import numpy as np

from ..rounding import TYPES, hidden_infinity, smallest
from ..steps import EXACT
from .operator import Axis, Conventions, corners_of, location_terms, samples_of


def coordinate_error(conventions, location, size, unit):
    """Bound on what evaluating the pixel coordinate in a type adds, fused or not."""
    if conventions.align_corners:
        plain = np.abs(location * (size - 1))
    else:
        plain = np.abs(location * size) + np.abs(location * size - 0.5)
    if conventions.dialect == "grid_sample":
        half = (size - 1 if conventions.align_corners else size) / 2
        plain = plain + (np.abs(2 * location - 1) + 3 * np.abs(2 * location)) * half
    return 1.01 * unit * plain


def at_least_1(x):
    return np.maximum(1, np.abs(x))


class Bounds:
    """`arithmetic` is that of the kernel whose values are judged."""

    def __init__(self, problem, conventions, arithmetic):
        self.problem, self.arithmetic = problem, arithmetic
        # In one form for all dialects: where a sample clipped onto the border differs from one with clamped corners, the slope is
        # one of the two neighbouring cells'.
        self.form = Conventions("msda_triton", conventions.padding, conventions.align_corners)
        self.samples = samples_of(problem)
        self.real, self.stored = TYPES[arithmetic.real], TYPES[arithmetic.stored]
        # float64 results are compared with float64's own.
        self.slack = 2 if arithmetic.real == "float64" else 1
        at = problem.locations.reshape(-1, 2).astype(np.longdouble)
        s = self.samples
        self.axes = [self.axis(conventions, at[:, 0], s.width), self.axis(conventions, at[:, 1], s.height)]

    def axis(self, conventions, location, size):
        with np.errstate(all="ignore"):
            finite = ~np.isnan(location)  # a NaN location is skipped
            location = np.clip(np.where(finite, location, 0), -1e30, 1e30)
            pixel = location * (size - 1) if conventions.align_corners else location * size - np.longdouble(0.5)
            error = coordinate_error(conventions, location, size, self.real.unit) + 2 * self.real.tiny
            slope = (size - 1 if conventions.align_corners else size).astype(np.longdouble)
        return pixel, np.where(finite, error, 0), slope, size, finite

    def landing(self, axis, step):
        """In the cell that exact arithmetic finds or, by the step, beside it; and whether that is within reach."""
        pixel, error, slope, size, finite = axis
        low = np.floor(pixel) + step
        reached = (pixel - error <= low + 1) & (pixel + error >= low)
        # Beyond the edge nothing changes any more.
        fraction = np.clip(pixel - low, -error, 1 + error)
        whole = np.clip(low, -2, size).astype(np.int64)
        return Axis(pixel, whole, fraction, slope, finite), reached

    def landings(self):
        """The exact landing first, then those that rounding can reach."""
        for step_x in (0, -1, 1):
            for step_y in (0, -1, 1):
                (x, reaches_x), (y, reaches_y) = self.landing(self.axes[0], step_x), self.landing(self.axes[1], step_y)
                if (reaches_x & reaches_y).any() or step_x == step_y == 0:
                    yield x, y, reaches_x & reaches_y

    def corner_values(self, x, y):
        s = self.samples
        rows, there = corners_of(self.form, x, y, s, s.width, s.height)
        values = self.problem.value.astype(np.longdouble)[s.b[:, None], rows + s.start[:, None], s.m[:, None]]
        return np.where(there[:, :, None], values, 0)

    def storage(self, center, radius):
        return radius + self.stored.unit * (np.abs(center) + radius) + self.stored.tiny

    def sample_intervals(self):
        """For each landing: (center, radius, reached) of both sample gradients, by name."""
        problem, s, unit = self.problem, self.samples, self.real.unit
        channels = problem.value.shape[3]
        grad_output = problem.grad_output.astype(np.longdouble)[s.b, s.q, s.m]
        attention = problem.attention.reshape(-1).astype(np.longdouble)
        growth = 12 * (channels + 4) * unit
        for x, y, reached in self.landings():
            corner = self.corner_values(x, y)
            size = np.abs(corner)
            fx, fy, ex, ey = x.fraction, y.fraction, self.axes[0][1], self.axes[1][1]
            wx = np.stack([1 - fx, fx, 1 - fx, fx], 1)[:, :, None]
            wy = np.stack([1 - fy, 1 - fy, fy, fy], 1)[:, :, None]
            across_x, across_y = location_terms(corner, fx, fy, EXACT)
            twist = np.abs(((corner[:, 3] - corner[:, 2] - corner[:, 1] + corner[:, 0]) * grad_output).sum(1))
            along = [np.abs((grad_output * a).sum(1)) for a in (across_x, across_y)]
            under = 8 * self.real.tiny * (at_least_1(grad_output) * at_least_1(corner).sum(1)).sum(1)
            depth = (channels + 12) * unit * (1 + growth)

            center = (grad_output * (wx * wy * corner).sum(1)).sum(1)
            radius = depth * (np.abs(grad_output) * (np.abs(wx * wy) * size).sum(1)).sum(1) + under
            radius = self.slack * (radius + along[0] * ex + along[1] * ey + twist * ex * ey)
            found = {"grad_attention_weights": (center, self.storage(center, radius), reached)}

            pairs = []
            for across, another, error, slope in ((across_x, wy, ey, x.slope), (across_y, wx, ex, y.slope)):
                scale = attention * slope
                center = (grad_output * across).sum(1) * scale
                radius = depth * (np.abs(grad_output) * (np.abs(another) * size).sum(1)).sum(1) * np.abs(scale)
                radius = radius + twist * error * np.abs(scale) + under * at_least_1(attention) * at_least_1(slope)
                radius = self.slack * radius
                pairs.append((center, self.storage(center, radius), reached))
            found["grad_sampling_locations"] = tuple(np.stack(both, 1) for both in zip(*pairs))
            yield found

    def value_interval(self, exact):
        """(center, radius) of grad_value; `exact` is the exact gradient."""
        problem, s = self.problem, self.samples
        pixels, heads, channels = problem.value.shape[1:]
        size = problem.value[..., 0].size
        weighted = np.abs(problem.grad_output.astype(np.longdouble)[s.b, s.q, s.m] * problem.attention.reshape(-1, 1))
        grown = at_least_1(problem.grad_output[s.b, s.q, s.m]) * at_least_1(problem.attention.reshape(-1, 1))
        magnitude, moved, under = (np.zeros((size, channels), np.longdouble) for _ in range(3))
        count = np.zeros((size, 1))
        ex, ey = (np.abs(axis[1])[:, None] for axis in self.axes)
        for number, (x, y, reached) in enumerate(self.landings()):
            rows, there = corners_of(self.form, x, y, s, s.width, s.height)
            keys = (s.b[:, None] * pixels + rows + s.start[:, None]) * heads + s.m[:, None]
            for i in range(4):
                now = there[:, i] & reached
                wx = np.abs(x.fraction if i % 2 else 1 - x.fraction)[:, None]
                wy = np.abs(y.fraction if i // 2 else 1 - y.fraction)[:, None]
                np.add.at(moved, keys[now, i], ((wx * ey + wy * ex + ex * ey) * weighted)[now])
                np.add.at(under, keys[now, i], grown[now])
                np.add.at(count, keys[now, i], 1)
                if number == 0:
                    np.add.at(magnitude, keys[now, i], (wx * wy * weighted)[now])
        scatter = TYPES[self.arithmetic.scatter or self.arithmetic.real]
        depth = 12 * self.real.unit + (count + 1) * scatter.unit
        radius = depth * (1 + depth) * (magnitude + moved) + moved + 8 * self.real.tiny * under + smallest(self.arithmetic, scatter) * (count + 1)
        radius = (self.slack * radius).reshape(exact.shape)
        return exact, self.storage(exact, radius)


def near_boundary(problem, conventions, arithmetic, gradient, factor=4):
    """Elements of the gradient of whose samples an axis lies within so many times its coordinate's error of a boundary: an integer."""
    bounds = Bounds(problem, conventions, arithmetic)
    with np.errstate(all="ignore"):
        near = [np.abs(pixel - np.rint(pixel)) <= factor * error for pixel, error, *_ in bounds.axes]
    return np.repeat(near[0] | near[1], 2 if gradient == "grad_sampling_locations" else 1)


def excess(problem, conventions, arithmetic, exact, values):
    """By gradient: by how much each value lies outside of all that rounding can give; 0 within."""
    bounds = Bounds(problem, conventions, arithmetic)
    outside = {}
    with np.errstate(all="ignore"):
        center, radius = bounds.value_interval(exact["grad_value"].astype(np.longdouble))
        outside["grad_value"] = np.maximum(np.abs(values["grad_value"] - center) - radius, 0)
        for found in bounds.sample_intervals():
            for name, (center, radius, reached) in found.items():
                shape = problem.shape_of(name)
                away = np.abs(values[name] - center.reshape(shape)) - radius.reshape(shape)
                away = np.where(reached.reshape(shape), np.maximum(away, 0), np.inf)
                outside[name] = np.minimum(outside.get(name, np.inf), away)
        for name, away in outside.items():
            overflown = np.isinf(values[name]) & (np.abs(exact[name]) >= 0.99 * bounds.stored.largest) & (values[name] * exact[name] > 0)
            wrong_kind = (np.isfinite(values[name]) != np.isfinite(exact[name])) & ~overflown
            away = np.where(overflown, 0, away)
            outside[name] = np.where(wrong_kind | hidden_infinity(values[name], exact[name]), np.inf, np.where(np.isnan(away), 0, away)).astype(np.float64)
    return outside
