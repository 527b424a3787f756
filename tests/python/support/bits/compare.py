"""A call of an operator on the CPU and on a GPU, and what differs: each comparison returns a line for every call that does."""

import ctypes
import hashlib
import itertools

import numpy as np

from msda_replay.libmsda import MODES, Options, Tensor

from .laid import GUARD, Laid


class Placed:
    """A call whose tensors lie in the memory of a library's device. Results that are None are not wanted."""

    def __init__(self, side, problem, function, results, mode, stages=0):
        self.side, self.device, self.function, self.stream, self.placed = side, side.device, function, problem.in_stream, []
        self.structures = [*problem.call(self.place, function), Options(MODES[mode], 0, 0, stages)]
        inputs, wanted = len(self.placed), [laid for laid in results if laid is not None]
        self.memories = [None if laid is None else laid.memory.copy() for laid in results]
        pointers = [None if laid is None else ctypes.pointer(self.place(laid, memory)) for laid, memory in zip(results, self.memories)]
        if function == "stages":
            pointers = [(ctypes.POINTER(Tensor) * len(pointers))(*pointers)]
        self.arguments = [*map(ctypes.byref, self.structures), *pointers]
        # Where a result is on the device, its memory here, and what it holds before the call.
        self.outputs = [(pointer, memory, laid.memory) for pointer, memory, laid in zip(
            self.placed[inputs:], (memory for memory in self.memories if memory is not None), wanted)]
        self.device.wait()  # copies of the default stream may still be under way

    def place(self, laid, memory=None):
        self.placed.append(self.device.to_device(laid.memory if memory is None else memory))
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
        for pointer, memory, _ in self.outputs:
            self.device.to_host(pointer, memory)
        return self.memories

    def restore(self):
        """Results hold again what they held before the call."""
        for pointer, memory, before in self.outputs:
            memory[:] = before
            self.device.write(pointer, memory)
        self.device.wait()

    def free(self):
        for pointer in self.placed:
            self.device.free(pointer)


class Side:
    """A library's functions on one device."""

    def __init__(self, library, device):
        self.library, self.device = library, device

    def run(self, problem, function, results, mode, stages=0, times=1):
        """Returns the memory of `results`, any of them None, after each of the runs: one run's, or the different ones of several."""
        placed = Placed(self, problem, function, results, mode, stages)
        try:
            placed.enqueue()
            if times == 1:
                return placed.fetch()
            digests = {digest_of(placed.fetch())}
            for _ in range(times - 1):
                placed.restore()
                placed.enqueue()
                digests.add(digest_of(placed.fetch()))
            return digests
        finally:
            placed.free()


def digest_of(memories):
    return hashlib.blake2b(b"".join(memory.tobytes() for memory in memories)).hexdigest()


def differences(cpu, gpu, problem, function, results, mode, stages=0):
    """Returns a line if a result differs, or a side fails; else none."""
    found = []
    try:
        pairs = zip(problem.shapes_of(function), results, *(side.run(problem, function, results, mode, stages) for side in (cpu, gpu)))
        for name, laid, ours, theirs in pairs:
            if laid is not None and ours.tobytes() != theirs.tobytes():
                size = laid.stored.itemsize
                unlike = np.flatnonzero((ours != theirs)[:len(ours) // size * size].reshape(-1, size).any(1))
                found.append(f"{name} {laid}: {len(unlike)} elements, the first at {unlike[:1]}")
    except RuntimeError as error:
        found.append(str(error))
    return [f"{function}, {mode}, stages {stages:b}: {'; '.join(found)}; {problem}"] if found else []


def without_some(problem, results, share):
    """Returns the results, one of which may not be wanted."""
    if len(results) > 1 and not problem.needs_all and problem.rng.random() < share:
        results[int(problem.rng.integers(len(results)))] = None
    return results


def modes(cpu, gpu, make, problems, work):
    """Compares every function, deterministic and float64. `work`: about how many numbers of channels of samples a problem may have."""
    found = []
    for number in range(problems):
        problem = make(number, work)
        mode = "float64" if problem.rng.random() < 0.3 else "deterministic"
        for function in problem.functions:
            results = without_some(problem, problem.results_of(function), 0.2)
            found += differences(cpu, gpu, problem, function, results, mode)
    return found


def atomic(cpu, gpu, make, problems, work):
    """Compares atomic additions: the first gradient is as far from the deterministic mode's as two orders of the same addends can be; the
    others, which have an order, are equal bit for bit."""
    found = []
    for number in range(problems):
        problem = make(number, work, seed=5, finite=True)
        function, dtype = problem.functions[-1], str(problem.rng.choice(["float32", "float64"]))
        names = list(problem.shapes_of(function))
        results = [Laid(dtype, shape, contiguous=True) for shape in problem.shapes_of(function).values()]

        def gradients(side, mode):
            memories = side.run(problem, function, results, mode)
            return [memory[:-GUARD].view(dtype).copy() for memory in memories]

        theirs, ours = gradients(gpu, "atomic"), gradients(cpu, "deterministic")
        grad_output = problem.inputs["grad_output"]  # the only input of an addend that can be negative
        bits = grad_output.memory.view(f"u{grad_output.stored.itemsize}")
        bits &= np.iinfo(bits.dtype).max >> 1
        sizes = gradients(cpu, "deterministic")[0].astype(np.float64)
        is_double = any(laid.dtype == "float64" for laid in problem.inputs.values())
        rounding, addends = 2.0 ** (-53 if is_double else -24), problem.most_addends()
        bound = 2 * addends * rounding * sizes * (1 + addends * rounding) + 2.0**-23 * np.abs(ours[0].astype(np.float64)) * (dtype == "float32")
        distance = np.abs(theirs[0].astype(np.float64) - ours[0].astype(np.float64))
        wrong = [name for name, a, b in list(zip(names, ours, theirs))[1:] if a.tobytes() != b.tobytes()]
        if not (distance <= bound).all():
            wrong.append(f"{names[0]}: {np.count_nonzero(~(distance <= bound))} elements beyond their bound")
        if wrong:
            found.append(f"problem {number}: {function}, atomic: {', '.join(wrong)}; {problem}")
    return found


def crowded(make, work):
    """Returns the first problem in which many addends meet."""
    return next(problem for problem in (make(number, work, seed=11) for number in itertools.count()) if problem.is_crowded())


def repeat(cpu, gpu, make, runs, work, mode="deterministic", stages=0):
    """Repeats the same call: one digest, the CPU's."""
    problem = crowded(make, work)
    function = problem.functions[-1]
    results = problem.results_of(function, "float32")
    ours = digest_of(cpu.run(problem, function, results, mode, stages))
    found = gpu.run(problem, function, results, mode, stages, times=runs)
    return [] if found == {ours} else [f"{len(found)} digests, the CPU's {'among' if ours in found else 'not among'} them; {problem}"]
