"""Backward calls of grid_sample on tensors of all sorts, in a fixed order."""

import itertools

import torch
from common import arguments, backward, make, tell


def tensors(kind, dtype, seed):
    grad_output, image, grid = make(seed, dtype=dtype)
    if kind == "channels_last":
        image = image.contiguous(memory_format=torch.channels_last)
    elif kind == "expanded":
        grad_output = grad_output[:, :1, :1, :1].expand(grad_output.shape)
    elif kind == "sliced":
        grad_output, image, grid = make(seed, channels=6, size=(18, 16), out=(14, 12), dtype=dtype)
        grad_output, image, grid = grad_output[:, 1::2, ::2, ::2], image[:, ::2, 1::2, ::2], grid[:, ::2, 1::2]
    return grad_output, image, grid


def main():
    save = arguments().save
    cases = [(kind, dtype, 0, False, 0) for kind, dtype in itertools.product(
        ("contiguous", "channels_last", "expanded", "sliced"), (torch.float32, torch.float64, torch.float16))]
    cases += [("contiguous", torch.float32, padding, align, interpolation)
              for padding, align, interpolation in itertools.product((0, 1, 2), (False, True), (0, 1))]
    for number, (kind, dtype, padding, align, interpolation) in enumerate(cases):
        grad_output, image, grid = tensors(kind, dtype, number)
        grad_input, grad_grid = backward(grad_output, image, grid, padding, align, interpolation)
        name = f"{number:03}-{kind}-{str(dtype)[6:]}-{padding}{int(align)}{interpolation}"
        for tensor, content in (("grad_output", grad_output), ("input", image), ("grid", grid),
                                ("grad_input", grad_input), ("grad_grid", grad_grid)):
            tell(f"{name}.{tensor}", content, save)

    # As a model calls it: on autograd's thread, with a gradient whose strides are 0.
    _, image, grid = make(1000)
    image.requires_grad_(), grid.requires_grad_()
    torch.nn.functional.grid_sample(image, grid, align_corners=False).sum().backward()
    name = f"{len(cases):03}-autograd-float32-000"
    for tensor, content in (("grad_output", torch.ones(2, 3, 7, 6)), ("input", image), ("grid", grid),
                            ("grad_input", image.grad), ("grad_grid", grid.grad)):
        tell(f"{name}.{tensor}", content, save)


main()
