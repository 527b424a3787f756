"""msda_replay.torch: deterministic operators for PyTorch, on the CPU and, where there is one, on a GPU."""

import functools
import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")
from torch.nn.functional import grid_sample  # noqa: E402

import msda_replay.torch as deterministic_torch  # noqa: E402
from msda_replay import cpu  # noqa: E402
from msda_replay.torch import calls, ways  # noqa: E402
from msda_replay.torch.operators import msda as attention  # noqa: E402
from msda_replay.torch.receipts import kept as receipts_kept  # noqa: E402
from msda_replay.torch import (  # noqa: E402
    Receipt,
    deterministic,
    multi_scale_deformable_attention,
    multiscale_deformable_attention,
    read_receipt,
)

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
LEVELS = torch.tensor([(6, 9), (3, 4)])
on_devices = pytest.mark.parametrize("device", DEVICES)


def attention_inputs(device, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (2, 7, 3, len(LEVELS), 4)  # batch, queries, heads, levels, points
    value = torch.randn(2, int(LEVELS.prod(1).sum()), 3, 8, generator=generator)
    locations = torch.rand(*shape, 2, generator=generator) * 1.2 - 0.1
    weights = torch.rand(*shape, generator=generator)
    return [tensor.to(device, dtype).requires_grad_() for tensor in (value, locations, weights)]


def detr(value, locations, weights):
    return multi_scale_deformable_attention(value, LEVELS.to(value.device), None, locations, weights)


def by_grid_sample(value, locations, weights):
    """The operator in PyTorch's own operations."""
    heads, parts, start = value.shape[2], [], 0
    for level, (height, width) in enumerate(LEVELS.tolist()):
        image = value[:, start : start + height * width].permute(0, 2, 3, 1).flatten(0, 1).unflatten(-1, (height, width))
        grid = 2 * locations[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        sampled = grid_sample(image, grid, align_corners=False)  # [batch*heads, channels, queries, points]
        weight = weights[:, :, :, level].transpose(1, 2).flatten(0, 1)[:, None]
        parts.append((sampled * weight).sum(-1).unflatten(0, (-1, heads)).permute(0, 3, 1, 2))
        start += height * width
    return sum(parts).flatten(2)


def gradients(function, inputs):
    output = function(*inputs)
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape).to(output.device)
    return output, torch.autograd.grad((output * weight).sum(), inputs)


@on_devices
def test_attention_equals_that_of_pytorchs_own_operations(device):
    inputs = attention_inputs(device, torch.float64)
    (output, found), (expected_output, expected) = gradients(detr, inputs), gradients(by_grid_sample, inputs)
    torch.testing.assert_close(output, expected_output, rtol=1e-12, atol=1e-12)
    for entry, another in zip(found, expected):
        torch.testing.assert_close(entry, another, rtol=1e-10, atol=1e-10)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_attention_has_the_same_bits_on_every_run_and_machine(device, dtype):
    _, first = gradients(detr, attention_inputs(device, dtype))
    _, again = gradients(detr, attention_inputs(device, dtype))
    _, on_cpu = gradients(detr, attention_inputs("cpu", dtype))
    for entry, two, three in zip(first, again, on_cpu):
        assert entry.dtype == dtype and torch.equal(entry, two) and torch.equal(entry.cpu(), three)


@on_devices
@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_msda_triton_arguments(device, padding_mode, align_corners):
    value, locations, weights = attention_inputs(device)
    output = multiscale_deformable_attention(
        value, LEVELS.to(device), locations, weights, padding_mode=padding_mode, align_corners=align_corners
    )
    grad_output = torch.ones_like(output)
    found = torch.autograd.grad(output, (value, locations, weights), grad_output)
    arrays = [tensor.detach().cpu().numpy() for tensor in (value, locations, weights, grad_output)]
    expected = cpu.backward(arrays[0], LEVELS.numpy(), *arrays[1:], dialect="msda_triton", padding_mode=padding_mode,
                            align_corners=align_corners)  # fmt: skip
    for entry, another in zip(found, expected.values()):
        assert np.array_equal(entry.cpu().numpy(), another)


@on_devices
def test_attention_is_a_well_behaved_operator(device):
    value, locations, weights = attention_inputs(device)
    arguments = (value, LEVELS.to(device), locations, weights, "deformable_detr", "zeros", False)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.msda_replay.attention.default, arguments, test_utils=checks)


@on_devices
def test_attention_under_autocast_mixes_types(device):
    value, locations, weights = attention_inputs(device)
    linear = torch.nn.Linear(8, 8, device=device)
    with torch.autocast(device, torch.bfloat16):
        output = detr(linear(value), locations, weights)
    assert output.dtype == torch.bfloat16
    output.float().sum().backward()
    assert locations.grad.dtype == torch.float32 and value.grad.dtype == torch.float32


@on_devices
def test_attention_compiled(device):
    inputs = attention_inputs(device)
    compiled = torch.compile(detr, backend="aot_eager", fullgraph=True)
    for entry, another in zip(gradients(compiled, inputs)[1], gradients(detr, inputs)[1]):
        assert torch.equal(entry, another)


