"""What msda-replay says of a case, set against what is right."""

import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from . import bounds, captures
from .kinds import KINDS
from .operator import GRADIENTS
from .rounding import TYPES, round_to

MISTAKES = ("implementation_error", "uninitialized_output", "reduced_precision")
MOST_ASKED = 6  # misses of a tensor in a 16-bit type whose bound is asked for one by one
MOST_TOLD = 6   # misses of a case that are told one by one


@dataclass
class Outcome:
    """Of one case. `visible`: faulty elements out of tolerance, beyond all that rounding gives; `named`: of these, the ones with a right
    cause and side. `faulty`, `clean`: elements out of tolerance that the fault moved, or did not; `accused`: those that a mistake was
    named for. `failures`: texts, empty if all is right."""

    case: str
    kind: str
    side: str
    type: str
    verdict: str = ""
    counts: Counter = field(default_factory=Counter)
    misses: list = field(default_factory=list)
    failures: list = field(default_factory=list)


def elements(text):
    """The numbers of "0-3,7"."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def run(program, path, *flags):
    """The JSON that `run` prints, or the reason why there is none."""
    done = subprocess.run([str(program), "run", str(path), "--device", "cpu", "--json", "-", *flags], capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        return None, f"exit status {done.returncode}: {done.stderr.strip()[:300]}"
    return json.loads(done.stdout), ""


def named_elements(invocation, shapes):
    """By (against, gradient, advisory): arrays of causes and of sides, empty texts where nothing is said."""
    named = {}
    for one in invocation["judged"]:
        key = (one["against"], one["tensor"], bool(one.get("advisory")))
        if key not in named:
            size = int(np.prod(shapes[one["tensor"]]))
            named[key] = (np.full(size, "", "U24"), np.full(size, "", "U12"))
        places = list(elements(one["elements"]))
        named[key][0][places], named[key][1][places] = one["cause"], one["at_fault"]
    return named


def mismatched(observed, expected, tolerance):
    """Out of tolerance, and not by the last bit of the limit."""
    with np.errstate(all="ignore"):
        limit = tolerance[0] + tolerance[1] * np.abs(expected)
        apart = np.abs(observed - expected)
        return np.where(np.isfinite(observed) & np.isfinite(expected), apart > limit * (1 + 1e-6) + 1e-300,
                        ~((observed == expected) | (np.isnan(observed) & np.isnan(expected))))


class Judge:
    def __init__(self, program, case, path):
        self.program, self.case, self.path = program, case, path
        self.kind = KINDS[case.kind]
        self.outcome = Outcome(case.name, case.kind, case.side, case.problem.type)

    def fail(self, text):
        self.outcome.failures.append(text)

    def judge(self):
        result, why = run(self.program, self.path)
        if result is None:
            self.fail(why)
            return self.outcome
        self.result = result
        shapes = {name: self.case.problem.shape_of(name) for name in GRADIENTS}
        self.named = named_elements(result["invocations"][0], shapes)
        self.visible = {"observed": 0, "reference": 0}
        comparisons = [("float64", False)] + ([("reference", False)] if self.case.reference else [])
        if self.case.observed.conventions.dialect != "grid_sample":
            comparisons.append(("grid_sample", True))
        for against, advisory in comparisons:
            for gradient in GRADIENTS:
                self.compare(against, gradient, advisory)
        self.check_verdict()
        return self.outcome

    def sides(self, against, gradient):
        """Values, what the fault moved and what is visible, of both sides; the expected one may be nobody's."""
        case = self.case
        observed = case.observed
        mine = (observed.values[gradient].reshape(-1), observed.touched(gradient).reshape(-1), observed.excess[gradient].reshape(-1) > 0)
        if against == "reference":
            other = case.reference
            return mine, (other.values[gradient].reshape(-1), other.touched(gradient).reshape(-1), other.excess[gradient].reshape(-1) > 0)
        nothing = np.zeros(mine[1].shape, bool)
        return mine, (case.exact[gradient].reshape(-1).astype(np.float64), nothing, nothing)

    def compare(self, against, gradient, advisory):
        (value, touched, visible), (expected, other_touched, other_visible) = self.sides(against, gradient)
        empty = np.full(value.shape, "")
        cause, at_fault = self.named.get((against, gradient, advisory), (empty, empty))
        accused = np.isin(cause, MISTAKES)
        # Nobody is accused of what the fault did not move.
        false = accused & ~((at_fault == "observed") & touched | (at_fault == "reference") & other_touched)
        if not advisory:  # grid_sample's own overflow is no reproach to anybody
            false |= (cause == "non_finite") & ((at_fault == "observed") & ~touched | (at_fault == "reference") & ~other_touched)
        self.report(against, gradient, "accused", false, value, expected, cause, at_fault)
        if advisory:
            return
        if gradient != "grad_value":
            elsewhere = np.isin(cause, ("cell_boundary", "border_clamp")) & ~touched & ~other_touched & ~self.near_boundary(gradient)
            self.report(against, gradient, "far from a boundary", elsewhere, value, expected, cause, at_fault)
        count = self.outcome.counts
        out = self.out_of_tolerance(against, gradient, value, expected)
        moved = touched | other_touched
        count["clean"] += int((out & ~moved).sum())
        count["faulty"] += int((out & moved).sum())
        count["accused"] += int(accused.sum())
        count["falsely accused"] += int(false.sum())
        # What is rightly not finite on one side hides the other side's fault.
        out &= (np.isfinite(value) | touched) & (np.isfinite(expected) | other_touched)
        mine_shown, other_shown = out & visible & touched, out & other_visible & other_touched
        shown = mine_shown | other_shown
        self.visible["observed"] += int(mine_shown.sum())
        self.visible["reference"] += int(other_shown.sum())
        # Where one side is visibly wrong and the other is faulty too, either may be named.
        side_right = (at_fault == "observed") & touched | (at_fault == "reference") & other_touched
        cause_right = np.isin(cause, list(self.kind.causes)) | (cause == "non_finite") & ~(np.isfinite(value) & np.isfinite(expected))
        count["visible"] += int(shown.sum())
        count["named"] += int((shown & cause_right & side_right).sum())
        wrong_side = shown & cause_right & ~side_right
        count["wrong side"] += int(wrong_side.sum())
        self.report(against, gradient, "wrong side", wrong_side, value, expected, cause, at_fault)
        missed = shown & ~(cause_right & side_right) & ~wrong_side
        self.explain(against, gradient, missed, value, expected, cause, at_fault)

    def near_boundary(self, gradient):
        """Elements of samples that a coordinate's rounding may carry into another cell, in the arithmetic of either side."""
        near = [bounds.near_boundary(self.case.problem, side.conventions, side.arithmetic)
                for side in (self.case.observed, self.case.reference) if side]
        near = np.logical_or.reduce(near)
        return np.repeat(near, 2) if gradient == "grad_sampling_locations" else near

    def out_of_tolerance(self, against, gradient, value, expected):
        out = mismatched(value, expected, self.case.allowed)
        if against == "float64" and self.case.problem.type == "float64":
            # The program's float64 may land in another cell than exact arithmetic does: the value must miss both.
            atol, rtol = self.case.allowed
            out &= ~(self.case.observed.excess[gradient].reshape(-1) <= atol + 1.1 * rtol * np.abs(value))
        return out

    def report(self, against, gradient, what, mask, value, expected, cause, at_fault):
        places = np.flatnonzero(mask)
        for place in places[:3]:
            exact = self.case.exact[gradient].reshape(-1)[place]
            self.fail(f"{what}: {gradient}[{place}] against {against}: {value[place]:.9g}, {expected[place]:.9g}, exact {exact:.9g}: "
                      f"{cause[place]} {at_fault[place]} ({len(places)} elements)")

    def explain(self, against, gradient, missed, value, expected, cause, at_fault):
        """A miss is in order if the bound that is printed with it explains it."""
        places = np.flatnonzero(missed)
        count = self.outcome.counts
        count["missed"] += len(places)
        printed = self.printed_bounds(against, gradient, places, value, expected)
        for place in map(int, places):
            if place not in printed:
                count["not printed"] += 1
                continue
            text, explained = printed[place]
            told = f"{gradient}[{place}] against {against}: {value[place]:.9g}, {expected[place]:.9g}: " \
                   f"{cause[place] or 'nothing'} {at_fault[place]}; {text}"
            if len(self.outcome.misses) < MOST_TOLD:
                self.outcome.misses.append(told)
            if not explained:
                count["unexplained"] += 1
                if count["unexplained"] <= MOST_TOLD:
                    self.fail("missed: " + told)

    def printed_bounds(self, against, gradient, places, value, expected):
        """By place: what the evidence of its finding says. Inside of a run of neighbours only the first element has evidence, and none has
        beyond a customary tolerance that nobody set. There the program is asked again, with a tolerance that the nearest of them just
        misses, of captures in which every other element is right. In 16-bit types so many right values would change what the program
        makes of the kernel's arithmetic: there a few of them are asked for, each with nothing but its neighbour put right."""
        printed = {}
        asked_for = {int(place) for place in places}
        shape = self.case.problem.shape_of(gradient)

        def take(result):
            for one in result["invocations"][0]["findings"] if result else ():
                if one["tensor"] == gradient and one["against"] == against and not one.get("advisory"):
                    place = int(np.ravel_multi_index(one["index"], shape))
                    if place in asked_for:
                        printed.setdefault(place, explains(one))

        def ask(places, righted):
            """With the largest relative tolerance, up to what rounding into the stored type takes, that the nearest place allows."""
            with np.errstate(all="ignore"):
                apart = np.abs(value[places] - expected[places])
            apart = 0.999 * float(np.min(apart[np.isfinite(apart)], initial=np.inf))
            if np.isfinite(apart):
                largest = float(np.max(np.abs(expected[places])))
                rtol = min(TYPES[self.case.observed.arithmetic.stored].unit, 0.9 * apart / max(largest, 1e-300))
                path = self.with_right_elements(gradient, righted)
                take(run(self.program, path, "--atol", repr(apart - rtol * largest), "--rtol", repr(rtol))[0])

        take(self.result)
        asked, rest = [], np.array(sorted(asked_for - set(printed)), int)
        if self.case.problem.type in ("float32", "float64"):
            everything = np.arange(value.size)
            for parity in (0, 1):
                mine = rest[rest % 2 == parity]
                if len(mine):
                    ask(mine, everything[everything % 2 != parity])
                    asked.extend(mine)
        else:
            for place in np.random.default_rng(0).permutation(rest)[:MOST_ASKED]:
                ask([place], [place - 1])
                asked.append(place)
        for place in asked:
            printed.setdefault(int(place), ("no finding", False))
        return printed

    def with_right_elements(self, gradient, places):
        """A capture in which these elements are right on both sides."""
        def right(side):
            array = side.values[gradient].copy()
            array.reshape(-1)[places] = round_to(self.case.observed.arithmetic.stored, exact[places])
            return replace(side, values={**side.values, gradient: array})

        exact = self.case.exact[gradient].reshape(-1).astype(np.float64)
        path = self.path.with_name("righted.h5")
        captures.write(path, replace(self.case, observed=right(self.case.observed),
                                     reference=right(self.case.reference) if self.case.reference else None))
        return path

    def check_verdict(self):
        verdict = self.result["invocations"][0]["verdict"]
        at_fault = self.outcome.verdict = verdict["at_fault"]
        right = {side for side, count in self.visible.items() if count}
        if not right:
            if set(verdict["causes"]) & set(MISTAKES) and self.case.side == "none":
                self.fail(f"verdict: {verdict['summary']}")
            return
        named = {one["at_fault"] for one in self.result["invocations"][0]["judged"]
                 if not one.get("advisory") and (one["cause"] in MISTAKES or one["cause"] == "non_finite")}
        if len(right) == 2 or self.case.side == "both":
            right = {"observed", "reference", "convention"}
        if at_fault not in right and named & right:
            self.outcome.counts["wrong verdict"] += 1
            self.fail(f"verdict: {at_fault}, not {' or '.join(sorted(right))}: {verdict['summary']}")


