"""torch.compile's compilers run, its processes too, while calls are recorded."""

import torch
from common import backward, make, show


@torch.compile
def function(x, scale):
    return torch.sin(x) * scale + torch.sigmoid(x * x)


for seed in range(3):
    grad_output, image, grid = make(seed)
    image.requires_grad_()
    result = function(image, 1.5)
    result.backward(torch.ones_like(result))
    show(f"{seed}.result", result)
    show(f"{seed}.gradient", image.grad)
    show(f"{seed}.grad_grid", backward(grad_output, result.detach(), grid)[1])