@on_devices
def test_attention_refuses_what_it_cannot_do(device):
    value, locations, weights = attention_inputs(device)
    with pytest.raises(ValueError, match="levels do not add up"):
        detr(value[:, :-1], locations, weights)
    with pytest.raises(ValueError, match="padding_mode: 'reflection'"):
        multiscale_deformable_attention(value, LEVELS, locations, weights, padding_mode="reflection")
    with pytest.raises(ValueError, match="attention_weights has type int32"):
        detr(value, locations, weights.detach().int())


def test_tensors_of_an_attention_are_on_one_device():
    value, locations, weights = (tensor.detach() for tensor in attention_inputs("cpu"))
    elsewhere = torch.empty(2, 7, 3, 8, device="meta")
    with pytest.raises(ValueError, match="spatial_shapes is on meta"):
        attention._on_host("spatial_shapes", LEVELS.to("meta"), value)
    with pytest.raises(ValueError, match="grad_output is on meta"):
        attention._run_backward((0, 0, False), attention._inputs(value, LEVELS, None, locations, weights), {"grad_output": elsewhere, "options": None})


def test_level_start_index_is_checked():
    value, locations, weights = attention_inputs("cpu")
    starts = torch.tensor([0, 54])
    expected = detr(value, locations, weights)
    assert torch.equal(multi_scale_deformable_attention(value, LEVELS, starts, locations, weights), expected)
    with pytest.raises(ValueError, match="level_start_index: level 1 starts at 53"):
        multi_scale_deformable_attention(value, LEVELS, torch.tensor([0, 53]), locations, weights)


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True), (True, False, True)])
def test_only_wanted_gradients_of_an_attention_are_computed(wanted):
    inputs = [tensor if keep else tensor.detach() for tensor, keep in zip(attention_inputs("cpu"), wanted)]
    receipt = Receipt()
    with deterministic("cpu", receipt):
        detr(*inputs).sum().backward()
    names = ("grad_value", "grad_sampling_locations", "grad_attention_weights")
    assert list(receipt.calls[0]["outputs"]) == [name for name, keep in zip(names, wanted) if keep]
    everything = attention_inputs("cpu")
    detr(*everything).sum().backward()
    for entry, all_of_it, keep in zip(inputs, everything, wanted):
        assert (torch.equal(entry.grad, all_of_it.grad) if keep else entry.grad is None)


def sampled(device, dtype=torch.float32, dimensions=2, seed=1):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(2, 3, *(9, 10, 8)[:dimensions], generator=generator)
    grid = torch.rand(2, *(5, 6, 4)[:dimensions], dimensions, generator=generator) * 2.4 - 1.2
    return image.to(device, dtype).requires_grad_(), grid.to(device, dtype).requires_grad_()


MODES = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]


@on_devices
@pytest.mark.parametrize("dimensions, mode", MODES)
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_sample_is_replaced_by_the_same_formula(device, dimensions, mode, padding_mode, align_corners):
    sample = lambda *inputs: grid_sample(*inputs, mode, padding_mode, align_corners)  # noqa: E731
    inputs = sampled(device, torch.float64, dimensions)
    _, expected = gradients(sample, inputs)
    receipt = Receipt()
    with deterministic(device, receipt):
        _, found = gradients(sample, inputs)
    assert [call["operator"] for call in receipt.calls] == ["grid_sample_backward"]  # Ours ran.
    for entry, another in zip(found, expected):
        torch.testing.assert_close(entry, another, rtol=1e-10, atol=1e-10)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_grid_sample_has_the_cpus_bits(device, dtype):
    sample = lambda *inputs: grid_sample(*inputs, align_corners=True)  # noqa: E731 (on a GPU in float32: cuDNN's)
    with deterministic(("cpu", "cuda") if device == "cuda" else "cpu"):
        _, found = gradients(sample, sampled(device, dtype))
        # PyTorch has no forward pass in 16 bits on some CPUs: the backward pass alone.
        if dtype in (torch.float32, torch.float64):
            _, on_cpu = gradients(sample, sampled("cpu", dtype))
            for entry, another in zip(found, on_cpu):
                assert entry.dtype == dtype and torch.equal(entry.cpu(), another)


def test_pytorchs_own_kernels_return_after_the_last_context():
    inputs = sampled("cpu")
    sample = lambda *inputs: grid_sample(*inputs, align_corners=False)  # noqa: E731
    receipt = Receipt()
    with deterministic("cpu", receipt):
        with deterministic("cpu"):
            gradients(sample, inputs)
        gradients(sample, inputs)
    assert len(receipt.calls) == 2
    gradients(sample, inputs)
    assert len(receipt.calls) == 2
    with pytest.raises(ZeroDivisionError), deterministic("cpu", receipt):
        1 / 0  # noqa: B018
    gradients(sample, inputs)
    assert len(receipt.calls) == 2


@on_devices
def test_only_wanted_gradients_are_computed(device):
    image, grid = sampled(device)
    receipt = Receipt()
    with deterministic(device, receipt):
        grid_sample(image.detach(), grid, align_corners=False).sum().backward()
    assert image.grad is None and grid.grad is not None
    assert list(receipt.calls[0]["outputs"]) == ["grad_grid"]


