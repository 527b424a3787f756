"""roi_align with as many points as a bin has pixels, of a box of 98 x 204 pixels on features of 14 x 14 pixels, on a CPU and on a GPU.
Writes a capture, if its name is given, with the gradient by a CPU as the reference."""

import sys

import torch
from torchvision.ops import roi_align

from msda_replay import save_call

if not torch.cuda.is_available():
    sys.exit(77)
torch.manual_seed(0)
image = torch.randn(1, 4, 40, 40)
how = {"output_size": 7, "spatial_scale": 1 / 14, "sampling_ratio": -1, "aligned": True}
grad_output = torch.randn(1, 4, 7, 7)


def passes(device, boxes):
    features = image.to(device).requires_grad_()
    pooled = roi_align(features, boxes.to(device), **how)
    return pooled.detach().cpu(), torch.autograd.grad(pooled, features, grad_output.to(device))[0].cpu()


boxes = torch.tensor([[0, 14, 345, 112, 549.0]])
(on_cpu, of_cpu), (on_gpu, of_gpu) = passes("cpu", boxes), passes("cuda", boxes)
print(f"furthest apart: pooled {(on_cpu - on_gpu).abs().max():.3f}, gradient {(of_cpu - of_gpu).abs().max():.3f}")
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="roi_align", boxes=boxes, grad_output=grad_output, observed_grad_input=of_gpu, reference_grad_input=of_cpu,
              spatial_scale=1 / 14, sampling_ratio=0, aligned=True, input_batch=1, input_height=40, input_width=40, atol=1e-3, rtol=1e-3,
              kernel="vision::ops::roi_align_backward_kernel_impl<float>, torchvision 0.26")
apart = 0
for column in range(420):
    boxes = torch.tensor([[0, column, 14, column + 98, 112.0]])
    apart += bool((passes("cpu", boxes)[0] - passes("cuda", boxes)[0]).abs().max() > 0.01)
print("boxes of 98 x 98 pixels, at columns 0 to 419, that differ by more than 0.01:", apart)
