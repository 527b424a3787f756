"""What rounding can give, bounded for certain: intervals around the exact gradients of every piece that a sample may land in. A value in
none of them is visibly wrong. First-order error analysis (Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 to 5).

Along each axis everything is smooth between multiples of half a pixel: boundaries of cells, ties, points of reflection and the ends of the
image all lie on these. `fold` is written otherwise than the kernels' padding."""

from dataclasses import dataclass, replace

import numpy as np

from ..rounding import TYPES, hidden_infinity, smallest
from .operator import joined, of_samples, samples_of, spread
from .taps import CUBIC

MOST_STEPS = 6     # half pixels to either side that are looked at; what rounding carries farther may be anything
STEEPEST = 1.4     # of cubic weights' slopes; their second and third derivatives are at most 4.5 and 7.5
EVERY_WAY = 2      # to evaluate a polynomial errs no more than so many times as the way that is bounded here
MOST_WEIGHT = 1.7  # of what a sample gives to one pixel, along an axis


def at_least_1(x):
    return np.maximum(1, np.abs(x))


def fold(conventions, at, size):
    """A padded coordinate and the sign of its slope, as the triangle wave that reflection is."""
    if conventions.padding == "zeros":
        return at, np.ones(np.shape(at))
    sign = np.ones(np.shape(at))
    if conventions.padding == "reflection":
        low, span = (0.0, size - 1) if conventions.align_corners else (-0.5, size)
        if span == 0:
            return np.zeros(np.shape(at)), np.zeros(np.shape(at))
        away = np.mod(at - low, 2 * span)
        sign = np.where(away > span, -1.0, 1.0)
        at = low + np.where(away > span, 2 * span - away, away)
    ends = (at <= 0) | (at >= size - 1)
    return np.clip(at, 0, size - 1), np.where(ends, 0.0, sign)


def coordinate(conventions, grid, size, real):
    """In pixels, with a bound on what evaluating it in a type adds."""
    unit = real.unit * (1 + 16 * real.unit)
    if conventions.align_corners:
        pixel = (grid + 1) / 2 * (size - 1)
        error = 2 * unit * np.abs(pixel)
    else:
        product = (grid + 1) * size
        pixel = (product - 1) / 2
        error = unit * (np.abs(product) + np.abs(pixel))
    if conventions.padding == "reflection" and conventions.interpolation != "bicubic":
        error = error + unit * (np.abs(pixel) + 2 * size + 1)
    return pixel, (error + 4 * real.tiny * size).astype(np.float64)


@dataclass
class Piece:
    """Where samples land along an axis that rounding carries into one interval: [N,T] but for `reached`, `moved` and `scale` [N]."""

    pixels: np.ndarray
    there: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    curves: np.ndarray
    errors: np.ndarray   # of evaluating the weights
    steeps: np.ndarray   # of evaluating the slopes
    moved: np.ndarray    # how far from here the coordinate may be
    scale: np.ndarray
    reached: np.ndarray


def horner(coefficients, x, unit):
    """A polynomial, and a bound on the error of evaluating it."""
    total, error = np.full(x.shape, coefficients[0], x.dtype), np.zeros(x.shape, x.dtype)
    for coefficient in coefficients[1:]:
        product = total * x
        error = error * np.abs(x) + unit * np.abs(product)
        total = product + coefficient
        error = error + unit * (np.abs(total) + error)
    return total, error


def cubic(fraction, unit):
    """Returns for the four pixels weights, slopes and second derivatives, and bounds on the errors of the first two."""
    a = CUBIC
    found = []
    for far, x, sign in ((True, fraction + 1, 1), (False, fraction, 1), (False, 1 - fraction, -1), (True, 2 - fraction, -1)):
        weight, error = horner((a, -5 * a, 8 * a, -4 * a) if far else (a + 2, -(a + 3), 0.0, 1.0), x, unit)
        slope, steep = horner((3 * a, -10 * a, 8 * a) if far else (3 * (a + 2), -2 * (a + 3), 0.0), x, unit)
        curve = 6 * a * x - 10 * a if far else 6 * (a + 2) * x - 2 * (a + 3)
        # The argument has three roundings of its own.
        found.append((weight, sign * slope, curve, error + 6 * unit * np.abs(slope), steep + 6 * unit * np.abs(curve) + 45 * unit**2))
    return [np.stack(entry, 1) for entry in zip(*found)]


