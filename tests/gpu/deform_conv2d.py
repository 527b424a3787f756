"""Random backward passes of torchvision's deform_conv2d, in a fixed order; prints and saves the tensors of each.

    python3 deform_conv2d.py [--problems N] [--save FOLDER]

A name is NUMBER-PLACE-MASK-TYPE. PLACE says where offsets bring the samples: anywhere; on pixels, with offsets of 0 and whole numbers;
beside pixels, by less than float32 has room for; or mostly outside of the image."""

import argparse
import pathlib
import random

import torch
from common import show
from torchvision.ops import deform_conv2d

PLACES = ("anywhere", "pixels", "beside", "outside")
TYPES = (torch.float32, torch.float64, torch.float16)


def offsets(place, shape, generator):
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    if place == "pixels":
        return torch.round(drawn) * (torch.rand(*shape, generator=generator) < 0.5)
    if place == "beside":
        return 2 * torch.round(drawn) + drawn * 2.0**-26
    return drawn * (12 if place == "outside" else 1.5)


class Problem:
    def __init__(self, number):
        size, generator = random.Random(number), torch.Generator().manual_seed(number)
        self.place, self.dtype = PLACES[number % 4], TYPES[number // 4 % 3]
        self.has_mask = number // 12 % 2 == 0
        self.name = f"{number:03}-{self.place}-{'mask' if self.has_mask else 'plain'}-{str(self.dtype)[6:]}"
        pair = lambda first, last: tuple(size.randint(first, last) for _ in range(2))  # noqa: E731
        taps, self.stride, self.padding, self.dilation = pair(1, 3), pair(1, 2), pair(0, 2), pair(1, 2)
        groups, weight_groups = size.randint(1, 2), size.randint(1, 2)
        channels, batch = 2 * size.randint(1, 3), size.randint(1, 3)
        image = tuple(size.randint(max(3, d * (k - 1) + 1), 10) for k, d in zip(taps, self.dilation))
        out = tuple((s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in zip(image, self.padding, self.dilation, taps, self.stride))
        normal = lambda *shape: torch.randn(*shape, generator=generator).to(self.dtype).cuda()  # noqa: E731
        self.input = normal(batch, channels, *image)
        self.weight = normal(4, channels // weight_groups, *taps)
        self.offset = offsets(self.place, (batch, 2 * groups * taps[0] * taps[1], *out), generator).to(self.dtype).cuda()
        self.mask = torch.rand(batch, groups * taps[0] * taps[1], *out, generator=generator).to(self.dtype).cuda() if self.has_mask else None
        self.grad_output = normal(batch, 4, *out)

    def tensors(self):
        """The inputs of the kernels of the backward pass but for the columns, and their results."""
        inputs = {"input": self.input, "offset": self.offset, **({"mask": self.mask} if self.has_mask else {})}
        for tensor in inputs.values():
            tensor.requires_grad_()
        result = deform_conv2d(self.input, self.offset, self.weight, None, self.stride, self.padding, self.dilation, self.mask)
        gradients = torch.autograd.grad(result, list(inputs.values()), self.grad_output)
        return {**inputs, **{f"grad_{name}": gradient for name, gradient in zip(inputs, gradients)}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=96)
    parser.add_argument("--save", type=pathlib.Path)
    chosen = parser.parse_args()
    for number in range(chosen.problems):
        problem = Problem(number)
        for tensor, content in problem.tensors().items():
            show(f"{problem.name}.{tensor}", content, chosen.save)


main()
