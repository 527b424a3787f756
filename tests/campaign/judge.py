"""What msda-replay says of a case, set against what is right."""

import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from . import captures, cases, chance
from .answers import named_elements, run
from .misses import PrintedBounds
from .planting import UNTOUCHED
from .steps import EXACT
from .subjects import SUBJECTS

MISTAKES = ("implementation_error", "uninitialized_output", "reduced_precision")
MOST_TOLD = 6  # misses of a case that are listed one by one


@dataclass
class Outcome:
    """What was found in one case. `visible`: faulty elements out of tolerance, beyond all that rounding gives; `named`: of these, the ones with a right
    cause and side. `faulty`, `clean`: elements out of tolerance that the fault moved, or did not; `accused`: those that a mistake was
    named for. `failures`: texts, empty if all is right."""

    case: str
    kind: str
    side: str
    operator: str
    type: str
    verdict: str = ""
    counts: Counter = field(default_factory=Counter)
    misses: list = field(default_factory=list)
    failures: list = field(default_factory=list)


def mismatched(observed, expected, tolerance):
    """Out of tolerance, and not by the last bit of the limit."""
    with np.errstate(all="ignore"):
        limit = tolerance[0] + tolerance[1] * np.abs(expected)
        apart = np.abs(observed - expected)
        return np.where(np.isfinite(observed) & np.isfinite(expected), apart > limit * (1 + 1e-6) + 1e-300,
                        ~((observed == expected) | (np.isnan(observed) & np.isnan(expected))))


def under(fit, problem, conventions):
    """Problem and conventions as a text has them: "padding border in place of zeros and align_corners true in place of false"."""
    for change in fit.split(" and "):
        name, now = change.split()[:2]
        if name == "spatial_shapes":
            problem = replace(problem, levels=tuple((width, height) for height, width in problem.levels))
        else:
            conventions = replace(conventions, **{name: {"true": True, "false": False}.get(now, now)})
    if (conventions.padding, conventions.align_corners) != ("zeros", False) and conventions.dialect == "deformable_detr":
        conventions = replace(conventions, dialect="msda_triton")  # the kernels of that dialect have no others
    return problem, conventions


