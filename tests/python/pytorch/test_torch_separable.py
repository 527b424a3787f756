"""msda_replay.torch: the backward passes of average pooling and padding, on the CPU and, where there is one, on a GPU."""

import random

import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")

from msda_replay.torch import Receipt, deterministic, ways  # noqa: E402
from support.replaced import on_devices, on_gpu  # noqa: E402

F, aten = torch.nn.functional, torch.ops.aten
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def avg_pool(rng, sides):
    kernel = [rng.randint(1, min(side, rng.choice([2, 3, 9]))) for side in sides]
    options = {"stride": [rng.choice([1, 2, size, size + 1]) for size in kernel], "padding": [rng.randint(0, size // 2) for size in kernel],
               "ceil_mode": rng.random() < 0.5, "count_include_pad": rng.random() < 0.5}
    if len(sides) > 1:
        options["divisor_override"] = rng.choice([None, None, 5, -3])
    return lambda x: getattr(F, f"avg_pool{len(sides)}d")(x, kernel, **options)


def adaptive_avg_pool(rng, sides):
    size = [max(1, round(side * rng.choice([0.2, 0.5, 0.7, 1, 1.6]))) for side in sides]
    size[-1] += size == len(size) * [1]  # which PyTorch computes as a mean
    return lambda x: getattr(F, f"adaptive_avg_pool{len(sides)}d")(x, size)


def pad(mode, most):
    def of(rng, sides):
        numbers = []
        for side in reversed(sides):
            before = rng.randint(-min(side - 1, 2), most(side))
            numbers += [before, max(1 - side - before, rng.randint(-min(side - 1, 2), most(side)))]
        return lambda x: F.pad(x, numbers, mode)

    return of


OPERATORS = {"avg_pool": avg_pool, "adaptive_avg_pool": adaptive_avg_pool, "reflection_pad": pad("reflect", lambda side: min(side - 1, 5)),
             "replication_pad": pad("replicate", lambda side: 6)}  # fmt: skip
of_each_operator = pytest.mark.parametrize("name", OPERATORS)


def drawn(device, *shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(device, dtype)


def problem(name, number, last=None):
    """Returns a function of one tensor, an input for it, and a gradient of its result. last: whether channels lie last."""
    rng = random.Random(f"{name} {number}")
    sides = [rng.randint(1, 9) for _ in range(rng.choice([1, 2, 2, 3]))]
    function = OPERATORS[name](rng, sides)
    leading = [rng.randint(1, 3), rng.choice([1, 3, 4, 8])][rng.random() < 0.2 :]
    x = drawn("cpu", *leading, *sides, dtype=torch.float64, seed=number)
    if (rng.random() < 0.3 if last is None else last) and x.dim() in LAST and len(leading) == 2:
        x = x.contiguous(memory_format=LAST[x.dim()])
    return function, x, drawn("cpu", *function(x).shape, dtype=torch.float64, seed=number + 1)


def gradient(function, x, grad_output):
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf, grad_output)[0]


@on_devices
@of_each_operator
def test_gradients_are_those_of_pytorchs_kernels_for_cpus(device, name):
    problems = [problem(name, number) for number in range(500)]
    expected = [gradient(*entry) for entry in problems]
    with deterministic(device, receipt := Receipt()):
        found = [gradient(function, x.to(device), grad_output.to(device)) for function, x, grad_output in problems]
    assert len(receipt.calls) == len(problems) and all(call["operator"].startswith(name) for call in receipt.calls)
    for entry, another in zip(found, expected):
        torch.testing.assert_close(entry.cpu(), another, rtol=1e-12, atol=1e-12)


@on_devices
@of_each_operator
def test_bits_depend_on_no_layout_and_no_device(device, name):
    def gradients(device, last):
        return [gradient(function, x.to(device, torch.float32), grad_output.to(device, torch.float32))
                for function, x, grad_output in (problem(name, number, last) for number in range(60))]

    with deterministic(("cpu", device)):
        for entry, another in zip(gradients(device, True), gradients("cpu", False)):
            assert torch.equal(entry.cpu(), another)


def calls_of(device):
    """By operator: a call of it with channels last, without and in a batch of none, and the keyword of its result."""
    options = [2], [], [1], True, False, None
    shapes = {"avg_pool2d": (options, (2, 8, 7, 6), (4, 4)), "avg_pool3d": (options, (2, 8, 5, 7, 6), (3, 4, 4)),
              "adaptive_avg_pool3d": ((), (2, 8, 5, 7, 6), (3, 4, 5)), "reflection_pad1d": (([2, 1],), (2, 8, 6), (9,)),
              "reflection_pad2d": (([2, 1, 0, 3],), (2, 8, 7, 6), (10, 9)), "replication_pad1d": (([2, 1],), (2, 8, 6), (9,)),
              "replication_pad2d": (([2, 1, 0, 3],), (2, 8, 7, 6), (10, 9)), "replication_pad3d": (([1] * 6,), (2, 8, 5, 7, 6), (7, 9, 8)),
              "reflection_pad3d": (([1] * 6,), (2, 8, 5, 7, 6), (7, 9, 8))}  # fmt: skip
    for name, (arguments, shape, out) in shapes.items():
        x, grad_output = drawn(device, *shape), drawn(device, *shape[:2], *out)
        for batch in ((x, grad_output), (x[0], grad_output[0]), (x[:0], grad_output[:0])):
            yield f"{name}_backward", *batch, arguments
        if x.dim() in LAST:
            yield f"{name}_backward", *(tensor.contiguous(memory_format=LAST[x.dim()]) for tensor in (x, grad_output)), arguments


@on_devices
def test_results_and_overloads_are_as_pytorchs(device):
    """The numbers are those of PyTorch's functions on a CPU: where channels lie last, some of its other kernels write wrong ones."""
    for name, x, grad_output, arguments in calls_of(device):
        into = getattr(aten, name).grad_input
        plain = getattr(aten, f"_{name}") if name.startswith("adaptive") else getattr(aten, name)
        outs = lambda: [torch.empty(0, device=device), torch.full_like(x, 7)]  # noqa: E731
        results = lambda: [plain(grad_output, x, *arguments)] + [into(grad_output, x, *arguments, grad_input=out) for out in outs()]  # noqa: E731
        truth = plain(grad_output.cpu(), x.cpu(), *arguments)
        expected = results()
        with deterministic(device, receipt := Receipt()):
            found = results()
        assert [call["operator"] for call in receipt.calls] == 3 * [name]
        for entry, another in zip(found, expected):
            torch.testing.assert_close(entry.cpu(), truth)
            assert entry.stride() == another.stride(), (name, x.stride())
        with deterministic(device), pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            into(grad_output, x, *arguments, grad_input=torch.empty_like(x, dtype=torch.float64))


@on_devices
def test_adaptive_pooling_in_two_dimensions_as_pytorchs(device):
    x, grad_output = drawn(device, 2, 8, 7, 6), drawn(device, 2, 8, 3, 4)
    for of_layout in (x, x[0], x[:0], x.contiguous(memory_format=torch.channels_last), x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)[..., 1:]):
        grad = grad_output[0] if of_layout.dim() == 3 else grad_output[: len(of_layout)]
        expected = aten._adaptive_avg_pool2d_backward(grad, of_layout)
        with deterministic(device):
            found = aten._adaptive_avg_pool2d_backward(grad, of_layout)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


@on_devices
def test_gradients_that_do_not_fit_are_refused(device):
    x, wide, options = drawn(device, 2, 3, 6, 6), drawn(device, 2, 3, 3, 9), ([2], [], [0], False, True, None)
    calls = [lambda: aten.avg_pool2d_backward(wide, x, *options), lambda: aten.reflection_pad2d_backward(wide, x, [1] * 4),
             lambda: aten.replication_pad2d_backward(wide, x, [1] * 4)]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError):
            call()
        with deterministic(device), pytest.raises(RuntimeError, match="2d_backward: grad_output has 9 elements along side 0, not [38]"):
            call()


