"""max_unpool2d of what max_pool2d made of windows that overlap, on a CPU. Writes a capture, if its name is given."""

import sys

import torch
from torch.nn import functional

from msda_replay import save_call

torch.manual_seed(0)
image = torch.randn(1, 1, 5, 5)
pooled, index = functional.max_pool2d(image, 3, stride=1, return_indices=True)
values = torch.arange(1.0, 10).reshape(1, 1, 3, 3).requires_grad_()  # what a network makes of the pooled ones
unpooled = functional.max_unpool2d(values, index, 3, stride=1)
gradient = torch.autograd.grad(unpooled.sum(), values)[0]
print("pixels that are stored to:", index.flatten().tolist())
print("sum of the values:", values.sum().item(), "and of the result:", unpooled.sum().item())
print("gradient of that sum:", gradient.flatten().tolist())
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="scatter_add", index=index.flatten(2), source=values.detach().flatten(2),
              observed_sum=unpooled.detach().flatten(2), dim=2, dim_size=25, reduce="sum", include_self=0,
              kernel=f"aten::max_unpool2d, CPU, torch {torch.__version__}")
