"""Cases made of the calls of a recorded capture: each as it was recorded, and with each kind of fault planted in what was recorded.

Which of the arithmetics that kernels of such tensors have the recorded one has is shown by its results: the first, of those from the narrowest
bound to the widest, whose bound holds of all of them. A fault of a kernel's steps is computed in that arithmetic, and takes the place of what
was recorded where it makes a difference."""

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Dict, List, Optional

import numpy as np

from .cases import Case, Side, draw_before, draw_tolerance, plant, rounded
from .planting import UNTOUCHED
from .recorded import RecordedCall, Unreadable, read_calls
from .steps import EXACT, Arithmetic
from .subjects import SUBJECTS

MOST_PAIRS = 4_000_000  # sources times places of a sum: bounds are matrices of these


def arithmetics(problem, stored):
    """That a kernel of such tensors may have, by the width of their bounds."""
    if problem.type not in ("float16", "bfloat16"):
        yield Arithmetic(real=problem.type, stored=stored)
        return
    yield Arithmetic(real="float32", stored=stored)
    yield Arithmetic(real="float32", stored=stored, scatter=problem.type)
    if problem.operator == "grid_sample" or getattr(problem, "narrow_kernels", False):
        yield Arithmetic(real=problem.type, stored=stored, fused=False)


def same(entry, another):
    return (entry == another) | (np.isnan(entry) & np.isnan(another))


@dataclass
class RealCall:
    """A recorded call in the campaign's words. `why_not`: the reason why nothing is planted in it; empty if it is."""

    recorded: RecordedCall
    operator: str
    conventions: object = None
    problem: object = None
    arithmetic: Optional[Arithmetic] = None
    why_not: str = ""

    def __post_init__(self):
        try:
            self.conventions, self.problem = self.subject.read(self.recorded)
            self.check()
            self.arithmetic = self.told_arithmetic()
        except Unreadable as error:
            self.why_not = str(error)

    @property
    def subject(self):
        return SUBJECTS[self.operator]

    def check(self):
        for name in self.problem.gradients:
            found = self.recorded.outputs.get(name)
            if found is None or found.shape != self.problem.shape_of(name):
                raise Unreadable(f"{name} was not recorded whole")
        places = getattr(self.problem, "target_count", 0)
        if places * len(self.problem.rows() if places else ()) > MOST_PAIRS:
            raise Unreadable("it is too large")

    @property
    def outputs(self):
        return {name: self.recorded.outputs[name] for name in self.problem.gradients}

    @property
    def before(self):
        return self.problem.begins_with or {name: self.recorded.before[name] for name in self.problem.gradients if name in self.recorded.before}

    @cached_property
    def exact(self):
        return self.subject.backward(self.problem, self.conventions, EXACT)

    def excess(self, arithmetic, values):
        return self.subject.excess(self.problem, self.conventions, arithmetic, self.exact, values)

    def told_arithmetic(self):
        stored = self.recorded.types[self.problem.scattered]
        for arithmetic in arithmetics(self.problem, stored):
            if not any((excess > 0).any() for excess in self.excess(arithmetic, self.outputs).values()):
                return arithmetic
        raise Unreadable("its results lie outside of all that rounding gives")

    def applies(self, kind):
        """Whether the call is one that the kind asks for; it may turn out to move nothing in it."""
        family = [getattr(entry, "family", entry) for entry in (self.conventions, *kind.conventions)]
        if kind.room in ("clean", "convention") or kind.alter or "observed" not in kind.sides or kind.call.get("kind", self.problem.type) != self.problem.type:
            return False
        return not (kind.room == "buffer" and self.problem.begins_with) and (not kind.conventions or family[0] in family[1:])

    @cached_property
    def kinds(self):
        return [kind for kind in self.subject.kinds.values() if self.applies(kind)]

    def values_of(self, kind, before, seed):
        """What a kernel with the fault would have left where this one left what was recorded."""
        backward = self.subject.backward
        planted = partial(plant, backward, kind, self.problem, self.conventions, self.arithmetic)
        if kind.room != "kernel":
            return rounded(self.arithmetic.stored, planted(self.outputs, before, seed))
        right = backward(self.problem, self.conventions, self.arithmetic)
        wrong = planted(right, before, seed)
        return rounded(self.arithmetic.stored, {name: np.where(same(wrong[name], right[name]), self.outputs[name], wrong[name]) for name in right})

    def case(self, index, kind, seed):
        """None if the fault moves nothing."""
        rng = np.random.default_rng([seed, index])
        before = self.before if kind.room != "buffer" else draw_before(rng, kind, self.problem, self.arithmetic.stored)
        values = self.outputs if kind is UNTOUCHED else self.values_of(kind, before, int(rng.integers(2**31)))
        side = Side(self.conventions, self.arithmetic, self.outputs, values)
        if kind is not UNTOUCHED and not any(side.touched(name).any() for name in values):
            return None
        side.excess = self.excess(self.arithmetic, values)
        return Case(f"{index:06d}-{self.recorded.name}-{kind.name}", kind.name, "none" if kind is UNTOUCHED else "observed", self.problem, self.exact,
                    side, None, before, draw_tolerance(rng, self.problem.type), self.recorded.facts.get("kernel", ""))


@dataclass
class RealCalls:
    """The cases of a capture. Case number I is call I modulo their number: first each call untouched, then each with one kind, in turns."""

    calls: List[RealCall]
    left_out: Dict[str, str]  # by the call's name: why

    def kinds_of(self, call, names):
        return [kind for kind in call.kinds if not names or kind.name in names]

    def count(self, names=None):
        most = max((len(self.kinds_of(call, names)) for call in self.calls), default=-1)
        return len(self.calls) * (most + 1)

    def case(self, seed, index, names=None):
        """None if the call has no kind in this turn, or if that moves nothing in it."""
        turn, place = divmod(index, len(self.calls))
        call = self.calls[place]
        kinds = self.kinds_of(call, names)
        if turn == 0:
            return call.case(index, UNTOUCHED, seed)
        return call.case(index, kinds[(turn + place) % len(kinds)], seed) if turn <= len(kinds) else None


@lru_cache(maxsize=1)
def calls_of(path, operator=None):
    """Returns the calls of the operator, or of every operator that the campaign knows."""
    calls, left_out = [], {}
    for recorded in read_calls(path):
        if operator and recorded.operator != operator:
            continue
        if not recorded.operator:
            left_out[recorded.name] = "it is of no operator that the campaign knows"
            continue
        call = RealCall(recorded, recorded.operator)
        if call.why_not:
            left_out[recorded.name] = call.why_not
        else:
            calls.append(call)
    return RealCalls(calls, left_out)
