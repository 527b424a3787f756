"""What scatter_bits.py, interpolate_bits.py and roi_align_bits.py share: a call of an operator with one result, run on the CPU
and on a GPU; the parts of the check, and the program."""

import ctypes
import sys

import numpy as np

import operator_bits as bits
from bits_program import Host, parser_of, repeated, run_parts
from operator_bits import MODES, Laid

sys.path.insert(0, str(bits.SOURCE / "tools" / "bench"))
from libmsda import Options  # noqa: E402

PARTS = ("modes", "repeat")


class Plain:
    """A random call. Subclasses set `inputs`, `results` (one shape by name), and `call`; `held`: draws what a result held."""

    held = None

    def begin(self, finite):
        rng = self.rng
        self.dtype = str(rng.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
        self.is_strange = rng.random() < 0.3 and not finite
        self.in_stream = int(rng.integers(2))

    def laid(self, shape, contents, dtype=None):
        def numbers(n):
            x = np.asarray(contents(n), np.float64)
            if self.is_strange and n:
                which = self.rng.integers(0, n, max(1, n // 60))
                x[which] = self.rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1e30, -1e30, 1e-40], len(which))
            return x
        return Laid(dtype or self.dtype, shape, self.rng, numbers)

    def result(self, dtype=None):
        (shape,) = self.results.values()
        dtype = dtype or str(self.rng.choice(["float16", "bfloat16", "float32", "float64", self.dtype, self.dtype]))
        laid = Laid(dtype, shape, self.rng)
        if self.held is not None:
            elements = (len(laid.memory) - bits.GUARD) // laid.stored.itemsize
            laid.memory[:elements * laid.stored.itemsize].view(laid.stored)[:] = bits.as_stored(self.held(elements), dtype)
        return laid

    def __str__(self):
        return ", ".join(map(str, self.inputs.values()))


class Side:
    """A library's function on one device."""

    def __init__(self, library, device):
        self.library, self.device = library, device

    def run(self, problem, result, mode, times=1):
        """The result's memory after each of the runs, each of which begins with what it held."""
        device, placed = self.device, []

        def place(laid, memory=None):
            placed.append(device.to_device(laid.memory if memory is None else memory))
            return laid.at(placed[-1])

        try:
            call, *keep = problem.call(place)
            options = Options(MODES[mode], 0, 0, 0)
            for _ in range(times):
                memory = result.memory.copy()
                arguments = [call, ctypes.byref(options), ctypes.byref(place(result, memory))]
                if device.needs_stream:
                    arguments.append(device.stream(problem.in_stream))
                device.wait()  # copies of the default stream may still be under way
                if status := getattr(self.library, f"{device.prefix}{problem.function}")(*arguments):
                    raise RuntimeError(f"{device.name}: status {status}: {self.library.msda_last_error().decode()}")
                device.wait()
                device.to_host(placed[-1], memory)
                yield memory
                device.free(placed.pop())
        finally:
            for pointer in placed:
                device.free(pointer)

    def once(self, problem, result, mode):
        return next(iter(self.run(problem, result, mode))).copy()


def modes(cpu, gpu, make, problems, work):
    """Deterministic and float64."""
    equal = 0
    for number in range(problems):
        problem = make(number, work)
        mode = "float64" if problem.rng.random() < 0.3 else "deterministic"
        result = problem.result()
        ours, theirs = cpu.once(problem, result, mode), gpu.once(problem, result, mode)
        same = ours.tobytes() == theirs.tobytes()
        if not same:
            size = result.stored.itemsize
            unlike = np.flatnonzero((ours != theirs)[:len(ours) // size * size].reshape(-1, size).any(1))
            print(f"problem {number}, {mode}: {len(unlike)} elements of {result} differ, the first at {unlike[:1]}; {problem}", flush=True)
        equal += same
    return equal == problems, f"modes: {equal} of {problems} problems equal"


def repeat(cpu, gpu, crowded, runs, work):
    """Repeats the same call: one digest, the CPU's."""
    problem = next(filter(None, (crowded(number, work) for number in range(10**6))))
    result = problem.result("float32")

    ours = cpu.once(problem, result, "deterministic")
    return repeated([ours], ([memory] for memory in gpu.run(problem, result, "deterministic", runs)), runs)


def main(what, make, crowded):
    chosen = parser_of(what, PARTS).parse_args()

    def parts(library, device, _):
        cpu, gpu, work = Side(library, Host()), Side(library, device), 1_000_000
        return {"modes": lambda: modes(cpu, gpu, make, chosen.problems, work), "repeat": lambda: repeat(cpu, gpu, crowded, chosen.runs, work)}

    return run_parts(chosen, parts)
