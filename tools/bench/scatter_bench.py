#!/usr/bin/env python3
"""Compares libmsda's sums that scatter on a GPU with PyTorch's and torchvision's: same inputs, alternating in one run.

    python3 tools/bench/scatter_bench.py [--assert] [--rows NAME,...] [--types float32,...] [--json FILE]

Each contender goes from its inputs to the finished result, clearing included. PyTorch's index_add_, interpolate (but for
nearest pixels) and torchvision's roi_align, roi_pool, ps_roi_pool, ps_roi_align and deform_conv2d add atomically, as does
ctc_loss of long sequences; PyTorch's backward pass of embedding sorts if there are many indices. Times by CUDA events, as
gpu/clock.py takes them; ratios are those of medians. Before they are timed, both results are compared with PyTorch's in
float64: libmsda's may be off where PyTorch's is. Promise: libmsda takes at most as long as PyTorch, in float32 with a cold cache,
in the rows that have it.

Prints a table in Markdown. Exit status 1 if a result of libmsda is wrong or, with --assert, a promise is missed; 77 if there is
no PyTorch, no GPU, or libmsda.so was built without CUDA.
"""

import dataclasses
import sys

from gpu import comparison
from gpu.comparison import PYTORCH, TYPES
from harness import ended
from libmsda import ROI_POOLINGS, CtcLossCall, InterpolateCall, RoiAlignCall, RoiPoolCall, ScatterCall, caller, describe

OURS = "libmsda"


def on_gpu(torch, library, function, call, result, tensors):
    return caller(library, function, [call, None], [result], tensors, torch.cuda.current_stream().cuda_stream)


