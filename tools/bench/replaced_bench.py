#!/usr/bin/env python3
"""Compares the operators that msda_replay.torch replaces by index with PyTorch's own on a GPU: same inputs, alternating in one run.

    python3 tools/bench/replaced_bench.py [--rows NAME,...] [--types float32,...] [--json FILE]

Both go from their inputs to the finished result, by the functions that PyTorch's dispatcher calls. Times by CUDA events, as
gpu/clock.py takes them; ratios are those of medians. Before it is timed, each result is compared with PyTorch's in float64.
PyTorch's add atomically. Nothing is promised of the times.

Prints a table in Markdown. Exit status 1 if a result is wrong; 77 if there is no PyTorch,
no GPU, or libmsda.so was built without CUDA. Ours is the libmsda of MSDA_BUILD, or of build/.
"""

import dataclasses
import functools
import os
import sys
import typing

from gpu import comparison
from gpu.comparison import PYTORCH
from harness import SOURCE, ended

OURS = "msda_replay.torch"


@dataclasses.dataclass(frozen=True)
class Call:
    """`draw(torch, dtype, generator)`: the operator's tensors; `arguments(tensors)`: all that it takes."""

    operator: str
    sizes: str
    draw: typing.Callable
    arguments: typing.Callable = tuple
    promised: bool = False
    types: tuple = ("float32", "float16", "float64")

    def __str__(self):
        return f"{self.operator} {self.sizes}"

    def function(self, torch):
        name, _, overload = self.operator.partition(".")
        return getattr(getattr(torch.ops.aten, name), overload or "default")

    def pytorchs(self, torch, tensors):
        return functools.partial(self.function(torch), *self.arguments(tensors))

    def ours(self, torch, tensors):
        from msda_replay.torch.operators import REPLACED

        key = f"aten::{self.operator}"
        for replaced in REPLACED:
            if key in replaced.functions:
                return functools.partial(replaced.functions[key], *self.arguments(tensors))
            if key in replaced.around:
                return functools.partial(replaced.around[key], self.function(torch), *self.arguments(tensors))
        raise AssertionError(f"{key} is not replaced")


def numbers(torch, dtype, generator, *shape):
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


def below(torch, most, generator, *shape):
    return torch.randint(most, shape, generator=generator, device="cuda")


def max_pool(shape, kernel, stride, padding, last=False):
    more = [kernel] * 3, [stride] * 3, [padding] * 3, [1] * 3, False

    def draw(torch, dtype, generator):
        input = numbers(torch, dtype, generator, *shape)
        if last:
            input = input.contiguous(memory_format=torch.channels_last_3d)
        output, indices = torch.nn.functional.max_pool3d(input, *more, return_indices=True)
        return torch.randn_like(output), input, indices

    sizes = f"{'x'.join(map(str, shape))} by {kernel}, stride {stride}" + ", channels last" * last
    return Call("max_pool3d_with_indices_backward", sizes, draw, lambda t: (t[0], t[1], *more, t[2]))


def adaptive(shape, out):
    def draw(torch, dtype, generator):
        input = numbers(torch, dtype, generator, *shape)
        output, indices = torch.nn.functional.adaptive_max_pool2d(input, out, return_indices=True)
        return torch.randn_like(output), input, indices

    return Call("adaptive_max_pool2d_backward", f"{'x'.join(map(str, shape))} to {out}", draw)


def fractional(shape, kernel, out):
    axes = len(shape) - 2

    def draw(torch, dtype, generator):
        pool = torch.nn.functional.fractional_max_pool2d if axes == 2 else torch.nn.functional.fractional_max_pool3d
        input = numbers(torch, dtype, generator, *shape)
        output, indices = pool(input, kernel, out, return_indices=True)
        return torch.randn_like(output), input, indices

    arguments = lambda t: (t[0], t[1], [kernel] * axes, [out] * axes, t[2])  # noqa: E731
    return Call(f"fractional_max_pool{axes}d_backward", f"{'x'.join(map(str, shape))} to {out}", draw, arguments, types=("float32", "float64"))


def unpool(shape):
    def draw(torch, dtype, generator):
        return torch.nn.functional.max_pool2d(numbers(torch, dtype, generator, *shape), 2, return_indices=True)

    return Call("max_unpool2d", f"to {'x'.join(map(str, shape))}", draw, lambda t: (*t, shape[2:]))


def put(count, to, accumulate):
    def draw(torch, dtype, generator):
        index = below(torch, to, generator, count) if accumulate else torch.randperm(to, generator=generator, device="cuda")[:count]
        return numbers(torch, dtype, generator, to), index, numbers(torch, dtype, generator, count)

    # On a copy: the timed runs would add up.
    what = "accumulate" if accumulate else "overwrite"
    return Call("put_", f"{count} to {to}, {what}", draw, lambda t: (t[0].clone(), t[1], t[2], accumulate))


