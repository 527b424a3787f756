"""The backward pass of adaptive_max_pool3d with indices that are channels last, on a CPU and, where there is one, on a GPU. Writes a capture
of the CPU's, if its name is given."""

import sys

import torch

from msda_replay import save_call

torch.manual_seed(0)
image = torch.randn(1, 3, 4, 4, 4)
pooled, index = torch.ops.aten.adaptive_max_pool3d(image, [2, 2, 2])
grad_output = torch.arange(1.0, 25).reshape(pooled.shape)
last = index.to(memory_format=torch.channels_last_3d)  # the same numbers, in another order in memory
for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
    right, wrong = (torch.ops.aten.adaptive_max_pool3d_backward(grad_output.to(device), image.to(device), i.to(device)).cpu() for i in (index, last))
    print(f"{device}: pixels with another gradient: {int((right != wrong).sum())} of {right.numel()}")
    if device == "cpu" and len(sys.argv) > 1:
        save_call(sys.argv[1], operator="scatter_add", index=last.flatten(2), source=grad_output.flatten(2), observed_sum=wrong.flatten(2), dim=2,
                  dim_size=64, reduce="sum", include_self=0, kernel=f"aten::adaptive_max_pool3d_backward, CPU, torch {torch.__version__}")