@on_devices
def test_grid_sample_compiled_and_in_a_layer(device):
    inputs = sampled(device)
    sample = lambda image, grid: grid_sample(image * 2, grid, align_corners=False).relu()  # noqa: E731
    with deterministic(device):
        for entry, another in zip(
            gradients(torch.compile(sample, backend="aot_eager"), inputs)[1], gradients(sample, inputs)[1]
        ):
            assert torch.equal(entry, another)


def test_what_counts_is_where_a_compiled_backward_pass_runs():
    compiled = torch.compile(lambda image, grid: grid_sample(image * 2, grid, align_corners=False), backend="aot_eager")
    inside, outside, again = Receipt(), Receipt(), Receipt()
    with deterministic("cpu", inside):
        gradients(compiled, sampled("cpu"))
    with receipts_kept(outside):
        gradients(compiled, sampled("cpu"))
    with deterministic("cpu", again):
        gradients(compiled, sampled("cpu"))
    assert [len(receipt.calls) for receipt in (inside, outside, again)] == [1, 0, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_use_deterministic_algorithms_no_longer_refuses():
    inputs = sampled("cuda")
    sample = lambda *inputs: grid_sample(*inputs, align_corners=False)  # noqa: E731
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            gradients(sample, inputs)
        with deterministic():
            gradients(sample, inputs)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_calls_can_be_captured_into_a_cuda_graph():
    image, grid = (tensor.detach() for tensor in sampled("cuda"))
    grad_output = torch.ones(2, 3, 5, 6, device="cuda")
    backward = lambda: torch.ops.aten.grid_sampler_2d_backward(  # noqa: E731
        grad_output, image, grid, 0, 0, False, (True, True)
    )
    with deterministic():
        expected = backward()
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            backward()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            found = backward()
    graph.replay()
    for entry, another in zip(found, expected):
        assert torch.equal(entry, another)


def test_receipts_tell_the_first_difference(tmp_path):
    def receipt_of(seed):
        receipt = Receipt()
        with deterministic("cpu", receipt):
            gradients(lambda *inputs: grid_sample(*inputs, align_corners=False), sampled("cpu"))
            gradients(detr, attention_inputs("cpu", seed=seed))
        return receipt

    entry, same, another = receipt_of(0), receipt_of(0), receipt_of(3)
    entry.write(tmp_path / "one.json")
    assert read_receipt(tmp_path / "one.json") == entry == same and entry.difference(same) is None
    assert entry.difference(another).startswith("call 1 (attention_backward): inputs differ: value")
    entry.write(tmp_path / "one.h5")
    assert read_receipt(tmp_path / "one.h5") == entry and read_receipt(tmp_path / "one.h5").difference(another) == entry.difference(another)
    assert entry.calls[0]["bytes"]["inputs/grid"] == 4 * 2 * 5 * 6 * 2 and entry.calls[0]["bytes"].keys() == {
        f"{role}/{name}" for role in ("inputs", "outputs") for name in entry.calls[0][role]}
    assert entry.difference(Receipt(entry.calls[:1])) == "2 calls here, 1 there"
    wrong = Receipt(json.loads(json.dumps(entry.calls)))
    wrong.calls[0]["outputs"]["grad_grid"] = "xxh3-128:0"
    assert entry.difference(wrong) == "call 0 (grid_sample_backward): outputs differ: grad_grid"
    wrong = Receipt(json.loads(json.dumps(entry.calls)))
    wrong.calls[1]["outputs"]["grad_query"] = "xxh3-128:0"  # which only the other has
    assert entry.difference(wrong) == wrong.difference(entry) == "call 1 (attention_backward): outputs differ: grad_query"
    call = entry.calls[0]
    for content in ([1], {"format": "msda-receipt", "calls": {}}, *({"format": "msda-receipt", "calls": wrong_calls} for wrong_calls in (
            [[]], [{**call, "operator": 1}], [{**call, "inputs": []}], [{**call, "outputs": {"grad_grid": 1}}], [{**call, "options": None}],
            [{**call, "bytes": {"inputs/grid": -1}}]))):
        (tmp_path / "no.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match="no.json: not a receipt"):
            read_receipt(tmp_path / "no.json")


def test_receipts_tell_conventions_types_and_shapes():
    def receipt_of(padding_mode="zeros", align_corners=False, mode="bilinear", dtype=torch.float32):
        receipt = Receipt()
        with deterministic("cpu", receipt):
            gradients(lambda *inputs: grid_sample(*inputs, mode, padding_mode, align_corners), sampled("cpu", dtype))
            value, locations, weights = attention_inputs("cpu")
            padding = padding_mode if padding_mode != "reflection" else "border"
            multiscale_deformable_attention(value, LEVELS, locations, weights, padding, align_corners).sum().backward()
        return receipt

    entry = receipt_of()
    assert entry.calls[0]["options"] == {
        "interpolation": "bilinear", "padding_mode": "zeros", "align_corners": False, "grad_output": "float32 [2, 3, 5, 6]",
        "input": "float32 [2, 3, 9, 10]", "grid": "float32 [2, 5, 6, 2]"}
    assert entry.calls[1]["options"]["dialect"] == "msda_triton" and entry.calls[1]["options"]["padding_mode"] == "zeros"
    for change, names in (({"padding_mode": "border"}, "padding_mode"), ({"align_corners": True}, "align_corners"), ({"mode": "nearest"}, "interpolation"),
                          ({"dtype": torch.float64}, "grad_output, input, grid")):
        assert entry.difference(receipt_of(**change)) == f"call 0 (grid_sample_backward): options differ: {names}"
    assert Receipt(entry.calls[1:]).difference(Receipt(receipt_of(padding_mode="border").calls[1:])).endswith("options differ: padding_mode")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_digests_do_not_depend_on_strides(dtype):
    from msda_replay.torch.receipts import _digest

    base = torch.arange(24).reshape(2, 3, 4).to(dtype)
    for view in (base[..., ::2], base[1:, 1:2, 2:3].expand(1, 1, 1), base.as_strided((1, 1), (7, 5), 3), base[0, 0, 0], base[:0],
                 base.transpose(0, 2)):
        copy = torch.empty(view.shape, dtype=dtype).copy_(view)
        assert _digest(view) == _digest(copy)


def test_a_context_that_fails_leaves_nothing_replaced(monkeypatch):
    from msda_replay.torch import replacement

    def fails_for_gpus(device):
        if device == "cuda":
            raise RuntimeError("no such key")
        return replaced(device)

    replaced = replacement._replace
    monkeypatch.setattr(replacement, "_replace", fails_for_gpus)
    with pytest.raises(RuntimeError, match="no such key"), deterministic(("cpu", "cuda")):
        pass
    assert not replacement._users.get("cpu") and not replacement._replacements
    receipt = Receipt()
    with receipts_kept(receipt):
        gradients(lambda *inputs: grid_sample(*inputs, align_corners=False), sampled("cpu"))
    assert not receipt.calls


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a libmsda that reaches no GPU")
def test_a_gpu_that_libmsda_does_not_reach_is_told_at_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match="devices: 'cuda'; this libmsda reaches no GPU"), deterministic():
        pass


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="devices: 'tpu'"), deterministic_torch.deterministic("tpu"):
        pass


