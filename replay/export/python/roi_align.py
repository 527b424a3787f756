

# --- The backward pass of ROIAlign: one element, which adds up what the points of the boxes' bins read of it.


def box_along(real, box, axis):
    """Where a box starts along an axis (x, y), and the length of a bin."""
    scale, offset = real(SPATIAL_SCALE[0]), real(0.5 if ALIGNED else 0)
    low, high = (real(TENSORS["boxes"][box, number + axis]) * scale - offset for number in (1, 3))
    length = high - low if ALIGNED else max(high - low, real(1))
    return low, length / real(TENSORS["grad_output"].shape[-1 - axis])


def points_along(length):
    return SAMPLING_RATIO if SAMPLING_RATIO > 0 else int(min(max(np.ceil(length), 0), 1e9))


def taps(at, size):
    """The pixels that a point reads along an axis, and their weights; none where it lies outside."""
    real = type(at)
    if not -1 <= at <= size:
        return []
    at = max(at, real(0))
    low = int(at)
    if low >= size - 1:
        return [(size - 1, real(1)), (size - 1, real(0))]
    fraction = at - real(low)
    return [(low, real(1) - fraction), (low + 1, fraction)]


def weights_along(real, box, axis):
    """Returns for each bin the weights at the element's pixel, by the points that read it; and how many points a bin has."""
    start, length = box_along(real, box, axis)
    count, size, own = points_along(length), TENSORS["observed_grad_input"].shape[-1 - axis], INDEX[3 - axis]
    half, bins = real(0.5), []
    for number in range(TENSORS["grad_output"].shape[-1 - axis]):
        found = {}
        for point in range(count):
            if real is np.float64:
                at = start + (real(number) + (real(point) + half) / real(count)) * length
            else:
                at = (start + real(number) * length) + ((real(point) + half) * length) / real(count)
            weights = [weight for pixel, weight in taps(at, size) if pixel == own]
            if weights:
                found[point] = weights
        bins.append(found)
    return bins, count


def contributions(real):
    for box in range(len(TENSORS["boxes"])):
        if int(TENSORS["boxes"][box, 0]) != INDEX[0]:
            continue
        (columns, across), (rows, down) = (weights_along(real, box, axis) for axis in (0, 1))
        share = real(1 / (across * down)) if across * down else real(0)
        for (row, ys), (column, xs) in itertools.product(enumerate(rows), enumerate(columns)):
            number = TENSORS["grad_output"][box, INDEX[1], row, column]
            for y, x in itertools.product(ys, xs):
                for wy, wx in itertools.product(ys[y], xs[x]):
                    yield number, (wx * wy) * share
