"""The backward pass of reflection_pad2d under torch.use_deterministic_algorithms, of an image that is as small as the padding, on a GPU.
Writes a capture, if its name is given, with the gradient by a CPU as the reference."""

import sys

import torch
from torch.nn.functional import pad

from msda_replay import save_call

if not torch.cuda.is_available():
    sys.exit(77)


def gradient(device, side, padding, grad_output):
    image = torch.zeros(1, 1, side, side, device=device, requires_grad=True)
    return torch.autograd.grad(pad(image, [padding] * 4, "reflect"), image, grad_output.to(device))[0].cpu()


torch.use_deterministic_algorithms(True)
grad_output = torch.arange(1.0, 50).reshape(1, 1, 7, 7)
right, wrong = (gradient(device, 3, 2, grad_output) for device in ("cpu", "cuda"))
print("on a CPU:", right.flatten().tolist())
print("on a GPU:", wrong.flatten().tolist())
differing = [(side, padding) for side in range(2, 12) for padding in range(1, side)
             if not torch.equal(*(gradient(device, side, padding, torch.ones(1, 1, side + 2 * padding, side + 2 * padding)) for device in ("cpu", "cuda")))]
print("sides and paddings, up to 11, whose gradient is wrong:", len(differing), "of", sum(range(1, 11)))
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="pad_nd", grad_output=grad_output, observed_grad_input=wrong, reference_grad_input=right, mode="reflect",
              padding_top=2, padding_left=2, atol=1e-5, rtol=1e-5,
              kernel=f"at::native::reflection_pad2d_backward_det_out_kernel, torch {torch.__version__}")