class Along:
    """One axis of all samples."""

    def __init__(self, conventions, grid, size, real):
        self.conventions, self.size, self.unit = conventions, size, real.unit
        pixel, error = coordinate(conventions, grid, size, real)
        constant = conventions.padding == "zeros" or conventions.padding == "border" and conventions.interpolation != "bicubic"
        if constant:  # beyond the edge nothing changes any more
            for beyond, there in ((pixel - error > size + 3, size + 3), (pixel + error < -4, -4)):
                pixel, error = np.where(beyond, there, pixel), np.where(beyond, 0, error)
        if conventions.interpolation == "bicubic" and conventions.padding == "reflection" and real.bits < 24:
            error = np.where(np.abs(pixel) * real.unit > 1 / 8, 2.0 * MOST_STEPS, error)  # pixels are reflected in the type as well
        self.wild = ~np.isfinite(pixel) | (error > MOST_STEPS / 2 - 1)
        self.pixel, self.error = np.where(self.wild, 0, pixel), np.where(self.wild, 0, error)

    def piece(self, step):
        half = np.floor(2 * self.pixel) + step
        reached = (2 * (self.pixel - self.error) <= half + 1) & (2 * (self.pixel + self.error) >= half)
        at = np.clip(self.pixel, half / 2, (half + 1) / 2)
        if step == 0:
            at = self.pixel
        middle = (half + 0.5) / 2
        moved = np.minimum(self.error, 0.5)
        interpolation, size, ones = self.conventions.interpolation, self.size, np.ones((len(at), 1))
        scale = (size - 1 if self.conventions.align_corners else size) / 2 * ones[:, 0]
        if interpolation == "bicubic":
            low = np.floor(middle)
            pixels = fold(self.conventions, low[:, None] + np.arange(-1, 3), size)[0]
            weights, slopes, curves, errors, steeps = cubic(at - low, self.unit)
        else:
            folded, sign = fold(self.conventions, middle, size)
            scale, at = scale * sign, folded + sign * (at - middle)
            if interpolation == "nearest":
                pixels, weights, slopes = np.rint(folded)[:, None], ones, 0 * ones
            else:
                low = np.floor(folded)
                pixels, fraction = low[:, None] + np.arange(2), at - low
                weights, slopes = np.stack([1 - fraction, fraction], 1), np.concatenate([-ones, ones], 1)
            curves = errors = steeps = np.zeros(weights.shape)
        there = (pixels >= 0) & (pixels < size) & ~self.wild[:, None]
        return Piece(np.clip(pixels, 0, size - 1).astype(np.int64), there, weights, slopes, curves, errors, steeps, moved, scale, reached)

    def pieces(self):
        """The exact one first."""
        for step in sorted(range(-MOST_STEPS, MOST_STEPS + 1), key=abs):
            piece = self.piece(step)
            if step == 0 or piece.reached.any():
                yield piece

    def flat(self):
        """Whether rounding may bring the coordinate onto the very point where reflection turns round, where kernels clip it."""
        if self.conventions.padding != "reflection" or not self.conventions.align_corners or self.conventions.interpolation != "bilinear":
            return np.zeros(len(self.pixel), bool)
        span = max(self.size - 1, 1)
        return np.abs(self.pixel - span * np.rint(self.pixel / span)) <= self.error

    def pixels_reached(self):
        """Returns for each pixel [N,size] what a sample gives it at most by exact arithmetic, how far rounding may change that, and how often it
        reads it."""
        shape = (len(self.pixel), self.size)
        given, counted, off = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        steepest = {"nearest": 0, "bilinear": 1, "bicubic": STEEPEST}[self.conventions.interpolation]
        exact, elsewhere = self.piece(0), np.zeros(len(self.pixel), bool)
        for number, piece in enumerate(self.pieces()):
            elsewhere |= piece.reached & ((piece.pixels != exact.pixels) | (piece.there != exact.there)).any(1)
            here, errors = np.zeros(shape), np.zeros(shape)
            for tap in range(piece.pixels.shape[1]):
                rows = np.flatnonzero(piece.there[:, tap] & (piece.reached | (number == 0)))
                places = rows, piece.pixels[rows, tap]
                here[places] += 1
                errors[places] += piece.errors[rows, tap].astype(float) * 1.01
                if number == 0:
                    given[places] += np.abs(piece.weights[rows, tap].astype(float))
            counted, off = np.maximum(counted, here), np.maximum(off, errors)
        off = off + counted * (steepest * (self.error[:, None] + 3 * self.unit))
        if self.conventions.interpolation == "nearest":
            off = np.where((counted > 0) & elsewhere[:, None], 1.0, 0.0)
        wild = self.wild[:, None]
        return np.where(wild, 0, given), np.where(wild, MOST_WEIGHT, off), np.where(wild, 4, counted)


