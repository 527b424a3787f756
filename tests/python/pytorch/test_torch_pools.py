"""The operators average_pool and pad_nd against PyTorch's CPU: its gradients in float64 are the definitions'."""

import json

import numpy as np
import pytest
from support.pooling import AXES, SIDES, drawn

from msda_replay import write_capture

torch = pytest.importorskip("torch")
F = torch.nn.functional
PROBLEMS = 75
DIMENSIONS = {"avg": (2, 3), "adaptive_avg": (2, 3), "reflect": (1, 2, 3), "replicate": (1, 2, 3)}


def computed(problem):
    """The gradient of the function that a problem is of."""
    names = AXES[3 - len(problem.image):]
    by_axis = lambda prefix: tuple(problem.facts[f"{prefix}_{axis}"] for axis in names)  # noqa: E731
    image = torch.zeros(*problem.grad_output.shape[:2], *problem.image, dtype=torch.float64, requires_grad=True)
    if problem.family == "avg":
        pool = F.avg_pool2d if len(names) == 2 else F.avg_pool3d
        result = pool(image, by_axis("kernel"), by_axis("stride"), by_axis("padding"), False, bool(problem.facts["count_include_pad"]), problem.divisor or None)
    elif problem.family == "adaptive_avg":
        result = (F.adaptive_avg_pool2d if len(names) == 2 else F.adaptive_avg_pool3d)(image, by_axis("output"))
    else:
        before = [problem.facts[f"padding_{SIDES[axis]}"] for axis in names]
        after = [padded - side - b for padded, side, b in zip(problem.grad_output.shape[2:], problem.image, before)]
        result = F.pad(image, [p for pair in zip(before[::-1], after[::-1]) for p in pair], problem.family)
    return torch.autograd.grad(result, image, torch.from_numpy(problem.grad_output))[0].numpy()


@pytest.mark.parametrize("family", DIMENSIONS)
def test_gradients_are_pytorchs(replay, tmp_path, family):
    problems = [drawn(family, axes, 100 + seed, np.float64) for seed in range(PROBLEMS) for axes in DIMENSIONS[family]]
    for problem in problems:
        np.testing.assert_allclose(problem.gradient(np.float64), computed(problem), rtol=1e-12, atol=1e-14)
    write_capture(tmp_path / "a.h5", [problem.call(computed(problem)) for problem in problems])
    found = json.loads(replay("run", tmp_path / "a.h5", "--invocation", "all", "--json", "-", "--atol", "1e-13", "--rtol", "1e-12", expect=0).out)
    assert len(found["invocations"]) == len(problems) and not any(call["findings"] for call in found["invocations"])
