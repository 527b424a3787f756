#!/usr/bin/env python3
"""Compares libmsda's sums that scatter on a GPU with PyTorch's and torchvision's: same inputs, alternating in one run.

    python3 tools/bench/scatter_bench.py [--assert] [--rows NAME,...] [--types float32,...] [--json FILE]

Each contender goes from its inputs to the finished result, clearing included. PyTorch's index_add_, interpolate (but for nearest
pixels) and torchvision's roi_align add atomically; PyTorch's backward pass of embedding sorts if there are many indices. Times by CUDA events, as gpu/clock.py takes them; ratios are those of
medians. Before it is timed, each contender's result is compared with PyTorch's in float64. Promise: libmsda takes at most as long
as PyTorch, in float32 with a cold cache, in the rows that have it.

Prints a table in Markdown. Exit status 1 if a result of libmsda is wrong or, with --assert, a promise is missed; 77 if there is
no PyTorch, no GPU, or libmsda.so was built without CUDA.
"""

import argparse
import ctypes
import dataclasses
import datetime
import json
import math
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from libmsda import InterpolateCall, RoiAlignCall, ScatterCall, tensor_at  # noqa: E402

SKIPPED, PROMISED, ROUNDING = 77, 1.0, 1e-2
TYPES = ("float32", "float16", "bfloat16", "float64")
OURS, PYTORCH = "libmsda", "PyTorch"


def describe(tensor):
    return tensor_at(tensor.data_ptr(), str(tensor.dtype).removeprefix("torch."), tensor.shape, tensor.stride())


def on_gpu(torch, library, function, call, result, keep):
    """A function that runs libmsda's on PyTorch's stream."""
    described = describe(result)
    arguments = [ctypes.byref(call), None, ctypes.byref(described), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)]

    def run(keep=(call, described, keep)):
        if getattr(library, function)(*arguments) != 0:
            raise RuntimeError(library.msda_last_error().decode())
        return result

    return run


