"""The backward pass of grid_sample in float16, on a CPU, of an image of 40,000 pixels. It writes outside of its memory: it may
crash. Writes a capture, if its name is given, unless it does."""

import sys

import torch

from msda_replay import save_call

torch.manual_seed(0)
torch.set_num_threads(1)
image = torch.randn(1, 1, 200, 200).half().requires_grad_()
grid = (torch.rand(1, 64, 64, 2) * 2 - 1).half().requires_grad_()
result = torch.nn.functional.grid_sample(image, grid, align_corners=False)
grad_output = torch.ones_like(result)
grad_image, grad_grid = torch.autograd.grad(result, (image, grid), grad_output)
print("last pixel with a gradient:", grad_image.flatten().nonzero().max().item(), "of", image.numel())
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="grid_sample", input=image.detach(), grid=grid.detach(), grad_output=grad_output,
              observed_grad_input=grad_image, observed_grad_grid=grad_grid, interpolation="bilinear", padding_mode="zeros",
              align_corners=False, kernel=f"aten::grid_sampler_2d_backward, CPU, torch {torch.__version__}")
