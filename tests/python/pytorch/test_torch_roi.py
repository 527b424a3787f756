"""torchvision's roi_pool, ps_roi_pool and ps_roi_align in the context of msda_replay.torch, on the CPU and, where there is one, on a GPU."""

import functools

import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")
ops = pytest.importorskip("torchvision", reason="needs torchvision").ops

from msda_replay.torch import Receipt, deterministic  # noqa: E402
from support.replaced import on_devices, on_gpu  # noqa: E402

POOLINGS = {
    "roi_pool": ops.roi_pool,
    "ps_roi_pool": ops.ps_roi_pool,
    "ps_roi_align": functools.partial(ops.ps_roi_align, sampling_ratio=0),
    "ps_roi_align with points": functools.partial(ops.ps_roi_align, sampling_ratio=3),
}
of_each = pytest.mark.parametrize("pooling", POOLINGS)


def drawn(number, is_sensitive):
    """A random image and boxes, some of them empty, turned around or outside."""
    generator = torch.Generator().manual_seed(number)

    def below(most):
        return int(torch.randint(most, (), generator=generator))

    bins, image, K = (1 + below(7), 1 + below(7)), (1 + below(40), 1 + below(40)), below(30)
    channels = (1 + below(3)) * bins[0] * bins[1] if is_sensitive else 1 + below(40)
    first = (torch.rand(K, 2, generator=generator) * 1.5 - 0.25) * torch.tensor(image[::-1])
    second = first + torch.rand(K, 2, generator=generator) * torch.tensor(image[::-1]) * (0.1 + below(10) / 10)
    flip = torch.rand(K, 1, generator=generator) < 0.1
    images = torch.randint(2, (K, 1), generator=generator)
    boxes = torch.cat([images, torch.where(flip, second, first), torch.where(flip, first, second)], dim=1).double()
    if below(3) == 0:
        boxes[:, 1:] = (2 * boxes[:, 1:]).round() / 2  # ties
    input = torch.randn(2, channels, *image, generator=generator, dtype=torch.float64)
    return input, boxes, bins, (1.0, 0.5, 0.3)[below(3)]


def gradient(pooling, number, device, dtype):
    input, boxes, bins, scale = drawn(number, pooling != "roi_pool")
    leaf = input.to(device, dtype).requires_grad_()
    output = POOLINGS[pooling](leaf, boxes.to(device, dtype), bins, scale)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(number)).to(output)
    return torch.autograd.grad(output, leaf, weights)[0]


@on_devices
@of_each
def test_gradients_are_torchvisions_in_float64(device, pooling):
    for number in range(300):
        expected = gradient(pooling, number, "cpu", torch.float64)
        receipt = Receipt()
        with deterministic(device, receipt):
            found = gradient(pooling, number, device, torch.float64)
        assert [call["operator"] for call in receipt.calls] == [f"{pooling.split()[0]}_backward"]
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-11, atol=1e-11)


@on_gpu
@pytest.mark.parametrize("pooling", ["roi_pool", "ps_roi_pool", "ps_roi_align"])
def test_bits_are_the_cpus(pooling):
    """Both get the same maxima, which the forward passes of a CPU and a GPU may choose otherwise."""
    forward, backward = (getattr(torch.ops.torchvision, name) for name in (pooling, f"_{pooling}_backward"))
    for number in range(500):
        input, boxes, bins, scale = drawn(number, pooling != "roi_pool")
        boxes, options = boxes.float(), (scale, *bins, *([number % 3] if pooling == "ps_roi_align" else []))
        _, indices = forward(input.float(), boxes, *options)
        grad = torch.randn(indices.shape, generator=torch.Generator().manual_seed(number))
        with deterministic(("cpu", "cuda")):
            on_cpu = backward(grad, boxes, indices, *options, *input.shape)
            found = backward(grad.cuda(), boxes.cuda(), indices.cuda(), *options, *input.shape)
        assert torch.equal(found.cpu(), on_cpu), number


@on_devices
def test_bad_calls_are_refused(device):
    grad, boxes = torch.ones(2, 3, 2, 2, device=device), torch.zeros(2, 5, device=device)
    indices = torch.zeros(2, 3, 2, 2, dtype=torch.int32, device=device)
    pool, sensitive = torch.ops.torchvision._roi_pool_backward, torch.ops.torchvision._ps_roi_pool_backward
    with deterministic(device):
        with pytest.raises(ValueError, match="5 channels, which 4 bins do not divide"):
            sensitive(grad, boxes, indices, 1.0, 2, 2, 1, 5, 4, 4)
        with pytest.raises(ValueError, match="grad_output"):
            pool(grad, boxes, indices, 1.0, 2, 2, 1, 4, 4, 4)
        with pytest.raises(ValueError, match="indices must be"):
            pool(grad, boxes, indices.long(), 1.0, 2, 2, 1, 3, 4, 4)
        with pytest.raises(ValueError, match="boxes"):
            pool(grad, boxes[:1], indices, 1.0, 2, 2, 1, 3, 4, 4)
        far = boxes + torch.tensor([1.0, 0, 0, 0, 0], device=device)
        if device == "cpu":
            with pytest.raises(ValueError, match="number 0 is of image 1; there are 1"):
                pool(grad, far, indices, 1.0, 2, 2, 1, 3, 4, 4)
            with pytest.raises(ValueError, match="number 0 is 16; an image has 16 pixels"):
                pool(grad, boxes, indices + 16, 1.0, 2, 2, 1, 3, 4, 4)
        else:  # left out
            assert not pool(grad, far, indices, 1.0, 2, 2, 1, 3, 4, 4).any()
            assert not pool(grad, boxes, indices + 16, 1.0, 2, 2, 1, 3, 4, 4).any()


class Head(torch.nn.Module):
    """As R-FCN's: a convolution whose channels belong to bins."""

    def __init__(self, pooling):
        super().__init__()
        self.pooling, self.bins = pooling, 3
        self.features = torch.nn.Conv2d(3, 18, 3, padding=1)
        self.last = torch.nn.Linear(2 if pooling != "roi_pool" else 18, 5)

    def forward(self, images, boxes):
        pooled = POOLINGS[self.pooling](self.features(images), boxes, self.bins, 1.0)
        return self.last(pooled.mean((2, 3)))


@on_gpu
@of_each
def test_a_head_trains_twice_to_equal_weights(pooling):
    def trained():
        torch.manual_seed(3)
        model = Head(pooling).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        images, corners = torch.randn(2, 3, 40, 40).cuda(), torch.rand(200, 2, 2).cuda() * 40
        boxes = torch.cat([(torch.arange(200.0).cuda() % 2)[:, None], corners.amin(1), corners.amax(1)], dim=1)
        for _ in range(10):
            optimizer.zero_grad()
            model(images, boxes).square().mean().backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    torch.use_deterministic_algorithms(True)
    try:
        with deterministic():
            assert all(map(torch.equal, trained(), trained()))
    finally:
        torch.use_deterministic_algorithms(False)
