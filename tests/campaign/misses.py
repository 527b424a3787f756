"""Misses, and the bounds that are printed with them."""

from collections import Counter
from dataclasses import replace

import numpy as np

from . import captures
from .answers import run
from .rounding import TYPES, round_to

ROUNDING = ("accumulation_order", "rounding", "ill_conditioned")
MOST_ASKED = 6  # misses of a tensor in a 16-bit type whose bound is asked for one by one


def distance(value, there, bound, largest):
    """From the gradient that a side's evidence gives; none for an infinity that stands for one beyond the type's largest number."""
    if isinstance(value, (int, float)):
        return abs(value - there)
    return 0.0 if value == ("Infinity" if there > 0 else "-Infinity") and abs(there) + bound > largest * (1 - 1e-3) else np.inf


def explains(found, largest=np.inf):
    """Whether the bound in a finding's evidence is larger than the difference. `largest`: of the type that the gradients are stored in."""
    evidence, apart = found["evidence"], None
    if all(isinstance(found[name], (int, float)) for name in ("observed", "expected")):
        apart = abs(found["observed"] - found["expected"])
    for name in ("rounding_bound", "any_order_bound", "reach_of_orders"):
        if isinstance(evidence.get(name), (int, float)) and apart is not None:
            return f"{found['cause']}: {name} {evidence[name]:.3g}, difference {apart:.3g}", apart <= evidence[name] * (1 + 1e-6)
    if found["cause"] == "non_finite" and "gradient" in evidence:
        infinite = found["expected"] if isinstance(found["observed"], (int, float)) else found["observed"]
        bound, partial = evidence["rounding_bound"], evidence.get("largest_partial", 0)
        return (f"non_finite: {evidence['gradient']:.9g}, rounding_bound {bound:.3g}, largest_partial {partial:.3g}",
                partial > largest or distance(infinite, evidence["gradient"], bound, largest) == 0)
    if "sides" in evidence and found["cause"] in ("cell_boundary", "border_clamp"):
        reach = max(side.get("coordinate_error_bound", 0) for side in evidence["sides"])
        away = [(distance(found[name], side["gradient_there"], side["rounding_bound"], largest), side["rounding_bound"])
                for name, side in zip(("observed", "expected"), evidence["sides"])]
        boundary = evidence.get("distance_to_boundary", 0)  # none of a number of points
        near = abs(boundary) <= reach * (1 + 1e-6)
        return (f"{found['cause']}: {boundary:.3g} from the boundary, coordinate_error_bound {reach:.3g}; "
                + ", ".join(f"{off:.3g} from the gradient there, rounding_bound {bound:.3g}" for off, bound in away)), \
            near and all(off <= bound * (1 + 1e-6) for off, bound in away)
    return f"{found['cause']}: no bound printed", False


class PrintedBounds:
    """For misses of one gradient in one comparison, by place: what the evidence of each one's finding says, and whether that explains it.

    Inside of a run of neighbours only the first element has evidence, and none has beyond a customary tolerance that nobody set. There the
    program is asked again, with a tolerance that the nearest of them just misses, of captures in which every other element is right. In
    16-bit types so many right values would change what the program makes of the kernel's arithmetic: there a few of them are asked for,
    each with nothing but its neighbour put right, and the others are not in `found`. Nor are those for which the other capture has another
    cause, or more findings than get a reason: that says nothing of the miss."""

    def __init__(self, program, case, path, against, gradient):
        self.program, self.case, self.path, self.against, self.gradient = program, case, path, against, gradient
        self.wanted, self.found, self.silent = {}, {}, set()

    def read(self, result, places, value, expected, cause):
        self.wanted = {int(place): cause[place] for place in places}
        self.take(result, asked=False)
        rest = np.array(sorted(set(self.wanted) - set(self.found)), int)
        if self.case.problem.type in ("float32", "float64"):
            asked = rest
            self.ask_halves(rest, value, expected)
            if self.case.problem.type == "float64":  # on a tie the program's may be nearer to the value than exact arithmetic is
                self.ask_halves(np.array(sorted(set(map(int, rest)) - set(self.found) - self.silent), int), value, expected, 1e-3)
        else:
            asked = np.random.default_rng(0).permutation(rest)[:MOST_ASKED]
            for place in asked:
                self.ask(value[[place]], expected[[place]], [place - 1] if place else [])
        for place in set(map(int, asked)) - self.silent:
            self.found.setdefault(place, ("no finding", False))
        return self.found

    def ask_halves(self, places, value, expected, share=0.999):
        everything = np.arange(value.size)
        for parity in (0, 1):
            mine = places[places % 2 == parity]
            if len(mine):
                self.ask(value[mine], expected[mine], everything[everything % 2 != parity], share)

    def take(self, result, asked=True):
        shape = self.case.problem.shape_of(self.gradient)
        findings = [entry for entry in (result["invocations"][0]["findings"] if result else ())
                    if entry["tensor"] == self.gradient and entry["against"] == self.against and not entry.get("advisory")]
        untold = Counter()  # of more elements with one cause than these, some have a finding
        for finding in result["invocations"][0]["judged"] if result else ():
            if finding["tensor"] == self.gradient and finding["against"] == self.against and not finding.get("advisory"):
                untold[finding["cause"]] += finding["count"]
        for finding in findings:
            untold[finding["cause"]] -= finding["count"]
        # What had no finding without a tolerance has one, of any cause, if it is asked for.
        some_untold = asked and max(untold.values(), default=0) > 0
        self.silent |= {place for place, cause in self.wanted.items() if (untold[cause] > 0 if cause else some_untold)}
        for finding in findings:
            place = int(np.ravel_multi_index(finding["index"], shape))
            self.silent |= set(range(place + 1, place + finding["count"])) & set(self.wanted)
            if place not in self.wanted:
                continue
            if finding["cause"] == self.wanted[place] or (not self.wanted[place] and finding["cause"] in ROUNDING):
                self.found.setdefault(place, explains(finding, TYPES[self.case.observed.arithmetic.stored].largest))
            else:
                self.silent.add(place)

    def ask(self, value, expected, righted, share=0.999):
        """With the largest relative tolerance, up to what rounding into the stored type takes, that a share of the nearest value's distance allows."""
        with np.errstate(all="ignore"):
            apart = np.abs(value - expected)
        apart = share * float(np.min(apart[np.isfinite(apart)], initial=np.inf))
        if np.isfinite(apart):
            largest = float(np.max(np.abs(expected)))
            rtol = min(TYPES[self.case.observed.arithmetic.stored].unit, 0.9 * apart / max(largest, 1e-300))
            path = self.with_right_elements(righted)
            self.take(run(self.program, path, "--atol", repr(apart - rtol * largest), "--rtol", repr(rtol))[0])
        elif len(value):
            self.take(run(self.program, self.with_right_elements(righted))[0])

    def with_right_elements(self, places):
        """A capture in which these elements are right on both sides."""
        places = np.asarray(places, int)

        def right(side):
            array = side.values[self.gradient].copy()
            array.reshape(-1)[places] = round_to(self.case.observed.arithmetic.stored, exact[places])
            return replace(side, values={**side.values, self.gradient: array})

        exact = self.case.exact[self.gradient].reshape(-1).astype(np.float64)
        path = self.path.with_name("righted.h5")
        captures.write(path, replace(self.case, observed=right(self.case.observed),
                                     reference=right(self.case.reference) if self.case.reference else None))
        return path