class Judge:
    def __init__(self, program, case, path):
        self.program, self.case, self.path = program, case, path
        self.subject = SUBJECTS[case.problem.operator]
        self.kind = self.subject.kinds.get(case.kind, UNTOUCHED)
        self.outcome = Outcome(case.name, case.kind, case.side, case.problem.operator, case.problem.type)

    def fail(self, text):
        self.outcome.failures.append(text)

    def judge(self):
        result, why = run(self.program, self.path)
        if result is None:
            self.fail(why)
            return self.outcome
        self.result = result
        shapes = {name: self.case.problem.shape_of(name) for name in self.case.problem.gradients}
        self.named = named_elements(result["invocations"][0], shapes)
        self.visible = {"observed": 0, "reference": 0}
        comparisons = [("float64", False)] + ([("reference", False)] if self.case.reference else [])
        if self.subject.advised(self.case.observed.conventions):
            comparisons.append(("grid_sample", True))
        for against, advisory in comparisons:
            for gradient in self.case.problem.gradients:
                self.compare(against, gradient, advisory)
        self.check_biases()
        self.check_verdict()
        return self.outcome

    def sides(self, against, gradient):
        """Values, what the fault moved and what is visible, of both sides; the expected one may be nobody's."""
        case = self.case
        observed = case.observed
        mine = (observed.values[gradient].reshape(-1), observed.touched(gradient).reshape(-1), observed.excess[gradient].reshape(-1) > 0)
        if against == "reference":
            another = case.reference
            return mine, (another.values[gradient].reshape(-1), another.touched(gradient).reshape(-1), another.excess[gradient].reshape(-1) > 0)
        nothing = np.zeros(mine[1].shape, bool)
        return mine, (case.exact[gradient].reshape(-1).astype(np.float64), nothing, nothing)

    def compare(self, against, gradient, advisory):
        (value, touched, visible), (expected, other_touched, other_visible) = self.sides(against, gradient)
        empty = np.full(value.shape, "")
        cause, at_fault = self.named.get((against, gradient, advisory), (empty, empty))
        side_right = (at_fault == "observed") & touched | (at_fault == "reference") & other_touched
        if self.case.side == "both":  # two sides that err alike may as well follow conventions that the capture does not name
            side_right |= (at_fault == "convention") & touched
        elements = (against, gradient, value, expected, cause, at_fault)
        self.check_accusations(elements, advisory, touched, other_touched, side_right)
        if advisory:
            return
        out = self.out_of_tolerance(against, gradient, value, expected)
        count = self.outcome.counts
        count["clean"] += int((out & ~touched & ~other_touched).sum())
        count["faulty"] += int((out & (touched | other_touched)).sum())
        # What is rightly not finite on one side hides the other side's fault, but for what no infinity may be.
        out &= (np.isfinite(value) | touched) & (np.isfinite(expected) | other_touched | (np.isinf(expected) & visible & touched))
        mine_shown, other_shown = out & visible & touched, out & other_visible & other_touched
        self.visible["observed"] += int(mine_shown.sum())
        self.visible["reference"] += int(other_shown.sum())
        self.check_visible(elements, mine_shown | other_shown, side_right, self.jumps(against, gradient, value, expected))

    def jumps(self, against, gradient, value, expected):
        """Elements of which most of the difference is a jump that rounding may make: the smaller part is what no rounding gives."""
        sides = [self.case.observed] + ([self.case.reference] if against == "reference" else [])
        with np.errstate(invalid="ignore"):
            return sum(side.excess[gradient].reshape(-1) for side in sides) < np.abs(value - expected) / 2

    def check_accusations(self, elements, advisory, touched, other_touched, side_right):
        """Nobody is accused of what the fault did not move, and no boundary is named where there is none."""
        against, gradient, value, expected, cause, at_fault = elements
        accused = np.isin(cause, MISTAKES)
        false = accused & ~side_right
        if not advisory:  # grid_sample's own overflow is no reproach to anybody
            false |= (cause == "non_finite") & np.isin(at_fault, ("observed", "reference")) & ~side_right
            self.outcome.counts["accused"] += int(accused.sum())
            self.outcome.counts["falsely accused"] += int(false.sum())
        self.report("accused", false, *elements)
        if gradient != self.case.problem.scattered and not advisory:
            elsewhere = np.isin(cause, ("cell_boundary", "border_clamp")) & ~touched & ~other_touched & ~self.near_boundary(gradient)
            self.report("far from a boundary", elsewhere, *elements)

    def check_visible(self, elements, shown, side_right, jumps):
        """Where one side is visibly wrong and the other is faulty too, either may be named."""
        against, gradient, value, expected, cause, at_fault = elements
        count = self.outcome.counts
        # A gradient that rounding may carry beyond the type's largest number is the tolerance's: a miss that a bound must explain.
        overflow = (cause == "non_finite") & (at_fault != "tolerance") & ~(np.isfinite(value) & np.isfinite(expected))
        cause_right = np.isin(cause, list(self.kind.causes)) & ~((cause == "non_finite") & (at_fault == "tolerance")) | overflow
        # A single value of 16 bits may be what a sum in them stops at, by chance: that charges the same side.
        cause_right |= cause == "stopped_sum"
        shown &= ~(jumps & np.isin(cause, ("cell_boundary", "border_clamp")))
        wrong_side = shown & cause_right & ~side_right
        count["visible"] += int(shown.sum())
        count["named"] += int((shown & cause_right & side_right).sum())
        count["wrong side"] += int(wrong_side.sum())
        self.report("wrong side", wrong_side, *elements)
        missed = shown & ~cause_right
        count["missed"] += int(missed.sum())
        count["in float64"] += int(missed.sum() - self.shown_by_capture(against, gradient, missed).sum())
        self.explain(missed & ~self.hidden_by_chance(shown, *elements), *elements)

    def shown_by_capture(self, against, gradient, missed):
        """Elements whose fault float32 arithmetic does not explain: a float32 result does not say that a side computed it in float64."""
        sides = [self.case.observed] + ([self.case.reference] if against == "reference" else [])
        arithmetics = [replace(side.arithmetic, real="float32") if self.hides_float64(side) else side.arithmetic for side in sides]
        if not missed.any() or all(side.arithmetic is arithmetic for side, arithmetic in zip(sides, arithmetics)):
            return missed
        shown = np.zeros(missed.shape, bool)
        for side, arithmetic in zip(sides, arithmetics):
            excess = self.subject.excess(self.case.problem, side.conventions, arithmetic, self.case.exact, side.values)
            shown |= (excess[gradient].reshape(-1) > 0) & side.touched(gradient).reshape(-1)
        return missed & shown

    @staticmethod
    def hides_float64(side):
        return side.arithmetic.real == "float64" != side.arithmetic.stored

    def near_boundary(self, gradient):
        """Elements of samples that a coordinate's rounding may carry into another cell, in the arithmetic of either side."""
        return np.logical_or.reduce([self.subject.near_boundary(self.case.problem, side.conventions, side.arithmetic, gradient)
                                     for side in (self.case.observed, self.case.reference) if side])

    def out_of_tolerance(self, against, gradient, value, expected):
        out = mismatched(value, expected, self.case.allowed(gradient))
        if against == "float64" and self.case.problem.type == "float64":
            # The program's float64 may land in another cell than exact arithmetic does: the value must miss both.
            atol, rtol = self.case.allowed(gradient)
            with np.errstate(invalid="ignore"):
                out &= ~(self.case.observed.excess[gradient].reshape(-1) <= atol + 1.1 * rtol * np.abs(value))
        return out

    def report(self, what, mask, against, gradient, value, expected, cause, at_fault):
        places = np.flatnonzero(mask)
        for place in places[:3]:
            exact = self.case.exact[gradient].reshape(-1)[place]
            self.fail(f"{what}: {gradient}[{place}] against {against}: {value[place]:.9g}, {expected[place]:.9g}, exact {exact:.9g}: "
                      f"{cause[place]} {at_fault[place]} ({len(places)} elements)")

    def explain(self, missed, against, gradient, value, expected, cause, at_fault):
        """A miss is in order if the bound that is printed with it explains it."""
        count = self.outcome.counts
        places = np.flatnonzero(missed)
        printed = PrintedBounds(self.program, self.case, self.path, against, gradient).read(self.result, places, value, expected, cause)
        for place in map(int, places):
            if place not in printed:
                count["not printed"] += 1
                continue
            text, explained = printed[place]
            answer = f"{gradient}[{place}] against {against}: {value[place]:.9g}, {expected[place]:.9g}: " \
                   f"{cause[place] or 'nothing'} {at_fault[place]}; {text}"
            if len(self.outcome.misses) < MOST_TOLD:
                self.outcome.misses.append(answer)
            if not explained:
                count["unexplained"] += 1
                if count["unexplained"] <= MOST_TOLD:
                    self.fail("missed: " + answer)

    def hidden_by_chance(self, shown, against, gradient, value, expected, cause, at_fault):
        """Elements for which the program did not name the buffer, nor anybody but the right side: in order if what fits the buffer exceeds
        chance by less than it promises."""
        unnamed = shown & (cause == "implementation_error") & (at_fault == "observed")
        if self.kind.room != "buffer" or self.case.problem.type not in ("float16", "bfloat16") or not unnamed.any():
            return np.zeros(shown.shape, bool)
        # What is attributed to rounding shows nothing of the buffer: the bound printed with it has to explain it.
        wrong = shown & np.isin(cause, ("implementation_error", "uninitialized_output"))
        bits = chance.evidence(self.case, gradient, wrong)
        strong = bits >= chance.PROMISED + chance.EITHER
        self.outcome.counts["beyond chance" if strong else "by chance"] += int(unnamed.sum())
        if strong:
            self.report(f"beyond chance by {bits:.1f} bits, where the buffer is to be named from {chance.PROMISED:g} on", unnamed,
                        against, gradient, value, expected, cause, at_fault)
        return unnamed

    def check_biases(self):
        """Errors lean only where a fault makes them; and a convention explains every gradient or none."""
        (call,) = self.result["invocations"]
        for bias in call["biases"]:
            moved = self.case.observed.touched(bias["tensor"]).any()
            self.outcome.counts["leaning" if moved else "falsely leaning"] += 1
            if not moved:
                self.fail(f"errors are said to lean: {bias}")
        alone = [fit for fit in call["fits"] if self.kind.room == "convention" and not self.explains(fit)]
        if alone:
            self.fail(f"conventions that one gradient has alone: {alone}")

    def explains(self, fit):
        """Whether the conventions of this text give every recorded gradient, but for single ones of the elements that distinguish them from the
        call's: where numbers are equal or samples lie on pixels, the fault may be what another padding gives, too."""
        case, customary = self.case, cases.CUSTOMARY[self.case.problem.type]
        problem, conventions = under(fit, case.problem, case.observed.conventions)
        exact = self.subject.backward(problem, conventions, EXACT)
        for gradient in case.problem.gradients:
            values, own, another = case.observed.values[gradient], case.exact[gradient], exact[gradient]
            mean = np.abs(values[np.isfinite(values)]).mean() if values.size else 0
            allowed = np.maximum(customary, case.tolerance) if case.tolerance else (min(customary[0], 0.1 * customary[1] * mean), customary[1])
            missed, apart = mismatched(values, another, allowed), mismatched(own, another, allowed)
            if 50 * (missed & apart).sum() > apart.sum():
                return False
        return True

    def check_verdict(self):
        verdict = self.result["invocations"][0]["verdict"]
        at_fault = self.outcome.verdict = verdict["at_fault"]
        right = {side for side, count in self.visible.items() if count}
        if not right:
            if set(verdict["causes"]) & set(MISTAKES) and self.case.side == "none":
                self.fail(f"verdict: {verdict['summary']}")
            return
        named = {entry["at_fault"] for entry in self.result["invocations"][0]["judged"]
                 if not entry.get("advisory") and (entry["cause"] in MISTAKES or entry["cause"] == "non_finite")}
        if len(right) == 2 or self.case.side == "both":
            right = {"observed", "reference", "convention"}
        if at_fault not in right and named & right:
            self.outcome.counts["wrong verdict"] += 1
            self.fail(f"verdict: {at_fault}, not {' or '.join(sorted(right))}: {verdict['summary']}")


def judge(program, case, keep=None):
    """The outcome of a case; a capture that it fails on stays in the folder `keep`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{case.name}.h5"
        captures.write(path, case)
        try:
            outcome = Judge(program, case, path).judge()
        except subprocess.TimeoutExpired:
            outcome = Outcome(case.name, case.kind, case.side, case.problem.operator, case.problem.type, failures=["no result in 300 s"])
        if keep and outcome.failures:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / path.name).write_bytes(path.read_bytes())
            (keep / f"{case.name}.txt").write_text("\n".join(outcome.failures) + "\n")
    return outcome
