"""Triton kernels of the clients' own, and functions that launch them. Each adds in one order, so that equal inputs give equal bits."""

import contextlib

import torch
import triton
import triton.language as tl

# PARTS sums of the inner dimension, added up at the end: configurations with other PARTS round differently.
TILES = [(32, 32, 1), (64, 32, 1), (32, 64, 4), (64, 64, 4)]


# The choice is kept beside the compiled kernels, so that a second run of the program makes the same one without measuring.
@triton.autotune([triton.Config({"ROWS": rows, "COLUMNS": columns, "PARTS": parts}) for rows, columns, parts in TILES],
                 key=["columns", "inner"], cache_results=True)
@triton.jit
def tuned_matmul(left, right, out, rows, columns, inner, left_row, left_inner, right_inner, right_column,
                 ROWS: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr, INNER: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for part in tl.static_range(PARTS):
        sums = tl.zeros((ROWS, COLUMNS), tl.float32)
        for begin in range(part * INNER, inner, PARTS * INNER):
            place = begin + tl.arange(0, INNER)
            a = tl.load(left + row[:, None] * left_row + place[None, :] * left_inner, (row[:, None] < rows) & (place[None, :] < inner), 0.0)
            b = tl.load(right + place[:, None] * right_inner + column[None, :] * right_column,
                        (place[:, None] < inner) & (column[None, :] < columns), 0.0)
            sums = tl.dot(a, b, sums, input_precision="ieee")
        total += sums
    tl.store(out + row[:, None] * columns + column[None, :], total, (row[:, None] < rows) & (column[None, :] < columns))


def matmul(left, right):
    (rows, inner), columns = left.shape, right.shape[1]
    out = torch.empty(rows, columns, device=left.device)

    def grid(chosen):
        return triton.cdiv(rows, chosen["ROWS"]), triton.cdiv(columns, chosen["COLUMNS"])

    tuned_matmul[grid](left, right, out, rows, columns, inner, *left.stride(), *right.stride(), INNER=32)
    return out


@contextlib.contextmanager
def other_configuration():
    """Within it every matrix product has a configuration that the tuner did not choose, and that rounds differently."""
    kept = dict(tuned_matmul.cache)
    for key, chosen in kept.items():
        tuned_matmul.cache[key] = next(config for config in tuned_matmul.configs if config.kwargs["PARTS"] != chosen.kwargs["PARTS"])
    try:
        yield
    finally:
        tuned_matmul.cache.update(kept)


@triton.jit
def layer_norm_forward(x, weight, bias, out, means, scales, width, epsilon, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    inside = column < width
    values = tl.load(x + row * width + column, inside, 0.0)
    mean = tl.sum(values, 0) / width
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / width + epsilon)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    tl.store(out + row * width + column, centred * scale * tl.load(weight + column, inside, 0.0) + tl.load(bias + column, inside, 0.0), inside)


@triton.jit
def layer_norm_backward(grad, x, weight, means, scales, out, width, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    inside = column < width
    scale = tl.load(scales + row)
    normal = tl.where(inside, (tl.load(x + row * width + column, inside, 0.0) - tl.load(means + row)) * scale, 0.0)
    weighted = tl.load(grad + row * width + column, inside, 0.0) * tl.load(weight + column, inside, 0.0)
    inner = (normal * (tl.sum(weighted * normal, 0) / width) + tl.sum(weighted, 0) / width)
    tl.store(out + row * width + column, (weighted - inner) * scale, inside)


@triton.jit
def layer_norm_weights(grad, x, means, scales, of_weight, of_bias, rows, width, ROWS: tl.constexpr):
    """Sums the rows in their order, a column in each program."""
    column = tl.program_id(0)
    weight, bias = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for begin in range(0, rows, ROWS):
        row = begin + tl.arange(0, ROWS)
        inside = row < rows
        entry = tl.load(grad + row * width + column, inside, 0.0)
        normal = (tl.load(x + row * width + column, inside, 0.0) - tl.load(means + row, inside, 0.0)) * tl.load(scales + row, inside, 0.0)
        weight += entry * normal
        bias += entry
    tl.store(of_weight + column, tl.sum(weight, 0))
    tl.store(of_bias + column, tl.sum(bias, 0))


@triton.jit
def softmax_forward(x, out, width, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    values = tl.load(x + row * width + column, column < width, -float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * width + column, powers / tl.sum(powers, 0), column < width)


@triton.jit
def softmax_backward(grad, y, out, width, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    entry = tl.load(grad + row * width + column, column < width, 0.0)
    shares = tl.load(y + row * width + column, column < width, 0.0)
    tl.store(out + row * width + column, shares * (entry - tl.sum(entry * shares, 0)), column < width)


@triton.jit
def gelu_forward(x, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + place, place < count, 0.0)
    tl.store(out + place, values * 0.5 * (1 + tl.erf(values * 0.7071067811865476)), place < count)


@triton.jit
def gelu_backward(grad, x, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + place, place < count, 0.0)
    slope = 0.5 * (1 + tl.erf(values * 0.7071067811865476)) + values * tl.exp(-0.5 * values * values) * 0.3989422804014327
    tl.store(out + place, tl.load(grad + place, place < count, 0.0) * slope, place < count)


@triton.jit(do_not_specialize=["seed"])  # one code for all seeds
def random_dropout(x, out, count, share, seed, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, place) >= share
    tl.store(out + place, tl.where(kept, tl.load(x + place, place < count, 0.0) / (1 - share), 0.0), place < count)


# The kernels of the plants.

@triton.jit
def write_values(x, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, place < count), place < count)


@triton.jit
def read_values(x, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, place < count) * 2, place < count)


@triton.jit
def sum_of_buffer(x, out, BLOCK: tl.constexpr):
    """Sums all BLOCK numbers, whoever wrote them."""
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK)), 0))


def along(kernel, tensors, *numbers, block=1024):
    """Launches an elementwise kernel: the last of the tensors takes the results."""
    count = tensors[-1].numel()
    kernel[(triton.cdiv(count, block),)](*tensors, count, *numbers, BLOCK=block)
    return tensors[-1]
