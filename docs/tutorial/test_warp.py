"""A test that fails now and then: grid_sample's gradient against a reference that indexes the image."""

import pytest
import torch
from torch.nn.functional import grid_sample

SIZE, POINTS = 60, 4000


def reference(image, grid):
    position = grid * (SIZE / 2) + (SIZE - 1) / 2  # in pixels
    corner = position.floor()
    fraction = position - corner
    total = 0
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        x, y = corner[:, 0].long() + dx, corner[:, 1].long() + dy
        inside = (x >= 0) & (x < SIZE) & (y >= 0) & (y < SIZE)
        weight = (fraction if dx else 1 - fraction)[:, 0] * (fraction if dy else 1 - fraction)[:, 1]
        total = total + torch.where(inside, image[y.clamp(0, SIZE - 1), x.clamp(0, SIZE - 1)] * weight, 0)
    return total


# Most such tests draw without a seed. With one, you see the failure that the tutorial explains.
@pytest.mark.parametrize("seed", range(100))
def test_gradient(seed):
    torch.manual_seed(seed)
    image, grad_output = torch.randn(SIZE, SIZE), torch.randn(POINTS)
    grid = (torch.randn(POINTS, 2) / 3).requires_grad_()
    grid_sample(image[None, None], grid[None, None], align_corners=False).flatten().backward(grad_output)
    expected = torch.autograd.grad(reference(image, grid), grid, grad_output)[0]
    torch.testing.assert_close(grid.grad, expected, atol=1e-3, rtol=1e-3)
