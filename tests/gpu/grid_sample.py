"""Backward calls of grid_sample on tensors of all sorts, in a fixed order; of the 3D kernel with --axes 3."""

import itertools

import torch
from common import arguments, backward, make, show

SIZES = {2: ((9, 8), (7, 6)), 3: ((5, 9, 8), (4, 7, 6))}  # of the input and of the output


def tensors(kind, dtype, seed, axes):
    size, out = SIZES[axes]
    grad_output, image, grid = make(seed, size=size, out=out, dtype=dtype)
    if kind == "channels_last":
        image = image.contiguous(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)
    elif kind == "expanded":
        grad_output = grad_output[(slice(None),) + (1 + axes) * (slice(1),)].expand(grad_output.shape)
    elif kind == "sliced":
        all_, even, odd = slice(None), slice(None, None, 2), slice(1, None, 2)
        grad_output, image, grid = make(seed, 6, [2 * n for n in size], [2 * n for n in out], dtype)
        grad_output = grad_output[(all_, odd) + axes * (even,)]
        image, grid = image[(all_, even, odd) + (axes - 1) * (even,)], grid[(all_, even) + (axes - 1) * (odd,)]
    return grad_output, image, grid


def main():
    chosen = arguments()
    save, (size, out) = chosen.save, SIZES[chosen.axes]
    cases = [(kind, dtype, 0, False, 0) for kind, dtype in itertools.product(
        ("contiguous", "channels_last", "expanded", "sliced"), (torch.float32, torch.float64, torch.float16))]
    cases += [("contiguous", torch.float32, padding, align, interpolation)
              for padding, align, interpolation in itertools.product((0, 1, 2), (False, True), (0, 1))]
    for number, (kind, dtype, padding, align, interpolation) in enumerate(cases):
        grad_output, image, grid = tensors(kind, dtype, number, chosen.axes)
        grad_input, grad_grid = backward(grad_output, image, grid, padding, align, interpolation)
        name = f"{number:03}-{kind}-{str(dtype)[6:]}-{padding}{int(align)}{interpolation}"
        for tensor, content in (("grad_output", grad_output), ("input", image), ("grid", grid),
                                ("grad_input", grad_input), ("grad_grid", grad_grid)):
            show(f"{name}.{tensor}", content, save)

    # As a model calls it: on autograd's thread, with a gradient whose strides are 0.
    _, image, grid = make(1000, size=size, out=out)
    image.requires_grad_(), grid.requires_grad_()
    torch.nn.functional.grid_sample(image, grid, align_corners=False).sum().backward()
    name = f"{len(cases):03}-autograd-float32-000"
    for tensor, content in (("grad_output", torch.ones(2, 3, *out)), ("input", image), ("grid", grid),
                            ("grad_input", image.grad), ("grad_grid", grid.grad)):
        show(f"{name}.{tensor}", content, save)


main()