@dataclasses.dataclass(frozen=True)
class IndexAdd:
    """`n` rows of `D` numbers added to `rows` rows. `placing`: anywhere, all in one row, or as in graphs, where few have many."""

    n: int
    D: int
    rows: int
    placing: str = "uniform"
    embedding: bool = False
    promised: bool = True
    types: tuple = TYPES

    def __str__(self):
        return f"{'embedding' if self.embedding else 'index_add'} {self.n}x{self.D} to {self.rows}, {self.placing}"

    def draw(self, torch, dtype, generator):
        uniform = torch.rand(self.n, generator=generator, device="cuda", dtype=torch.float64)
        power = {"uniform": 1, "graph": 3}.get(self.placing)
        index = torch.full((self.n,), self.rows // 2, device="cuda") if power is None else (self.rows * uniform**power).long()
        return index, torch.randn(self.n, self.D, generator=generator, device="cuda").to(dtype)

    def ours(self, torch, library, tensors):
        index, source = tensors
        kind = torch.empty if self.embedding else torch.zeros
        result = kind(self.rows, self.D, device="cuda", dtype=source.dtype)
        call = ScatterCall(0, 0, not self.embedding, -1, describe(index), describe(source))
        return on_gpu(torch, library, "msda_cuda_scatter_add", call, result, (tensors, result))

    def pytorchs(self, torch, tensors):
        index, source = tensors
        if self.embedding:
            return lambda: torch.ops.aten.embedding_dense_backward(source, index, self.rows, -1, False)
        result = torch.zeros(self.rows, self.D, device="cuda", dtype=source.dtype)
        return lambda: result.index_add_(0, index, source)


@dataclasses.dataclass(frozen=True)
class Interpolate:
    """The backward pass of an image that was resized."""

    N: int
    C: int
    image: tuple
    out: tuple
    mode: str = "linear"
    align_corners: bool = False
    promised: bool = True
    types: tuple = TYPES
    MODES = {"nearest": 0, "linear": 2, "cubic": 3}
    NAMES = {("linear", 2): "bilinear2d", ("cubic", 2): "bicubic2d", ("linear", 3): "trilinear3d", ("nearest", 2): "nearest2d"}

    def __str__(self):
        return f"interpolate {self.mode} {self.N}x{self.C}x{'x'.join(map(str, self.image))} to {'x'.join(map(str, self.out))}"

    def draw(self, torch, dtype, generator):
        return (torch.randn(self.N, self.C, *self.out, generator=generator, device="cuda").to(dtype),)

    def ours(self, torch, library, tensors):
        result = torch.empty(self.N, self.C, *self.image, device="cuda", dtype=tensors[0].dtype)
        call = InterpolateCall(self.MODES[self.mode], self.align_corners, (0, 0, 0), describe(tensors[0]))
        return on_gpu(torch, library, "msda_cuda_interpolate_backward", call, result, (tensors, result))

    def pytorchs(self, torch, tensors):
        axes = len(self.image)
        kernel = getattr(torch.ops.aten, f"upsample_{self.NAMES[self.mode, axes]}_backward")
        aligned = () if self.mode == "nearest" else (self.align_corners,)
        return lambda: kernel(tensors[0], self.out, (self.N, self.C, *self.image), *aligned, *axes * (None,))


@dataclasses.dataclass(frozen=True)
class RoiAlign:
    """Boxes of about `size` pixels of feature maps, seven bins wide, as Mask R-CNN trains with."""

    N: int
    C: int
    image: tuple
    K: int
    size: float
    bins: int = 7
    ratio: int = 2
    promised: bool = True
    types: tuple = ("float32", "float16", "float64")

    def __str__(self):
        return f"roi_align {self.N}x{self.C}x{'x'.join(map(str, self.image))}, {self.K} boxes of {self.size:g}, {self.bins} bins"

    def draw(self, torch, dtype, generator):
        def uniform(*shape):
            return torch.rand(*shape, generator=generator, device="cuda")

        sides = self.size * (0.5 + uniform(self.K, 2))
        first = uniform(self.K, 2) * (torch.tensor(self.image[::-1], device="cuda") - sides)
        images = torch.randint(self.N, (self.K, 1), generator=generator, device="cuda")
        boxes = torch.cat([images, first, first + sides], dim=1)
        grad_output = torch.randn(self.K, self.C, self.bins, self.bins, generator=generator, device="cuda")
        return boxes.to(dtype), grad_output.to(dtype)

    def ours(self, torch, library, tensors):
        result = torch.empty(self.N, self.C, *self.image, device="cuda", dtype=tensors[0].dtype)
        call = RoiAlignCall(1, self.ratio, False, *map(describe, tensors))
        return on_gpu(torch, library, "msda_cuda_roi_align_backward", call, result, (tensors, result))

    def pytorchs(self, torch, tensors):
        import torchvision  # noqa: F401  registers the operator

        boxes, grad_output = tensors
        sizes = (self.N, self.C, *self.image)
        return lambda: torch.ops.torchvision._roi_align_backward(grad_output, boxes, 1.0, self.bins, self.bins, *sizes, self.ratio, False)


ROWS = {
    "edges-1m": IndexAdd(1_000_000, 64, 100_000),
    "edges-1m-graph": IndexAdd(1_000_000, 64, 100_000, "graph"),
    "edges-1m-hot": IndexAdd(1_000_000, 64, 100_000, "hot"),
    "edges-4m-16": IndexAdd(4_000_000, 16, 200_000),
    "edges-100k": IndexAdd(100_000, 128, 10_000),
    "edges-100k-hot": IndexAdd(100_000, 128, 10_000, "hot"),
    "edges-5k": IndexAdd(5_000, 64, 1_000, promised=False),
    "tokens-64k": IndexAdd(65_536, 768, 50_257, embedding=True),
    "tokens-64k-hot": IndexAdd(65_536, 768, 50_257, "hot", embedding=True),
    "tokens-2k": IndexAdd(2_048, 768, 50_257, embedding=True),
    "tokens-2k-hot": IndexAdd(2_048, 768, 50_257, "hot", embedding=True),
    "fpn-2x": Interpolate(4, 256, (100, 152), (200, 304)),
    "fpn-2x-aligned": Interpolate(4, 256, (100, 152), (200, 304), align_corners=True),
    "masks-4x": Interpolate(8, 100, (128, 128), (512, 512)),
    "bicubic-2x": Interpolate(8, 3, (256, 256), (512, 512), "cubic"),
    "volume-2x": Interpolate(2, 32, (48, 48, 48), (96, 96, 96)),
    "half": Interpolate(8, 64, (256, 256), (128, 128)),
    "pooled": Interpolate(8, 256, (1, 1), (64, 64)),
    "nearest-2x": Interpolate(4, 256, (100, 152), (200, 304), "nearest", promised=False),
    "mask-rcnn-p2": RoiAlign(2, 256, (200, 304), 700, 16),
    "mask-rcnn-p3": RoiAlign(2, 256, (100, 152), 250, 20),
    "mask-rcnn-p5": RoiAlign(2, 256, (25, 38), 50, 16),
    "mask-rcnn-masks": RoiAlign(2, 256, (200, 304), 128, 20, bins=14),
    "c4": RoiAlign(2, 1024, (50, 76), 512, 16, bins=14, ratio=0),
}


def share_off(torch, result, truth, dtype):
    """The share of elements that are further from float64 than rounding may carry them."""
    tolerance = {"float64": 1e-8, "float32": 1e-3}.get(dtype, 3e-2)
    near = (result.double() - truth).abs() <= tolerance * (truth.abs() + truth.abs().mean())
    return 1 - near.double().mean().item()


def measured(torch, clock_module, library, row, dtype, runs):
    """By contender: {"cold": [ms], "warm": [ms]}; and the share of libmsda's result that is off."""
    clock = clock_module.DeviceClock()

    def draw(seed):
        return row.draw(torch, getattr(torch, dtype), torch.Generator("cuda").manual_seed(seed))

    first = draw(0)
    number = max(2, min(8, math.ceil(1.2 * clock.cache_bytes / sum(tensor.nbytes for tensor in first))))
    sets = [first] + [draw(seed) for seed in range(1, number)]
    calls = [{OURS: row.ours(torch, library, tensors), PYTORCH: row.pytorchs(torch, tensors)} for tensors in sets]
    truth = row.pytorchs(torch, [tensor.double() if tensor.is_floating_point() else tensor for tensor in first])()
    off = share_off(torch, calls[0][OURS](), truth, dtype)
    del truth
    found, tracks = {name: {cache: [] for cache in clock.caches} for name in calls[0]}, {}
    for name, call in calls[0].items():
        tracks[name] = clock_module.Track()
        for cache in 2 * clock.caches:
            clock.milliseconds(call, cache, tracks[name])
        tracks[name].widen()
    for turn in range(runs):
        names = list(found)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            for cache in clock.caches:
                found[name][cache].append(clock.milliseconds(calls[turn % len(calls)][name], cache, tracks[name]))
    clock.release()
    return found, off


def listed(known):
    def parse(argument):
        texts = argument.split(",")
        for text in texts:
            if text not in known:
                raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(known)}")
        return texts

    return parse


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=listed(ROWS), default=list(ROWS), help=f"default {','.join(ROWS)}")
    parser.add_argument("--types", type=listed(TYPES), default=["float32", "float16"], help="default float32,float16")
    parser.add_argument("--runs", type=int, default=31, help="timed runs each; default 31")
    build = os.environ.get("MSDA_BUILD", "build")
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path(build) / "lib" / "libmsda.so", help="default build/lib/libmsda.so")
    parser.add_argument("--assert", dest="judge", action="store_true", help="exit status 1 if a promise is missed")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures")
    return parser.parse_args()


