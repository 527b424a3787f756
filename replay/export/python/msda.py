

# --- Multi-scale deformable attention: the gradient of one element.

Axis = collections.namedtuple("Axis", "pixel low fraction slope sampled")


def pixel_coordinate(dialect, location, size):
    """A location as a coordinate in pixels, where pixel i has its centre at i."""
    one, half = type(location)(1), type(location)(0.5)
    if dialect == "deformable_detr":
        return fma(location, size, -half)
    if dialect == "msda_triton":
        return location * (size - one) if ALIGN_CORNERS else location * size - half
    grid = (location + location) - one  # grid_sample's [-1, 1]
    return ((grid + one) * half) * (size - one) if ALIGN_CORNERS else ((grid + one) * size - one) * half


def corners_clamp(dialect):
    """Whether corners outside the level read its border. (grid_sample clips the coordinate instead.)"""
    return dialect == "msda_triton" and PADDING_MODE == "border"


def locate(dialect, location, size):
    """Where a location lands along one axis: in the cell between the pixels `low` and `low + 1`."""
    real = type(location)
    last = real(size - 1)
    pixel = at = pixel_coordinate(dialect, location, real(size))
    slope, sampled = (last if ALIGN_CORNERS else real(size)), True
    if dialect == "grid_sample":
        if PADDING_MODE == "border" and at <= 0:
            at, slope = real(0), real(0)
        elif PADDING_MODE == "border" and at >= last:
            at, slope = last, real(0)
        sampled = math.isfinite(at)
    elif dialect == "deformable_detr":
        sampled = bool(-1 < at < size)
    floor = np.floor(at)
    low = -2 if not floor >= -1 else size if floor > last else int(floor)
    if corners_clamp(dialect):
        low = min(max(low, -1), size - 1)
    return Axis(pixel, low, at - floor, slope, sampled)


def corner_pixel(dialect, low, upper, size):
    """The pixel that a corner reads along one axis; None: it reads zero."""
    pixel = low + upper
    if corners_clamp(dialect):
        return min(max(pixel, 0), size - 1)
    return pixel if 0 <= pixel < size else None


def corner_pixels(dialect, x, y, height, width):
    """Returns the pixels of the corners (y0,x0) (y0,x1) (y1,x0) (y1,x1), by their numbers in the level."""
    rows = [corner_pixel(dialect, y.low, upper, height) for upper in (0, 0, 1, 1)]
    columns = [corner_pixel(dialect, x.low, upper, width) for upper in (0, 1, 0, 1)]
    return [None if None in pair else pair[0] * width + pair[1] for pair in zip(rows, columns)]


def corner_weights(x, y):
    rest_x, rest_y = type(x.fraction)(1) - x.fraction, type(y.fraction)(1) - y.fraction
    return rest_y * rest_x, rest_y * x.fraction, y.fraction * rest_x, y.fraction * x.fraction


def interpolated(weights, values):
    total = weights[0] * values[0]
    for weight, value in zip(weights[1:], values[1:]):
        total = fma(weight, value, total)
    return total


def slope_across(near_low, near_high, far_low, far_high, fraction):
    return fma(fraction, far_high - far_low, (type(fraction)(1) - fraction) * (near_high - near_low))


def level_of(level):
    """Its first pixel in `value`, height, width."""
    shapes = [tuple(map(int, shape)) for shape in TENSORS["spatial_shapes"]]
    return sum(height * width for height, width in shapes[:level]), *shapes[level]


def located(dialect, real, place):
    _, height, width = level_of(place[3])
    x, y = map(real, TENSORS["sampling_locations"][place])
    return locate(dialect, x, width), locate(dialect, y, height)


def sample_gradient(dialect, real, steps):
    """Returns the gradient with respect to the attention weight, or to a coordinate, of one sample."""
    b, q, m, level, p = place = INDEX[:5]
    start, height, width = level_of(level)
    x, y = located(dialect, real, place)
    for name, axis in (("x", x), ("y", y)):
        steps.update({f"pixel {name}": axis.pixel, f"cell {name}": axis.low, f"fraction {name}": axis.fraction})
    if not (x.sampled and y.sampled):
        return real(0)
    pixels, weights = corner_pixels(dialect, x, y, height, width), corner_weights(x, y)
    channels = TENSORS["value"].shape[3]
    rows = [np.zeros(channels) if pixel is None else TENSORS["value"][b, start + pixel, m] for pixel in pixels]
    read = [tuple(real(row[d]) for row in rows) for d in range(channels)]
    attention = real(TENSORS["attention_weights"][place])
    if TENSOR == "grad_attention_weights":
        factors, slope = [interpolated(weights, v) for v in read], None
    elif INDEX[5] == 0:
        factors, slope = [slope_across(v[0], v[1], v[2], v[3], y.fraction) for v in read], x.slope
    else:
        factors, slope = [slope_across(v[0], v[2], v[1], v[3], x.fraction) for v in read], y.slope
    total = sum_over_channels([real(g) for g in TENSORS["grad_output"][b, q, m]], factors)
    steps["sum over channels"] = total
    return total if slope is None else (total * attention) * slope


def pixel_gradient(dialect, real, steps):
    """Returns the gradient of one channel of a pixel: the sum of what every sample adds that reads it."""
    b, s, m, d = INDEX
    level = max(i for i in range(len(TENSORS["spatial_shapes"])) if level_of(i)[0] <= s)
    start, height, width = level_of(level)
    addends = {}  # by cell and corner
    _, queries, _, _, points = TENSORS["attention_weights"].shape
    for q, p in itertools.product(range(queries), range(points)):
        x, y = located(dialect, real, (b, q, m, level, p))
        if not (x.sampled and y.sampled and -1 <= x.low < width and -1 <= y.low < height):
            continue
        weighted = real(TENSORS["grad_output"][b, q, m, d]) * real(TENSORS["attention_weights"][b, q, m, level, p])
        for corner, pixel in enumerate(corner_pixels(dialect, x, y, height, width)):
            if pixel == s - start:
                addends.setdefault((y.low, x.low, corner), []).append(corner_weights(x, y)[corner] * weighted)
    steps["addends"] = sum(map(len, addends.values()))
    total = real(0)
    for key in sorted(addends):
        total = total + sum_by_runs(addends[key])
    return total


def gradient(dialect, real, steps):
    return (pixel_gradient if TENSOR == "grad_value" else sample_gradient)(dialect, real, steps)


def grad_by_torch(torch, device):
    """The gradients by torch.nn.functional.grid_sample."""
    value, locations, attention, grad_output = (
        torch.tensor(TENSORS[name].astype(ARITHMETIC), device=device, requires_grad=True)
        for name in ("value", "sampling_locations", "attention_weights", "grad_output"))
    batch, queries, heads, levels, points = attention.shape
    total = 0
    for level in range(levels):
        start, height, width = level_of(level)
        image = value[:, start:start + height * width].permute(0, 2, 3, 1).reshape(batch * heads, -1, height, width)
        grid = (2 * locations[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
        read = torch.nn.functional.grid_sample(image, grid, "bilinear", PADDING_MODE, ALIGN_CORNERS)
        weights = attention[:, :, :, level].transpose(1, 2).reshape(batch * heads, 1, queries, points)
        total = total + (read * weights).sum(-1)
    output = total.reshape(batch, heads, -1, queries).permute(0, 3, 1, 2)
    output.backward(grad_output)
    leaves = {"grad_value": value, "grad_sampling_locations": locations, "grad_attention_weights": attention}
    return leaves[TENSOR].grad.cpu().numpy()
