"""Operators that write, count or choose by an index, within msda_replay.torch.deterministic(): compared with PyTorch's on the CPU in
float64, and with loops in Python where PyTorch's result is any of several."""

import math
import random

import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")
if not hasattr(torch.library, "get_kernel"):
    pytest.skip("needs PyTorch 2.10 or later", allow_module_level=True)

from msda_replay.torch import Receipt, deterministic  # noqa: E402
from support.replaced import close, numbers, on_devices  # noqa: E402

F = torch.nn.functional
PROBLEMS = range(300)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
STRANGE = (math.nan, math.inf, -math.inf, -0.0)


def drawn(seed, *shape, dtype=torch.float64, strange=0.2):
    """Numbers of which many are equal, and some NaN, infinite or -0.0."""
    draw, found = random.Random(seed), numbers(seed, *shape).mul(2).round()
    if draw.random() < strange and found.numel():
        found.view(-1)[:: draw.randint(2, 7)] = draw.choice(STRANGE)
    return found.to(dtype)


def indices(seed, low, high, *shape):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def replaced(operator, function, device, *tensors):
    """The result, on the CPU, of a call that ours computed, as its receipt says; under use_deterministic_algorithms(True)."""
    receipt = Receipt()
    torch.use_deterministic_algorithms(True)
    try:
        with deterministic(device, receipt):
            found = function(*(tensor.to(device) for tensor in tensors))
    finally:
        torch.use_deterministic_algorithms(False)
    if operator:
        assert [call["operator"] for call in receipt.calls] == [operator]
    return tuple(result.cpu() for result in found) if isinstance(found, tuple) else found.cpu()


def equal(found, expected):
    assert found.dtype == expected.dtype and found.stride() == expected.stride()
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@on_devices
def test_of_numbers_put_at_one_place_the_last_stays(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        shape = [draw.randint(1, 5) for _ in range(draw.randint(0, 3))]
        to = drawn(seed, *shape, dtype=draw.choice([*DTYPES, torch.int64, torch.bool, torch.complex64]))
        if len(shape) > 1 and draw.random() < 0.4:
            to = to.transpose(0, 1)
        count = draw.randint(0, 2 * to.numel())
        index, source = indices(seed, -to.numel(), to.numel(), count), drawn(seed + 1, count, dtype=to.dtype)
        expected = to.reshape(-1).tolist()
        for place, number in zip(index.tolist(), source.tolist()):
            expected[place] = number
        found = replaced("put" if count else None, lambda t, i, s: t.clone().put_(i, s), device, to, index, source)
        equal(found, torch.empty_like(to).copy_(torch.tensor(expected, dtype=to.dtype).view(to.shape)))


@on_devices
def test_numbers_put_are_accumulated(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        dtype = draw.choice([*DTYPES, torch.int64, torch.int16, torch.complex128])
        to = drawn(seed, draw.randint(1, 4), draw.randint(1, 9), dtype=dtype, strange=0.2 * dtype.is_floating_point)
        count = draw.randint(1, 60)
        index, source = indices(seed, -to.numel(), to.numel(), count), drawn(seed + 1, count, dtype=dtype, strange=0)
        found = replaced("put", lambda t, i, s: t.put(i, s, accumulate=True), device, to, index, source)
        if dtype in DTYPES:
            close(found, to.double().put(index, source.double(), accumulate=True), dtype)
        else:
            equal(found, to.put(index, source, accumulate=True))


@pytest.mark.parametrize("call, error, message", [
    (lambda: torch.zeros(3).put_(torch.tensor([3]), torch.ones(1)), IndexError, "out of range: tried to access index 3 on a tensor of 3"),
    (lambda: torch.zeros(3).put_(torch.tensor([-4]), torch.ones(1)), IndexError, "out of range"),
    (lambda: torch.zeros(0).put_(torch.tensor([0]), torch.ones(1)), IndexError, "put_"),
    (lambda: torch.zeros(3).put_(torch.tensor([0]), torch.ones(2)), IndexError, "same number of elements"),
    (lambda: torch.zeros(3).put_(torch.tensor([0]), torch.ones(1).double()), RuntimeError, "same dtype"),
    (lambda: torch.zeros(3).put_(torch.tensor([0], dtype=torch.int32), torch.ones(1)), RuntimeError, "long tensor for index"),
    (lambda: (x := torch.zeros(3)).put_(torch.tensor([0, 1, 2]), x), RuntimeError, "unsupported operation"),
    (lambda: torch.zeros(1).expand(3).put_(torch.tensor([0]), torch.ones(1)), RuntimeError, "unsupported operation"),
    (lambda: F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.full((1, 1, 2, 2), 16), 2), RuntimeError, "Found an invalid max index: 16"),
    (lambda: F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 3, dtype=torch.int64), 2), RuntimeError, "shape of indices"),
    (lambda: F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.int32), 2), RuntimeError, "int64"),
    (lambda: torch.bincount(torch.tensor([-1]), torch.ones(1)), RuntimeError, "non-negative"),
    (lambda: torch.bincount(torch.tensor([1]), torch.ones(2)), RuntimeError, "same length"),
    (lambda: torch.histc(torch.tensor([1.0, math.inf])), RuntimeError, "is not finite"),
    (lambda: torch.histc(torch.ones(3), 3, 2, 1), RuntimeError, "max must be larger than min|greater"),
    (lambda: torch.zeros(3, 0).median(1), IndexError, "non-zero size"),
    (lambda: torch.zeros(3).median(1), IndexError, "Dimension out of range"),
    (lambda: F.nll_loss(torch.zeros(1, 2, 1, 1), torch.tensor([[[2]]])), IndexError, "Target 2 is out of bounds"),
    (lambda: F.nll_loss(torch.zeros(1, 2, 1, 1), torch.zeros(1, 2, 1, dtype=torch.int64)), RuntimeError, "size mismatch|don't match"),
])  # fmt: skip
def test_what_pytorch_refuses_is_refused(call, error, message):
    with pytest.raises(error):
        call()
    with deterministic("cpu"), pytest.raises(error, match=message):
        call()


