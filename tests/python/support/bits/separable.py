"""Random backward calls of average pooling and padding, with every option, type and layout."""

import numpy as np

from msda_replay.libmsda import SEPARABLE, SeparableCall

from .laid import Drawn, Laid

AVG_POOL, ADAPTIVE_AVG_POOL, REFLECTION_PAD, REPLICATION_PAD = SEPARABLE.values()


def windows(size, kernel, stride, padding, ceil_mode):
    count = (size + 2 * padding - kernel + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - (ceil_mode and (count - 1) * stride >= size + padding)


class Problem(Drawn):
    functions = ("separable_backward",)

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.begin(finite)
        self.map, axes = number % 4, int(rng.choice([1, 2, 2, 2, 3]))
        self.ceil_mode, self.count_include_pad = (int(bit) for bit in rng.integers(0, 2, 2))
        self.divisor_override = int(rng.choice([0, 0, 0, 7, -3]))
        most = {1: 400, 2: 40, 3: 12}[axes]
        self.image, self.out = [int(side) for side in rng.integers(1, most, axes)], []
        self.kernel, self.stride, self.padding, self.after = ([1] * axes for _ in range(4))
        for axis, side in enumerate(self.image):
            if self.map == AVG_POOL:
                kernel = self.kernel[axis] = int(rng.integers(1, min(side, rng.choice([2, 3, 4, 6, 80])) + 1))
                stride = self.stride[axis] = int(rng.choice([1, 2, 3, kernel, kernel + 1]))
                padding = self.padding[axis] = int(rng.integers(0, kernel // 2 + 1))
                self.out.append(windows(side, kernel, stride, padding, self.ceil_mode))
            elif self.map == ADAPTIVE_AVG_POOL:
                self.out.append(max(1, round(side * rng.choice([0.1, 0.3, 0.5, 1, 1.3, 2.7]))) if rng.random() < 0.8 else 1)
            else:
                limit = min(side, 12) if self.map == REFLECTION_PAD else 13 if rng.random() < 0.9 else 90
                before, after = (int(pad) for pad in rng.integers(-min(side - 1, 3) if rng.random() < 0.3 else 0, limit, 2))
                self.padding[axis], self.after[axis] = before, max(after, 1 - side - before)
                self.out.append(side + self.padding[axis] + self.after[axis])
        self.leading = [int(n) for n in rng.integers(1, 4, rng.choice([1, 2, 2, 2, 3]))]
        self.leading[-1] = int(rng.choice([1, 2, 3, 4, 8, 12]))
        while np.prod([*self.leading, *(max(sides) for sides in zip(self.image, self.out))]) > work and max(self.leading) > 1:
            self.leading[int(np.argmax(self.leading))] //= 2
        if number % 13 == 5:
            self.leading[number % len(self.leading)] = 0
        # Channels last, as PyTorch lays out images that cuDNN convolves.
        self.channels_last = len(self.leading) == 2 and rng.random() < 0.5
        self.inputs = {"grad_output": self.laid((*self.leading, *self.out), rng.standard_normal)}
        if self.channels_last and rng.random() < 0.8:
            self.inputs["grad_output"] = Laid(self.dtype, self.inputs["grad_output"].shape, None, rng.standard_normal, order=self.order())

    def order(self):
        """The dimensions, outermost first."""
        return [0, *range(2, 2 + len(self.image)), 1]

    def result(self, shape, dtype=None):
        if self.channels_last:
            return Laid(dtype or self.dtype, shape, order=self.order())
        return super().result(shape, dtype)

    def shapes_of(self, function):
        return {"grad_input": (*self.leading, *self.image)}

    def call(self, place, function):
        call = SeparableCall(self.map, len(self.image), self.ceil_mode, self.count_include_pad, self.divisor_override)
        for name, of_axes in (("kernel_size", self.kernel), ("stride", self.stride), ("padding", self.padding), ("padding_after", self.after)):
            getattr(call, name)[:len(of_axes)] = of_axes[::-1]
        call.grad_output = place(self.inputs["grad_output"])
        return [call]

    def is_crowded(self):
        return self.map == AVG_POOL and len(self.image) == 2 and np.prod(self.inputs["grad_output"].shape) > 2000

    def __str__(self):
        return (f"map {self.map}, {self.image}, kernel {self.kernel}, stride {self.stride}, padding {self.padding} and {self.after}, ceil_mode "
                f"{self.ceil_mode}, count_include_pad {self.count_include_pad}, divisor {self.divisor_override}, {super().__str__()}")
