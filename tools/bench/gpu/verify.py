"""Checks that contenders compute the same gradients; otherwise the times mean nothing."""

import torch

from .contenders import DIFFERENTIABLE, Ours, first_line

# Absolute and relative, as msda-triton's own test has them for float32 and float64; and the share of a gradient that may
# be further off, for samples that rounding moves into another cell.
TOLERANCES = {"float32": (1e-3, 1e-2), "float64": (1e-8, 1e-8), "float16": (1e-2, 2e-2), "bfloat16": (2e-2, 2e-2)}
SHARE = 1e-4


def share_off(result, truth, dtype):
    """Returns the share of elements out of tolerance; NaN is."""
    absolute, relative = TOLERANCES[dtype]
    near = (result.double() - truth).abs() <= absolute + relative * truth.abs()
    return 1 - near.double().mean().item() if near.numel() else 0.0


class Truths:
    """The gradients of one set of inputs in float64 arithmetic, by dialect, computed once each."""

    def __init__(self, library, inputs):
        self.library, self.inputs, self.known = library, inputs, {}

    def of(self, dialect):
        if dialect not in self.known:
            self.known[dialect] = Ours(self.library, "float64", dialect, torch.float64).prepare(self.inputs)()
        return self.known[dialect]


def wrong(results, truths, dtype):
    """Returns which gradients are wrong, as text; empty if none is."""
    shares = [share_off(result, truth, dtype) for result, truth in zip(results, truths)]
    return ", ".join(f"{share:.2g} of grad_{name} differ from float64" for share, name in zip(shares, DIFFERENTIABLE) if share > SHARE)


def twice(contender, inputs):
    """Returns whether the same call gives the same bits again, whatever the result buffers held."""
    call = contender.prepare(inputs)
    first = [result.clone() for result in call()]
    for result in call():  # the buffers are the call's own
        result.fill_(float("nan"))
    return all(torch.equal(bits(a), bits(b)) for a, b in zip(first, call()))


def bits(tensor):
    return tensor.view(torch.uint8)


def verdict(contender, call, inputs, truths, dtype):
    """Returns why this contender must not be measured, or None; and a note about its results, or None.

    Ours must be right in every type, and deterministic if it says so. A peer must be right in float32 and float64: it may
    compute in 16 bits, and then its samples land elsewhere.
    """
    is_ours = isinstance(contender, Ours)
    found = wrong(call(), truths.of(contender.conventions), dtype)
    if found and (is_ours or dtype in ("float32", "float64")):
        return f"wrong: {found}", None
    if is_ours and contender.name.startswith("deterministic") and not twice(contender, inputs):
        return "wrong: two runs differ", None
    return None, found or None


def attempt(function):
    """Returns (result, None), or (None, why) if the contender cannot do it or the memory does not suffice."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 (a peer may raise anything; the others are still measured)
        return None, first_line(error)
