"""A test that fails now and then, though the kernel is right."""

import numpy as np
import pytest

from msda_replay import cpu

LEVELS = np.array([(64, 64), (32, 32), (16, 16), (8, 8)])  # height, width
BATCH, QUERIES, HEADS, CHANNELS, POINTS = 2, 1000, 4, 32, 3


def draw(run):
    # Most such tests draw without a seed. With one, you see the failure that this tutorial explains.
    rng = np.random.default_rng(run)
    single = lambda numbers: numbers.astype(np.float32)  # noqa: E731
    samples = (BATCH, QUERIES, HEADS, len(LEVELS), POINTS)
    weights = np.exp(rng.normal(size=samples))
    return {
        "value": single(rng.normal(size=(BATCH, LEVELS.prod(axis=1).sum(), HEADS, CHANNELS))),
        "spatial_shapes": LEVELS,
        "sampling_locations": single(rng.random(size=(*samples, 2))),
        "attention_weights": single(weights / weights.sum(axis=(3, 4), keepdims=True)),
        "grad_output": single(rng.random(size=(BATCH, QUERIES, HEADS, CHANNELS))),
    }


@pytest.mark.parametrize("run", range(100))
def test_backward(run):
    call = draw(run)
    kernel = cpu.backward(**call, dialect="msda_triton", padding_mode="border")
    reference = cpu.backward(**call, dialect="grid_sample", padding_mode="border")
    for name, gradient in kernel.items():
        np.testing.assert_allclose(gradient, reference[name], rtol=1e-2, atol=1e-3, err_msg=name)
