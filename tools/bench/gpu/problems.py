"""The problems: the rows of docs/measured/benchmarks.md, the distribution of samples, and random inputs."""

import dataclasses
import math

SQUARES = ((64, 64), (32, 32), (16, 16), (8, 8))
IMAGE = ((100, 167), (50, 84), (25, 42), (13, 21))
DETECTOR = ((80, 80), (40, 40), (20, 20))  # of an image of 640x640, as RT-DETR and its like have it
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
TYPES = ("float32", "float64", "float16", "bfloat16")
CONTENTIONS = ("uniform", "clustered", "single")

# "single": no level of the rows has a cell boundary near this point, in any storage type. Otherwise rounding alone would move
# every sample into another cell, and no two contenders could be compared.
POINT = 0.503
CLUSTERS, SPREAD = 4, 0.04


@dataclasses.dataclass(frozen=True)
class Problem:
    B: int
    Q: int
    M: int
    P: int
    D: int
    levels: tuple = SQUARES

    @property
    def name(self):
        return f"{self.B} {self.Q} {self.M} {len(self.levels)} {self.P} {self.D}"

    @property
    def pixels(self):
        return sum(height * width for height, width in self.levels)

    def input_bytes(self, dtype):
        samples = self.B * self.Q * self.M * len(self.levels) * self.P
        return BYTES[dtype] * (self.B * self.M * self.D * (self.pixels + self.Q) + 3 * samples)


ROWS = {
    1: Problem(4, 1000, 8, 3, 32),
    2: Problem(4, 1000, 8, 4, 32),
    3: Problem(4, 10000, 8, 4, 32),
    4: Problem(2, 22223, 8, 4, 32, IMAGE),
}
# Calls as detectors' decoders make them: so short that launches, and what waits between them, are most of the time.
SHORT_ROWS = {
    5: Problem(1, 300, 8, 4, 32, DETECTOR),
    6: Problem(8, 300, 8, 4, 32, DETECTOR),
    7: Problem(1, 900, 8, 4, 32),
    8: Problem(1, 8400, 8, 4, 32, DETECTOR),
    9: Problem(1, 100, 8, 4, 32),
}
ROWS |= SHORT_ROWS
# One size of a call at a time over what users have. With a batch of one, even PyTorch's path fits into the memory at 1,000,000 queries.
BASE = Problem(1, 10000, 8, 4, 32)
SWEPT = {f"Q{Q}": dataclasses.replace(BASE, Q=Q) for Q in (100, 300, 1000, 3000, 10000, 30000, 100000, 300000, 1000000)}
SWEPT |= {f"D{D}": dataclasses.replace(BASE, D=D) for D in (16, 64, 128, 256)}
SWEPT |= {f"L{len(levels)}": dataclasses.replace(BASE, levels=levels) for levels in (SQUARES[:1], SQUARES[:2], (*SQUARES, (4, 4)))}
SWEPT |= {f"P{P}": dataclasses.replace(BASE, P=P) for P in (1, 8)}
EVERY_ROW = {**ROWS, **SWEPT}


def input_sets(problem, dtype, cache_bytes):
    """Returns how many sets are used in turn: at least 3, together more than the cache holds, at most 16."""
    return max(3, min(16, math.ceil(1.2 * cache_bytes / problem.input_bytes(dtype))))


def place(contention, sample, query):
    """Locations from numbers in [0, 1): `sample` [B,Q,M,L,P,2], `query` [B,Q,1,1,1,2]. Arrays of NumPy or PyTorch.

    uniform: anywhere. clustered: each query's samples within 0.04 of the image's width and height around one of 16
    centres, which stand on a grid. single: all on one point, so that four pixels a level get every addend.
    """
    if contention == "uniform":
        return sample
    if contention == "clustered":
        return (query * CLUSTERS // 1 + 0.5) / CLUSTERS + (sample - 0.5) * SPREAD
    if contention == "single":
        return sample * 0 + POINT
    raise ValueError(f"no contention {contention}: {', '.join(CONTENTIONS)}")


def draw(problem, dtype, contention, seed, device):
    """Returns the inputs by name, drawn as msda-triton's own test draws them; spatial_shapes in host memory."""
    import torch  # here, so that code without tensors runs without PyTorch

    generator = torch.Generator(device).manual_seed(seed)
    wide = torch.float64 if dtype == "float64" else torch.float32
    B, Q, M, P, D, L = problem.B, problem.Q, problem.M, problem.P, problem.D, len(problem.levels)

    def numbers(kind, *shape):
        return kind(*shape, generator=generator, device=device, dtype=wide)

    inputs = {
        "value": numbers(torch.randn, B, problem.pixels, M, D),
        "sampling_locations": place(contention, numbers(torch.rand, B, Q, M, L, P, 2), numbers(torch.rand, B, Q, 1, 1, 1, 2)),
        "attention_weights": numbers(torch.randn, B, Q, M, L, P).softmax(-1),
        "grad_output": numbers(torch.rand, B, Q, M, D),
    }
    inputs = {name: tensor.to(getattr(torch, dtype)) for name, tensor in inputs.items()}
    return {**inputs, "spatial_shapes": torch.tensor(problem.levels, dtype=torch.int64)}
