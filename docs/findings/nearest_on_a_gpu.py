"""interpolate in mode nearest from 14 to 46 pixels, on a GPU: which output pixels read a pixel, and which its gradient adds up. Writes
a capture, if its name is given, with the gradient by a CPU as the reference."""

import sys

import torch
from torch.nn.functional import interpolate

from msda_replay import save_call

if not torch.cuda.is_available():
    sys.exit(77)
grad_output = torch.arange(1.0, 47).reshape(1, 1, 46)


def passes(device, small, large, grad_output):
    """How often each pixel is read, and its gradient."""
    line = torch.arange(float(small)).reshape(1, 1, small).to(device).requires_grad_()
    enlarged = interpolate(line, large, mode="nearest")
    gradient = torch.autograd.grad(enlarged, line, grad_output.to(device))[0]
    return torch.bincount(enlarged.flatten().long(), minlength=small), gradient


read, count = passes("cuda", 14, 46, torch.ones(1, 1, 46))
print("output pixels that read a pixel:", read.tolist())
print("its gradient, of ones:          ", count.flatten().int().tolist())
gradients = {device: passes(device, 14, 46, grad_output)[1] for device in ("cuda", "cpu")}
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="interpolate", grad_output=grad_output, observed_grad_input=gradients["cuda"],
              reference_grad_input=gradients["cpu"], mode="nearest", input_width=14, atol=1e-5, rtol=1e-5,
              kernel=f"at::native::upsample_nearest1d_backward_out_frame, torch {torch.__version__}")
sizes = [(small, large) for small in range(1, 65) for large in range(1, 129)]
wrong = 0
for small, large in sizes:
    read, count = passes("cuda", small, large, torch.ones(1, 1, large))
    wrong += not torch.equal(read, count.flatten().long())
print("sizes with such a pixel:", wrong, "of", len(sizes))