@dataclasses.dataclass(frozen=True)
class IndexAdd:
    """`n` rows of `D` numbers added to `rows` rows. `placing`: anywhere, all in one row, or as in graphs, where few have many.
    `function`: PyTorch's; scatter_add gets its index expanded, as graph libraries call it."""

    n: int
    D: int
    rows: int
    placing: str = "uniform"
    function: str = "index_add"
    promised: bool = True
    types: tuple = TYPES

    def __str__(self):
        return f"{self.function} {self.n}x{self.D} to {self.rows}, {self.placing}"

    def draw(self, torch, dtype, generator):
        uniform = torch.rand(self.n, generator=generator, device="cuda", dtype=torch.float64)
        power = {"uniform": 1, "graph": 3}.get(self.placing)
        index = torch.full((self.n,), self.rows // 2, device="cuda") if power is None else (self.rows * uniform**power).long()
        return index, torch.randn(self.n, self.D, generator=generator, device="cuda").to(dtype)

    def ours(self, torch, library, tensors):
        index, source = tensors
        is_new = self.function == "embedding"
        result = (torch.empty if is_new else torch.zeros)(self.rows, self.D, device="cuda", dtype=source.dtype)
        call = ScatterCall(0, 0, not is_new, -1, describe(index), describe(source))
        return on_gpu(torch, library, "msda_cuda_scatter_add", call, result, tensors)

    def pytorchs(self, torch, tensors):
        index, source = tensors
        if self.function == "embedding":
            return lambda: torch.ops.aten.embedding_dense_backward(source, index, self.rows, -1, False)
        result = torch.zeros(self.rows, self.D, device="cuda", dtype=source.dtype)
        if self.function == "scatter_add":
            expanded = index[:, None].expand(-1, self.D)
            return lambda: result.scatter_add_(0, expanded, source)
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
        return on_gpu(torch, library, "msda_cuda_interpolate_backward", call, result, tensors)

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
        return on_gpu(torch, library, "msda_cuda_roi_align_backward", call, result, tensors)

    def pytorchs(self, torch, tensors):
        import torchvision  # noqa: F401  registers the operator

        boxes, grad_output = tensors
        sizes = (self.N, self.C, *self.image)
        return lambda: torch.ops.torchvision._roi_align_backward(grad_output, boxes, 1.0, self.bins, self.bins, *sizes, self.ratio, False)


@dataclasses.dataclass(frozen=True)
class RoiPool(RoiAlign):
    """The same with bins that have a maximum, or, of `pooling` ps_..., channels of their own."""

    promised: bool = False
    pooling: str = "roi_pool"
    types: tuple = ("float32", "float64")

    def __str__(self):
        return super().__str__().replace("roi_align", self.pooling, 1)

    def options(self):
        return (1.0, self.bins, self.bins, *([self.ratio] if self.pooling == "ps_roi_align" else []))

    def draw(self, torch, dtype, generator):
        import torchvision  # noqa: F401  registers the operators

        boxes, _ = super().draw(torch, dtype, generator)
        image = torch.randn(self.N, self.C, *self.image, generator=generator, device="cuda", dtype=dtype)
        pooled, indices = getattr(torch.ops.torchvision, self.pooling)(image, boxes, *self.options())
        return boxes, torch.randn(pooled.shape, generator=generator, device="cuda", dtype=dtype), indices

    def ours(self, torch, library, tensors):
        result = torch.empty(self.N, self.C, *self.image, device="cuda", dtype=tensors[0].dtype)
        call = RoiPoolCall(ROI_POOLINGS[self.pooling], self.ratio, 1, *map(describe, tensors))
        return on_gpu(torch, library, "msda_cuda_roi_pool_backward", call, result, tensors)

    def pytorchs(self, torch, tensors):
        boxes, grad_output, indices = tensors
        backward = getattr(torch.ops.torchvision, f"_{self.pooling}_backward")
        return lambda: backward(grad_output, boxes, indices, *self.options(), self.N, self.C, *self.image)


@dataclasses.dataclass(frozen=True)
class CtcLoss:
    """`B` sequences of `T` steps, `C` labels, and targets of `labels`."""

    T: int
    B: int
    C: int
    labels: int
    promised: bool = True
    types: tuple = ("float32", "float64")

    def __str__(self):
        return f"ctc_loss {self.T}x{self.B}x{self.C}, {self.labels} labels"

    def lengths(self):
        return [self.T] * self.B, [self.labels] * self.B

    def draw(self, torch, dtype, generator):
        log_probs = torch.randn(self.T, self.B, self.C, generator=generator, device="cuda", dtype=dtype).log_softmax(2)
        targets = torch.randint(1, self.C, (self.B, self.labels), generator=generator, device="cuda")
        loss, alpha = torch.ops.aten._ctc_loss(log_probs, targets, *self.lengths())
        return torch.randn(self.B, generator=generator, device="cuda", dtype=dtype), log_probs, targets, loss, alpha

    def ours(self, torch, library, tensors):
        grad, log_probs, targets, loss, alpha = tensors
        lengths = torch.tensor(self.lengths())
        call = CtcLossCall(0, 0, *map(describe, (log_probs, targets, lengths, loss, alpha)))
        stream = torch.cuda.current_stream().cuda_stream
        function = "msda_cuda_ctc_loss_backward"
        return caller(library, function, [call, describe(grad), None], [torch.empty_like(log_probs)], (tensors, lengths), stream)

    def pytorchs(self, torch, tensors):
        grad, log_probs, targets, loss, alpha = tensors
        return lambda: torch.ops.aten._ctc_loss_backward(grad, log_probs, targets, *self.lengths(), loss, alpha, 0)


@dataclasses.dataclass(frozen=True)
class DeformConv2d:
    """A modulated convolution of 3x3 pixels, `C` channels to `C`, with its matrix products."""

    N: int
    C: int
    image: tuple
    offset_groups: int = 1
    promised: bool = True
    types: tuple = ("float32", "float64")

    def __str__(self):
        return f"deform_conv2d {self.N}x{self.C}x{'x'.join(map(str, self.image))}, {self.offset_groups} groups"

    def draw(self, torch, dtype, generator):
        def normal(*shape):
            return torch.randn(*shape, generator=generator, device="cuda", dtype=dtype)

        taps = 9 * self.offset_groups
        mask = torch.rand(self.N, taps, *self.image, generator=generator, device="cuda", dtype=dtype)
        image = (self.N, self.C, *self.image)
        return normal(*image), normal(*image), normal(self.C, self.C, 3, 3), normal(self.N, 2 * taps, *self.image), mask, normal(self.C)

    def options(self):
        return (1, 1, 1, 1, 1, 1, 1, self.offset_groups, True)

    def ours(self, torch, library, tensors):
        from msda_replay.torch.operators import deform_conv2d

        return lambda: deform_conv2d._deform_conv2d_backward(*tensors, *self.options())

    def pytorchs(self, torch, tensors):
        import torchvision  # noqa: F401  registers the operator

        return lambda: torch.ops.torchvision._deform_conv2d_backward(*tensors, *self.options())[0]


# T, B, C, labels: DeepSpeech's letters, word pieces, Chinese characters, lines of text, nanopores' bases, small nets.
SPOKEN = [(500, 32, 29, 100), (1500, 16, 29, 200), (800, 32, 1000, 60), (400, 64, 5000, 30), (200, 128, 7000, 20), (100, 256, 80, 25),
          (1000, 64, 5, 400), (50, 64, 37, 10), (2000, 8, 128, 150), (300, 16, 32, 40)]  # fmt: skip

# N, C, image, offset groups: ResNet's last three stages, RepPoints, CenterNet, BasicVSR++, EDVR.
DEFORMED = [(2, 128, (100, 152)), (2, 256, (50, 76)), (2, 512, (25, 38)), (2, 256, (100, 152)), (16, 256, (16, 16)), (16, 128, (32, 32)),
            (16, 64, (64, 64)), (1, 64, (64, 64), 16), (4, 64, (64, 64), 8), (8, 512, (14, 14))]  # fmt: skip

# roi_pool: N, C, image, boxes, size, bins. Fast R-CNN's VGG and AlexNet, ResNet's fourth stage, feature pyramids.
POOLED = [(2, 512, (38, 50), 128, 10, 7), (2, 512, (38, 63), 256, 12, 7), (1, 512, (38, 63), 300, 12, 7), (1, 512, (38, 50), 2000, 10, 7),
          (2, 256, (37, 62), 128, 10, 6), (1, 1024, (50, 76), 512, 16, 14), (2, 1024, (50, 76), 512, 16, 7), (2, 256, (200, 304), 700, 16, 7),
          (2, 256, (100, 152), 250, 20, 7), (2, 256, (25, 38), 50, 16, 7)]  # fmt: skip
# ps_roi_pool and ps_roi_align: R-FCN's scores of 21 and 81 classes, its boxes, light heads, instance masks.
SENSITIVE = [(1, 1029, (38, 63), 300, 12, 7), (2, 1029, (38, 63), 128, 12, 7), (1, 3969, (50, 76), 300, 16, 7), (1, 392, (38, 63), 300, 12, 7),
             (2, 490, (50, 76), 512, 16, 7), (1, 490, (50, 84), 1000, 16, 7), (8, 490, (38, 38), 800, 10, 7), (1, 189, (38, 63), 300, 12, 3),
             (2, 392, (100, 152), 256, 24, 7), (1, 882, (50, 76), 128, 20, 21)]  # fmt: skip

ROWS = {
    "edges-1m": IndexAdd(1_000_000, 64, 100_000),
    "edges-1m-graph": IndexAdd(1_000_000, 64, 100_000, "graph"),
    "edges-1m-hot": IndexAdd(1_000_000, 64, 100_000, "hot"),
    "edges-4m-16": IndexAdd(4_000_000, 16, 200_000),
    "edges-100k": IndexAdd(100_000, 128, 10_000),
    "edges-100k-hot": IndexAdd(100_000, 128, 10_000, "hot"),
    "edges-220k": IndexAdd(220_000, 64, 20_000),
    "edges-220k-expanded": IndexAdd(220_000, 64, 20_000, "uniform", "scatter_add", promised=False),
    "edges-220k-graph": IndexAdd(220_000, 64, 20_000, "graph", "scatter_add", promised=False),
    "edges-220k-hot": IndexAdd(220_000, 64, 20_000, "hot"),
    "edges-5k": IndexAdd(5_000, 64, 1_000, promised=False),
    "edges-5k-expanded": IndexAdd(5_000, 64, 1_000, "uniform", "scatter_add", promised=False),
    "queries-300": IndexAdd(300, 256, 1_000, promised=False),
    "tokens-64k": IndexAdd(65_536, 768, 50_257, function="embedding"),
    "tokens-64k-hot": IndexAdd(65_536, 768, 50_257, "hot", "embedding"),
    "tokens-2k": IndexAdd(2_048, 768, 50_257, function="embedding"),
    "tokens-2k-hot": IndexAdd(2_048, 768, 50_257, "hot", "embedding"),
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
    **{f"{pooling}-{number}": RoiPool(*sizes, pooling=pooling)
       for pooling in ROI_POOLINGS for number, sizes in enumerate(POOLED if pooling == "roi_pool" else SENSITIVE, 1)},
    **{f"ctc-{number}": CtcLoss(*sizes) for number, sizes in enumerate(SPOKEN, 1)},
    **{f"deform-{number}": DeformConv2d(*sizes, promised=len(sizes) == 3) for number, sizes in enumerate(DEFORMED, 1)},
}  # fmt: skip


def measured(chosen, torch, library, clock, row, dtype):
    """Returns the times by contender, the share of libmsda's result that is off, and failures."""
    sets = comparison.input_sets(lambda seed: row.draw(torch, getattr(torch, dtype), torch.Generator("cuda").manual_seed(seed)),
                              clock.cache_bytes, 2)
    calls = [{OURS: row.ours(torch, library, tensors), PYTORCH: row.pytorchs(torch, tensors)} for tensors in sets]
    truth = row.pytorchs(torch, [tensor.double() if tensor.is_floating_point() else tensor for tensor in sets[0]])()
    off, usual = (comparison.share_off(result, truth, dtype) for result in (calls[0][OURS]()[0], calls[0][PYTORCH]()))
    del truth
    found = comparison.alternating(clock, calls, chosen.runs)
    failures = [f"{row}, {dtype}: {off:.2g} of the sum differ from float64's"] if off > usual + comparison.ROUNDING else []
    if chosen.asserts and comparison.missed(row, dtype, "cold", found, OURS):
        failures.append(f"{row}: libmsda takes longer than {PYTORCH}")
    return {"off": off, "contenders": found}, failures


def main():
    chosen = comparison.options_of(__doc__, ROWS, ("float32", "float16")).parse_args()
    return ended("scatter_bench", lambda: comparison.compare(chosen, ROWS, "call", [OURS], measured))


if __name__ == "__main__":
    sys.exit(main())
