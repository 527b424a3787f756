"""The backward pass of avg_pool2d with padding, of an image that is channels last, on a GPU. Writes a capture, if its name is given, with
the gradient by a CPU as the reference."""

import sys

import torch
from torch.nn.functional import avg_pool2d

from msda_replay import save_call

if not torch.cuda.is_available():
    sys.exit(77)
grad_output = torch.arange(1.0, 26).reshape(1, 1, 5, 5).expand(1, 2, 5, 5).contiguous()


def gradient(device, layout):
    image = torch.zeros(1, 2, 4, 4, device=device).to(memory_format=layout).requires_grad_()
    pooled = avg_pool2d(image, 2, stride=1, padding=1)
    return torch.autograd.grad(pooled, image, grad_output.to(device))[0].cpu().contiguous()


right, wrong = gradient("cpu", torch.contiguous_format), gradient("cuda", torch.channels_last)
print("contiguous, of ones and so on:", gradient("cuda", torch.contiguous_format)[0, 0, 0].tolist())
print("channels last:                ", wrong[0, 0, 0].tolist())
print("pixels that differ:", int((right != wrong).sum()), "of", right.numel())
if len(sys.argv) > 1:
    numbers = {f"{name}_{axis}": value for name, value in (("kernel", 2), ("stride", 1), ("padding", 1)) for axis in ("height", "width")}
    save_call(sys.argv[1], operator="average_pool", grad_output=grad_output, observed_grad_input=wrong, reference_grad_input=right, pooling="avg",
              count_include_pad=1, divisor_override=0, **numbers, atol=1e-5, rtol=1e-5,
              kernel=f"at::native::avg_pool2d_backward_out_cuda_frame_nhwc, torch {torch.__version__}")
