"""Random calls of deformable attention, in every dialect, type, layout and size, with points outside, NaN, ties and empty tensors."""

import numpy as np

from msda_replay.libmsda import Call

from .compare import differences, without_some
from .laid import Drawn, Laid

STAGES = 9
GRADIENTS = {"grad_value": 8, "grad_sampling_locations": 6, "grad_attention_weights": 5}  # by stage
CHANNELS = (1, 2, 30, 32, 64, 71, 256, 1025)
CONVENTIONS = [(0, 0, 0)] + [(dialect, padding, align) for dialect in (1, 2) for padding in (0, 1) for align in (0, 1)]
SQUARES = ((64, 64), (32, 32), (16, 16), (8, 8))
IMAGE = ((100, 167), (50, 84), (25, 42), (13, 21))
# The rows of docs/measured/benchmarks.md, and others whose sums do not fit into a second-level cache either.
LARGE = [dict(zip(("B", "Q", "M", "P", "D", "levels"), sizes)) for sizes in (
    (4, 1000, 8, 3, 32, SQUARES), (4, 1000, 8, 4, 32, SQUARES), (4, 10000, 8, 4, 32, SQUARES), (2, 22223, 8, 4, 32, IMAGE),
    (1, 1500, 3, 4, 256, SQUARES), (3, 2000, 5, 2, 71, SQUARES))]


class Problem(Drawn):
    """`size`: the sizes, where they are not random."""

    functions, may_mix_types = ("forward", "backward"), True

    def __init__(self, number, work, seed=2026, finite=False, size=None):
        rng = self.rng = np.random.default_rng([seed, number])
        self.D = int(CHANNELS[number % len(CHANNELS)])
        self.conventions = CONVENTIONS[int(rng.integers(len(CONVENTIONS)))]
        levels = int(rng.choice([1, 2, 3, 4, 17], p=[0.3, 0.25, 0.2, 0.2, 0.05]))
        side = int(rng.choice([1, 3, 9, 20]))
        self.levels = rng.integers(1, side + 1, (levels, 2))
        self.B, self.M, self.P = (int(rng.integers(1, most)) for most in (4, 4, 6))
        self.Q = int(rng.choice([1, 7, 50, 300, 2000]))
        if number % 29 == 3:  # more cells than are counted at a time, or fit into a block's memory; few samples and many
            self.D, levels, self.levels = 2, 1, rng.integers(100, 330, (1, 2))
            self.Q, self.P = int(rng.choice([50, 1500])), 3
        self.Q = max(1, min(self.Q, work // (self.B * self.M * self.P * levels * self.D)))
        self.kind = str(rng.choice(["anywhere", "anywhere", "one place", "crowded", "ties"]))
        if number % 13 == 5:  # one size is 0
            empty = ("B", "Q", "M", "P", "D", "levels")[number // 13 % 6]
            setattr(self, empty, np.zeros((0, 2), np.int64) if empty == "levels" else 0)
        if size:
            vars(self).update(size, levels=np.array(size["levels"]))
        self.begin(finite)
        S, L = int(self.levels.prod(1).sum()), len(self.levels)
        samples = (self.B, self.Q, self.M, L, self.P)
        self.inputs = {
            "value": self.laid((self.B, S, self.M, self.D), rng.standard_normal),
            "sampling_locations": self.laid((*samples, 2), self.locations),
            "attention_weights": self.laid(samples, rng.random),
            "grad_output": self.laid((self.B, self.Q, self.M, self.D), rng.standard_normal),
        }
        self.shapes = Laid(str(rng.choice(["int32", "int64"])), (L, 2), contents=lambda n: self.levels.reshape(-1))
        starts = np.concatenate([[0], self.levels.prod(1).cumsum()])[:L]
        self.starts = Laid("int64", (L,) if rng.random() < 0.5 else (), contents=lambda n: starts[:n] if n == L else np.zeros(n))
        self.output_shape = (self.B, self.Q, self.M, self.D)
        self.stage_shapes = [samples + more for more in ((2,), (2,), (4,), (4, self.D), (self.D,), (), (2,), (4, self.D))]
        self.stage_shapes.append((self.B, S, self.M, self.D))

    def shapes_of(self, function):
        if function == "forward":
            return {"output": self.output_shape}
        if function == "stages":
            return {f"stage {number}": shape for number, shape in enumerate(self.stage_shapes)}
        return {name: self.stage_shapes[stage] for name, stage in GRADIENTS.items()}

    def call(self, place, function):
        call = Call(*self.conventions)
        call.spatial_shapes = self.shapes.at(self.shapes.memory.ctypes.data)
        call.level_start_index = self.starts.at(self.starts.memory.ctypes.data)
        for name in ("value", "sampling_locations", "attention_weights"):
            setattr(call, name, place(self.inputs[name]))
        return [call] if function == "forward" else [call, place(self.inputs["grad_output"])]

    def most_addends(self):
        return 4 * self.Q * self.P

    def is_crowded(self):
        return self.kind == "crowded" and self.D == 32 and self.Q > 100

    def locations(self, n):
        if self.kind == "one place":
            return np.full(n, self.rng.random())
        if self.kind == "crowded":
            return self.rng.normal(0.5, 0.02, n)
        if self.kind == "ties":  # centres, edges and corners of pixels
            sides = self.levels.reshape(-1) if self.levels.size else np.ones(1, np.int64)
            size = self.rng.choice(sides, n)
            return self.rng.integers(-2, 2 * size + 3) / (2 * size)
        return self.rng.uniform(-0.3, 1.3, n)

    def __str__(self):
        levels = self.levels[:4].tolist()
        return f"conventions {self.conventions}, levels {levels} of {len(self.levels)}, P {self.P}, {self.kind}, {super().__str__()}"


def stages(cpu, gpu, problems, work):
    """Compares all stages or some, in every mode that has them; and the backward pass in the mode mixed."""
    found = []
    for number in range(problems):
        problem = Problem(number, work, seed=7)
        rng = problem.rng
        mode = str(rng.choice(["mixed", "mixed", "mixed", "deterministic", "float64"]))
        in_float64 = int(rng.integers(0, 1 << STAGES)) if rng.random() < 0.8 else int(rng.choice([0, 511]))
        results = [problem.result(shape, "float64" if rng.random() < 0.6 else None) for shape in problem.stage_shapes]
        if rng.random() < 0.3:
            results = [None if rng.random() < 0.5 else result for result in results]
        found += differences(cpu, gpu, problem, "stages", results, mode, in_float64)
        gradients = without_some(problem, problem.results_of("backward"), 0.3)
        found += differences(cpu, gpu, problem, "backward", gradients, "mixed", in_float64)
    return found


def large(cpu, gpu, sizes):
    """Compares calls that are forked: each half of the heads on a stream of its own."""
    found = []
    for number, size in enumerate(sizes):
        problem = Problem(number, 0, seed=17, size=size)
        gradients = problem.results_of("backward")
        for mode in ("deterministic", "float64"):
            found += differences(cpu, gpu, problem, "backward", gradients, mode)
    return found
