"""The operator on a GPU against the CPU's, bit for bit, by the C ABI of libmsda: random problems in every mode and all
stages, atomic additions within their bound, repeated runs, large calls, several GPUs. Needs NumPy and the CUDA driver.
Prints a line for each part and for each problem that differs; exit status 1 if one does, 0 otherwise. Without a GPU it says
so and ends with 0."""

import ctypes
import sys

import numpy as np

from bits_program import SOURCE, Gpu, Host, digest, parser_of, run_parts

sys.path.insert(0, str(SOURCE / "tools" / "bench"))
from gpu.problems import ROWS, Problem as Sizes  # noqa: E402
from libmsda import Call, Options, Tensor  # noqa: E402

TYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "int32": 4, "int64": 5}
STORED = {"bfloat16": np.dtype("u2")}  # NumPy has no such type
MODES = {"deterministic": 0, "atomic": 1, "float64": 2, "mixed": 3}
STAGES = 9
GRADIENTS = {"grad_value": 8, "grad_sampling_locations": 6, "grad_attention_weights": 5}  # by stage
CHANNELS = (1, 2, 30, 32, 64, 71, 256, 1025)
CONVENTIONS = [(0, 0, 0)] + [(dialect, padding, align) for dialect in (1, 2) for padding in (0, 1) for align in (0, 1)]
GUARD = 64  # bytes after every tensor
PARTS = ("modes", "atomic", "stages", "repeat", "large", "devices")
# The rows of docs/measured/benchmarks.md, and others whose sums do not fit into a second-level cache either.
LARGE = [vars(sizes) for sizes in (*ROWS.values(), Sizes(1, 1500, 3, 4, 256), Sizes(3, 2000, 5, 2, 71))]


class Laid:
    """A tensor somewhere in a piece of memory, with strides in elements."""

    def __init__(self, dtype, shape, rng=None, contents=None, contiguous=False):
        self.dtype, self.shape, self.rank = dtype, tuple(shape), len(shape)
        self.stored = STORED.get(dtype) or np.dtype(dtype)
        strides, step, self.offset = [0] * self.rank, 1, 0
        plain = contiguous or rng is None or rng.random() < 0.6
        order = range(self.rank) if plain else rng.permutation(self.rank)
        if not plain:
            step = int(rng.choice([1, 1, 2]))
        for axis in reversed(list(order)):
            strides[axis] = step
            step = step * max(shape[axis], 1) + (0 if plain else int(rng.choice([0, 0, 1, 3])))
        if not plain and self.rank:
            self.offset = int(rng.integers(0, 4))
            axis = int(rng.integers(self.rank))
            if rng.random() < 0.3 and shape[axis]:  # negative stride
                self.offset += (shape[axis] - 1) * strides[axis]
                strides[axis] = -strides[axis]
            elif rng.random() < 0.3 and contents is not None:  # stride 0, which a result cannot have
                strides[axis] = 0
        elif rng is not None:
            self.offset = int(rng.choice([0, 0, 1, 2]))
        self.strides = strides
        elements = 0
        if all(shape):
            elements = self.offset + 1 + sum((n - 1) * stride for n, stride in zip(shape, strides) if stride > 0)
        self.memory = np.full(elements * self.stored.itemsize + GUARD, 0xFF, np.uint8)
        if contents is not None:
            self.memory[:elements * self.stored.itemsize].view(self.stored)[:] = as_stored(contents(elements), dtype)

    def at(self, pointer):
        tensor = Tensor(pointer + self.offset * self.stored.itemsize if all(self.shape) else None, TYPES[self.dtype], self.rank)
        tensor.shape[:self.rank] = self.shape
        tensor.stride[:self.rank] = self.strides
        return tensor

    def __str__(self):
        return f"{self.dtype}{list(self.shape)}/{self.strides}"


def as_stored(numbers, dtype):
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return numbers.astype(dtype)


