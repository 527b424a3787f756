"""What each bin gives to each pixel in exact arithmetic, and how far rounding may change that: hats around the points, one box after the
other."""

import numpy as np


def hats(at, error, side):
    """Weights [points,side], bounds on their errors, and which pixels points may add to."""
    places = np.arange(side)
    beyond = (at < -1) | (at > side)
    decided = np.minimum(np.abs(at + 1), np.abs(at - side)) > error
    inside = np.clip(at, 0, side - 1)[:, None]
    distance = np.abs(places - inside).astype(float)
    weight = np.maximum(0, 1 - distance)
    reached = (distance < 1 + error) & ~(beyond & decided)[:, None]
    weight = np.where(reached, weight, 0)
    # Where rounding decides whether a point counts at all, all of its weight may be missing.
    off = np.where(reached, error + np.where(decided[:, None], 0, weight), 0)
    return np.where(beyond[:, None], 0, weight), off, reached


def reach(problem, conventions, real):
    """[sources,targets] each."""
    columns, rows = problem.bins
    width, height = problem.sides
    sources, unit = len(problem.rows()), real.unit * (1 + 16 * real.unit)
    given, off, count = (np.zeros((sources, problem.target_count)) for _ in range(3))
    for box, (batch, *corners) in enumerate(problem.boxes):
        lengths, starts, errors, counts, undecided = [], [], [], [], False
        for axis in range(2):
            low, high = (np.longdouble(corners[axis + number]) * np.longdouble(problem.scale) - (0.5 if conventions.aligned else 0) for number in (0, 2))
            length = high - low if conventions.aligned else max(high - low, np.longdouble(1))
            bin_length = length / problem.bins[axis]
            size = float(max(abs(low), abs(high)) + abs(length)) + 0.5
            fewest = most = conventions.sampling_ratio
            if not fewest:
                slack = 12 * unit * size / problem.bins[axis] + 2 * unit * abs(float(bin_length))
                fewest, most = (max(0, int(np.ceil(float(bin_length + sign * slack)))) for sign in (-1, 1))
                undecided |= fewest != most
            counts.append(max(0, int(np.ceil(bin_length))) if not conventions.sampling_ratio else fewest)
            lengths.append(bin_length)
            starts.append(low)
            errors.append(20 * unit * size)
        mine = slice(box * rows * columns, (box + 1) * rows * columns)
        image = slice(int(batch) * width * height, (int(batch) + 1) * width * height)
        if undecided:  # the points may be others
            off[mine, image], count[mine, image] = 1, (max(counts) + 1) ** 2
        parts = []
        for axis, side in enumerate((width, height)):
            points = np.arange(problem.bins[axis] * counts[axis])
            at = starts[axis] + (points + np.longdouble(0.5)) * lengths[axis] / max(counts[axis], 1)
            parts.append([entry.reshape(problem.bins[axis], counts[axis], side).astype(float) for entry in hats(at, errors[axis], side)])
        share = 1 / max(counts[0] * counts[1], 1)

        def product(x, y):
            return np.einsum("bkh,alw->bahw", y, x).reshape(rows * columns, width * height)

        (wx, ox, cx), (wy, oy, cy) = parts
        weight = product(wx, wy) * share
        given[mine, image] += weight
        off[mine, image] += product(wx + ox, wy + oy) * share - weight
        count[mine, image] += 4 * product(cx, cy)
    return given, off, count
