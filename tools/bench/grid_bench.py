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

import dataclasses
import sys

from gpu import comparison
from gpu.comparison import PYTORCH, TYPES
from harness import ended, listed
from libmsda import ATOMIC, DETERMINISTIC, FLOAT64, GridCall, Options, caller, describe

MODES = {"deterministic": DETERMINISTIC, "atomic": ATOMIC, "float64": FLOAT64}


@dataclasses.dataclass(frozen=True)
class Row:
    N: int
    C: int
    image: tuple
    out: tuple
    placing: str = "uniform"
    types: tuple = TYPES
    promised: bool = False
    of_levels: int = 1  # that share a tensor, of which grad_output is one's part, as in a detector's program

    def __str__(self):
        sizes = f"{self.N} {self.C} {'x'.join(map(str, self.image))} {'x'.join(map(str, self.out))} {self.placing}"
        return sizes if self.of_levels == 1 else f"{sizes}, one of {self.of_levels} levels"


# One call for a level and a decoder layer, of B images and 8 heads.
ROWS = {f"rtdetr-{B}-{side}": Row(8 * B, 32, (side, side), (300, 4), promised=True) for B in (1, 2, 8) for side in (80, 40, 20)}
ROWS |= {
    "rtdetr-2-crowded": Row(16, 32, (80, 80), (300, 4), "crowded"),
    "encoder-4-64": Row(32, 32, (64, 64), (5440, 4)),
    "encoder-1-100": Row(8, 32, (100, 167), (22223, 4), types=("float32",)),
    **{f"detr-{part}-2-{side}": Row(16, 32, (side, side), (queries, 4), of_levels=4)
       for part, queries in (("encoder", 1360), ("decoder", 300)) for side in (32, 16, 8, 4)},
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
    grad_output = drawn(torch.rand, row.N, row.C, *row.out[:-1], row.of_levels, row.out[-1])
    image, grid, grad_output = (tensor.to(getattr(torch, dtype)) for tensor in (drawn(torch.randn, row.N, row.C, *row.image), grid, grad_output))
    return [image, grid, grad_output[..., 0, :]]


def ours(torch, library, mode, tensors, result_type=None):
    """Returns a function from the inputs to both gradients, enqueued on PyTorch's stream."""
    image, grid, grad_output = tensors
    results = [torch.empty_like(tensor, dtype=result_type) for tensor in (image, grid)]
    structures = [GridCall(0, 0, 0, describe(image), describe(grid)), describe(grad_output), Options(MODES[mode], 0, 0, 0)]
    return caller(library, "msda_cuda_grid_sample_backward", structures, results, tensors, torch.cuda.current_stream().cuda_stream)


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


def measured(chosen, torch, library, clock, row, dtype):
    """Returns the times by contender, each with the largest share of a gradient that is off; and failures."""
    sets = comparison.input_sets(lambda seed: draw(torch, row, dtype, seed), clock.cache_bytes, 3)
    calls = [contenders(torch, library, chosen.modes, tensors) for tensors in sets]
    truths = ours(torch, library, "float64", sets[0], torch.float64)()
    off = {name: max(comparison.share_off(result, truth, dtype) for result, truth in zip(call(), truths)) for name, call in calls[0].items()}
    found = {name: {**times, "off": off[name]} for name, times in comparison.alternating(clock, calls, chosen.runs).items()}
    failures = [f"{row}, {dtype}, {name}: {share:.2g} of a gradient differ from float64's"
                for name, share in off.items() if name != PYTORCH and share > comparison.ROUNDING]
    if chosen.asserts:
        failures += [f"{row}, {dtype}, {cache}: deterministic takes longer than {PYTORCH}"
                     for cache in clock.caches if comparison.missed(row, dtype, cache, found, "deterministic")]
    return {"contenders": found}, failures


def main():
    parser = comparison.options_of(__doc__, ROWS)
    parser.add_argument("--modes", type=listed(MODES), default=["deterministic", "atomic"], help="default deterministic,atomic")
    chosen = parser.parse_args()
    return ended("grid_bench", lambda: comparison.compare(chosen, ROWS, "N C image samples", chosen.modes, measured))


if __name__ == "__main__":
    sys.exit(main())
