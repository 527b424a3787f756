"""torchvision's deform_conv2d in the context of msda_replay.torch, on the CPU and, where there is one, on a GPU."""


import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")
ops = pytest.importorskip("torchvision", reason="needs torchvision").ops

from msda_replay.torch import Receipt, deterministic  # noqa: E402
from support.replaced import on_devices, on_gpu  # noqa: E402



def drawn(number):
    """Random tensors, some offsets whole numbers, some far outside; and stride, padding and dilation."""
    generator = torch.Generator().manual_seed(number)

    def below(most):
        return int(torch.randint(most, (), generator=generator))

    kernel, stride, padding, dilation = ((1 + below(3), 1 + below(3)), (1 + below(2), 1 + below(2)), (below(3), below(3)), (1 + below(2), 1 + below(2)))
    groups, offset_groups = 1 + below(2), 1 + below(3)
    channels = groups * offset_groups * (1 + below(4)) * (10 if number % 10 == 0 else 1)
    image = [dilation[i] * (kernel[i] - 1) + 1 + below(12) for i in range(2)]
    out = [(image[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    N, taps = 40 if number % 50 == 7 else 1 + below(3), kernel[0] * kernel[1]

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    offset = (0, 1, 1, 1, 30)[below(5)] * normal(N, 2 * offset_groups * taps, *out)
    if below(3) == 0:
        offset = offset.round()
    mask = normal(N, offset_groups * taps, *out) if below(2) else None
    weight = normal(groups * (1 + below(3)), channels // groups, *kernel)
    return [normal(N, channels, *image), offset, weight, normal(len(weight)), mask], (stride, padding, dilation)


def gradients(number, device, dtype):
    tensors, options = drawn(number)
    leaves = [None if tensor is None else tensor.to(device, dtype).requires_grad_() for tensor in tensors]
    output = ops.deform_conv2d(*leaves[:4], *options, mask=leaves[4])
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    return torch.autograd.grad(output, [leaf for leaf in leaves if leaf is not None], weights.to(output))


@on_devices
def test_gradients_are_torchvisions_in_float64(device):
    for number in range(300):
        expected, receipt = gradients(number, "cpu", torch.float64), Receipt()
        with deterministic(device, receipt):
            found = gradients(number, device, torch.float64)
        assert [call["operator"] for call in receipt.calls] == ["deform_conv2d_backward"]
        for name, entry, another in zip(("input", "offset", "weight", "bias", "mask"), found, expected):
            torch.testing.assert_close(entry.cpu(), another, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"problem {number}, {name}: {text}")


@on_devices
def test_no_images_have_no_gradient(device):
    image, offset, weight = (torch.ones(*shape, device=device, requires_grad=True) for shape in ((0, 4, 5, 5), (0, 18, 3, 3), (2, 4, 3, 3)))
    output = ops.deform_conv2d(image, offset, weight)
    with deterministic(device):
        found = torch.autograd.grad(output.sum(), (image, offset, weight))
    assert [entry.shape for entry in found] == [(0, 4, 5, 5), (0, 18, 3, 3), (2, 4, 3, 3)] and not found[2].any()


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_runs_have_equal_bits(dtype):
    with deterministic():
        for number in range(100):
            first, *others = (gradients(number, "cuda", dtype) for _ in range(5))
            assert all(all(map(torch.equal, first, another)) for another in others), number


@on_devices
def test_bad_calls_are_refused(device):
    image, weight = torch.ones(1, 3, 5, 5, device=device), torch.ones(2, 3, 3, 3, device=device)
    offset, mask = torch.zeros(1, 18, 3, 3, device=device), torch.ones(1, 9, 3, 3, device=device)
    grad, bias = torch.ones(1, 2, 3, 3, device=device), torch.zeros(2, device=device)
    backward = torch.ops.torchvision._deform_conv2d_backward
    with deterministic(device):
        for changed, options, why in (({"offset": offset[:, :9]}, (1, 1, 0, 0, 1, 1, 1, 1), "offset"), ({}, (1, 1, 0, 0, 1, 1, 1, 2), "3 channels, which 2 groups"),
                                      ({"mask": mask[:, :5]}, (1, 1, 0, 0, 1, 1, 1, 1), "mask"), ({"offset": offset.double()}, (1, 1, 0, 0, 1, 1, 1, 1), "type"),
                                      ({}, (0, 1, 0, 0, 1, 1, 1, 1), "stride 0")):  # fmt: skip
            given = {"grad": grad, "input": image, "weight": weight, "offset": offset, "mask": mask, "bias": bias, **changed}
            with pytest.raises(ValueError, match=why):
                backward(*given.values(), *options, True)


@on_gpu
def test_a_net_trains_twice_to_equal_weights():
    def trained():
        torch.manual_seed(3)
        first, last = torch.nn.Conv2d(3, 27, 3, padding=1).cuda(), ops.DeformConv2d(3, 8, 3, padding=1).cuda()
        parameters = [*first.parameters(), *last.parameters()]
        optimizer, images = torch.optim.SGD(parameters, 0.01), torch.randn(4, 3, 40, 40).cuda()
        for _ in range(10):
            optimizer.zero_grad()
            guide = first(images)
            last(images, guide[:, :18], guide[:, 18:].sigmoid()).square().mean().backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in parameters]

    torch.use_deterministic_algorithms(True)
    try:
        with deterministic():
            assert all(map(torch.equal, trained(), trained()))
    finally:
        torch.use_deterministic_algorithms(False)
