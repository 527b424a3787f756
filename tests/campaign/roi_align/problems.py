"""Random calls of roi_align, and what the points of each bin send where. Axes are x, y."""

from dataclasses import dataclass, field
from typing import Dict

import numpy as np

from ..rounding import round_to
from ..scatter.numbers import NUMBERS, TYPES, chosen, draw_arithmetic, draw_reference  # noqa: F401
from ..scatter.operator import ImageGradient, Samples, Sent, SharedConventions
from .reach import reach

MOST_POINTS = 2500


@dataclass(frozen=True)
class Conventions(SharedConventions):
    sampling_ratio: int = 2  # points of a bin along each axis; 0: as many as it has pixels, rounded up
    aligned: bool = False

    def attributes(self):
        return {"sampling_ratio": self.sampling_ratio, "aligned": int(self.aligned)}


CONVENTIONS = tuple(Conventions(ratio, aligned) for ratio in (0, 1, 2, 2, 3) for aligned in (False, True))


@dataclass(frozen=True)
class Problem(ImageGradient):
    """Inputs, in float64 arrays of numbers that `type` has. Places are bins of boxes and pixels of batches."""

    boxes: np.ndarray    # [K,5]: batch, x1, y1, x2, y2
    numbers: np.ndarray  # grad_output [K,C,rows,columns]
    batches: int
    sides: tuple         # of the image: width, height
    scale: float         # of boxes to pixels
    type: str = "float32"
    strides: Dict[str, tuple] = field(default_factory=dict)

    operator = "roi_align"
    narrow_kernels = True

    @property
    def bins(self):
        """Columns and rows."""
        return self.numbers.shape[3], self.numbers.shape[2]

    def shape_of(self, name):
        return self.batches, self.numbers.shape[1], self.sides[1], self.sides[0]

    def inputs(self):
        yield "boxes", self.boxes, self.type
        yield "grad_output", self.numbers, self.type

    def attributes(self):
        return {"spatial_scale": repr(self.scale), "input_batch": self.batches, "input_height": self.sides[1], "input_width": self.sides[0]}

    def in_next_image(self, targets):
        return (targets + self.sides[0] * self.sides[1]) % self.target_count

    def rows(self):
        return np.moveaxis(self.numbers, 1, -1).reshape(-1, self.numbers.shape[1])

    def places(self, x):
        return np.moveaxis(x, 1, -1).reshape(-1, self.numbers.shape[1])

    def tensor(self, x):
        shape = self.batches, self.sides[1], self.sides[0], self.numbers.shape[1]
        return np.ascontiguousarray(np.moveaxis(x.reshape(shape), -1, 1))

    @property
    def target_count(self):
        return self.batches * self.sides[0] * self.sides[1]

    def samples(self, conventions, t, tampering):
        """Returns for each point its bin, and what `send` needs to know of it."""
        boxes = tampering("boxes", self.boxes, None)
        scale = tampering("scale", self.scale, None)
        starts, bins, counts = extents(boxes, scale, self.bins, conventions, t, tampering)
        found = [[] for _ in range(6)]
        columns, rows = self.bins
        for box in range(len(boxes)):
            nx, ny = int(counts[0][box]), int(counts[1][box])
            row, column, iy, ix = (entry.reshape(-1) for entry in np.indices((rows, columns, ny, nx)))
            for entry, more in zip(found, ((box * rows + row) * columns + column, np.full(row.shape, box), column, row, ix, iy)):
                entry.append(more)
        source, box, column, row, ix, iy = (np.concatenate(entry) if entry else np.zeros(0, np.int64) for entry in found)
        samples = Samples(source, box, self)
        samples.starts, samples.lengths, samples.counts = starts, bins, counts
        samples.bin, samples.point = (column, row), (ix, iy)
        return samples

    def send(self, conventions, t, tampering, s):
        box = s.b
        pixel, share = [], []
        places = tampering("bins", s.bin, s)
        for axis in range(2):
            start, length, count = s.starts[axis][box], s.lengths[axis][box], s.counts[axis][box]
            at_bin = t.multiply_add(places[axis], length, start)
            inside = t.round(t.round(tampering("centre", s.point[axis] + 0.5, s) * length) / count)
            pixel.append(t.round(at_bin + inside))
        pixel = tampering("pixel", tuple(pixel), s)
        pixels, weights, there = zip(*(taps_of(at, side) for at, side in zip(pixel, self.sides)))
        fractions = tampering("fractions", tuple(w[:, 1] for w in weights), s)
        if "fractions" in tampering.steps:
            weights = [np.stack([t.round(1 - f), f], 1) for f in fractions]
        weights = [t.round(w) for w in weights]
        batch = tampering("batch", self.boxes[box, 0].astype(np.int64), s)
        row = (pixels[1][:, :, None] * self.sides[0] + pixels[0][:, None]).reshape(len(box), 4)
        targets = batch[:, None] * self.sides[0] * self.sides[1] + row
        inside = np.repeat(tampering("inside", there[0] & there[1], s)[:, None], 4, 1)
        count = (s.counts[0] * s.counts[1])[box].astype(float)
        share = tampering("share", t.round(1 / np.maximum(count, 1).astype(weights[0].dtype)), s)
        wx, wy = np.tile(weights[0], (1, 2)), np.repeat(weights[1], 2, 1)
        return Sent(targets, inside, (wx, wy, np.repeat(share[:, None], 4, 1)))

    def reach(self, conventions, real):
        return reach(self, conventions, real)


