"""PyTorch's ctc_loss in the context of msda_replay.torch, on the CPU and, where there is one, on a GPU."""


import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")

from msda_replay.torch import Receipt, deterministic  # noqa: E402
from support.replaced import on_devices, on_gpu  # noqa: E402

ctc_loss = torch.nn.functional.ctc_loss


def drawn(number):
    """Random scores, targets and lengths; among them empty targets, repeated labels, and targets longer than their sequences."""
    generator = torch.Generator().manual_seed(number)

    def below(most, *shape):
        return torch.randint(most, shape, generator=generator)

    T, B, C, labels = 1 + int(below(60)), 1 + int(below(9)), 2 + int(below(3 if number % 3 == 0 else 40)), int(below(20))
    blank = int(below(C))
    scores = 2 * torch.randn(T, B, C, generator=generator, dtype=torch.float64)
    targets = (blank + 1 + below(C - 1, B, max(labels, 1))) % C
    steps, lengths = 1 + below(T, B), below(labels + 1, B)
    if number % 2:
        targets = targets[torch.arange(max(labels, 1)) < lengths[:, None]]
    return scores, targets, steps, lengths, {"blank": blank, "reduction": ("none", "sum", "mean")[number % 3], "zero_infinity": True}


def gradient(number, device, dtype, index=torch.int64, on_device=False, **changed):
    scores, targets, steps, lengths, options = drawn(number)
    leaf = scores.to(device, dtype).requires_grad_()
    if not on_device:  # lists: the operator has another overload for tensors
        steps, lengths = steps.tolist(), lengths.tolist()
    loss = ctc_loss(leaf.log_softmax(2), targets.to(device, index), steps, lengths, **{**options, **changed})
    weights = torch.randn(loss.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    return torch.autograd.grad(loss, leaf, weights.to(loss))[0]


@on_devices
@pytest.mark.parametrize("on_device", [False, True], ids=["lists", "tensors"])
def test_gradients_are_pytorchs_in_float64(device, on_device):
    for number in range(300):
        expected = gradient(number, "cpu", torch.float64)
        receipt = Receipt()
        with deterministic(device, receipt):
            found = gradient(number, device, torch.float64, (torch.int32, torch.int64)[number % 2], on_device)
        assert [call["operator"] for call in receipt.calls] == ["ctc_loss_backward"]
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-11, atol=1e-12, msg=f"problem {number}")


@on_devices
def test_impossible_targets_have_no_gradient(device):
    scores = torch.zeros(2, 2, 3, device=device, dtype=torch.float64)
    for zero_infinity in (False, True):
        leaf = scores.clone().requires_grad_()
        with deterministic(device):  # two equal labels need three steps
            ctc_loss(leaf, torch.tensor([[1, 1], [1, 2]], device=device), [2, 2], [2, 2], reduction="sum", zero_infinity=zero_infinity).backward()
        assert leaf.grad[:, 0].eq(0).all() if zero_infinity else leaf.grad[:, 0].isnan().all()
        assert leaf.grad[:, 1].isfinite().all()


@on_gpu
def test_bits_are_the_cpus():
    """Both get the same alphas, which the forward passes of a CPU and a GPU round otherwise."""
    for number in range(500):
        scores, targets, steps, lengths, options = drawn(number)
        scores, lengths = scores.float().log_softmax(2), (steps.tolist(), lengths.tolist())
        loss, alpha = torch.ops.aten._ctc_loss(scores, targets, *lengths, options["blank"])
        tensors = torch.randn(loss.shape, generator=torch.Generator().manual_seed(number)), scores, targets
        with deterministic(("cpu", "cuda")):
            on_cpu = torch.ops.aten._ctc_loss_backward(*tensors, *lengths, loss, alpha, options["blank"], True)
            found = torch.ops.aten._ctc_loss_backward(
                *(tensor.cuda() for tensor in tensors), *lengths, loss.cuda(), alpha.cuda(), options["blank"], True)  # fmt: skip
        assert torch.equal(found.cpu(), on_cpu), number


@on_devices
@pytest.mark.parametrize("labels", [600, 8200])
def test_long_targets(device, labels):
    """Beside a short one. 8,200 labels are more than a GPU's kernels take, and than the sequence has steps for."""
    generator = torch.Generator().manual_seed(1)
    T = 605
    scores = torch.randn(T, 2, 3, generator=generator, dtype=torch.float64)
    targets = 1 + torch.arange(labels + 3) % 2  # no two neighbours are equal

    def gradient_on(device):
        leaf = scores.to(device).requires_grad_()
        loss = ctc_loss(leaf.log_softmax(2), targets.to(device), [T, T], [labels, 3], reduction="sum", zero_infinity=True)
        return torch.autograd.grad(loss, leaf)[0].cpu()

    expected = gradient_on("cpu")
    with deterministic(device):
        found = gradient_on(device)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert found.any((0, 2)).tolist() == [labels < T, True]


@on_devices
def test_bad_calls_are_refused(device):
    scores, targets = torch.zeros(4, 2, 3, device=device), torch.tensor([[1, 2], [2, 1]], device=device)
    loss, alpha = torch.zeros(2, device=device), torch.zeros(2, 4, 5, device=device)
    backward = torch.ops.aten._ctc_loss_backward
    with deterministic(device):
        for changed, why in (({"steps": [5, 4]}, "sequence 0 has 5 steps"), ({"lengths": [2, 3]}, "sequence 1 has 3 labels"),
                             ({"lengths": [-1, 3]}, "sequence 0 has -1 labels"), ({"blank": 3}, "blank is 3; there are 3"),
                             ({"targets": targets[0]}, "targets ends before the 2 labels of sequence 1"), ({"loss": loss.double()}, "neg_log_likelihood"),
                             ({"targets": targets.float()}, "targets has type float32"), ({"alpha": alpha[:, :3]}, "log_alpha")):  # fmt: skip
            given = {"targets": targets, "steps": [4, 4], "lengths": [2, 2], "loss": loss, "alpha": alpha, "blank": 0, **changed}
            with pytest.raises(ValueError, match=why):
                backward(loss, scores, *given.values())
        if device == "cpu":
            with pytest.raises(ValueError, match="label 1 of sequence 0 is 7; there are 3"):
                backward(loss, scores, torch.tensor([[1, 7], [2, 1]]), [4, 4], [2, 2], loss, alpha, 0)


@on_gpu
def test_a_net_trains_twice_to_equal_weights():
    def trained():
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 29)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        sound, targets = torch.randn(300, 8, 20).cuda(), torch.randint(1, 29, (8, 60)).cuda()
        for _ in range(10):
            optimizer.zero_grad()
            ctc_loss(model(sound).log_softmax(2), targets, [300] * 8, [60, 1, 40, 60, 0, 33, 60, 60]).backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            trained()
        with deterministic():
            assert all(map(torch.equal, trained(), trained()))
    finally:
        torch.use_deterministic_algorithms(False)
