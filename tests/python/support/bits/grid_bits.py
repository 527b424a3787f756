"""grid_sample's backward pass on a GPU against the CPU's, bit for bit, by the C ABI of libmsda: random problems in every
variant, type and layout, atomic additions within their bound, repeated runs. Needs NumPy and the CUDA driver. Prints a line
for each part and for each problem that differs; exit status 1 if one does, 0 otherwise. Without a GPU it says so and ends
with 0."""

import ctypes
import sys

import numpy as np

import operator_bits as bits
from bits_program import Host, parser_of, repeated, run_parts
from operator_bits import GUARD, MODES, Laid

sys.path.insert(0, str(bits.SOURCE / "tools" / "bench"))
from libmsda import GridCall, Options  # noqa: E402

PARTS = ("modes", "atomic", "repeat")
BILINEAR, NEAREST, BICUBIC = range(3)
CHANNELS = (1, 3, 30, 32, 33, 71)
MANY_SAMPLES = 16384  # too many for one block to group


class Problem:
    """A random call. `work`: about how many numbers of channels of samples it may have; `finite`: without NaN and the like."""

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.axes = int(rng.choice([2, 2, 3]))
        self.conventions = (int(rng.choice([BILINEAR, BILINEAR, NEAREST])), int(rng.integers(3)), int(rng.integers(2)))
        self.N, self.C = int(rng.integers(1, 4)), int(CHANNELS[number % len(CHANNELS)])
        side = int(rng.choice([1, 3, 9, 40] if self.axes == 2 else [1, 3, 9]))
        self.sides = tuple(int(rng.integers(1, side + 1)) for _ in range(self.axes))
        self.shape = tuple(int(rng.choice([1, 7, 30])) for _ in range(self.axes))
        self.kind = str(rng.choice(["anywhere", "anywhere", "one place", "crowded", "ties"]))
        if number % 7 == 3:  # grouped by counting in global memory
            self.C, self.N, self.shape = 2, 1, (1,) * (self.axes - 1) + (MANY_SAMPLES + 500,)
        elif number % 7 == 4:  # many addends to a pixel
            self.N, self.shape, self.kind = 2, (1,) * (self.axes - 1) + (3000,), str(rng.choice(["one place", "crowded"]))
        elif number % 7 == 5:  # too many samples to copy, so that their channels are put side by side
            self.C, self.N, self.shape = 11, 1, (1,) * (self.axes - 1) + (2500,)
        while self.N * self.C * np.prod(self.shape) > work and self.C > 2:
            self.C //= 2
        if number % 13 == 5:  # one size is 0
            if number // 13 % 3 == 0:
                self.N = 0
            elif number // 13 % 3 == 1:
                self.C = 0
            else:
                self.shape = (0, *self.shape[1:])
        self.dtype = str(rng.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
        self.mixes_types = rng.random() < 0.2
        self.is_strange = rng.random() < 0.3 and not finite
        self.in_stream = int(rng.integers(2))
        self.inputs = {
            "input": self.laid((self.N, self.C, *self.sides), rng.standard_normal),
            "grid": self.laid((self.N, *self.shape, self.axes), self.locations),
            "grad_output": self.laid((self.N, self.C, *self.shape), rng.standard_normal),
        }
        self.results = {"grad_input": self.inputs["input"].shape, "grad_grid": self.inputs["grid"].shape}

    def a_type(self):
        return str(self.rng.choice(["float16", "bfloat16", "float32", "float64"]))

    def laid(self, shape, contents):
        def numbers(n):
            x = np.asarray(contents(n), np.float64)
            if self.is_strange and n:
                which = self.rng.integers(0, n, max(1, n // 60))
                x[which] = self.rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1e30, -1e30, 1e-40], len(which))
            return x
        return Laid(self.a_type() if self.mixes_types else self.dtype, shape, self.rng, numbers)

    def locations(self, n):
        if self.kind == "one place":
            return np.full(n, self.rng.uniform(-1, 1))
        if self.kind == "crowded":
            return self.rng.normal(0, 0.05, n)
        if self.kind == "ties":  # centres, edges and corners of pixels
            size = self.rng.choice(self.sides, n)
            return self.rng.integers(-2, 2 * size + 3) / size - 1
        return self.rng.uniform(-2.2, 2.2, n)

    def result(self, name, dtype=None):
        dtype = dtype or (self.a_type() if self.rng.random() < 0.5 else "float32")
        return Laid(dtype, self.results[name], self.rng)

    def __str__(self):
        return f"conventions {self.conventions}, {self.kind}, {', '.join(map(str, self.inputs.values()))}"


class Side:
    """A library's function on one device."""

    def __init__(self, library, device):
        self.library, self.device = library, device

    def run(self, problem, results, mode, times=1):
        """The memory of `results`, some of them null, after each of the runs."""
        device, placed = self.device, []

        def place(laid, memory):
            placed.append(device.to_device(memory))
            return laid.at(placed[-1])

        call, options = GridCall(*problem.conventions), Options(MODES[mode], 0, 0, 0)
        call.input, call.grid, grad_output = (place(laid, laid.memory) for laid in problem.inputs.values())
        memories = [None if laid is None else laid.memory.copy() for laid in results]
        pointers = [None if laid is None else ctypes.pointer(place(laid, memory)) for laid, memory in zip(results, memories)]
        of_results = placed[3:]
        arguments = [ctypes.byref(call), ctypes.byref(grad_output), ctypes.byref(options), *pointers]
        if device.needs_stream:
            arguments.append(device.stream(problem.in_stream))
        try:
            device.wait()  # copies of the default stream may still be under way
            for _ in range(times):
                if status := getattr(self.library, f"{device.prefix}grid_sample_backward")(*arguments):
                    raise RuntimeError(f"{device.name}: status {status}: {self.library.msda_last_error().decode()}")
                device.wait()
                for pointer, memory in zip(of_results, [memory for memory in memories if memory is not None]):
                    device.to_host(pointer, memory)
                yield memories
        finally:
            for pointer in placed:
                device.free(pointer)

    def once(self, problem, results, mode):
        return next(iter([[None if memory is None else memory.copy() for memory in memories] for memories in self.run(problem, results, mode)]))


def say_difference(what, problem, names):
    print(f"{what}: {', '.join(names)} differ; {problem}", flush=True)


def modes(cpu, gpu, problems, work):
    """Deterministic and float64."""
    equal = 0
    for number in range(problems):
        problem = Problem(number, work)
        mode = "float64" if problem.rng.random() < 0.3 else "deterministic"
        results = [problem.result(name) for name in problem.results]
        if problem.rng.random() < 0.2:
            results[int(problem.rng.integers(2))] = None
        pairs = zip(problem.results, cpu.once(problem, results, mode), gpu.once(problem, results, mode))
        unlike = [name for name, ours, theirs in pairs if ours is not None and ours.tobytes() != theirs.tobytes()]
        if unlike:
            say_difference(f"problem {number}, {mode}", problem, unlike)
        equal += not unlike
    return equal == problems, f"modes: {equal} of {problems} problems equal"


def atomic(cpu, gpu, problems, work):
    """grad_input as far from the deterministic mode's as two orders of the same addends can be, grad_grid bit for bit."""
    good = 0
    for number in range(problems):
        problem = Problem(number, work, seed=5, finite=True)
        dtype = str(problem.rng.choice(["float32", "float64"]))
        results = [Laid(dtype, shape, contiguous=True) for shape in problem.results.values()]

        def gradients(side, mode):
            return [memory[:-GUARD].view(dtype).copy() for memory in side.once(problem, results, mode)]

        theirs, ours = gradients(gpu, "atomic"), gradients(cpu, "deterministic")
        grad_output = problem.inputs["grad_output"]  # the only input of an addend that can be negative
        stored = grad_output.memory.view(f"u{grad_output.stored.itemsize}")
        stored &= np.iinfo(stored.dtype).max >> 1
        sizes = gradients(cpu, "deterministic")[0].astype(np.float64)
        is_double = any(laid.dtype == "float64" for laid in problem.inputs.values())
        rounding, addends = 2.0 ** (-53 if is_double else -24), 8 * int(np.prod(problem.shape))
        bound = 2 * addends * rounding * sizes * (1 + addends * rounding)
        bound += 2.0**-23 * np.abs(ours[0].astype(np.float64)) * (dtype == "float32")
        far = np.abs(theirs[0].astype(np.float64) - ours[0].astype(np.float64)) > bound
        unlike = ["grad_input"] * bool(far.any()) + ["grad_grid"] * (ours[1].tobytes() != theirs[1].tobytes())
        if unlike:
            say_difference(f"problem {number}, atomic", problem, unlike)
        good += not unlike
    return good == problems, f"atomic: {good} of {problems} problems good"


def repeat(cpu, gpu, runs, work):
    """Repeats the same call: one digest, the CPU's."""
    number = next(i for i in range(10**6) if (p := Problem(i, work, seed=11)).kind == "crowded" and p.C > 20 and np.prod(p.shape) > 800)
    problem = Problem(number, work, seed=11)
    results = [Laid("float32", shape, contiguous=True) for shape in problem.results.values()]

    ours = cpu.once(problem, results, "deterministic")
    return repeated(ours, gpu.run(problem, results, "deterministic", runs), runs)


def main():
    chosen = parser_of(__doc__, PARTS).parse_args()

    def parts(library, device, _):
        cpu, gpu, work = Side(library, Host()), Side(library, device), 1_000_000
        return {"modes": lambda: modes(cpu, gpu, chosen.problems, work), "atomic": lambda: atomic(cpu, gpu, chosen.problems // 2, work),
                "repeat": lambda: repeat(cpu, gpu, chosen.runs, work)}

    return run_parts(chosen, parts)


if __name__ == "__main__":
    sys.exit(main())