def main():
    chosen = parse()
    try:
        import torch
    except ImportError:
        print("scatter_bench: PyTorch is not installed here: nothing to compare with")
        return SKIPPED
    if not torch.cuda.is_available():
        print("scatter_bench: no GPU that PyTorch can use")
        return SKIPPED
    from gpu import clock as clock_module

    torch.zeros(1, device="cuda")  # makes the context that libmsda joins
    library = ctypes.CDLL(str(chosen.library))
    library.msda_last_error.restype = ctypes.c_char_p
    if not hasattr(library, "msda_cuda_device_count") or library.msda_cuda_device_count() == 0:
        print(f"scatter_bench: {chosen.library} is built without CUDA")
        return SKIPPED
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {datetime.datetime.now(datetime.timezone.utc):%F}, "
          f"microseconds, medians of {chosen.runs} runs\n")
    print(f"| call | type | L2 | {OURS} | {PYTORCH} | {OURS} / {PYTORCH} |\n|---|---|---|---|---|---|")
    figures, failures = [], []
    for name in chosen.rows:
        row = ROWS[name]
        for dtype in [one for one in chosen.types if one in row.types]:
            found, off = measured(torch, clock_module, library, row, dtype, chosen.runs)
            figures.append({"row": name, "type": dtype, "off": off, "contenders": found})
            if off > ROUNDING:
                failures.append(f"{row}, {dtype}: {off:.2g} of the sum differ from float64's")
            for cache in ("cold", "warm"):
                ours, peer = (statistics.median(found[one][cache]) for one in (OURS, PYTORCH))
                print(f"| {row} | {dtype} | {cache} | {1e3 * ours:.1f} | {1e3 * peer:.1f} | {ours / peer:.2f} |", flush=True)
                if chosen.judge and row.promised and dtype == "float32" and cache == "cold" and ours > PROMISED * peer:
                    failures.append(f"{row}: libmsda takes longer than {PYTORCH}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures))
    for failure in failures:
        print(f"scatter_bench: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
