#!/usr/bin/env python3
"""Compares grid_sample's backward pass on a GPU with PyTorch's: same inputs, alternating in one run.

    python3 tools/bench/grid_bench.py [--assert] [--rows NAME,...] [--types float32,...] [--json FILE]

Each contender goes from input, grid and grad_output to both finished gradients, clearing included. PyTorch's is
aten::grid_sampler_2d_backward (3d), which adds atomically. Times by CUDA events, as gpu/clock.py takes them; ratios are
those of medians. Before it is timed, each contender's gradients are compared with float64's. Promise: the deterministic
mode takes at most as long as PyTorch, on RT-DETR's calls in float32, with cold and with warm caches.

Prints a table in Markdown. Exit status 1 if libmsda's gradients are wrong or, with --assert, a promise is missed; 77 if
there is no PyTorch, no GPU, or libmsda.so was built without CUDA.
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

from libmsda import ATOMIC, DETERMINISTIC, FLOAT64, GridCall, Options, tensor_at  # noqa: E402

SKIPPED, PROMISED, ROUNDING = 77, 1.0, 1e-2
MODES = {"deterministic": DETERMINISTIC, "atomic": ATOMIC, "float64": FLOAT64}
TYPES = ("float32", "float16", "bfloat16", "float64")
PYTORCH = "PyTorch"


@dataclasses.dataclass(frozen=True)
class Row:
    N: int
    C: int
    image: tuple
    out: tuple
    placing: str = "uniform"
    types: tuple = TYPES
    promised: bool = False

    def __str__(self):
        return f"{self.N} {self.C} {'x'.join(map(str, self.image))} {'x'.join(map(str, self.out))} {self.placing}"


# One call for a level and a decoder layer, of B images and 8 heads.
ROWS = {f"rtdetr-{B}-{side}": Row(8 * B, 32, (side, side), (300, 4), promised=True) for B in (1, 2, 8) for side in (80, 40, 20)}
ROWS |= {
    "rtdetr-2-crowded": Row(16, 32, (80, 80), (300, 4), "crowded"),
    "encoder-4-64": Row(32, 32, (64, 64), (5440, 4)),
    "encoder-1-100": Row(8, 32, (100, 167), (22223, 4), types=("float32",)),
    "warp-4-512": Row(4, 3, (512, 512), (512, 512), "warp"),
    "warp-4-512-uniform": Row(4, 3, (512, 512), (512, 512), types=("float32",)),
    "volume-2-48": Row(2, 16, (48, 48, 48), (48, 48, 48), "warp", types=("float32", "float16")),
}


def draw(torch, row, dtype, seed):
    """input, grid, grad_output. uniform: anywhere. crowded: on a hundredth of the image. warp: near its own place."""
    generator = torch.Generator("cuda").manual_seed(seed)
    real = torch.float64 if dtype == "float64" else torch.float32
    axes = len(row.image)

    def drawn(kind, *shape):
        return kind(*shape, generator=generator, device="cuda", dtype=real)

    if row.placing == "warp":
        lines = [torch.linspace(-1, 1, size, device="cuda", dtype=real) for size in row.out]
        own = torch.stack(torch.meshgrid(*lines, indexing="ij")[::-1], dim=-1)
        grid = own + 0.02 * drawn(torch.randn, row.N, *row.out, axes)
    else:
        grid = (2 * drawn(torch.rand, row.N, *row.out, axes) - 1) * (0.1 if row.placing == "crowded" else 1)
    tensors = drawn(torch.randn, row.N, row.C, *row.image), grid, drawn(torch.rand, row.N, row.C, *row.out)
    return [tensor.to(getattr(torch, dtype)) for tensor in tensors]


def describe(tensor):
    return tensor_at(tensor.data_ptr(), str(tensor.dtype).removeprefix("torch."), tensor.shape, tensor.stride())


def ours(torch, library, mode, tensors, result_type=None):
    """A function from the inputs to both gradients, enqueued on PyTorch's stream."""
    image, grid, grad_output = tensors
    call = GridCall(0, 0, 0, describe(image), describe(grid))
    results = [torch.empty_like(of, dtype=result_type) for of in (image, grid)]
    described = [describe(grad_output), Options(MODES[mode], 0, 0, 0), *map(describe, results)]
    arguments = [ctypes.byref(call), *map(ctypes.byref, described), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)]

    def run(keep=(tensors, call, described)):
        if library.msda_cuda_grid_sample_backward(*arguments) != 0:
            raise RuntimeError(library.msda_last_error().decode())
        return results

    return run


def pytorchs(torch, tensors):
    image, grid, grad_output = tensors
    kernel = getattr(torch.ops.aten, f"grid_sampler_{grid.shape[-1]}d_backward")
    return lambda: kernel(grad_output, image, grid, 0, 0, False, [True, True])


def contenders(torch, library, modes, tensors):
    """By name. Types that a peer lacks are left out."""
    found = {mode: ours(torch, library, mode, tensors) for mode in modes if mode != "float64" or tensors[0].dtype == torch.float32}
    if tensors[0].dtype != torch.bfloat16:
        found[PYTORCH] = pytorchs(torch, tensors)
    return found