def bincount(count, bins):
    def draw(torch, dtype, generator):
        return below(torch, bins, generator, count), numbers(torch, dtype, generator, count)

    return Call("bincount", f"{count} in {bins}", draw)


def histc(count, bins):
    return Call("histc", f"{count} in {bins}", lambda torch, dtype, generator: (numbers(torch, dtype, generator, count),),
                lambda t: (t[0], bins, -3, 3), types=("float32", "float64"))  # fmt: skip


def nll_loss2d(N, classes, side):
    def draw(torch, dtype, generator):
        return numbers(torch, dtype, generator, N, classes, side, side), below(torch, classes, generator, N, side, side)

    return Call("nll_loss2d_forward", f"{N}x{classes}x{side}x{side}", draw, lambda t: (*t, None, 1, -100))


def bags(rows, channels, count):
    def draw(torch, dtype, generator):
        chosen = below(torch, rows, generator, count, channels)
        return numbers(torch, dtype, generator, count, channels), chosen[:, 0], torch.arange(count, device="cuda"), chosen

    arguments = lambda t: (t[0], t[1], t[2], t[1], t[3], rows, False, 2, None, -1)  # noqa: E731
    return Call("_embedding_bag_dense_backward", f"{count}x{channels} to {rows}", draw, arguments)


ROWS = {
    "unet-3d": max_pool((2, 32, 96, 96, 96), 2, 2, 0), "unet-3d-last": max_pool((2, 32, 96, 96, 96), 2, 2, 0, True),
    "unet-3d-mid": max_pool((2, 64, 48, 48, 48), 2, 2, 0), "c3d": max_pool((8, 128, 8, 28, 28), 2, 2, 0), "small-3d": max_pool((1, 16, 16, 16, 16), 2, 2, 0),
    "unet-3d-deep": max_pool((2, 256, 12, 12, 12), 2, 2, 0), "i3d": max_pool((8, 64, 16, 56, 56), 3, 2, 1), "i3d-1": max_pool((8, 192, 8, 28, 28), 3, 1, 1),
    "cbam": adaptive((16, 256, 40, 40), 1), "cbam-large": adaptive((8, 64, 160, 160), 1), "spp-6": adaptive((16, 256, 26, 26), 6),
    "grow": adaptive((16, 64, 14, 14), 20), "to-half": adaptive((16, 64, 112, 112), 56),
    "fractional": fractional((16, 64, 64, 64), 2, 45), "fractional-3d": fractional((4, 16, 32, 32, 32), 2, 22),
    "segnet": unpool((8, 64, 224, 224)), "segnet-deep": unpool((8, 512, 28, 28)),
    "put-10k": put(10_000, 1_000_000, False), "put-1m": put(1_000_000, 4_000_000, False), "put-add-1m": put(1_000_000, 100_000, True),
    "bins-1m": bincount(1_000_000, 1000), "bins-10k": bincount(10_000, 100), "histogram-1m": histc(1_000_000, 100), "histogram-10m": histc(10_000_000, 256),
    "cityscapes": nll_loss2d(4, 19, 512), "voc": nll_loss2d(16, 21, 321), "masks": nll_loss2d(2, 2, 256),
    "bags-4k": bags(50_000, 64, 4096), "bags-100k": bags(100_000, 16, 100_000)}  # fmt: skip


def measured(chosen, torch, library, clock, row, dtype):
    """Returns the times by contender, the share of our result that is off, and failures."""
    os.environ.setdefault("MSDA_BUILD", str(chosen.library.resolve().parents[1]))
    sys.path.insert(0, str(SOURCE / "tools" / "python"))
    sets = comparison.input_sets(lambda seed: row.draw(torch, getattr(torch, dtype), torch.Generator("cuda").manual_seed(seed)), clock.cache_bytes, 2)
    first = lambda result: result[0] if isinstance(result, tuple) else result  # noqa: E731
    exact = row.pytorchs(torch, [tensor.double() if tensor.is_floating_point() else tensor for tensor in sets[0]])()
    off = comparison.share_off(first(row.ours(torch, sets[0])()), first(exact), dtype)
    del exact
    calls = [{OURS: row.ours(torch, tensors), PYTORCH: row.pytorchs(torch, tensors)} for tensors in sets]
    found = comparison.alternating(clock, calls, chosen.runs)
    failures = [f"{row}, {dtype}: {off:.2g} of the result differ from float64's"] if off > comparison.ROUNDING else []
    if chosen.asserts and comparison.missed(row, dtype, "cold", found, OURS):
        failures.append(f"{row}: {OURS} takes longer than {PYTORCH}")
    return {"off": off, "contenders": found}, failures


def main():
    chosen = comparison.options_of(__doc__, ROWS, ("float32", "float16")).parse_args()
    return ended("replaced_bench", lambda: comparison.compare(chosen, ROWS, "call", [OURS], measured))


if __name__ == "__main__":
    sys.exit(main())
