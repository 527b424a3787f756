"""A case: one call, its recorded side and perhaps a reference, of which either may be faulty; what is right and what is visible."""

from dataclasses import dataclass, field
from functools import partial
from typing import Dict, Optional

import numpy as np

from .rounding import TYPES, round_to
from .steps import EXACT, Arithmetic
from .subjects import MSDA

CUSTOMARY = {"float32": (1e-3, 1e-2), "float64": (1e-7, 1e-7), "float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2)}
TORCH = {"float32": (1e-5, 1.3e-6), "float64": (1e-7, 1e-7), "float16": (1e-5, 1e-3), "bfloat16": (1e-5, 1.6e-2)}
FIXED = ((1e-2, 1e-2), (1e-3, 1e-2), (1e-4, 1e-4), (1e-5, 1e-5), (1e-6, 1e-6), (1e-7, 1e-7), (0.0, 1e-5), (1e-7, 0.0))


@dataclass
class Side:
    conventions: object
    arithmetic: Arithmetic
    clean: Dict[str, np.ndarray]  # what the kernel without the fault returns
    values: Dict[str, np.ndarray]
    excess: Dict[str, np.ndarray] = field(default_factory=dict)  # how far outside of all that rounding can give

    def touched(self, gradient):
        clean, now = self.clean[gradient], self.values[gradient]
        return ~((clean == now) | (np.isnan(clean) & np.isnan(now)))


@dataclass
class Case:
    name: str
    kind: str
    side: str  # which is faulty: "observed", "reference", "both" or "none"
    problem: object
    exact: Dict[str, np.ndarray]
    observed: Side
    reference: Optional[Side]
    before: Dict[str, np.ndarray]
    tolerance: Optional[tuple]
    kernel: str = ""  # its name, of a call that was recorded

    def allowed(self, gradient):
        """What is farther apart is out of tolerance. Where nobody set one, what 64 roundings of the mean do not reach is not looked at."""
        if self.tolerance:
            return self.tolerance
        stored = self.observed.arithmetic.stored
        sizes = np.abs(self.observed.values[gradient])
        mean = sizes[np.isfinite(sizes) & (sizes > 0)].mean() if (np.isfinite(sizes) & (sizes > 0)).any() else 0
        unit = TYPES["float64" if stored == "float64" else "float32"].unit
        return min(CUSTOMARY[stored][0], 64 * unit * mean), TYPES[stored].unit


def draw_tolerance(rng, kind):
    choice = rng.integers(10)
    if choice < 2:
        return None
    return CUSTOMARY[kind] if choice == 2 else TORCH[kind] if choice == 3 else FIXED[rng.integers(len(FIXED))]


def plant(backward, kind, problem, conventions, arithmetic, clean, before, seed):
    """The gradients of a side with its fault: by a kernel's own steps, or from `clean`, what the kernel returns without the fault."""
    rng = np.random.default_rng(seed)
    values = {name: array.copy() for name, array in clean.items()}
    if kind.room == "result":
        kind.plant(values, rng)
    elif kind.room == "kernel":
        values = backward(problem, *kind.plant(conventions, arithmetic, problem, rng))
    elif kind.room == "buffer":
        kind.plant(values, before, clean, rng)
    elif kind.room == "input":
        values = backward(kind.plant(problem, rng), conventions, arithmetic)
    elif kind.room == "convention":
        name = str(rng.choice(problem.gradients))
        values[name] = backward(problem, kind.plant(conventions), arithmetic)[name]
    return values


def run_side(backward, kind, faulty, problem, conventions, arithmetic, before, seed):
    """A side with its fault, if it has one."""
    clean = backward(problem, conventions, arithmetic)
    values = plant(backward, kind, problem, conventions, arithmetic, clean, before, seed) if faulty else dict(clean)
    return Side(conventions, arithmetic, clean, rounded(arithmetic.stored, values))


def rounded(stored, values):
    with np.errstate(all="ignore"):
        return {name: round_to(stored, array) for name, array in values.items()}


def draw_before(rng, kind, problem, stored):
    """The output buffers as the kernel finds them."""
    if problem.begins_with:
        return problem.begins_with
    if kind.room == "buffer" or kind.name == "buffer_overwritten":
        scale = 2.0 ** rng.integers(-6, 3)
        return {name: round_to(stored, scale * rng.standard_normal(problem.shape_of(name))) for name in problem.gradients}
    if rng.uniform() < 0.4:
        return {name: np.zeros(problem.shape_of(name)) for name in problem.gradients}
    return {}


def draw(seed, index, names=None, subject=MSDA):
    """The case of this number: the kinds take turns."""
    names = names or list(subject.kinds)
    kind = subject.kinds[names[index % len(names)]]
    rng = np.random.default_rng([seed, index])
    choices = kind.conventions or subject.conventions
    conventions = choices[rng.integers(len(choices))]
    problem = subject.draw(rng, conventions, **kind.call)
    if kind.alter:
        problem = kind.alter(problem, rng)
    side = str(rng.choice(kind.sides))
    arithmetic = subject.draw_arithmetic(rng, problem, kind.arithmetic)
    before = draw_before(rng, kind, problem, arithmetic.stored)
    plant_seed = int(rng.integers(2**31))
    run = partial(run_side, subject.backward)
    observed = run(kind, side in ("observed", "both"), problem, conventions, arithmetic, before, plant_seed)
    reference = None
    if side in ("reference", "both") or rng.uniform() < 0.6:
        reference = run(kind.of_reference or kind, side in ("reference", "both"), problem, *subject.draw_reference(rng, problem, conventions), {}, plant_seed)
    exact = subject.backward(problem, conventions, EXACT)
    for entry in (observed, reference):
        if entry:
            entry.excess = subject.excess(problem, entry.conventions, entry.arithmetic, exact, entry.values)
    return Case(f"{index:05d}-{kind.name}", kind.name, side, problem, exact, observed, reference, before,
                draw_tolerance(rng, problem.type) if not kind.tolerances else kind.tolerances[rng.integers(len(kind.tolerances))])