@on_devices
def test_of_numbers_unpooled_to_one_pixel_the_last_stays(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        axes, dtype = draw.choice([1, 2, 2, 3]), draw.choice([*DTYPES, torch.int64])
        sides, outputs = ([draw.randint(1, most) for _ in range(axes)] for most in (4, 7))
        outputs = outputs if axes > 1 else [2 * sides[0]]
        input = drawn(seed, 2, 3, *sides, dtype=dtype)
        index = indices(seed, 0, math.prod(outputs), 2, 3, *sides)
        if axes == 2 and draw.random() < 0.3:
            input = input.contiguous(memory_format=torch.channels_last)
        elif draw.random() < 0.3:
            input, index = input[0], index[0]
        expected = torch.zeros(*input.shape[:-axes], *outputs, dtype=dtype)
        planes = expected.view(-1, math.prod(outputs))
        for plane, places, values in zip(planes, index.reshape(len(planes), -1), input.reshape(len(planes), -1)):
            for place, value in zip(places, values):
                plane[place] = value
        unpool = {1: lambda x, i: F.max_unpool1d(x, i, 2), 2: lambda x, i: torch.ops.aten.max_unpool2d(x, i, outputs),
                  3: lambda x, i: torch.ops.aten.max_unpool3d(x, i, outputs, [1] * 3, [0] * 3)}[axes]  # fmt: skip
        found = replaced("max_unpool", unpool, device, input, index)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        if device == "cpu" and axes == 2 and dtype != torch.int64:
            assert found.stride() == unpool(input, index).stride()


@on_devices
def test_weights_are_counted(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        count, dtype = draw.randint(0, 80), draw.choice([*DTYPES, torch.int64])
        index, weights = indices(seed, 0, draw.randint(1, 20), count).to(draw.choice([torch.int64, torch.int32, torch.uint8])), drawn(seed, count, dtype=dtype)
        least = draw.choice([0, 0, 25])
        found = replaced("bincount" if count else None, lambda i, w: torch.bincount(i, w, least), device, index, weights)
        expected = torch.bincount(index, weights.double(), least)
        assert found.dtype == torch.bincount(index, weights, least).dtype
        close(found.double(), expected.double(), torch.float32)


@on_devices
def test_numbers_without_weights_are_counted_by_pytorch(device):
    found = replaced(None, lambda i: torch.bincount(i, minlength=5), device, torch.tensor([1, 1, 3]))
    assert found.tolist() == [0, 2, 0, 1, 0]
    assert replaced(None, lambda x: torch.histc(x, 3, 0, 2), "cuda", torch.tensor([0, 1, 1])).tolist() == [1, 2, 0] if device == "cuda" else True


@on_devices
def test_histograms(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        dtype, bins = draw.choice([torch.float32, torch.float64]), draw.randint(1, 30)
        input = numbers(seed, draw.randint(1, 4), draw.randint(1, 40)).to(dtype)
        low, high = draw.choice([(0, 0), (-1, 1), (-2, 0.5), (0, 3)])
        if (low, high) != (0, 0) and draw.random() < 0.3:
            input[0, 0] = draw.choice(STRANGE)
        found = replaced("histc", lambda x: torch.histc(x, bins, low, high), device, input)
        equal(found, torch.histc(input, bins, low, high))


@on_devices
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_of_equal_numbers_the_median_is_the_one_of_a_stable_sort(device, name):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        shape = [draw.randint(1, 6) for _ in range(draw.randint(0, 3))]
        input = drawn(seed, *shape, dtype=draw.choice([torch.float32, torch.float64, torch.float16, torch.int64]), strange=0.5)
        if len(shape) > 1 and draw.random() < 0.4:
            input = input.transpose(0, -1)
        dim, keep = draw.randrange(-max(input.dim(), 1), max(input.dim(), 1)), draw.random() < 0.4
        values, index = replaced(name, lambda x: tuple(getattr(torch, name)(x, dim, keep)), device, input)
        expected = getattr(torch, name)(input, dim, keep).values
        equal(values, expected)
        rows, at = (input.reshape(1), index.reshape(1)) if input.dim() == 0 else (input, index if keep else index.unsqueeze(dim))
        assert torch.equal(rows.gather(dim, at).nan_to_num(77), (values.reshape(1) if input.dim() == 0 else values if keep else values.unsqueeze(dim)).nan_to_num(77))
        for row, place in zip(rows.movedim(dim, -1).reshape(-1, rows.shape[dim]).tolist(), at.movedim(dim, -1).reshape(-1).tolist()):
            nans = sum(x != x for x in row)
            order = sorted(range(len(row)), key=lambda i: (row[i] != row[i], row[i] if row[i] == row[i] else 0))  # sorted() is stable
            middle = max((len(row) - nans - 1) // 2, 0) if name == "nanmedian" else len(row) - nans if nans else (len(row) - 1) // 2
            assert place == order[middle]


@on_devices
def test_the_largest_of_bags_get_the_gradients(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        rows, channels, bags, count = draw.randint(1, 9), draw.randint(1, 5), draw.randint(1, 8), draw.randint(1, 30)
        dtype = DTYPES[:2][seed % 2] if device == "cpu" else DTYPES[seed % 4]
        index = indices(seed, 0, rows, count)
        offsets = torch.sort(indices(seed + 1, 0, count, bags)).values
        offsets[0] = 0
        table, grad_output = drawn(seed, rows, channels, strange=0), drawn(seed + 2, bags, channels)

        def gradient(table, index, offsets, grad_output):
            leaf = table.detach().requires_grad_()
            return torch.autograd.grad(F.embedding_bag(index, leaf, offsets, mode="max"), leaf, grad_output)[0]

        found = replaced("embedding_bag_backward", gradient, device, table.to(dtype), index, offsets, grad_output.to(dtype))
        close(found, gradient(table, index, offsets, grad_output), dtype)


@on_devices
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_other_modes_of_bags_stay(device, mode):
    table, index, offsets = numbers(1, 5, 3), torch.tensor([1, 2, 1, 4]), torch.tensor([0, 3])

    def gradient(table, index, offsets):
        leaf = table.detach().requires_grad_()
        return torch.autograd.grad(F.embedding_bag(index, leaf, offsets, mode=mode).sum(), leaf)[0]

    torch.testing.assert_close(replaced(None, gradient, device, table, index, offsets), gradient(table, index, offsets))


@on_devices
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_losses_of_images(device, reduction):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        classes, sides = draw.randint(1, 6), [draw.randint(1, 3), *(draw.randint(0 if seed % 50 == 7 else 1, 40) for _ in range(2))]
        dtype = DTYPES[:2][seed % 2] if device == "cpu" else DTYPES[seed % 4]
        input = drawn(seed, sides[0], classes, *sides[1:])
        if is_last := draw.random() < 0.3:
            input = input.contiguous(memory_format=torch.channels_last)
        target, ignored = indices(seed, 0, classes, *sides), draw.choice([-100, 0, 1])
        target[indices(seed + 1, 0, 4, *sides) == 0] = ignored
        weight = numbers(seed, classes).abs().to(dtype) if draw.random() < 0.5 else None
        more = [] if weight is None else [weight]

        def both(input, target, *weight):
            leaf = input.detach().requires_grad_()
            loss = F.nll_loss(leaf, target, *weight, ignore_index=ignored, reduction=reduction)
            # PyTorch has no backward pass for channels_last.
            return (loss.detach(),) if is_last else (loss.detach(), torch.autograd.grad(loss.sum(), leaf)[0])

        found = replaced("nll_loss2d" if reduction != "none" else None, both, device, input.to(dtype), target, *more)
        expected = both(input.to(dtype).double(), target, *(tensor.double() for tensor in more))
        for result, exact in zip(found, expected):
            assert result.dtype == dtype and result.shape == exact.shape
            close(result, exact, dtype)


@on_devices
def test_products_by_an_index(device):
    for seed in PROBLEMS:
        draw = random.Random(seed)
        size, rows, columns = draw.randint(1, 5), draw.randint(1, 9), draw.randint(1, 4)
        to, source = drawn(seed, size, columns), drawn(seed + 1, rows, columns)
        index, include, dtype = indices(seed, 0, size, rows, columns), draw.random() < 0.5, draw.choice(DTYPES[:2])
        to, source = to.to(dtype), source.to(dtype)
        for reduce in ("prod", "sum", "amax"):
            operator = "scatter_reduce" if device == "cuda" and reduce == "prod" else None
            found = replaced(operator, lambda t, i, s: t.scatter_reduce(0, i, s, reduce, include_self=include), device, to, index, source)
            close(found, to.double().scatter_reduce(0, index, source.double(), reduce, include_self=include), dtype)
            again = replaced(operator, lambda t, i, s: t.clone().scatter_reduce_(0, i, s, reduce, include_self=include), device, to, index, source)
            equal(again, found)


@pytest.mark.parametrize("where, name, gives", [(torch.library, "get_kernel", None), (torch._C, "_dispatch_has_kernel_for_dispatch_key", lambda *_: False)])
def test_operators_whose_own_kernel_pytorch_does_not_say_stay(monkeypatch, where, name, gives):
    """As before PyTorch 2.10; or where PyTorch has none for a GPU."""
    if gives is None:
        monkeypatch.delattr(where, name)
    else:
        monkeypatch.setattr(where, name, gives)
    index, weights = torch.tensor([1, 1, 3]), torch.tensor([0.5, 1.0, 2.0])
    assert replaced(None, torch.bincount, "cpu", index, weights).tolist() == [0, 1.5, 0, 2]
    receipt = Receipt()
    with deterministic("cpu", receipt):
        torch.bincount(index, weights)
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
    assert [call["operator"] for call in receipt.calls] == ["put"]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_pytorch_refuses_is_compiled(backend):
    """PyTorch refuses max_unpool while a graph is traced, too."""
    input, index = numbers(3, 1, 2, 3, 3), indices(3, 0, 36, 1, 2, 3, 3)
    compiled = torch.compile(lambda x, i: F.max_unpool2d(x * 2, i, 2, output_size=(6, 6)) + 1, backend=backend)
    expected = F.max_unpool2d(input * 2, index, 2, output_size=(6, 6)) + 1
    assert torch.equal(replaced("max_unpool", compiled, "cpu", input, index), expected)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            compiled(input, index)
    finally:
        torch.use_deterministic_algorithms(False)


@on_devices
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_training_step_runs_what_is_replaced(device, backend):
    index, bags, target = torch.tensor([1, 2, 1, 4]).to(device), torch.tensor([0, 3]).to(device), indices(2, 0, 3, 2, 4, 4).to(device)
    leaves = [numbers(seed, *shape).float().to(device).requires_grad_() for seed, shape in enumerate([(2, 3, 8, 8), (2, 2, 4, 6, 6), (5, 3)])]

    def function(image, volume, table):
        loss = F.cross_entropy(F.adaptive_max_pool2d(image * 2, 4), target, ignore_index=1)
        return loss + F.max_pool3d(volume, 3, 2, 1).square().sum() + F.embedding_bag(index, table, bags, mode="max").square().sum()

    compiled, receipt = torch.compile(function, backend=backend), Receipt()
    with deterministic(device, receipt):
        found = torch.autograd.grad(compiled(*leaves), leaves)
        expected = torch.autograd.grad(function(*leaves), leaves)
    operators = sorted(call["operator"] for call in receipt.calls)
    assert operators == sorted(2 * ["embedding_bag_backward", "max_pool_backward", "max_pool_backward", "nll_loss2d"])
    for result, plain in zip(found, expected):
        torch.testing.assert_close(result, plain)