def extents(boxes, scale, bins, conventions, t, tampering):
    """Returns for each box along x and y where it begins, the length of a bin, and how many points that has; as torchvision writes it."""
    working = np.longdouble if t.real == "exact" else np.float64
    scale = t.round(working(scale))
    offset = tampering("offset", 0.5 if conventions.aligned else 0.0, None)
    found = [], [], []
    for axis in range(2):
        low, high = (t.round(t.round(boxes[:, column].astype(working) * scale) - offset) for column in (1 + axis, 3 + axis))
        length = t.round(high - low)
        if not conventions.aligned:
            length = tampering("shortest", np.maximum(length, 1), length)
        length = t.round(length / bins[axis])
        count = np.full(len(boxes), conventions.sampling_ratio) if conventions.sampling_ratio else np.maximum(np.ceil(length), 0).astype(np.int64)
        for entry, more in zip(found, (low, length, count)):
            entry.append(more)
    return found


def taps_of(at, side):
    """The two pixels that a point reads along an axis [N,2], their weights, and whether it lies on the image."""
    there = (at >= -1) & (at <= side)
    at = np.maximum(np.where(there, at, 0), 0)
    low = np.floor(at).astype(np.int64)
    last = low >= side - 1
    low = np.where(last, side - 1, low)
    fraction = np.where(last, 0, at - low)
    return np.stack([low, np.where(last, side - 1, low + 1)], 1), np.stack([1 - fraction, fraction], 1), there


# Boxes: corners of them in pixels [K,2] twice, in an image whose sides are `size`.

def inside(rng, count, size):
    entry, another = rng.uniform(0, 1, (count, 2)) * size, rng.uniform(0, 1, (count, 2)) * size
    return np.minimum(entry, another), np.maximum(entry, another)


def on_pixels(rng, count, size):
    """Corners are integers, so that bins are as well, or halves."""
    low = rng.integers(0, size, (count, 2))
    return low, low + rng.integers(0, 9, (count, 2))


def tiny(rng, count, size):
    """Narrower than a pixel."""
    low = rng.uniform(0, 1, (count, 2)) * size
    return low, low + rng.uniform(0, 0.9, (count, 2))


def whole_image(rng, count, size):
    return np.zeros((count, 2)), np.broadcast_to(np.asarray(size, float), (count, 2))


def across_border(rng, count, size):
    """Partly outside, or on all sides of it."""
    return rng.uniform(-0.4, 0.6, (count, 2)) * size - 1, rng.uniform(0.5, 1.5, (count, 2)) * size


def outside(rng, count, size):
    low = np.where(rng.uniform(size=(count, 2)) < 0.5, -6.0, 1.2 * np.asarray(size)) + rng.uniform(-1, 1, (count, 2))
    return low, low + rng.uniform(1, 5, (count, 2))


def degenerate(rng, count, size):
    """The end comes before the beginning."""
    low, high = inside(rng, count, size)
    return high, low


def clustered(rng, count, size):
    """All nearly the same: long sums."""
    low, high = inside(rng, 1, size)
    return low + rng.uniform(0, 0.3, (count, 2)), high + rng.uniform(0, 0.3, (count, 2))


PLACES = (inside, inside, inside, on_pixels, tiny, whole_image, across_border, outside, degenerate, clustered)
CROWDED = {"place": clustered}


def draw(rng, conventions, kind=None, place=None, values=None, shape=None, batches=None):
    """A problem; what is not given is drawn. `shape`: boxes, channels, rows and columns of bins."""
    kind, place, values = kind or chosen(rng, TYPES), place or chosen(rng, PLACES), values or chosen(rng, NUMBERS)
    while True:
        boxes, channels, rows, columns = shape or (int(rng.integers(1, 9)), int(chosen(rng, (1, 2, 3, 4, 8, 16))), int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        sides = tuple(map(int, rng.integers(1, 15, 2)))
        if boxes * rows * columns * max(conventions.sampling_ratio, 3) ** 2 <= MOST_POINTS:
            break
    batches, scale = batches or int(rng.integers(1, 4)), float(chosen(rng, (1.0, 0.5, 0.25, 0.0625, 1 / 3)))
    low, high = place(rng, boxes, sides)
    corners = np.concatenate([rng.integers(0, batches, (boxes, 1)), low / scale, high / scale], 1)
    return Problem(round_to(kind, corners), round_to(kind, values(rng, (boxes, channels, rows, columns))), batches, sides, scale, str(kind))