def drawn(device, *shape, dtype=torch.float64, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(device, dtype)


def scattered(device, dtype=torch.float64):
    """Operators that scatter, by the name of their call in a receipt: functions of no arguments."""
    numbers = functools.partial(drawn, device, dtype=dtype)
    rows = (torch.arange(600) * 7 % 50).to(device)
    functional = torch.nn.functional
    weight, table, volume = numbers(2, 3, 6, 7), numbers(50, 5), numbers(1, 2, 3, 4, 5)

    def backward(tensor, output):
        leaf = tensor.clone().requires_grad_()
        return torch.autograd.grad((result := output(leaf)), leaf, numbers(*result.shape, seed=4))[0]

    def resized(tensor, mode, size, **more):
        return lambda: backward(tensor, lambda image: functional.interpolate(image, size, mode=mode, **more))

    return [
        ("index_add", lambda: numbers(50, 5).index_add_(0, rows, numbers(600, 5, seed=5), alpha=0.5)),
        ("index_add", lambda: torch.index_add(numbers(4, 50, 2), -2, rows, numbers(4, 600, 2, seed=5))),
        ("index_add", lambda: torch.index_add(numbers(()), 0, 0 * rows[0], numbers((), seed=5))),
        ("index_add", lambda: backward(table, lambda given: given.index_select(0, rows))),
        ("scatter_add", lambda: numbers(50, 5).scatter_add_(0, rows[:, None].expand(600, 3), numbers(600, 4, seed=5))),
        ("scatter_add", lambda: torch.scatter_add(numbers(4, 50), 1, rows.reshape(3, 200), numbers(3, 200, seed=5))),
        ("scatter_add", lambda: backward(table, lambda given: given.gather(1, rows.reshape(50, 12) % 5))),
        ("embedding_dense_backward", lambda: backward(table, lambda given: functional.embedding(rows, given, 3))),
        ("embedding_dense_backward",
         lambda: backward(table, lambda given: functional.embedding(rows.reshape(2, 300), given, scale_grad_by_freq=True))),
        ("interpolate_backward", resized(weight[:, :, 0], "linear", 13)),
        ("interpolate_backward", resized(weight, "bilinear", (13, 20))),
        ("interpolate_backward", resized(weight, "bilinear", (3, 15), align_corners=True)),
        ("interpolate_backward", lambda: backward(weight, lambda image: functional.interpolate(image, scale_factor=2.3, mode="bilinear"))),
        ("interpolate_backward", resized(weight, "bicubic", (9, 21))),
        ("interpolate_backward", resized(volume, "trilinear", (5, 6, 9), align_corners=True)),
    ]


@on_devices
def test_sums_that_scatter_are_replaced_by_the_same_formula(device):
    for operator, function in scattered(device):
        expected, receipt = function(), Receipt()
        with deterministic(device, receipt):
            found = function()
        assert [call["operator"] for call in receipt.calls] == [operator]  # ours ran
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_that_scatter_have_the_cpus_bits(device, dtype):
    with deterministic(("cpu", "cuda") if device == "cuda" else "cpu"):
        for (operator, function), (_, on_cpu) in zip(scattered(device, dtype), scattered("cpu", dtype)):
            if operator != "interpolate_backward" or dtype == torch.float32:  # whose forward pass some CPUs lack
                assert torch.equal(function().cpu(), on_cpu()), operator


@on_devices
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_other_numbers_are_added_too(device, dtype):
    index = torch.tensor([2, 0, 2, 2], device=device)
    into, numbers = torch.zeros(3, 2, dtype=dtype, device=device), torch.ones(4, 2, dtype=dtype, device=device)
    expected = into.index_add(0, index, numbers), into.scatter_add(0, index[:, None].expand(4, 2), numbers)
    with deterministic(device):
        found = into.index_add(0, index, numbers), into.scatter_add(0, index[:, None].expand(4, 2), numbers)
    assert all(map(torch.equal, found, expected))


@on_devices
@pytest.mark.parametrize("ratio", [-1, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align_is_replaced_by_the_same_formula(device, ratio, aligned):
    ops = pytest.importorskip("torchvision", reason="needs torchvision").ops
    image = drawn(device, 2, 3, 20, 30).requires_grad_()
    boxes = torch.tensor([[0, 1.5, 2, 20, 14], [1, -4, -3, 50, 9], [0, 5, 5, 5.5, 5.25], [1, 28, 18, 33, 25]], device=device, dtype=torch.float64)

    def gradient():
        output = ops.roi_align(image, boxes, (3, 4), 0.8, ratio, aligned)
        return torch.autograd.grad(output, image, drawn(device, *output.shape, seed=4))[0]

    expected, receipt = gradient(), Receipt()
    with deterministic(device, receipt):
        found = gradient()
    assert [call["operator"] for call in receipt.calls] == ["roi_align_backward"]
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_the_long_ways_round_operators_are_not_taken_meanwhile():
    """What PyTorch and torchvision do under use_deterministic_algorithms, here on a CPU, where they do it for no one."""
    pytest.importorskip("torchvision", reason="needs torchvision")
    resizes, boxes = torch._decomp.decompositions, sys.modules["torchvision.ops.roi_align"]
    long_ways = resizes._upsample_linear_vec, boxes._roi_align
    image, wide = drawn("cpu", 2, 3, 8, 9).requires_grad_(), drawn("cpu", 1, 2, 3, 4, 5).requires_grad_()
    box = torch.tensor([[0, 1.5, 2, 7, 6.5]], dtype=image.dtype)
    lengthen = ways.shorten("cpu")
    try:
        enlarged = resizes._upsample_linear_vec(image, (12, 7), False, None)
        assert enlarged.grad_fn.name() == "UpsampleBilinear2DBackward0"
        assert torch.equal(enlarged, torch.nn.functional.interpolate(image, (12, 7), mode="bilinear"))
        assert resizes._upsample_linear_vec(image[0], None, True, [1.5]).grad_fn.name() == "UpsampleLinear1DBackward0"
        assert resizes._upsample_linear_vec(wide, None, True, [1.5, 2, 2]).grad_fn.name() == "UpsampleTrilinear3DBackward0"
        pooled = boxes._roi_align(image, box, 1.0, 2, 2, -1, True)
        assert torch.equal(pooled, torch.ops.torchvision.roi_align(image, box, 1.0, 2, 2, -1, True))
        of_boxes = box.clone().requires_grad_()  # of which only the long way has a gradient
        assert ways._needs_long_way(image, (of_boxes, 1.0, 2, 2, -1, True)) and not ways._needs_long_way(image, (box, 1.0))
    finally:
        lengthen()
    assert (resizes._upsample_linear_vec, boxes._roi_align) == long_ways


def refused():
    """Calls that PyTorch refuses, by what its message has: functions that make their tensors."""
    zeros, ones, numbers, index = torch.zeros, torch.ones, functools.partial(torch.arange, 1.0), torch.tensor
    calls = {
        "out of range in self": [
            lambda: zeros(3).index_add_(0, index([0, 3]), ones(2)),
            lambda: zeros(3, dtype=torch.int64).index_add_(0, index([-1]), ones(1, dtype=torch.int64)),
            lambda: zeros(3, dtype=torch.complex64).index_add(0, index([-1]), ones(1, dtype=torch.complex64))],
        "is out of bounds for dimension 0 with size 3": [
            lambda: zeros(3).scatter_add_(0, index([3]), ones(1)),
            lambda: zeros(3, dtype=torch.int64).scatter_add_(0, index([-1]), ones(1, dtype=torch.int64)),
            lambda: zeros(3, dtype=torch.complex64).scatter_add(0, index([-1]), ones(1, dtype=torch.complex64))],
        "must have the same scalar type": [lambda: zeros(3).index_add_(0, index([0]), ones(1, dtype=torch.float64))],
        "Expected dtype int32/int64 for index": [
            lambda: zeros(3).index_add_(0, index([0], dtype=torch.int16), ones(1)),
            lambda: zeros(3).scatter_add_(0, index([0], dtype=torch.int16), ones(1))],
        "Dimension out of range": [
            lambda: zeros(3).scatter_add_(1, index([0]), ones(1)), lambda: zeros(3).index_add_(-2, index([0]), ones(1))],
        "Index is supposed to be a vector": [lambda: zeros(3).index_add_(0, index([[0]]), ones(1))],
        "Number of indices": [lambda: zeros(3).index_add_(0, index([0, 1]), ones(3))],
        "source tensor shape must match self tensor shape": [
            lambda: zeros(()).index_add_(0, index([0]), ones(1)), lambda: zeros(3).index_add_(0, index([0]), ones(())),
            lambda: zeros(3, 2).index_add_(0, index([0]), ones(1, 3))],
        "Index tensor must have the same number of dimensions": [
            lambda: zeros(3, 2).scatter_add_(0, index([0]), ones(1, 2)), lambda: zeros(3).scatter_add_(0, index([[0]]), ones(1, 1))],
        "Expected index": [lambda: zeros(3).scatter_add_(0, index([0, 1]), ones(1)),
                           lambda: zeros(3, 1).scatter_add_(0, index([[0, 1]]), ones(1, 2))],
        "Expected out tensor to have dtype": [
            lambda: torch.index_add(zeros(3), 0, index([0]), ones(1), out=zeros(3, dtype=torch.float64)),
            lambda: torch.scatter_add(zeros(3), 0, index([0]), ones(1), out=zeros(3, dtype=torch.float64))],
        "more than one element of the written-to tensor": [
            lambda: zeros(1).expand(4).index_add_(0, index([0]), ones(1)), lambda: zeros(1).expand(4).scatter_add_(0, index([0]), ones(1))],
        "some elements of the input tensor and the written-to tensor": [
            lambda: (x := numbers(5)).index_add_(0, index([1, 2, 3, 0]), x),
            lambda: (x := numbers(5))[1:].index_add_(0, index([0, 1, 2]), x[:-1]),
            lambda: (x := numbers(5))[1:].scatter_add_(0, index([0, 1, 2]), x[:-1]),
            lambda: (x := index([0, 1])).index_add_(0, x, index([1, 1])),
            lambda: torch.index_add(zeros(4), 0, index([0, 0, 0, 0]), x := numbers(5), out=x),
            lambda: torch.scatter_add(zeros(4), 0, index([0, 0, 0, 0]), x := numbers(5), out=x)],
    }  # fmt: skip
    return [(message, function) for message, functions in calls.items() for function in functions]


@pytest.mark.parametrize("message, function", refused())
def test_sums_that_scatter_refuse_what_pytorch_refuses(message, function):
    with pytest.raises((IndexError, RuntimeError)) as of_pytorch:
        function()
    with deterministic("cpu"), pytest.raises(of_pytorch.type, match=message):
        function()


def test_tensors_that_do_not_overlap_are_not_refused():
    x = torch.arange(8.0)
    with deterministic("cpu"):
        x[::2].index_add_(0, torch.tensor([3, 0]), x[1:4:2])
        torch.index_add(x, 0, torch.tensor([1]), torch.ones(1), out=x)
        torch.zeros(0, 1).expand(0, 5).index_add_(0, torch.tensor([], dtype=torch.int64), torch.ones(0, 5))
    assert x.tolist() == [3, 2, 2, 3, 4, 5, 7, 7]


@on_devices
def test_sums_whose_elements_are_one_in_memory_are_refused(device):
    """PyTorch's atomic additions make one sum of both. Steps that interleave without meeting are none of these."""
    index, source = torch.tensor([0, 1], device=device), torch.ones(2, 3, device=device)
    with deterministic(device):
        for add in (lambda sums: sums.index_add_(0, index, source), lambda sums: sums.scatter_add_(0, index[:, None].expand(2, 3), source)):
            with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
                add(torch.zeros(4, device=device).unfold(0, 3, 1))
            x = torch.zeros(8, device=device)
            add(x.as_strided((2, 3), (3, 2)))
            assert x.tolist() == [1, 0, 1, 1, 1, 1, 0, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
def test_an_index_outside_is_left_out_on_a_gpu(dtype):
    index, ones = torch.tensor([1, -1, 3], device="cuda"), torch.ones(3, dtype=dtype, device="cuda")
    with deterministic():
        for sums in (torch.zeros_like(ones).index_add_(0, index, ones), torch.zeros_like(ones).scatter_add_(0, index, ones)):
            assert sums.tolist() == [0, 1, 0]


def put(device):
    """Rows that are written where indices say, by what is said about them."""
    index = lambda *numbers: torch.tensor(numbers, device=device)  # noqa: E731
    few, many = (torch.arange(n, device=device) * 7 % 13 - 3 for n in (22, 5000))
    rows = lambda n, *shape: torch.arange(n * max(1, math.prod(shape)), dtype=torch.float32, device=device).reshape(n, *shape)  # noqa: E731
    zeros = lambda *shape, dtype=torch.float32: torch.zeros(shape, dtype=dtype, device=device)  # noqa: E731

    def assigned(to, where, what):
        to[where] = what
        return to

    def gradients_of():
        to, values = zeros(13, 3).requires_grad_(), rows(22, 3).requires_grad_()
        return torch.cat(torch.autograd.grad((to.index_put((few,), values) * rows(13, 3)).sum(), (to, values)))

    return {
        "few rows": lambda: assigned(zeros(13, 4, 6), few, rows(22, 4, 6)), "many rows": lambda: assigned(zeros(13, 3), many, rows(5000, 3)),
        "few numbers": lambda: assigned(zeros(13, dtype=torch.int64), few, torch.arange(22, device=device)),
        "a mask of bytes": lambda: assigned(zeros(9000, dtype=torch.uint8), index(5, 8999, 5, -3), 1),
        "one number for rows": lambda: assigned(zeros(13, 5), few, 2.5), "booleans": lambda: assigned(zeros(13, dtype=torch.bool), few, True),
        "complex numbers": lambda: assigned(zeros(13, 2, dtype=torch.complex128), few, rows(22, 2).to(torch.complex128) * (1 + 2j)),
        "a copy": lambda: zeros(13, 4).index_put((few,), rows(22, 4)), "gradients": gradients_of,
        "where a mask says": lambda: assigned(zeros(22), few > 2, -1.0), "two indices": lambda: assigned(zeros(13, 13), (few, few - 1), rows(22)),
        "a row for all": lambda: assigned(zeros(13, 4), few, rows(1, 4)[0]), "columns": lambda: assigned(zeros(4, 13), (slice(None), few), rows(4, 22)),
        "sums": lambda: zeros(13, 4).index_put_((few,), rows(22, 4), accumulate=True), "upright": lambda: assigned(zeros(4, 13).t(), few, rows(22, 4)),
        "no row": lambda: assigned(zeros(13, 4), few[:0], rows(0, 4)),
    }  # fmt: skip


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("switch", [False, True])
def test_rows_that_are_put_are_the_cpus(switch):
    """Whose last one of the same index stays, as it works in one thread then."""
    if not switch and not PUTS_ROWS:
        pytest.skip("needs PyTorch 2.10 or later, and the module in C++")
    torch.use_deterministic_algorithms(True)
    try:
        expected = {name: function() for name, function in put("cpu").items()}
        torch.use_deterministic_algorithms(switch)
        with deterministic():
            found = {name: function().cpu() for name, function in put("cuda").items() if switch or name not in ("two indices", "columns", "upright")}
    finally:
        torch.use_deterministic_algorithms(False)
    for name in found:
        assert torch.equal(found[name], expected[name]), name


PUTS_ROWS = torch.cuda.is_available() and hasattr(torch.Tensor, "__dlpack_c_exchange_api__") and calls.native() is not None
puts_rows = pytest.mark.skipif(not PUTS_ROWS, reason="needs a GPU, PyTorch 2.10 or later, and the module in C++")


@puts_rows
def test_rows_are_put_by_one_kernel_where_pytorch_sorts():
    to, index, rows = torch.zeros(13, 4, device="cuda"), torch.arange(22, device="cuda") % 13, torch.rand(22, 4, device="cuda")

    def kernels():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            to[index] = rows
            torch.cuda.synchronize()
        return [event.key for event in profile.key_averages() if "kernel" in event.key.lower() and "launch" not in event.key.lower()]

    with deterministic():
        to[index] = rows
        [own] = kernels()
        assert "msda" in own
    assert (others := kernels()) and not any("msda" in name for name in others)


@puts_rows
def test_a_number_outside_puts_no_row():
    with deterministic():
        assert torch.zeros(3, device="cuda").index_put_((torch.tensor([1, 3, -4, -1], device="cuda"),), torch.ones(4, device="cuda")).tolist() == [0, 1, 1]


@on_devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.int32])
@pytest.mark.parametrize("dim", [0, 4, -2])
def test_tensors_may_have_any_number_of_dimensions(device, dtype, dim):
    sums, index = torch.arange(256).reshape((2,) * 8).to(device, dtype), torch.tensor([1, 0], device=device)
    for size in (7, 8):
        sums = sums.reshape((2,) * (size - 1) + (-1,)).transpose(1, 2)
        places = (sums.real.to(torch.int64) * 7 // 3 % 2)[..., :1, :]
        functions = [lambda t: t.index_add(dim, index, sums), lambda t: t.scatter_add(dim, places, sums),
                     lambda t: t.clone(memory_format=torch.preserve_format).index_add_(dim, index, sums),
                     lambda t: t.repeat_interleave(2, 0)[::2].scatter_add_(dim, places, sums)]  # fmt: skip
        for function in functions:
            expected = function(sums)
            with deterministic(device):
                found = function(sums)
            assert torch.equal(found, expected) and found.stride() == expected.stride()


@on_devices
def test_an_embedding_may_have_no_channels(device):
    index, table = torch.tensor([1, 2], device=device), torch.zeros(5, 0, device=device, requires_grad=True)
    with deterministic(device):
        torch.nn.functional.embedding(index, table).sum().backward()
    assert table.grad.shape == (5, 0)


@on_devices
def test_results_have_the_strides_of_pytorchs(device):
    index, upright, source = torch.tensor([1, 0], device=device), drawn(device, 4, 3).t(), drawn(device, 2, 4)
    out = lambda: drawn(device, 4, 3).t()  # noqa: E731
    image, volume = (drawn(device, *shape).contiguous(memory_format=last) for shape, last in (
        ((2, 3, 6, 7), torch.channels_last), ((1, 2, 3, 4, 5), torch.channels_last_3d)))  # fmt: skip

    def resized(image, *arguments):
        leaf = image.detach().requires_grad_()
        output = torch.nn.functional.interpolate(leaf, *arguments)
        return torch.autograd.grad(output, leaf, torch.ones_like(output))[0]

    functions = [lambda: upright.index_add(0, index, source), lambda: upright.scatter_add(0, index[:, None].expand(2, 4), source),
                 lambda: torch.index_add(upright, 0, index, source, out=out()), lambda: resized(image, (5, 9), None, "bilinear"),
                 lambda: resized(image, (5, 9), None, "bicubic"), lambda: resized(volume, (5, 9, 3), None, "trilinear")]  # fmt: skip
    for function in functions:
        expected = function()
        with deterministic(device):
            found = function()
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)


@on_devices
def test_calls_by_ctypes_have_the_same_results(device, monkeypatch):
    """Where the module that calls libmsda was not built."""
    if calls.native() is None:
        pytest.skip("it was not built")
    total, index, source = torch.zeros(4, 6, device=device), torch.arange(12, device=device) % 4, torch.rand(12, 6, device=device)

    def results():
        with deterministic(device):
            _, of_grid = gradients(lambda *inputs: grid_sample(*inputs, align_corners=False), sampled(device))
            _, of_attention = gradients(detr, attention_inputs(device))
            by_elements = total.scatter_add(0, index[:, None].expand(12, 6), source)
            return [*of_grid, *of_attention, total.index_add(0, index, source), by_elements, total.clone().index_add_(0, index, source)]

    found = results()
    monkeypatch.setattr(calls, "native", lambda: None)
    for entry, another in zip(found, results()):
        assert torch.equal(entry, another)


def ends_in_all(device):
    """A function, and its inputs, whose gradients each come from another operator."""
    rows, functional = (torch.arange(60) * 7 % 50).to(device), torch.nn.functional
    tables = [drawn(device, 50, 5, dtype=torch.float32, seed=seed).requires_grad_() for seed in range(3)]
    images = [drawn(device, 1, 2, 6, 7, dtype=torch.float32, seed=seed).requires_grad_() for seed in range(3)]
    grid = drawn(device, 1, 2, 3, 2, dtype=torch.float32)

    def function(selected, gathered, embedded, bilinear, bicubic, sampled):
        parts = (
            selected.index_select(0, rows), gathered.gather(0, rows[:, None]), functional.embedding(rows, embedded),
            functional.interpolate(bilinear, scale_factor=1.7, mode="bilinear"), functional.interpolate(bicubic, (3, 5), mode="bicubic"),
            functional.grid_sample(sampled, grid, align_corners=False))  # fmt: skip
        return sum((part * 2).sum() for part in parts)

    return function, (*tables, *images)


@on_devices
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_functions_run_what_is_replaced_where_they_run(device, backend):
    if backend == "inductor" and device == "cpu" and not shutil.which("g++"):
        pytest.skip("needs g++")
    function, inputs = ends_in_all(device)
    compiled = torch.compile(function, backend=backend)
    in_context, outside = Receipt(), Receipt()
    outputs = compiled(*inputs), function(*inputs)  # before the context begins
    with deterministic(device, in_context):
        found, expected = (torch.autograd.grad(output, inputs) for output in outputs)
    operators = sorted(call["operator"] for call in in_context.calls)
    names = ("embedding_dense_backward", "grid_sample_backward", "index_add", "interpolate_backward", "interpolate_backward", "scatter_add")
    assert operators == sorted(2 * names)
    assert all(map(torch.equal, found, expected))
    with receipts_kept(outside):
        for entry, another in zip(torch.autograd.grad(compiled(*inputs), inputs), expected):
            torch.testing.assert_close(entry, another)
    assert not outside.calls


def test_what_was_compiled_before_the_import_is_compiled_again():
    program = """
import torch
resized = torch.compile(lambda image: torch.nn.functional.interpolate(image, (3, 5), mode="bilinear"), backend="aot_eager")
image = torch.ones(1, 1, 2, 2, requires_grad=True)
resized(image).sum().backward()
from msda_replay.torch import Receipt, deterministic
receipt = Receipt()
with deterministic("cpu", receipt):
    resized(image).sum().backward()
print(*(call["operator"] for call in receipt.calls))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "interpolate_backward\n"