def combined(pieces):
    """Whether the pixels [N,K] that samples read are there."""
    there = np.ones((len(pieces[0].pixels), 1), bool)
    for piece in pieces:
        there = joined(there[:, None] & piece.there[:, :, None])
    return there


def multiplied(factors):
    return spread(factors, np.multiply)


class Bounds:
    """`arithmetic` is that of the kernel whose values are judged."""

    def __init__(self, problem, conventions, arithmetic):
        self.problem, self.conventions, self.arithmetic = problem, conventions, arithmetic
        self.real, self.stored = TYPES[arithmetic.real], TYPES[arithmetic.stored]
        self.slack = 2 if arithmetic.real == "float64" else 1  # float64 results are compared with float64's own
        self.samples = samples_of(problem)
        grid = problem.grid.reshape(-1, problem.axes).astype(np.longdouble)
        self.grad_output = of_samples(problem, self.samples)
        with np.errstate(all="ignore"):
            self.along = [Along(conventions, grid[:, axis], problem.sides[axis], self.real) for axis in range(problem.axes)]

    def storage(self, center, radius):
        return radius + self.stored.unit * (np.abs(center) + radius) + self.stored.tiny

    def landings(self):
        """Each way in which samples may land: pieces by axis, and which samples may."""
        def beyond(axis, chosen, reached):
            if axis == len(self.along):
                yield chosen, reached
                return
            for piece in self.along[axis].pieces():
                now = reached & piece.reached
                if now.any():
                    yield from beyond(axis + 1, [*chosen, piece], now)
        yield from beyond(0, [], np.ones(len(self.samples.b), bool))

    def sums_over_channels(self, pieces, rows):
        """Returns of what these samples read [N,K] sums of grad_output times input, of their magnitudes, and of what may underflow."""
        row = np.zeros((len(rows), 1), np.int64)
        for piece, side in zip(pieces[::-1], self.problem.sides[::-1]):
            row = joined(row[:, :, None] * side + piece.pixels[rows][:, None])
        image = self.problem.input.reshape(*self.problem.input.shape[:2], -1)
        value = image[self.samples.b[rows][:, None], :, row]
        value = np.where(combined(pieces)[rows][:, :, None], value, 0)
        given = self.grad_output[rows][:, None]
        exact = (given.astype(np.longdouble) * value).sum(2)
        return exact, (np.abs(given) * np.abs(value)).sum(2), (at_least_1(given) * at_least_1(value)).sum(2)

    def gradient_along(self, own, pieces, rows, sums):
        """(center, radius) of the gradient along an axis, of these samples in this landing."""
        exact, magnitude, grown = sums
        chosen = [(p.slopes, p.steeps, p.curves) if axis == own else (p.weights, p.errors, p.slopes) for axis, p in enumerate(pieces)]
        factors, errors, derived = ([np.asarray(entry)[rows] for entry in each] for each in zip(*chosen))
        moved = [p.moved[rows] for p in pieces]
        scale = pieces[own].scale[rows]
        center = (multiplied(factors) * exact).sum(1)
        radius = np.zeros(len(rows))
        for axis in range(len(pieces)):
            turned = [derived[a] if a == axis else factors[a] for a in range(len(pieces))]
            radius = radius + np.abs((multiplied(turned) * exact).sum(1)) * moved[axis]
        most = sum(moved)
        if self.conventions.interpolation == "bicubic":
            radius = radius + 13 * most**2 * np.abs(exact).sum(1)
        elif len(pieces) == 3:
            radius = radius + (most**2 / 2) * np.abs(exact).sum(1)
        sizes = [np.abs(f) + e for f, e in zip(factors, errors)]
        steepest = 8 if self.conventions.interpolation == "bicubic" else 1
        reached = [size + steepest * m[:, None] for size, m in zip(sizes, moved)]
        evaluated = multiplied(reached) - multiplied([r - e for r, e in zip(reached, errors)])
        unit, terms = self.real.unit, exact.shape[1] * self.problem.input.shape[1]
        depth = (terms + 3 * len(pieces) + 8) * unit
        if depth >= 1:
            return center * scale, np.full(len(rows), np.inf)
        depth = depth / (1 - depth)
        radius = radius + (magnitude * (depth * multiplied(reached) + evaluated)).sum(1)
        total = (magnitude * multiplied(reached)).sum(1)
        radius = (radius + 8 * self.real.tiny * grown.sum(1)) * np.abs(scale) + 8 * self.real.tiny * at_least_1(scale)
        radius = np.where(total * at_least_1(scale) > self.real.largest / 8, np.inf, radius)
        return center * scale, self.slack * radius

    def grid_intervals(self):
        """For each landing (samples, center, radius [N,axes])."""
        for pieces, reached in self.landings():
            rows = np.flatnonzero(reached)
            sums = self.sums_over_channels(pieces, rows)
            pairs = [self.gradient_along(own, pieces, rows, sums) for own in range(len(pieces))]
            center, radius = (np.stack(each, 1) for each in zip(*pairs))
            yield rows, center, self.storage(center, radius)

    def outside_grid(self, values):
        """By how much each value of grad_grid lies outside of all intervals, and which may be anything."""
        values = values.reshape(-1, self.problem.axes)
        away, free = np.full(values.shape, np.inf), np.zeros(values.shape, bool)
        if self.conventions.interpolation == "nearest":
            return np.abs(values), free
        for rows, center, radius in self.grid_intervals():
            free[rows] |= np.isinf(radius)
            away[rows] = np.fmin(away[rows], np.maximum(np.abs(values[rows] - center) - radius, 0))
        flat = np.stack([along.flat() for along in self.along], 1)
        away = np.where(flat, np.fmin(away, np.abs(values)), away)
        return away, free | np.logical_or.reduce([along.wild for along in self.along])[:, None]

    def infinities_left(self):
        """Where a kernel that multiplies each infinity of grad_output once, with what otherwise makes infinities of either sign, may leave one
        above 0, and one below."""
        ones = np.where(np.isinf(self.problem.grad_output), np.sign(self.problem.grad_output), 0.0)
        up, down = np.zeros((2, len(self.samples.b), self.problem.axes), bool)
        for rows, center, radius in Bounds(replace(self.problem, grad_output=ones), self.conventions, self.arithmetic).grid_intervals():
            up[rows] |= ~(center + EVERY_WAY * radius <= 0)
            down[rows] |= ~(center - EVERY_WAY * radius >= 0)
        return up, down

    def open_signs(self, shape):
        """Elements of grad_input that an infinity of grad_output reaches with a weight of either sign: along an axis rounding decides it."""
        infinite = np.isinf(self.grad_output) * 1.0
        if not infinite.any():
            return np.zeros(shape, bool)
        given, off, counted = zip(*(along.pixels_reached() for along in self.along))
        certain = multiplied([(entry > EVERY_WAY * another) * 1.0 for entry, another in zip(given, off)]) > 0
        reached = multiplied([(count > 0) * 1.0 for count in counted]) > 0
        found = [(reached & ~certain)[self.samples.b == batch].T @ infinite[self.samples.b == batch] for batch in range(shape[0])]
        return (np.stack(found) > 0).swapaxes(1, 2).reshape(shape)

    def input_interval(self, exact):
        """(center, radius) of grad_input; `exact` is the exact gradient."""
        shape = exact.shape
        given, off, counted = zip(*(along.pixels_reached() for along in self.along))
        radius = np.zeros((shape[0], int(np.prod(self.problem.sides)), shape[1]))
        scatter = TYPES[self.arithmetic.scatter or self.arithmetic.real]
        depth = (3 * len(given) + 8) * self.real.unit
        for batch in range(shape[0]):
            mine = self.samples.b == batch
            size = np.abs(self.grad_output[mine])
            plain = multiplied([entry[mine] for entry in given]).T
            reached = multiplied([(entry + another)[mine] for entry, another in zip(given, off)]).T
            count = multiplied([entry[mine] for entry in counted]).T
            additions = (count.sum(1) + 2) * scatter.unit
            additions = np.where(additions < 1, additions / (1 - additions), 1)[:, None]
            total = reached @ size
            under = 8 * self.real.tiny * ((count > 0) @ at_least_1(size)) + smallest(self.arithmetic, scatter) * (count.sum(1)[:, None] + 1)
            radius[batch] = (reached - plain) @ size + (depth * (1 + depth) + additions) * total + under
            radius[batch][(total > scatter.largest / 8) | ((count.sum(1) + 2) * scatter.unit >= 1)[:, None]] = np.inf
        radius = (self.slack * 1.0001 * radius).swapaxes(1, 2).reshape(shape)
        return exact, self.storage(exact, np.where(np.isnan(radius), 0, radius))


