"""The clients of tests/trails, as far as they run without a GPU: equal runs, plants, and the Triton kernels against PyTorch's operators."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from conftest import SOURCE

TRAILS = SOURCE / "tests" / "trails"
has_torch, has_triton = (importlib.util.find_spec(name) is not None for name in ("torch", "triton"))
needs_torch = pytest.mark.skipif(not has_torch, reason="needs PyTorch")
STEPS = 4


def run(*arguments, expect=0):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, TRAILS / "client.py", *arguments]
    done = subprocess.run([str(entry) for entry in command], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == expect, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if expect == 0 else done.stderr


def on_cpu(*arguments):
    return run("triton", "--device", "cpu", "--steps", STEPS, *arguments)


@pytest.mark.parametrize("arguments, why", [(["triton", "--steps", 2], "3 or more"), (["triton", "--plant", "coffee"], "invalid choice"), (["yolo"], "invalid choice")])
def test_bad_usage_is_told(arguments, why):
    assert why in run(*arguments, expect=2)


def test_without_a_gpu_the_client_says_so():
    said = run("triton", expect=77)
    assert ("no GPU that PyTorch can use" if has_torch else "torch is not installed") in said


@pytest.fixture(scope="module")
def plain():
    return on_cpu()


@needs_torch
def test_runs_are_equal(plain):
    again = on_cpu()
    assert all(again[what] == plain[what] for what in ("losses", "gradients", "weights"))
    assert (plain["expect"], plain["took"], plain["planted_step"], len(plain["losses"])) == (None, None, STEPS // 2, STEPS)
    assert on_cpu("--seed", 7)["losses"] != plain["losses"]


@needs_torch
@pytest.mark.parametrize("kind", ["dropout_seed", "workers_order", "host_value", "weight_bit"])
def test_a_plant_changes_what_follows(plain, kind):
    planted, first = on_cpu("--plant", kind), on_cpu("--plant", kind, "--side", "a")
    assert all(first[what] == plain[what] for what in ("losses", "gradients", "weights"))
    assert planted["weights"] != plain["weights"] and planted["took"] is True
    assert planted["losses"][:STEPS // 2] == plain["losses"][:STEPS // 2]
    assert planted["expect"]["kinds"] and planted["expect"]["marker"]


# Each in Triton's interpreter: the results and the gradients are PyTorch's but for rounding, each configuration's of the product as well.
KERNELS = """
import sys, torch
sys.path[:0] = [sys.argv[1]]
from trails import kernels, layers
F = torch.nn.functional
torch.manual_seed(0)

def compare(ours, theirs, *tensors):
    found = []
    for function in (ours, theirs):
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        out = function(*inputs)
        (out * torch.arange(out.numel()).sin().view(out.shape)).sum().backward()
        found.append([out, *(tensor.grad for tensor in inputs)])
    for left, right in zip(*found):
        torch.testing.assert_close(left, right, atol=2e-5, rtol=1e-4)

every, products = kernels.tuned_matmul.configs, {}
left, right = torch.randn(70, 130), torch.randn(50, 130)
for configuration in every:
    kernels.tuned_matmul.configs = [configuration]
    compare(layers.Linear.apply, lambda x, weight: x @ weight.T, left, right)
    products.setdefault(configuration.kwargs["PARTS"], []).append(kernels.matmul(left, right.T))
assert len(products) == 2
for same in products.values():
    assert all((same[0] == product).all() for product in same)
first, second = (same[0] for same in products.values())
assert (first != second).any()  # else the plant `tuner` would change nothing
kernels.tuned_matmul.configs, kernels.tuned_matmul.cache = every, {key: chosen for key, chosen in enumerate(every)}
with kernels.other_configuration():
    assert all(kernels.tuned_matmul.cache[key].kwargs["PARTS"] != chosen.kwargs["PARTS"] for key, chosen in enumerate(every))
assert [kernels.tuned_matmul.cache[key] for key in range(len(every))] == every
compare(lambda *some: layers.LayerNorm.apply(*some, 1e-5), lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias),
        torch.randn(300, 100), torch.randn(100), torch.randn(100))
compare(layers.Softmax.apply, lambda x: x.softmax(-1), torch.randn(2, 3, 40, 50))
compare(layers.Gelu.apply, F.gelu, torch.randn(1500))
x = torch.ones(5000, requires_grad=True)
kept = layers.Dropout.apply(x)
kept.sum().backward()
assert (x.grad == kept).all() and 0.05 < (kept == 0).float().mean() < 0.2 and set(kept.tolist()) == {0.0, (1 / torch.tensor(0.9)).item()}
assert kernels.along(kernels.read_values, (torch.ones(5), torch.empty(5))).tolist() == [2] * 5
total = torch.zeros(1)
kernels.sum_of_buffer[(1,)](torch.full((16384,), 2.0), total, BLOCK=16384)
assert total.item() == 32768
"""


@pytest.mark.skipif(not has_triton or not has_torch, reason="needs PyTorch and Triton")
def test_kernels_compute_what_pytorch_does():
    done = subprocess.run([sys.executable, "-c", KERNELS, str(TRAILS.parent)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
