"""What kernels of all operators share: how they round and in which order they add, and steps that can be tampered with."""

from dataclasses import dataclass, field
from typing import Callable, Dict

import numpy as np

from .rounding import round_to


@dataclass(frozen=True)
class Arithmetic:
    """How a kernel rounds. All choices are defensible: none is a fault."""

    real: str = "float32"        # the type that it computes in; "exact": longdouble, without rounding
    scatter: str = ""            # the type that it adds grad_value in; empty: `real`
    stored: str = "float32"      # the type of its results
    fused: bool = True           # multiply-adds have one rounding
    factors: str = "weights"     # an addend is (w*attention)*grad_output; "grad_output": w*(grad_output*attention);
    #                              "axes": ((grad_output*attention)*wy)*wx
    slopes: str = "differences"  # across the cell; "corners": one signed term for each corner
    scaled: str = "after"        # the sum over channels by attention and size, or "before": each channel
    channels: str = "serial"     # order of the sum over channels; or "tree", "random"
    order: str = "forward"       # of the samples in grad_value; or "backward", "random"
    blocks: int = 1              # partial sums of grad_value, added at the end
    refined: bool = False        # the fraction is taken from an unrounded product, as Triton contracts with align_corners
    inverse: bool = False        # interpolate: each pixel finds the nearest ones that read it, by the inverse ratio
    flushes: bool = False        # additions flush subnormals of float32
    products: str = ""           # the type that factors are rounded to before they are multiplied, as tensor cores do
    seed: int = 0

    def round(self, x):
        return round_to(self.real, x)

    def multiply(self, a, b):
        if self.products:
            a, b = round_to(self.products, a), round_to(self.products, b)
        return self.round(a * b)

    def multiply_add(self, a, b, c):
        if self.products or not self.fused:
            return self.round(self.multiply(a, b) + c)
        if self.real == "float64":
            return (np.asarray(a, np.longdouble) * b + c).astype(np.float64)
        return self.round(a * b + c)


EXACT = Arithmetic(real="exact", stored="exact")


@dataclass
class Tampering:
    """Steps by name, each a function of the step's result and of the samples, which returns what goes on instead."""

    steps: Dict[str, Callable] = field(default_factory=dict)

    def __call__(self, step, result, samples):
        return self.steps[step](result, samples) if step in self.steps else result


def sum_over_channels(terms, arithmetic):
    """Takes [N,D]."""
    count = terms.shape[1]
    if arithmetic.real == "exact":
        return terms.sum(1)
    if arithmetic.channels == "random":
        terms = terms[:, np.random.default_rng(arithmetic.seed).permutation(count)]
    if arithmetic.channels == "tree":
        while terms.shape[1] > 1:
            half = (terms.shape[1] + 1) // 2
            upper = np.zeros_like(terms[:, :half])
            upper[:, : terms.shape[1] - half] = terms[:, half:]
            terms = arithmetic.round(terms[:, :half] + upper)
        return terms[:, 0]
    total = np.zeros_like(terms[:, 0])
    for d in range(count):
        total = arithmetic.round(total + terms[:, d])
    return total


def flushed(arithmetic, x):
    return np.where(np.abs(x) < 2.0**-126, 0, x) if arithmetic.flushes else x


def scatter(shape, keys, addends, arithmetic, initial=None):
    """grad_value [B*S*M,D] from addends [K,D], one after the other in the order of the arithmetic; key -1 is left out. Draws the order
    for all K, so that a fault that leaves addends out does not reorder the others."""
    count = len(keys)
    order = np.arange(count)
    if arithmetic.order == "backward":
        order = order[::-1]
    elif arithmetic.order == "random":
        order = np.random.default_rng(arithmetic.seed).permutation(count)
    kind = arithmetic.scatter or arithmetic.real
    addends = flushed(arithmetic, round_to(kind, addends))
    total = np.zeros(shape, addends.dtype) if initial is None else initial.reshape(shape).astype(addends.dtype)
    for block in np.array_split(order, arithmetic.blocks):
        block = block[keys[block] >= 0]
        partial = total if arithmetic.blocks == 1 else np.zeros(shape, addends.dtype)
        block = block[np.argsort(keys[block], kind="stable")]
        own = keys[block]
        first = np.searchsorted(own, own)
        rank = np.arange(len(own)) - first
        for turn in range(rank.max() + 1 if len(rank) else 0):
            now = rank == turn
            partial[own[now]] = flushed(arithmetic, round_to(kind, partial[own[now]] + addends[block[now]]))
        if arithmetic.blocks > 1:
            total = round_to(kind, total + partial)
    return total
