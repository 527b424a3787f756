"""Calls of the operators average_pool and pad_nd, in NumPy: what PyTorch's kernels compute of a gradient, in any type, and random problems.

An operator is given by the pixels that each output pixel reads along each axis: a window of which it is the mean, or the one pixel that
numpy.pad copies."""

import itertools
from dataclasses import dataclass

import numpy as np

from msda_replay import Invocation

AXES = ("depth", "height", "width")
SIDES = {"depth": "front", "height": "top", "width": "left"}
FAMILIES = ("avg", "adaptive_avg", "reflect", "replicate")


def avg_windows(size, kernel, stride, padding, include_pad):
    """By output pixel: the pixels that it reads, and by how many it divides."""
    found = []
    for start in range(-padding, size + 2 * padding - kernel + 1 - padding, stride):
        pixels = [x for x in range(start, start + kernel) if x < size + padding]
        inside = [x for x in pixels if 0 <= x < size]
        found.append((inside, len(pixels if include_pad else inside)))
    return found


def adaptive_windows(size, out):
    bounds = [(o * size // out, -(-(o + 1) * size // out)) for o in range(out)]
    return [(list(range(first, end)), end - first) for first, end in bounds]


def copied(size, before, after, mode):
    return [([x], 1) for x in np.pad(np.arange(size), (before, after), mode={"reflect": "reflect", "replicate": "edge"}[mode])]


@dataclass
class Problem:
    family: str
    grad_output: np.ndarray
    image: tuple     # the sizes of the input
    windows: list    # by axis
    facts: dict
    divisor: int = 0  # in place of the windows'

    def gradient(self, kind, random=None):
        """Each operation rounded to a type, in the order of the output pixels or a random one."""
        result = np.zeros((*self.grad_output.shape[:2], *self.image), kind)
        places = list(itertools.product(*(range(len(windows)) for windows in self.windows)))
        for at in random.permutation(places) if random else places:
            pixels, counts = zip(*(windows[i] for windows, i in zip(self.windows, at)))
            addend = self.grad_output[(slice(None), slice(None), *at)].astype(kind) / kind(self.divisor or np.prod(counts))
            result[(slice(None), slice(None), *np.ix_(*pixels))] += addend.reshape(*addend.shape, *(1 for _ in pixels))
        return result

    @property
    def operator(self):
        return "average_pool" if "avg" in self.family else "pad_nd"

    def call(self, values, **more):
        values = {"grad_input": values.astype(self.grad_output.dtype)}
        return Invocation({"grad_output": self.grad_output}, values, "", facts=dict(self.facts), **more)


def drawn(family, axes, seed=0, kind=np.float32, batch=2, channels=2):
    """A problem of an image of so many axes."""
    random, names = np.random.default_rng([seed, axes]), AXES[3 - axes:]
    facts, windows, sides, divisor = {}, [], [], 0
    number = lambda first, last: int(random.integers(first, last + 1))  # noqa: E731
    include_pad, override = number(0, 1), number(1, 9) if number(0, 3) == 0 else 0
    for axis in names:
        side = number(1, 9 if axes < 3 else 6)
        sides.append(side)
        if family == "avg":
            kernel = number(1, 4)
            padding = number(0, kernel // 2)
            side = sides[-1] = max(side, kernel)
            stride = number(1, 4)
            facts.update({f"kernel_{axis}": kernel, f"stride_{axis}": stride, f"padding_{axis}": padding})
            windows.append(avg_windows(side, kernel, stride, padding, include_pad))
        elif family == "adaptive_avg":
            facts[f"output_{axis}"] = number(1, 12)
            windows.append(adaptive_windows(side, facts[f"output_{axis}"]))
        else:
            most = side - 1 if family == "reflect" else 5
            before, after = number(0, most), number(0, most)
            facts[f"padding_{SIDES[axis]}"] = before
            windows.append(copied(side, before, after, family))
    if family == "avg":
        divisor = override
        facts.update(count_include_pad=include_pad, divisor_override=override)
    facts["pooling" if "avg" in family else "mode"] = family
    shape = (batch, channels, *(len(of_axis) for of_axis in windows))
    return Problem(family, random.standard_normal(shape).astype(kind), tuple(sides), windows, facts, divisor)
