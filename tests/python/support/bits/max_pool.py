"""Random backward calls of max pooling: images, windows in them, and indices that the windows hold; several chose the same pixel."""

import ctypes

import numpy as np

from msda_replay.libmsda import MaxPoolCall, Options, PoolSide, ScatterCall

from .laid import Drawn, Laid


def side(rng, most):
    """A side's numbers: of windows at equal steps, of adaptive ones, or of those that random numbers move."""
    kind, pixels = rng.integers(3), int(rng.integers(1, rng.choice([3, most])))
    if kind == 0:
        outputs = int(rng.integers(1, pixels + 20))
        return pixels, outputs, pixels, outputs, 0, -(-pixels // outputs) + 1
    kernel = int(rng.integers(1, pixels + 1))
    if kind == 1:
        outputs = int(rng.integers(1, pixels - kernel + 2))
        return (pixels, 1, 0, 1, 0, pixels) if outputs == 1 else (pixels, outputs, pixels - kernel, outputs - 1, 2, kernel + 4)
    step, padding = int(rng.integers(1, kernel + 2)), int(rng.integers(kernel // 2 + 1))
    return pixels, (pixels + 2 * padding - kernel) // step + 1, step, 1, padding, kernel


def chosen(rng, numbers):
    """For each output of a side a pixel of its window, often the first."""
    pixels, outputs, step, per, before, span = numbers
    begin = np.arange(outputs) * step // per - before
    low, high = np.clip(begin, 0, pixels - 1), np.clip(begin + span - 1, 0, pixels - 1)
    return np.where(rng.random(outputs) < 0.4, low, rng.integers(low, high + 1))


class Problem(Drawn):
    def __init__(self, number):
        rng = self.rng = np.random.default_rng([7, number])
        self.begin(False)
        axes, self.planes, self.channels = int(rng.choice([2, 2, 3])), int(rng.integers(1, 4)), int(rng.choice([1, 1, 3, 8]))
        self.sides = [side(rng, 24 if axes == 2 else 9) for _ in range(axes)] + [(1, 1, 1, 1, 0, 1)] * (3 - axes)
        self.pixels, self.outputs = (int(np.prod([numbers[i] for numbers in self.sides])) for i in (0, 1))
        x, y, z = ([chosen(rng, numbers) for _ in range(self.planes * self.channels)] for numbers in self.sides)
        index = np.stack([(c[:, None, None] * self.sides[1][0] + b[:, None]) * self.sides[0][0] + a for a, b, c in zip(x, y, z)])
        self.most = max(np.bincount(plane.reshape(-1)).max() for plane in index)  # addends
        index = index.reshape(self.planes, self.channels, self.outputs).swapaxes(1, 2)
        shape = self.planes, self.outputs, self.channels
        self.indices = Laid("int64", shape, contents=lambda n: index.reshape(-1), contiguous=True)
        self.inputs = {"grad_output": self.laid(shape, rng.standard_normal)}
        self.result = Laid(str(rng.choice(["float32", self.dtype])), (self.planes, self.pixels, self.channels), rng)

    def run(self, library, on_gpu):
        """Returns the memory of the result: of the kernel, or of the CPU's scatter_add."""
        place = lambda laid: laid.at(laid.memory.ctypes.data)  # noqa: E731
        indices, grad_output, memory = place(self.indices), place(self.inputs["grad_output"]), self.result.memory.copy()
        into, mode = self.result.at(memory.ctypes.data), Options(2 if self.dtype == "float32" and self.pixels % 3 == 0 else 0, 0, 0, 0)
        if on_gpu:
            call = MaxPoolCall((PoolSide * 3)(*self.sides), indices, grad_output)
            status = library.msda_cuda_max_pool_backward(ctypes.byref(call), ctypes.byref(mode), ctypes.byref(into), None)
        else:
            call = ScatterCall(0, 1, 0, -1, indices, grad_output)
            status = library.msda_scatter_add(ctypes.byref(call), ctypes.byref(mode), ctypes.byref(into))
        assert status == 0, library.msda_last_error()
        return memory

    def __str__(self):
        return f"sides {self.sides}, {self.planes} planes, {self.channels} channels, {super().__str__()}, {self.result}"
