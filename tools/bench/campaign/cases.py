"""A case: one call, its recorded side and perhaps a reference, of which either may be faulty; what is right and what is visible."""

from dataclasses import dataclass, field, replace
from typing import Dict, Optional

import numpy as np

from . import bounds, problems
from .kinds import KINDS
from .operator import EXACT, GRADIENTS, Arithmetic, Conventions, Problem, backward
from .rounding import round_to

CUSTOMARY = {"float32": (1e-3, 1e-2), "float64": (1e-7, 1e-7), "float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2)}
TORCH = {"float32": (1e-5, 1.3e-6), "float64": (1e-7, 1e-7), "float16": (1e-5, 1e-3), "bfloat16": (1e-5, 1.6e-2)}
FIXED = ((1e-2, 1e-2), (1e-3, 1e-2), (1e-4, 1e-4), (1e-5, 1e-5), (1e-6, 1e-6), (1e-7, 1e-7), (0.0, 1e-5), (1e-7, 0.0))


@dataclass
class Side:
    conventions: Conventions
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
    problem: Problem
    exact: Dict[str, np.ndarray]
    observed: Side
    reference: Optional[Side]
    before: Dict[str, np.ndarray]
    tolerance: Optional[tuple]

    @property
    def allowed(self):
        return self.tolerance or CUSTOMARY[self.observed.arithmetic.stored]


def draw_arithmetic(rng, problem, given):
    real = "float64" if problem.type == "float64" else "float32"
    drawn = Arithmetic(
        real=real, stored=problem.type, fused=bool(rng.integers(2)), factors=str(rng.choice(["weights", "grad_output", "axes"])),
        slopes=str(rng.choice(["differences", "corners"])), scaled=str(rng.choice(["after", "before"])),
        channels=str(rng.choice(["serial", "tree", "random"])), order=str(rng.choice(["forward", "backward", "random", "random"])),
        blocks=int(rng.choice([1, 1, 3])), seed=int(rng.integers(2**31)))
    return replace(drawn, **given)


def draw_reference(rng, problem, conventions):
    """What tests compare with: another kernel of the dialect, or grid_sample, in the call's type or in float64."""
    dialect = str(rng.choice([conventions.dialect, "grid_sample"]))
    wide = rng.uniform() < 0.25
    arithmetic = draw_arithmetic(rng, problem, {})
    if wide:
        arithmetic = replace(arithmetic, real="float64", stored=str(rng.choice(["float64", problem.type])))
    return replace(conventions, dialect=dialect), arithmetic


def draw_tolerance(rng, kind):
    choice = rng.integers(10)
    if choice < 2:
        return None
    return CUSTOMARY[kind] if choice == 2 else TORCH[kind] if choice == 3 else FIXED[rng.integers(len(FIXED))]


def run_side(kind, faulty, problem, conventions, arithmetic, before, seed):
    """A side with its fault, if it has one."""
    rng = np.random.default_rng(seed)
    clean = backward(problem, conventions, arithmetic)
    values = {name: array.copy() for name, array in clean.items()}
    if faulty and kind.room == "result":
        kind.plant(values, rng)
    elif faulty and kind.room == "kernel":
        other, narrow, tampering = kind.plant(conventions, arithmetic, problem, rng)
        values = backward(problem, other, narrow, tampering)
    elif kind.room == "buffer" and faulty:
        kind.plant(values, before, clean, rng)
    with np.errstate(all="ignore"):
        values = {name: round_to(arithmetic.stored, array) for name, array in values.items()}
    return Side(conventions, arithmetic, clean, values)


def draw_before(rng, kind, problem, clean_shape, stored):
    """The output buffers as the kernel finds them."""
    if kind.room == "buffer" or kind.name == "buffer_overwritten":
        scale = 2.0 ** rng.integers(-6, 3)
        return {name: round_to(stored, scale * rng.standard_normal(problem.shape_of(name))) for name in GRADIENTS}
    if rng.uniform() < 0.4:
        return {name: np.zeros(problem.shape_of(name)) for name in GRADIENTS}
    return {}


def draw(seed, index, names=None):
    """The case of this number: the kinds take turns."""
    names = names or list(KINDS)
    kind = KINDS[names[index % len(names)]]
    rng = np.random.default_rng([seed, index])
    conventions = kind.conventions[rng.integers(len(kind.conventions))]
    problem = problems.draw(rng, align=conventions.align_corners, **kind.call)
    if kind.alter:
        problem = kind.alter(problem, rng)
    side = str(rng.choice(kind.sides))
    arithmetic = draw_arithmetic(rng, problem, kind.arithmetic)
    before = draw_before(rng, kind, problem, None, arithmetic.stored)
    plant_seed = int(rng.integers(2**31))
    observed = run_side(kind, side in ("observed", "both"), problem, conventions, arithmetic, before, plant_seed)
    reference = None
    if side in ("reference", "both") or rng.uniform() < 0.6:
        reference = run_side(kind, side in ("reference", "both"), problem, *draw_reference(rng, problem, conventions), {}, plant_seed)
    exact = backward(problem, conventions, EXACT)
    for one in (observed, reference):
        if one:
            one.excess = bounds.excess(problem, one.conventions, one.arithmetic, exact, one.values)
    return Case(f"{index:05d}-{kind.name}", kind.name, side, problem, exact, observed, reference, before,
                draw_tolerance(rng, problem.type))
