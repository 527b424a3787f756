"""Floating-point types as rounding sees them. Numbers of every type are held in float64 arrays, which hold all of them exactly; those
of exact arithmetic in longdouble."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Type:
    name: str
    bits: int      # of the significand, the hidden one included
    lowest: int    # exponent of the smallest normal number
    largest: float

    @property
    def unit(self):
        """The largest relative error of one rounding."""
        return 2.0**-self.bits

    @property
    def tiny(self):
        """The largest error of a rounding that underflows: half of the smallest subnormal number, for float64 the whole of it."""
        return 2.0 ** max(self.lowest - self.bits, -1074)


TYPES = {
    "float16": Type("float16", 11, -14, 65504.0),
    "bfloat16": Type("bfloat16", 8, -126, (2 - 2.0**-7) * 2.0**127),
    "tf32": Type("tf32", 11, -126, (2 - 2.0**-10) * 2.0**127),
    "float32": Type("float32", 24, -126, float(np.finfo(np.float32).max)),
    "float64": Type("float64", 53, -1022, float(np.finfo(np.float64).max)),
}
STORED = ("float32", "float64", "float16", "bfloat16")


def smallest(arithmetic, adds):
    """What an addition may lose to underflow: half of a subnormal number, or where these are flushed the addend and the sum."""
    return 2 * 2.0**-126 if arithmetic.flushes else adds.tiny


def hidden_infinity(value, exact):
    """Where an exact gradient is infinite, as only an infinite input makes it, and the value is a number or the other infinity."""
    return np.isinf(exact) & (np.isfinite(value) | (np.isinf(value) & (np.sign(value) != np.sign(exact))))


def quantize(x, kind):
    """x in the type, to nearest even, with its subnormal numbers and its overflow."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(x)
    last = np.maximum(exponent - 1, kind.lowest) - (kind.bits - 1)
    with np.errstate(all="ignore"):
        y = np.ldexp(np.rint(np.ldexp(x, -last)), last)
        y = np.where(np.abs(y) > kind.largest, np.copysign(np.inf, x), y)
    return np.where(np.isfinite(x), y, x)


def round_to(name, x):
    """x rounded to the type; "exact" leaves it as it is, in longdouble."""
    if name == "exact":
        return np.asarray(x, np.longdouble)
    if name == "float64":
        return np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        if name in ("float32", "float16"):
            return np.asarray(x, np.float64).astype(name).astype(np.float64)
    return quantize(x, TYPES[name])