@on_devices
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_complex_numbers_are_padded_too(device, mode):
    x = drawn(device, 2, 3, 5, 6, 2, dtype=torch.float64)
    grad_output = torch.view_as_complex(drawn(device, 2, 3, 8, 9, 2, dtype=torch.float64))
    function = lambda x: F.pad(x, (2, 1, 0, 3), mode)  # noqa: E731
    expected = gradient(function, torch.view_as_complex(x), grad_output)
    with deterministic(device):
        torch.testing.assert_close(gradient(function, torch.view_as_complex(x), grad_output), expected)


def pooled_and_padded(*images):
    """A number whose gradient of each of seven images comes from another operator."""
    a, b, c, d, e, f, g = images
    parts = (F.avg_pool2d(a, 3, 2, 1), F.avg_pool3d(b, 2), F.adaptive_avg_pool2d(c, (4, 5)), F.adaptive_avg_pool3d(d, (3, 2, 2)),
             F.pad(e, (2, 1, 1, 2), "reflect"), F.pad(f, (2, 1, 1, 2), "replicate"), F.pad(g, 6 * (1,), "replicate"))  # fmt: skip
    return sum(part.square().sum() for part in parts)


NAMES = ["adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "reflection_pad2d", "replication_pad2d", "replication_pad3d"]


def images(device, dtype=torch.float32):
    flat, deep = (2, 4, 6, 7), (1, 2, 4, 6, 6)
    return [drawn(device, *shape, dtype=dtype, seed=seed).requires_grad_() for seed, shape in enumerate((flat, deep, flat, deep, flat, flat, deep))]


@on_devices
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_functions_call_what_is_replaced(device, backend):
    compiled, inputs, receipt = torch.compile(pooled_and_padded, backend=backend), images(device), Receipt()
    outputs = compiled(*inputs), pooled_and_padded(*inputs)
    with deterministic(device, receipt):
        found, expected = (torch.autograd.grad(output, inputs) for output in outputs)
    assert sorted(call["operator"] for call in receipt.calls) == sorted(2 * [f"{name}_backward" for name in NAMES])
    for mine, its in zip(found, expected):  # inductor's own forward passes round otherwise
        torch.testing.assert_close(mine, its, rtol=0 if backend == "aot_eager" else 1e-5, atol=0 if backend == "aot_eager" else 1e-6)


@on_devices
def test_under_autocast_gradients_have_the_inputs_types(device):
    inputs, layer = images(device), torch.nn.Conv2d(4, 4, 3, padding=1).to(device)
    with deterministic(device, receipt := Receipt()):
        with torch.autocast(device, torch.bfloat16):
            output = pooled_and_padded(layer(inputs[0]), *inputs[1:])
        output.backward()
    assert all(x.grad.dtype == x.dtype for x in inputs) and layer.weight.grad.dtype == torch.float32
    assert any("bfloat16" in call["options"]["grad_output"] for call in receipt.calls)


def test_the_long_way_of_replication_is_not_taken_meanwhile():
    """What PyTorch does under use_deterministic_algorithms, here on a CPU, where it does it for no one."""
    decompositions, x = torch._decomp.decompositions, images("cpu")[5]
    long_way, lengthen = decompositions._replication_pad, ways.shorten("cpu")
    try:
        padded = decompositions._replication_pad(x, (2, 1, 1, 2))
        assert padded.grad_fn.name() == "ReplicationPad2DBackward0" and torch.equal(padded, F.pad(x, (2, 1, 1, 2), "replicate"))
    finally:
        lengthen()
    assert decompositions._replication_pad is long_way and long_way(x, (2, 1, 1, 2)).grad_fn.name() != "ReplicationPad2DBackward0"


@on_gpu
def test_use_deterministic_algorithms_refuses_none():
    inputs = images("cuda")
    torch.use_deterministic_algorithms(True)
    try:
        with deterministic(receipt=(receipt := Receipt())):
            torch.autograd.grad(pooled_and_padded(*inputs), inputs)
    finally:
        torch.use_deterministic_algorithms(False)
    assert sorted(call["operator"] for call in receipt.calls) == [f"{name}_backward" for name in NAMES]


@on_gpu
def test_calls_in_a_cuda_graph_and_on_several_streams():
    inputs, streams = images("cuda"), [torch.cuda.Stream() for _ in range(3)]
    with deterministic():
        expected = torch.autograd.grad(pooled_and_padded(*inputs), inputs)
        torch.cuda.synchronize()
        found = []
        for stream in 10 * streams:
            with torch.cuda.stream(stream):
                found.append(torch.autograd.grad(pooled_and_padded(*inputs), inputs))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found.append(torch.autograd.grad(pooled_and_padded(*inputs), inputs))
    graph.replay()
    torch.cuda.synchronize()
    for gradients in found:
        assert all(map(torch.equal, gradients, expected))
