"""What rounding can give, bounded for certain: an interval around each exact element. First-order error analysis (Higham, Accuracy and
Stability of Numerical Algorithms, chapters 3 and 4).

A problem's `reach` says of each source and target: the weight in exact arithmetic, how far rounding of coordinates may change that, and
how many addends there are at most; it is written otherwise than what kernels compute."""

import numpy as np

from ..rounding import TYPES, hidden_infinity, smallest


def at_least_1(x):
    return np.maximum(1, np.abs(x))


def interval(problem, conventions, arithmetic, exact):
    """(center, radius), of places by channels."""
    real, adds, stored = (TYPES[name] for name in (arithmetic.real, arithmetic.scatter or arithmetic.real, arithmetic.stored))
    size = np.abs(problem.rows())
    given, off, count = problem.reach(conventions, real)
    held, divisor = problem.held(conventions), problem.divisor(conventions)[:, None]
    reached = np.abs(given) + off
    additions = (count.sum(0) + 2) * adds.unit
    additions = np.where(additions < 1, additions / np.maximum(1 - additions, adds.unit), np.inf)[:, None]
    finite = np.where(np.isfinite(size), size, 0)
    total = reached.T @ finite + np.abs(held)
    under = 8 * real.tiny * ((count > 0).T @ at_least_1(finite)) + smallest(arithmetic, adds) * (count.sum(0)[:, None] + 1)
    # What is added is rounded to the type of the additions; products have up to eight roundings of their own.
    radius = off.T @ finite + (8 * real.unit * (1 + 8 * real.unit) + adds.unit + additions) * total + under
    radius = np.where(total > adds.largest / 8, np.inf, radius)
    center = exact.astype(np.longdouble)
    radius = radius / divisor + np.where(divisor == 1, 0, 2 * real.unit * np.abs(center) + real.tiny)
    radius = (2.0 if arithmetic.real == "float64" else 1.0) * 1.0001 * radius
    return center, radius + stored.unit * (np.abs(center) + radius) + stored.tiny


def excess(problem, conventions, arithmetic, exact, values):
    """By how much each value lies outside of all that rounding can give; 0 within."""
    name = problem.scattered
    with np.errstate(all="ignore"):
        value, right = problem.places(values[name]), problem.places(exact[name])
        center, radius = interval(problem, conventions, arithmetic, right)
        away = np.maximum(np.abs(value - center) - radius, 0)
        anything = np.isinf(radius) | reached_by_odd(problem, conventions, arithmetic)
        overflown = np.isinf(value) & (np.abs(right) >= 0.99 * TYPES[arithmetic.stored].largest) & (value * right > 0)
        wrong_kind = (np.isfinite(value) != np.isfinite(right)) & ~overflown
        away = np.where(overflown | anything, 0, away)
        away = np.where(wrong_kind & ~anything, np.inf, np.where(np.isnan(away), 0, away))
        away = np.where(hidden_infinity(value, right) & ~reached_by_odd(problem, conventions, arithmetic), np.inf, away)
    return {name: problem.tensor(away.astype(np.float64))}


def reached_by_odd(problem, conventions, arithmetic):
    """Elements that a number that is not finite may reach, or not: rounding decides it."""
    given, off, _ = problem.reach(conventions, TYPES[arithmetic.real])
    return ((np.abs(given) <= off) & (off > 0)).T.astype(float) @ (~np.isfinite(problem.rows())).astype(float) > 0
