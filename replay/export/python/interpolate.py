

# --- The backward pass of torch.nn.functional.interpolate: one element, which gathers the output pixels that read it.

NEAREST, CUBIC = MODE.startswith("nearest"), MODE == "bicubic"
CENTRED = MODE != "nearest" and (NEAREST or not ALIGN_CORNERS)


def sizes(axis):
    """Returns the sides of the image and of the output along an axis: x, y, z."""
    return TENSORS["observed_grad_input"].shape[-1 - axis], TENSORS["grad_output"].shape[-1 - axis]


def extended(x):
    """A fraction rounded to 64 bits, as mode float64 computes coordinates."""
    if x == 0:
        return x
    exponent = abs(x).numerator.bit_length() - x.denominator.bit_length()
    exponent -= Fraction(2)**exponent > abs(x)
    unit = Fraction(2)**(exponent - 63)
    return round(x / unit) * unit


def exact_coordinate(axis, output):
    inside, outside = sizes(axis)
    at = Fraction(2 * output + CENTRED, 2)
    if ALIGN_CORNERS and not NEAREST:
        scaled = extended(at * (inside - 1) / (outside - 1)) if outside > 1 else Fraction(0)
    else:
        scaled = extended(at / Fraction(float(SCALES[axis])) if SCALES[axis] > 0 else at * inside / outside)
    return float(extended(scaled - Fraction(1, 2)) if CENTRED and not NEAREST else scaled)


def coordinate(real, axis, output):
    """As kernels compute it, each result rounded."""
    inside, outside = sizes(axis)
    if ALIGN_CORNERS:
        ratio = real((inside - 1) / (outside - 1)) if outside > 1 else real(0)
    else:
        ratio = real(1 / SCALES[axis] if SCALES[axis] > 0 else inside / outside)
    at = real(float(ratio) * (output + (0.5 if CENTRED else 0)))
    return float(at - real(0.5) if CENTRED else at)


# Mode nearest: a pixel adds up the output pixels between two ends.


def within(x, most):
    return 0 if math.isnan(x) else int(min(max(x, 0), most))


def end_by_inverse(axis, boundary):
    """As kernels for GPUs compute it, in float32."""
    inside, outside = sizes(axis)
    inverse, at = np.float32(SCALES[axis] if SCALES[axis] > 0 else outside / inside), np.float32(boundary)
    return within(np.ceil(fma(at, inverse, np.float32(-0.5)) if MODE == "nearest-exact" else at * inverse), outside)


def exact_end(axis, boundary):
    """The first output pixel whose coordinate is not before the boundary."""
    inside, outside = sizes(axis)
    last = outside
    if FOR_GPU and SCALES[axis] > 0:  # those that the image times the factor does not reach are left out
        reached = float(extended(inside * Fraction(float(SCALES[axis]))))
        last = within(np.ceil(reached - (0.5 if MODE == "nearest-exact" else 0)), outside)
    if boundary <= 0 or boundary >= inside:
        return 0 if boundary <= 0 else last
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if exact_coordinate(axis, middle) >= boundary else (middle + 1, high)
    return low


# The other modes: an output pixel reads some pixels along an axis, with weights.


def cubic_weight(distance):
    a, x = -0.75, abs(distance)
    if x >= 2:
        return 0.0
    return ((a + 2) * x - (a + 3)) * x * x + 1 if x <= 1 else ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def taps(axis, at):
    """The pixels that are read for a coordinate, and their weights."""
    last = sizes(axis)[0] - 1
    if not CUBIC and not ALIGN_CORNERS:
        at = max(at, 0.0)
    low = min(max(math.floor(at), -1), last)
    fraction = min(max(at - low, 0.0), 1.0)
    weights = {i: cubic_weight(fraction - i) for i in range(-1, 3)} if CUBIC else {0: 1 - fraction, 1: fraction}
    return [(min(max(low + i, 0), last), weight) for i, weight in weights.items()]


def readers(real, axis):
    """The output pixels along an axis that read the element's, each with its weights. Mode float64 adds up those of one output pixel."""
    own, exact = INDEX[len(INDEX) - 1 - axis], real is np.float64
    if NEAREST:
        end = exact_end if exact else end_by_inverse
        return {output: [real(1)] for output in range(end(axis, own), end(axis, own + 1))}
    found = {}
    for output in range(sizes(axis)[1]):
        at = exact_coordinate(axis, output) if exact else coordinate(real, axis, output)
        weights = [real(weight) for pixel, weight in taps(axis, at) if pixel == own]
        if weights:
            found[output] = [functools.reduce(operator.add, weights)] if exact else weights
    return found


def contributions(real):
    along = [readers(real, axis) for axis in range(len(SCALES))]
    for place in itertools.product(*reversed(along)):
        number = TENSORS["grad_output"][(*INDEX[:2], *place)]
        for weights in itertools.product(*(found[output] for found, output in zip(reversed(along), place))):
            yield number, functools.reduce(operator.mul, weights[::-1])