class Problem:
    """A random call. `work`: about how many numbers of channels of samples it may have; `finite`: without NaN and the like;
    `size`: its sizes, where they are not random."""

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
        self.dtype = str(rng.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
        self.mixes_types = rng.random() < 0.2
        self.is_strange = rng.random() < 0.3 and not finite
        self.in_stream = int(rng.integers(2))
        S, L = int(self.levels.prod(1).sum()), len(self.levels)
        samples = (self.B, self.Q, self.M, L, self.P)
        self.inputs = {
            "value": self.input((self.B, S, self.M, self.D), rng.standard_normal),
            "sampling_locations": self.input((*samples, 2), self.locations),
            "attention_weights": self.input(samples, rng.random),
            "grad_output": self.input((self.B, self.Q, self.M, self.D), rng.standard_normal),
        }
        self.shapes = Laid(str(rng.choice(["int32", "int64"])), (L, 2), contents=lambda n: self.levels.reshape(-1))
        starts = np.concatenate([[0], self.levels.prod(1).cumsum()])[:L]
        self.starts = Laid("int64", (L,) if rng.random() < 0.5 else (), contents=lambda n: starts[:n] if n == L else np.zeros(n))
        self.output_shape = (self.B, self.Q, self.M, self.D)
        self.stage_shapes = [samples + more for more in ((2,), (2,), (4,), (4, self.D), (self.D,), (), (2,), (4, self.D))]
        self.stage_shapes.append((self.B, S, self.M, self.D))

    def a_type(self):
        return str(self.rng.choice(["float16", "bfloat16", "float32", "float64"]))

    def input(self, shape, contents):
        def numbers(n):
            x = np.asarray(contents(n), np.float64)
            if self.is_strange and n:
                which = self.rng.integers(0, n, max(1, n // 60))
                x[which] = self.rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 0.5, 1e30, -1e30, 1e-40], len(which))
            return x
        return Laid(self.a_type() if self.mixes_types else self.dtype, shape, self.rng, numbers)

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

    def result(self, shape, dtype=None):
        return Laid(dtype or (self.a_type() if self.rng.random() < 0.5 else "float32"), shape, self.rng)

    def __str__(self):
        inputs = ", ".join(map(str, self.inputs.values()))
        levels = self.levels[:4].tolist()
        return f"conventions {self.conventions}, levels {levels} of {len(self.levels)}, P {self.P}, {self.kind}, {inputs}"


class Placed:
    """A call whose tensors lie in the memory of a library's device."""

    def __init__(self, side, problem, function, results, options):
        """Results that are None are not wanted."""
        self.side, self.device, self.function, self.placed = side, side.device, function, []
        self.stream = problem.in_stream
        call = Call(*problem.conventions)
        call.spatial_shapes = problem.shapes.at(problem.shapes.memory.ctypes.data)
        call.level_start_index = problem.starts.at(problem.starts.memory.ctypes.data)
        for name in ("value", "sampling_locations", "attention_weights"):
            setattr(call, name, self.place(problem.inputs[name], problem.inputs[name].memory))
        self.arguments = [ctypes.byref(call)]
        if function != "forward":
            grad_output = problem.inputs["grad_output"]
            self.arguments.append(ctypes.byref(self.place(grad_output, grad_output.memory)))
        self.arguments.append(ctypes.byref(Options(*options)))
        self.memories = [None if laid is None else laid.memory.copy() for laid in results]
        before = len(self.placed)
        pointers = [None if laid is None else ctypes.pointer(self.place(laid, memory)) for laid, memory in zip(results, self.memories)]
        self.of_results = self.placed[before:]
        self.arguments += [(ctypes.POINTER(Tensor) * STAGES)(*pointers)] if function == "stages" else pointers
        self.device.wait()  # copies of the default stream may still be under way

    def place(self, laid, memory):
        self.placed.append(self.device.to_device(memory))
        return laid.at(self.placed[-1])

    def enqueue(self, stream=None):
        """On the stream of this number; without one, on the problem's."""
        on = [self.device.stream(self.stream if stream is None else stream)] if self.device.needs_stream else []
        library = self.side.library
        if status := getattr(library, f"{self.device.prefix}{self.function}")(*self.arguments, *on):
            raise RuntimeError(f"{self.device.name}: status {status}: {library.msda_last_error().decode()}")

    def fetch(self):
        """Waits, and returns the results' memory."""
        self.device.wait()
        for pointer, memory in zip(self.of_results, [memory for memory in self.memories if memory is not None]):
            self.device.to_host(pointer, memory)
        return self.memories

    def free(self):
        for pointer in self.placed:
            self.device.free(pointer)


class Side:
    """A library's functions on one device."""

    def __init__(self, library, device):
        self.library, self.device = library, device

    def run(self, problem, function, results, options, keep=None):
        """Fills the memory of `results`, any of them null, and returns it; `keep(memory)` for each of options' runs."""
        placed = Placed(self, problem, function, results, options)

        def once():
            placed.enqueue()
            return placed.fetch()

        try:
            return once() if keep is None else keep(once)
        finally:
            placed.free()


class Comparison:
    def __init__(self, cpu, gpu):
        self.cpu, self.gpu, self.differing = cpu, gpu, 0

    def same(self, what, problem, function, results, options):
        names = list(GRADIENTS) if function == "backward" else [f"{function} {i}" for i in range(len(results))]
        found = []
        try:
            pairs = zip(names, results, self.cpu.run(problem, function, results, options), self.gpu.run(problem, function, results, options))
            for name, laid, ours, theirs in pairs:
                if laid is not None and ours.tobytes() != theirs.tobytes():
                    size = laid.stored.itemsize
                    unlike = np.flatnonzero((ours != theirs)[:len(ours) // size * size].reshape(-1, size).any(1))
                    found.append(f"{name} {laid}: {len(unlike)} elements, the first at {unlike[:1]}")
        except RuntimeError as error:
            found.append(str(error))
        if found:
            self.differing += 1
            print(f"{what}: {function}, options {options}: {'; '.join(found)}; {problem}", flush=True)
        return not found


def modes(comparison, problems, work):
    """Forward and backward, deterministic and float64."""
    equal = 0
    for number in range(problems):
        problem = Problem(number, work)
        mode = MODES["float64" if problem.rng.random() < 0.3 else "deterministic"]
        output = [problem.result(problem.output_shape)]
        gradients = [problem.result(problem.stage_shapes[stage]) for stage in GRADIENTS.values()]
        if problem.rng.random() < 0.2:
            gradients[int(problem.rng.integers(3))] = None
        good = comparison.same(f"problem {number}", problem, "forward", output, (mode, 0, 0, 0))
        good &= comparison.same(f"problem {number}", problem, "backward", gradients, (mode, 0, 0, 0))
        equal += good
    return f"modes: {equal} of {problems} problems equal"


def atomic(comparison, problems, work):
    """Atomic additions: grad_value as far from the deterministic mode's as two orders of the same addends can be, the other
    gradients, which have an order, bit for bit."""
    good = 0
    for number in range(problems):
        problem = Problem(number, work, seed=5, finite=True)
        dtype = str(problem.rng.choice(["float32", "float64"]))
        results = [Laid(dtype, problem.stage_shapes[stage], contiguous=True) for stage in GRADIENTS.values()]

        def gradients(side, mode):
            memories = side.run(problem, "backward", results, (MODES[mode], 0, 0, 0))
            return [memory[:-GUARD].view(dtype).copy() for memory in memories]

        theirs, ours = gradients(comparison.gpu, "atomic"), gradients(comparison.cpu, "deterministic")
        grad_output = problem.inputs["grad_output"]  # the only input of an addend that can be negative
        bits = grad_output.memory.view(f"u{grad_output.stored.itemsize}")
        bits &= np.iinfo(bits.dtype).max >> 1
        sizes = gradients(comparison.cpu, "deterministic")[0].astype(np.float64)
        is_double = any(laid.dtype == "float64" for laid in problem.inputs.values())
        rounding, addends = 2.0 ** (-53 if is_double else -24), 4 * problem.Q * problem.P
        bound = 2 * addends * rounding * sizes * (1 + addends * rounding) + 2.0**-23 * np.abs(ours[0].astype(np.float64)) * (dtype == "float32")
        distance = np.abs(theirs[0].astype(np.float64) - ours[0].astype(np.float64))
        found = [name for name, a, b in list(zip(GRADIENTS, ours, theirs))[1:] if a.tobytes() != b.tobytes()]
        if not (distance <= bound).all():
            found.append(f"grad_value: {np.count_nonzero(~(distance <= bound))} elements beyond their bound")
        if found:
            comparison.differing += 1
            print(f"problem {number}: backward, atomic: {', '.join(found)}; {problem}", flush=True)
        good += not found
    return f"atomic: {good} of {problems} problems good"


def stages(comparison, problems, work):
    """All stages or some, in every mode that has them; and the backward pass in the mode mixed."""
    equal = 0
    for number in range(problems):
        problem = Problem(number, work, seed=7)
        rng = problem.rng
        mode = str(rng.choice(["mixed", "mixed", "mixed", "deterministic", "float64"]))
        options = (MODES[mode], 0, 0, int(rng.integers(0, 1 << STAGES)) if rng.random() < 0.8 else int(rng.choice([0, 511])))
        results = [problem.result(shape, "float64" if rng.random() < 0.6 else None) for shape in problem.stage_shapes]
        if rng.random() < 0.3:
            results = [None if rng.random() < 0.5 else result for result in results]
        good = comparison.same(f"problem {number}", problem, "stages", results, options)
        gradients = [problem.result(problem.stage_shapes[stage]) for stage in GRADIENTS.values()]
        if rng.random() < 0.3:
            gradients[int(rng.integers(3))] = None
        good &= comparison.same(f"problem {number}", problem, "backward", gradients, (MODES["mixed"], *options[1:]))
        equal += good
    return f"stages: {equal} of {problems} problems equal"


def repeat(comparison, runs, work):
    """Repeats the same call: one digest, the CPU's."""
    number = next(i for i in range(10**6) if (p := Problem(i, work, seed=11)).kind == "crowded" and p.D == 32 and p.Q > 100)
    texts = []
    for mode, times in (("deterministic", runs), ("float64", max(1, runs // 10)), ("mixed", max(1, runs // 10))):
        problem = Problem(number, work, seed=11)
        results = [Laid("float32", problem.stage_shapes[stage], contiguous=True) for stage in GRADIENTS.values()]
        options = (MODES[mode], 0, 0, 0b101010101)
        cpu = digest(comparison.cpu.run(problem, "backward", results, options))
        found = comparison.gpu.run(problem, "backward", results, options, lambda once: {digest(once()) for _ in range(times)})
        if found != {cpu}:
            comparison.differing += 1
            print(f"repeat, {mode}: {len(found)} digests, the CPU's {'among' if cpu in found else 'not among'} them; {problem}")
        texts.append(f"{mode} {times} runs, {len(found)} digest{'s' * (len(found) != 1)}")
    return "repeat: " + ", ".join(texts)


def large(comparison, sizes):
    """Forked calls: each half of the heads on its own stream."""
    problems = equal = 0
    for number, size in enumerate(sizes):
        problem = Problem(number, 0, seed=17, size=size)
        gradients = [problem.result(problem.stage_shapes[stage]) for stage in GRADIENTS.values()]
        for mode in ("deterministic", "float64"):
            problems += 1
            equal += comparison.same(f"large {number}", problem, "backward", gradients, (MODES[mode], 0, 0, 0))
    return f"large: {equal} of {problems} problems equal"


def devices(cpu, gpus, counts, work):
    """Modes and stages on all GPUs, in turn in one process."""
    if gpus < 2:
        return True, "devices: skipped: one GPU"
    others = [Comparison(cpu, Side(cpu.library, Gpu(number))) for number in range(gpus)]
    texts = [f"{other.gpu.device.name} {run(other, min(count, 40), work)}" for run, count in zip((modes, stages), counts) for other in others]
    return not any(other.differing for other in others), "devices: " + ", ".join(texts)


def options():
    parser = parser_of(__doc__, PARTS)
    parser.add_argument("--stage-problems", type=int, default=200, metavar="N", help="of the part stages (200)")
    parser.add_argument("--quick", action="store_true", help="few and small problems, as for compute-sanitizer")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.problems, chosen.stage_problems, chosen.runs = (min(n, most) for n, most in (
            (chosen.problems, 40), (chosen.stage_problems, 40), (chosen.runs, 20)))
    return chosen


def main():
    chosen = options()
    work, crowd = (40_000, 200_000) if chosen.quick else (1_000_000, 2_000_000)

    def parts(library, device, gpus):
        cpu = Side(library, Host())

        def compared(part, *arguments):
            comparison = Comparison(cpu, Side(library, device))
            text = part(comparison, *arguments)
            return comparison.differing == 0, text

        return {
            "modes": lambda: compared(modes, chosen.problems, work),
            "atomic": lambda: compared(atomic, chosen.problems // 2, work),
            "stages": lambda: compared(stages, chosen.stage_problems, work),
            "repeat": lambda: compared(repeat, chosen.runs, crowd),
            "large": lambda: compared(large, LARGE[:1] if chosen.quick else 3 * LARGE),
            "devices": lambda: devices(cpu, gpus, (chosen.problems, chosen.stage_problems), work),
        }

    return run_parts(chosen, parts)


if __name__ == "__main__":
    sys.exit(main())
