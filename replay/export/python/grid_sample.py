

# --- The backward pass of torch.nn.functional.grid_sample: the gradient of one element.

Axis = collections.namedtuple("Axis", "pixel low fraction scale sampled")
Tap = collections.namedtuple("Tap", "pixel weight slope")


def reflected(pixel, size):
    """The coordinate mirrored at the edges, and the sign of its slope."""
    real = type(pixel)
    low, span = (real(0), real(size - 1)) if ALIGN_CORNERS else (real(-0.5), real(size))
    if span == 0:
        return real(0), real(0)
    distance = abs(pixel - low)
    extra, sign = np.fmod(distance, span), real(-1 if pixel - low < 0 else 1)
    even = np.fmod(np.floor(distance / span), real(2)) == 0
    return (extra + low, sign) if even else ((span - extra) + low, -sign)


def padded(pixel, size):
    """The coordinate where padding moves it, and the sign of its slope. Bicubic interpolation pads the pixels instead."""
    real = type(pixel)
    sign, last = real(1), real(size - 1)
    if INTERPOLATION == "bicubic" or PADDING_MODE == "zeros" or np.isnan(pixel):
        return pixel, sign
    if PADDING_MODE == "reflection":
        if np.isinf(pixel):
            return pixel, sign
        pixel, sign = reflected(pixel, size)
    if pixel <= 0:
        return real(0), real(0)
    return (last, real(0)) if pixel >= last else (pixel, sign)


def locate(at, size):
    """Where a coordinate of the grid lands along one axis."""
    real = type(at)
    one, half, sides, far = real(1), real(0.5), real(size), 5e8
    pixel = ((at + one) * half) * (sides - one) if ALIGN_CORNERS else ((at + one) * sides - one) * half
    moved, sign = padded(pixel, size)
    nearest = INTERPOLATION == "nearest"
    floor = np.rint(moved) if nearest else np.floor(moved)
    low = -2 if np.isnan(floor) else int(min(max(floor, -far), far))
    scale = real(0) if nearest else sign * ((sides - one if ALIGN_CORNERS else sides) * half)
    sampled = INTERPOLATION == "bicubic" or bool(abs(moved) < far)
    return Axis(pixel, low, real(0) if nearest else moved - floor, scale, sampled)


def pixel_read(number, size):
    """The pixel that is read for this number; None: zero is."""
    if 0 <= number < size:
        return number
    if INTERPOLATION != "bicubic" or PADDING_MODE == "zeros":
        return None
    if PADDING_MODE == "border":
        return 0 if number < 0 else size - 1
    if ALIGN_CORNERS:
        flips, extra = divmod(abs(number), size - 1) if size > 1 else (0, 0)
    else:
        flips, extra = divmod(-number - 1 if number < 0 else number, size)
    return extra if flips % 2 == 0 else size - 1 - extra


def taps(axis, size):
    """The pixels read along one axis, with their weights, and the slopes of these."""
    f = axis.fraction
    real = type(f)
    if INTERPOLATION == "nearest":
        return [Tap(pixel_read(axis.low, size), real(1), real(0))]
    if INTERPOLATION == "bilinear":
        return [Tap(pixel_read(axis.low, size), real(1) - f, real(-1)), Tap(pixel_read(axis.low + 1, size), f, real(1))]
    a, one, two, three, four, five, eight, ten = map(real, (-0.75, 1, 2, 3, 4, 5, 8, 10))
    found = []
    for i, x in enumerate((f + one, f, one - f, (one - f) + one)):
        sign = real(1 if i < 2 else -1)
        if i in (1, 2):
            weight = (((a + two) * x - (a + three)) * x) * x + one
            slope = sign * ((three * (a + two) * x - two * (a + three)) * x)
        else:
            weight = ((a * x - five * a) * x + eight * a) * x - four * a
            slope = sign * ((three * a * x - ten * a) * x + eight * a)
        found.append(Tap(pixel_read(axis.low - 1 + i, size), weight, slope))
    return found


def sides():
    """Returns the sides of the image, in the order of the grid's axes: x, y, z."""
    return TENSORS["input"].shape[:1:-1]


def located(real, place):
    """Along each axis."""
    return [locate(real(at), size) for at, size in zip(TENSORS["grid"][place], sides())]


def slope_along(own, along, value):
    """Returns, for one channel, d interpolated value / d coordinate along the axis `own`. value(numbers of the taps)."""
    others = [axis for axis in range(len(along)) if axis != own]

    def summed(axes, tap):
        if not axes:
            factors, axis = [read.slope for read in along[own]], own
        else:
            factors, axis = [read.weight for read in along[axes[-1]]], axes[-1]
        total = None
        for i, factor in enumerate(factors):
            tap[axis] = i
            inner = summed(axes[:-1], tap) if axes else value(tap)
            total = factor * inner if total is None else fma(factor, inner, total)
        return total

    return summed(others, [0] * len(along))


def sample_gradient(real, steps):
    """Returns the gradient with respect to one coordinate of the grid."""
    place, own = INDEX[:-1], INDEX[-1]
    found = located(real, place)
    for name, axis in zip("xyz", found):
        steps.update({f"pixel {name}": axis.pixel, f"cell {name}": axis.low, f"fraction {name}": axis.fraction})
    if INTERPOLATION == "nearest" or not all(axis.sampled for axis in found):
        return real(0)
    along = [taps(axis, size) for axis, size in zip(found, sides())]
    image, output = TENSORS["input"][place[0]], TENSORS["grad_output"][(place[0], slice(None), *place[1:])]

    def value_of(channel):
        def value(tap):
            pixel = tuple(along[axis][tap[axis]].pixel for axis in reversed(range(len(along))))
            return real(0) if None in pixel else real(image[(channel, *pixel)])

        return value

    slopes = [slope_along(own, along, value_of(channel)) for channel in range(len(image))]
    total = sum_over_channels([real(g) for g in output], slopes)
    steps["sum over channels"] = total
    return total * found[own].scale


def pixel_gradient(real, steps):
    """Returns the gradient of one channel of a pixel: the sum of what every sample adds that reads it."""
    n, channel, *pixel = INDEX
    addends = []
    for place in np.ndindex(*TENSORS["grid"].shape[1:-1]):
        found = located(real, (n, *place))
        if not all(axis.sampled for axis in found):
            continue
        along = [taps(axis, size) for axis, size in zip(found, sides())]
        for chosen in itertools.product(*reversed(along)):
            if [tap.pixel for tap in chosen] != pixel:
                continue
            weight = chosen[-1].weight
            for tap in chosen[-2::-1]:
                weight = weight * tap.weight
            addends.append(weight * real(TENSORS["grad_output"][(n, channel, *place)]))
    steps["addends"] = len(addends)
    return real(0) + sum_by_runs(addends) if addends else real(0)


def gradient(_, real, steps):
    return (pixel_gradient if TENSOR == "grad_input" else sample_gradient)(real, steps)


def grad_by_torch(torch, device):
    """The gradients by torch.nn.functional.grid_sample."""
    image, grid, grad_output = (torch.tensor(TENSORS[name].astype(ARITHMETIC), device=device, requires_grad=True)
                                for name in ("input", "grid", "grad_output"))
    output = torch.nn.functional.grid_sample(image, grid, INTERPOLATION, PADDING_MODE, ALIGN_CORNERS)
    output.backward(grad_output)
    return (image if TENSOR == "grad_input" else grid).grad.cpu().numpy()