def share_off(results, truths, dtype):
    """The largest share of a gradient's elements that are further from float64 than rounding may carry them."""
    tolerance = {"float64": 1e-8, "float32": 1e-3}.get(dtype, 3e-2)
    shares = []
    for result, truth in zip(results, truths):
        near = (result.double() - truth).abs() <= tolerance * (truth.abs() + truth.abs().mean())
        shares.append(1 - near.double().mean().item())
    return max(shares)


def measured(torch, clock_module, library, row, dtype, chosen):
    """By contender: {"cold": [ms], "warm": [ms], "off": share}."""
    clock = clock_module.DeviceClock()
    bytes_of_inputs = sum(tensor.nbytes for tensor in draw(torch, row, dtype, 0))
    sets = [draw(torch, row, dtype, seed) for seed in range(max(3, min(8, math.ceil(1.2 * clock.cache_bytes / bytes_of_inputs))))]
    calls = [contenders(torch, library, chosen.modes, tensors) for tensors in sets]
    truths = ours(torch, library, "float64", sets[0], torch.float64)()
    found, tracks = {}, {}
    for name, call in calls[0].items():
        off = share_off(call(), truths, dtype)
        found[name], tracks[name] = {"cold": [], "warm": [], "off": off}, clock_module.Track()
        for cache in 2 * clock.caches:
            clock.milliseconds(call, cache, tracks[name])
        tracks[name].widen()
    for turn in range(chosen.runs):
        names = list(found)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            for cache in clock.caches:
                found[name][cache].append(clock.milliseconds(calls[turn % len(calls)][name], cache, tracks[name]))
    clock.release()
    return found


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
    parser.add_argument("--types", type=listed(TYPES), default=list(TYPES), help=f"default {','.join(TYPES)}")
    parser.add_argument("--modes", type=listed(MODES), default=["deterministic", "atomic"], help="default deterministic,atomic")
    parser.add_argument("--runs", type=int, default=31, help="timed runs each; default 31")
    build = os.environ.get("MSDA_BUILD", "build")
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path(build) / "lib" / "libmsda.so", help="default build/lib/libmsda.so")
    parser.add_argument("--assert", dest="judge", action="store_true", help="exit status 1 if a promise is missed")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures")
    return parser.parse_args()


def line(row, dtype, cache, found, modes):
    def median(name):
        return statistics.median(found[name][cache]) if name in found else None

    peer = median(PYTORCH)
    cells = [str(row), dtype, cache]
    cells += ["" if median(name) is None else f"{1e3 * median(name):.1f}" for name in (*modes, PYTORCH)]
    cells += [f"{median(mode) / peer:.2f}" if peer and median(mode) else "" for mode in modes]
    return "| " + " | ".join(cells) + " |"


def missed(row, dtype, cache, found):
    """Whether a promise is."""
    if not row.promised or dtype != "float32" or "deterministic" not in found or PYTORCH not in found:
        return False
    return statistics.median(found["deterministic"][cache]) > PROMISED * statistics.median(found[PYTORCH][cache])


def main():
    chosen = parse()
    try:
        import torch
    except ImportError:
        print("grid_bench: PyTorch is not installed here: nothing to compare with")
        return SKIPPED
    if not torch.cuda.is_available():
        print("grid_bench: no GPU that PyTorch can use")
        return SKIPPED
    from gpu import clock as clock_module

    torch.zeros(1, device="cuda")  # makes the context that libmsda joins
    library = ctypes.CDLL(str(chosen.library))
    library.msda_last_error.restype = ctypes.c_char_p
    if not hasattr(library, "msda_cuda_device_count") or library.msda_cuda_device_count() == 0:
        print(f"grid_bench: {chosen.library} is built without CUDA")
        return SKIPPED
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {datetime.datetime.now(datetime.timezone.utc):%F}, "
          f"microseconds, medians of {chosen.runs} runs\n")
    print("| " + " | ".join(["N C image samples", "type", "L2", *chosen.modes, PYTORCH, *(f"{mode} / {PYTORCH}" for mode in chosen.modes)]) + " |")
    print("|" + "---|" * (4 + 2 * len(chosen.modes)))
    figures, failures = [], []
    for name in chosen.rows:
        row = ROWS[name]
        for dtype in [one for one in chosen.types if one in row.types]:
            found = measured(torch, clock_module, library, row, dtype, chosen)
            figures.append({"row": name, "type": dtype, "contenders": found})
            failures += [f"{row}, {dtype}, {one}: {times['off']:.2g} of a gradient differ from float64's"
                         for one, times in found.items() if one != PYTORCH and times["off"] > ROUNDING]
            for cache in ("cold", "warm"):
                print(line(row, dtype, cache, found, chosen.modes), flush=True)
                if chosen.judge and missed(row, dtype, cache, found):
                    failures.append(f"{row}, {dtype}, {cache}: deterministic takes longer than {PYTORCH}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures))
    for failure in failures:
        print(f"grid_bench: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
