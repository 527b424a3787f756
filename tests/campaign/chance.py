"""How strongly a gradient's wrong values show what its buffer held. In types of 16 bits wrong values of any origin fit that by chance.

The rule is that of docs/measured/campaign.md, "By chance". It takes the values that were planted and the campaign's own intervals, and nothing of
what the program computes."""

from dataclasses import dataclass, replace
from math import lgamma, log

import numpy as np

from .rounding import TYPES
from .subjects import SUBJECTS

PROMISED = 20.0  # bits from which on msda-replay names the buffer (docs/causes.md, "uninitialized_output")
EITHER = 2.0     # within so many of that either answer is right


def ways(chosen, given):
    """log2 of the number of sets of so many elements."""
    return (lgamma(given + 1) - lgamma(chosen + 1) - lgamma(given - chosen + 1)) / log(2)


@dataclass
class Values:
    """One gradient, flat: what was recorded, what is right, what the buffer held, and the `Type` of all."""

    value: np.ndarray
    exact: np.ndarray
    before: np.ndarray
    stored: object

    @property
    def off(self):
        return np.abs(self.value - self.exact)

    def last_place(self, x):
        return self.stored.unit * np.abs(x) + self.stored.tiny

    def windows(self, reach, narrow):
        """How far a value may lie from what a kernel with the fault leaves, and whether it lies so. `reach`: how far rounding takes the
        gradient itself. A `narrow` sum that begins with what the buffer held it takes farther in proportion, and bounds on such sums of many
        terms are twice as wide as others."""
        unwritten = self.value == self.before
        added = reach + self.last_place(self.value) + self.last_place(self.before)
        if narrow:
            added = 2 * (added + np.where(reach > 0, reach / np.abs(self.exact), 0) * np.abs(self.before))
        fits = unwritten | (np.abs(self.value - self.before - self.exact) <= added)
        return np.where(unwritten, self.last_place(self.value), added), fits & (self.before != 0) & np.isfinite(self.value)

    def bits(self, outside, wrong, narrow):
        """Counts the bits of those elements of `wrong` that rounding leaves wrong. `outside`: by how much each lies outside of its interval."""
        wrong = wrong & (outside > 0)
        window, fits = self.windows(self.off - outside, narrow)
        fits &= wrong
        # Another mistake's value lies anywhere as near the right one as this, or anywhere among numbers of its size: what is likelier to fit.
        room = np.minimum(self.off, np.abs(self.value))
        alone = np.log2(room / window)[fits]
        return float(np.maximum(np.nan_to_num(alone), 0).sum()) - ways(int(fits.sum()), int(wrong.sum()))


def excess(case, gradient, arithmetic):
    subject, side = SUBJECTS[case.problem.operator], case.observed
    return subject.excess(case.problem, side.conventions, arithmetic, case.exact, side.values)[gradient].reshape(-1)


def evidence(case, gradient, wrong):
    """In bits: the elements `wrong`, were they wrong for another reason, would fit the buffer so well in one of 2^bits gradients."""
    own = case.observed.arithmetic
    value, exact, before = (given[gradient].reshape(-1).astype(np.float64) for given in (case.observed.values, case.exact, case.before))
    values = Values(value, exact, before, TYPES[own.stored])
    with np.errstate(all="ignore"):
        outside = excess(case, gradient, own)
        bits = values.bits(outside, wrong, bool(own.scatter))
        outside_narrow = excess(case, gradient, replace(own, real=case.problem.type, scatter=""))
        # Kernels of msda compute in float32, unless the values say otherwise; PyTorch's of the other operators need not.
        if own.scatter or case.problem.operator != "msda" or ((outside > 0) & (outside_narrow == 0)).any():
            bits = min(bits, values.bits(outside_narrow, wrong, True))
    return bits
