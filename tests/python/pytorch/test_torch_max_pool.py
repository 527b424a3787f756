"""The backward passes of max pooling within msda_replay.torch.deterministic(), compared with PyTorch's in float64."""

import ctypes
import math
import os
import pathlib
import random

import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")

from msda_replay import libmsda  # noqa: E402
from msda_replay.torch import Receipt, deterministic  # noqa: E402
from msda_replay.torch.operators import max_pool  # noqa: E402
from support.replaced import close, numbers, on_devices  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MSDA_BUILD", pathlib.Path(__file__).resolve().parents[3] / "build"))
F = torch.nn.functional
DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)


def pooled(seed, longest=14):
    """A random call of one of the five: the function, which also returns indices, its input in float64, and the family."""
    draw = random.Random(seed)
    axes, family = draw.choice([(3, "max"), (3, "max"), (2, "adaptive"), (3, "adaptive"), (2, "fractional"), (3, "fractional")])
    least = 2 if family == "fractional" else 1
    sides = [draw.randint(least, longest if axes == 2 else 8) for _ in range(axes)]
    dilation = [draw.choice([1, 1, 2]) for _ in sides]
    kernel = [draw.randint(1, max(1, (side - 1) // d)) for side, d in zip(sides, dilation)]
    outputs = [draw.randint(1, max(1, side - size)) for side, size in zip(sides, kernel)]
    if family == "max":
        given = {"stride": [draw.randint(1, size + 1) for size in kernel], "padding": [draw.randint(0, size // 2) for size in kernel],
                 "dilation": dilation, "ceil_mode": draw.random() < 0.3}  # fmt: skip
        function = lambda x: F.max_pool3d(x, kernel, return_indices=True, **given)  # noqa: E731
    elif family == "adaptive":
        outputs = [draw.randint(1, side + 3) for side in sides]
        function = lambda x: (F.adaptive_max_pool2d if axes == 2 else F.adaptive_max_pool3d)(x, outputs, return_indices=True)  # noqa: E731
    else:
        samples = torch.rand(2, 3, axes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        pool = F.fractional_max_pool2d if axes == 2 else F.fractional_max_pool3d
        function = lambda x: pool(x, kernel, outputs, return_indices=True, _random_samples=samples.to(x))  # noqa: E731
    # Few different numbers, so that many are equal; sometimes NaN and infinities; but of nothing but -inf
    # PyTorch's CPU chooses pixel 0, wherever the window is.
    input = numbers(seed, 2, 3, *sides).mul(2).round()
    if draw.random() < 0.2:
        input.view(-1)[:: draw.randint(2, 9)] = draw.choice([math.nan, math.inf, -0.0])
    if draw.random() < 0.3:
        input = input.contiguous(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)
    elif draw.random() < 0.3 and family != "fractional":
        input = input[0]
    return function, input, family


def gradient(function, input, grad_output, device="cpu", receipt=None, replaced=True):
    leaf = input.to(device).requires_grad_()
    output, _ = function(leaf)
    if not replaced:
        return torch.autograd.grad(output, leaf, grad_output.to(output))[0]
    with deterministic(device, receipt):
        return torch.autograd.grad(output, leaf, grad_output.to(output))[0]


def special(seed, *shape):
    """Addends, some of which are -0.0, infinities or NaN."""
    drawn = numbers(seed, *shape)
    if seed % 5 == 0:
        drawn.view(-1)[:: 3 + seed % 4] = (math.nan, math.inf, -math.inf, -0.0)[seed % 4]
    return drawn


@on_devices
def test_the_sums_are_those_of_pytorch_in_float64(device):
    for seed in range(400):
        function, input, family = pooled(seed)
        grad_output = special(seed, *function(input)[0].shape)
        # The type decides where the windows of a fractional pool are.
        dtype = DTYPES[seed % len(DTYPES)] if device == "cuda" and family != "fractional" else torch.float64
        receipt = Receipt()
        found = gradient(function, input.to(dtype), grad_output.to(dtype), device, receipt)
        expected = gradient(function, input, grad_output.to(dtype).double(), replaced=False)
        assert [call["operator"] for call in receipt.calls] == ["max_pool_backward"], seed  # ours ran
        assert found.dtype == dtype and found.stride() == expected.stride(), seed
        close(found, expected, dtype)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_sums_are_rounded_once(device, dtype):
    """Each addend is a number of this type; their sum in float32 is exact."""
    function = lambda x: F.max_pool3d(x[:, :, None], (1, 5, 5), 1, (0, 2, 2), return_indices=True)  # noqa: E731
    input = torch.zeros(1, 1, 9, 9, dtype=dtype)
    input[0, 0, 4, 4] = 1
    grad_output = (1 + numbers(4, 1, 1, 1, 9, 9).abs().mul(200).round()).to(dtype)
    expected = grad_output[0, 0, 0, 2:7, 2:7].double().sum().to(dtype)
    assert gradient(function, input, grad_output, device)[0, 0, 4, 4].cpu() == expected


@on_devices
def test_the_first_addend_is_added_to_zero(device):
    """A sum of -0.0 alone is +0.0, as where a sum begins with a zero."""
    function = lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True)  # noqa: E731
    found = gradient(function, torch.ones(1, 1, 4, 4), torch.full((1, 1, 2, 2), -0.0), device)
    assert not torch.signbit(found).any()


@on_devices
def test_images_without_planes_have_no_gradient(device):
    function = lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True)  # noqa: E731
    assert gradient(function, torch.zeros(0, 3, 4, 4), torch.zeros(0, 3, 2, 2), device).shape == (0, 3, 4, 4)


@on_devices
def test_shapes_and_types_that_do_not_fit_are_refused(device):
    input, indices = torch.ones(1, 1, 4, 4, device=device), torch.zeros(1, 1, 2, 2, dtype=torch.int64, device=device)
    with deterministic(device):
        with pytest.raises(RuntimeError, match="must be the same"):
            torch.ops.aten.adaptive_max_pool2d_backward(torch.ones(1, 1, 2, 3, device=device), input, indices)
        with pytest.raises(RuntimeError, match="expected dtype"):
            torch.ops.aten.adaptive_max_pool2d_backward(torch.ones(1, 1, 2, 2, device=device).double(), input, indices)


def test_an_index_outside_is_refused_on_a_cpu():
    indices = torch.tensor([[[[0, 16], [0, 0]]]])
    with deterministic("cpu"), pytest.raises(ValueError, match="16"):
        torch.ops.aten.adaptive_max_pool2d_backward(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 4, 4), indices)


def test_the_windows_that_a_gpu_looks_at_hold_what_was_chosen(monkeypatch):
    """Its kernel leaves out what a window does not hold: of output i the pixels from floor(i * step / per) - before on, `span` of them."""
    found, backward = [], max_pool._backward
    monkeypatch.setattr(max_pool, "_backward", lambda *given: found.append(given) or backward(*given))
    widths = torch.zeros(3, dtype=torch.int64)
    for seed in range(200):
        function, input, _ = pooled(seed, longest=14 if seed % 3 else 60)
        found.clear()
        gradient(function, input, torch.ones(()).expand(function(input)[0].shape))
        _, _, indices, axes, windows, _ = found[0]
        pixels, outputs = input.shape[-axes:], indices.shape[-axes:]
        places = indices.reshape(-1, *outputs)
        for axis, window in enumerate(reversed(windows)):  # of z, y, x
            count, of_outputs, step, per, before, span = window(pixels[axis], outputs[axis])
            assert (count, of_outputs) == (pixels[axis], outputs[axis])
            at = places // math.prod(pixels[axis + 1 :]) % pixels[axis]
            begin = (torch.arange(outputs[axis]) * step // per - before).reshape(-1, *[1] * (axes - 1 - axis))
            assert ((at >= begin) & (at < begin + span)).all(), (seed, axis)
            widths += torch.tensor([span, pixels[axis], 1])
    assert widths[0] < 0.7 * widths[1]  # and are no whole images


def test_a_gpu_computes_the_same_of_these_windows(monkeypatch):
    """On the GPU that the tests emulate."""
    library = BUILD / "stand_in" / "libmsda_emulated.so"
    if not library.exists():
        pytest.skip("built without the CUDA toolkit")
    emulated = ctypes.CDLL(str(library))

    def tensor(of):
        return libmsda.tensor_at(of.data_ptr(), str(of.dtype).removeprefix("torch."), of.shape, of.stride())

    def run(fields, inputs, results):
        call, result = libmsda.MaxPoolCall(*fields, *map(tensor, inputs.values())), tensor(results["grad_input"])
        assert emulated.msda_cuda_max_pool_backward(ctypes.byref(call), None, ctypes.byref(result), None) == 0

    for seed in range(60):
        function, input, _ = pooled(seed)
        grad_output = numbers(seed, *function(input)[0].shape)
        expected = gradient(function, input, grad_output)
        with monkeypatch.context() as patched:
            patched.setattr(max_pool, "_run_backward", run)
            patched.setattr(max_pool, "_is_on_gpu", lambda tensor: True)
            assert torch.equal(gradient(function, input, grad_output).nan_to_num(77), expected.nan_to_num(77)), seed