def explains(found):
    """Whether the bound in a finding's evidence is larger than the difference."""
    evidence, apart = found["evidence"], None
    if all(isinstance(found[name], (int, float)) for name in ("observed", "expected")):
        apart = abs(found["observed"] - found["expected"])
    for name in ("rounding_bound", "any_order_bound", "reach_of_orders"):
        if isinstance(evidence.get(name), (int, float)) and apart is not None:
            return f"{found['cause']}: {name} {evidence[name]:.3g}, difference {apart:.3g}", apart <= evidence[name] * (1 + 1e-6)
    if "sides" in evidence and apart is not None and found["cause"] in ("cell_boundary", "border_clamp"):
        reach = max(side["coordinate_error_bound"] for side in evidence["sides"])
        away = [(abs(found[name] - side["gradient_there"]), side["rounding_bound"])
                for name, side in zip(("observed", "expected"), evidence["sides"])]
        near = abs(evidence["distance_to_boundary"]) <= reach * (1 + 1e-6)
        return (f"{found['cause']}: {evidence['distance_to_boundary']:.3g} from the boundary, coordinate_error_bound {reach:.3g}; "
                + ", ".join(f"{off:.3g} from the gradient there, rounding_bound {bound:.3g}" for off, bound in away)), \
            near and all(off <= bound * (1 + 1e-6) for off, bound in away)
    return f"{found['cause']}: no bound printed", False


def judge(program, case, keep=None):
    """The outcome of a case; a capture that it fails on stays in the folder `keep`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{case.name}.h5"
        captures.write(path, case)
        try:
            outcome = Judge(program, case, path).judge()
        except subprocess.TimeoutExpired:
            outcome = Outcome(case.name, case.kind, case.side, case.problem.type, failures=["no result in 300 s"])
        if keep and outcome.failures:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / path.name).write_bytes(path.read_bytes())
            (keep / f"{case.name}.txt").write_text("\n".join(outcome.failures) + "\n")
    return outcome
