#!/usr/bin/env python3
"""Compares libmsda's backward passes of average pooling and padding on a GPU with PyTorch's: same inputs, alternating in one run.

    python3 tools/bench/separable_bench.py [--assert] [--rows NAME,...] [--types float32,...] [--json FILE]

PyTorch's kernels add atomically to a gradient that was cleared, but those of avg_pool in 2D, which gather. Times, checks and exit
statuses are those of scatter_bench.py. Promise: libmsda takes at most as long as PyTorch, in float32 with a cold cache,
in the rows that have it.
"""

import dataclasses
import sys

from gpu import comparison
from harness import ended
from libmsda import SEPARABLE, SeparableCall, describe
from scatter_bench import OURS, measured, on_gpu


@dataclasses.dataclass(frozen=True)
class Separable:
    """A backward pass for an input of this shape, [N,C,(z,)(y,)x]. Numbers hold for every axis, before it and after it; `out`: the sides
    that adaptive pooling returns."""

    map: str
    shape: tuple
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    out: int = 0
    channels_last: bool = False
    promised: bool = True
    types: tuple = comparison.TYPES

    def __str__(self):
        numbers = [f"{name} {value}" for name, value in (("kernel", self.kernel), ("stride", self.stride)) if self.map == "avg_pool"]
        numbers += [f"padding {self.padding}"] * bool(self.padding) + [f"to {self.out}"] * bool(self.out)
        return f"{self.map} {'x'.join(map(str, self.shape))}, {', '.join(numbers + ['channels last'] * self.channels_last)}"

    def laid(self, torch, tensor):
        last = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
        return tensor.contiguous(memory_format=last) if self.channels_last else tensor

    def draw(self, torch, dtype, generator):
        width = 2 * self.padding
        sides = [self.out or ((side + width - self.kernel) // self.stride + 1 if self.map == "avg_pool" else side + width) for side in self.shape[2:]]
        grad_output = torch.randn(*self.shape[:2], *sides, generator=generator, device="cuda").to(dtype)
        return self.laid(torch, grad_output), self.laid(torch, torch.zeros(self.shape, device="cuda", dtype=dtype))

    def ours(self, torch, library, tensors):
        of_axes = [3 * (number,) for number in (self.kernel, self.stride, self.padding, self.padding)]
        call = SeparableCall(SEPARABLE[self.map], len(self.shape) - 2, False, True, 0, *of_axes, describe(tensors[0]))
        return on_gpu(torch, library, "msda_cuda_separable_backward", call, torch.empty_like(tensors[1]), tensors)

    def pytorchs(self, torch, tensors):
        sides, aten = len(self.shape) - 2, torch.ops.aten
        if self.map == "adaptive_avg_pool":
            return lambda: getattr(aten, f"_adaptive_avg_pool{sides}d_backward")(*tensors)
        backward = getattr(aten, f"{self.map}{sides}d_backward")
        if self.map == "avg_pool":
            return lambda: backward(*tensors, [self.kernel], [self.stride], [self.padding], False, True, None)
        return lambda: backward(*tensors, 2 * sides * [self.padding])


def pooled(*shape, kernel=2, stride=2, **how):
    return Separable("avg_pool", shape, kernel, stride, **how)


def adaptive(*shape, out, **how):
    return Separable("adaptive_avg_pool", shape, out=out, **how)


def reflected(*shape, padding=1, **how):
    return Separable("reflection_pad", shape, padding=padding, **how)


def replicated(*shape, padding=1, **how):
    return Separable("replication_pad", shape, padding=padding, **how)


ROWS = {
    "resnet-d": pooled(64, 256, 56, 56),
    "densenet": pooled(32, 256, 28, 28),
    "unet": pooled(8, 64, 256, 256),
    "inception": pooled(32, 192, 35, 35, kernel=3, stride=1, padding=1),
    "ssim-pyramid": pooled(8, 3, 512, 512),
    "head": pooled(128, 2048, 7, 7, kernel=7, stride=1),
    "image-pool": pooled(8, 2048, 33, 33, kernel=33, stride=1),
    "resnet-d-last": pooled(64, 256, 56, 56, channels_last=True),
    "volume": pooled(2, 32, 64, 64, 64),
    "volume-overlapping": pooled(2, 32, 48, 48, 48, kernel=3, padding=1),
    "psp-1": adaptive(8, 512, 60, 60, out=1),
    "psp-2": adaptive(8, 512, 60, 60, out=2),
    "psp-3": adaptive(8, 512, 60, 60, out=3),
    "psp-6": adaptive(8, 512, 60, 60, out=6),
    "vgg": adaptive(32, 512, 14, 14, out=7),
    "yolo-uneven": adaptive(16, 256, 20, 20, out=7),
    "yolo-uneven-80": adaptive(16, 128, 80, 80, out=7),
    "enlarged": adaptive(32, 512, 4, 4, out=7),
    "yolo-last": adaptive(16, 256, 20, 20, out=7, channels_last=True),
    "volume-uneven": adaptive(2, 64, 16, 28, 28, out=5),
    "cyclegan-in": reflected(4, 3, 256, 256, padding=3),
    "cyclegan-blocks": reflected(4, 256, 64, 64),
    "cyclegan-out": reflected(4, 64, 256, 256, padding=3),
    "style": reflected(4, 3, 512, 512, padding=40),
    "depth-wide": reflected(12, 16, 192, 640),
    "depth-deep": reflected(12, 256, 12, 40),
    "stft": reflected(16, 1, 160000, padding=512),
    "vocoder": reflected(16, 256, 8000, padding=3),
    "reflected-last": reflected(4, 256, 64, 64, channels_last=True),
    "reflected-volume": reflected(2, 32, 48, 48, 48),
    "flow": replicated(8, 3, 436, 1024, padding=2),
    "denoise": replicated(8, 64, 128, 128),
    "deep": replicated(8, 256, 32, 32, padding=2),
    "patch": replicated(8, 3, 256, 256, padding=16, promised=False),
    "frame": replicated(1, 16, 720, 1280),
    "super-resolution": replicated(16, 64, 96, 96, padding=4, promised=False),
    "video": replicated(1, 128, 17, 64, 64),
    "replicated-volume": replicated(2, 32, 48, 48, 48),
    "wave": replicated(16, 512, 4000, padding=3),
    "denoise-last": replicated(8, 64, 128, 128, channels_last=True),
}


def main():
    chosen = comparison.options_of(__doc__, ROWS, ("float32", "float16")).parse_args()
    return ended("separable_bench", lambda: comparison.compare(chosen, ROWS, "call", [OURS], measured))


if __name__ == "__main__":
    sys.exit(main())