def near_boundary(problem, conventions, arithmetic, gradient, factor=4):
    """Elements of the gradient of whose samples an axis lies within so many times its coordinate's error of a boundary: a pixel's centre,
    and with reflection the edge of the image."""
    bounds = Bounds(problem, conventions, arithmetic)
    near = np.zeros(len(bounds.samples.b), bool)
    parts = 2 if conventions.padding == "reflection" and not conventions.align_corners else 1
    with np.errstate(all="ignore"):
        for along in bounds.along:
            near |= along.wild | (np.abs(along.pixel * parts - np.rint(along.pixel * parts)) <= factor * parts * along.error)
    return np.repeat(near, problem.axes)


def excess(problem, conventions, arithmetic, exact, values):
    """By gradient: by how much each value lies outside of all that rounding can give; 0 within."""
    bounds = Bounds(problem, conventions, arithmetic)
    outside = {}
    with np.errstate(all="ignore"):
        center, radius = bounds.input_interval(exact["grad_input"].astype(np.longdouble))
        outside["grad_input"] = np.maximum(np.abs(values["grad_input"] - center) - radius, 0)
        away, free = (entry.reshape(values["grad_grid"].shape) for entry in bounds.outside_grid(values["grad_grid"]))
        left = np.isnan(exact["grad_grid"]) & np.isinf(values["grad_grid"])
        if left.any():
            up, down = (entry.reshape(left.shape) for entry in bounds.infinities_left())
            away = np.where(left & np.where(values["grad_grid"] > 0, up, down), 0, away)
        outside["grad_grid"] = away
        anything = {"grad_input": np.isinf(radius), "grad_grid": free}
        either = {"grad_input": bounds.open_signs(radius.shape), "grad_grid": free}
        for name, away in outside.items():
            overflown = np.isinf(values[name]) & (np.abs(exact[name]) >= 0.99 * bounds.stored.largest) & (values[name] * exact[name] > 0)
            hidden = hidden_infinity(values[name], exact[name]) & ~either[name]
            wrong_kind = (np.isfinite(values[name]) != np.isfinite(exact[name])) & ~overflown
            away = np.where(overflown | anything[name], 0, away)
            outside[name] = np.where(hidden | wrong_kind & ~anything[name], np.inf, np.where(np.isnan(away), 0, away)).astype(np.float64)
    return outside
