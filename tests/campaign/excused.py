"""Kinds of what msda-replay once excused, or charged to the wrong side, whatever the operator: gradients too small to be looked at, sums that
stop, mistakes of one side beside another one's, infinities of the wrong sign, subnormals that are flushed."""

from dataclasses import replace

import numpy as np

from .altering import change_all
from .planting import MISTAKE, NARROW, Kind, clean, other_arithmetic

ODD = frozenset({"non_finite"})
ONCE = {"real": "float32", "scatter": "", "blocks": 1}  # 16-bit tensors are added up in float32


def with_infinity(given):
    """One in an input."""
    def alter(problem, rng):
        array = getattr(problem, given).copy()
        if array.size:
            array.reshape(-1)[rng.integers(array.size)] = np.inf
        return replace(problem, **{given: array})
    return alter


def for_the_kernel(given, change):
    """What the kernel takes infinities for."""
    def plant(problem, rng):
        array = getattr(problem, given)
        return replace(problem, **{given: np.where(np.isinf(array), change(array), array)})
    return plant


def turn_infinities(values, rng):
    for array in values.values():
        infinite = np.isinf(array)
        array[infinite] = -array[infinite] if rng.uniform() < 0.5 else np.nan


def kinds(added, numbers, small, huge, underflowing, positive, crowded, apart=None):
    """`added`: the input that is added up. `numbers`: by which name `problems.draw` takes rules of numbers: `small` ones and so on. `crowded`: a
    call in which some hundred go to one place. `apart`: one far from boundaries, beyond which an infinity's weight may be 0."""
    yield Kind("percent_off", "small gradients are 1 % too large, and nobody set a tolerance", "result", MISTAKE,
               change_all(lambda x, rng: x * 1.01), {numbers: small, "kind": "float32"}, tolerances=(None,))
    yield Kind("narrow_beside_wrong", "additions in float16, beside a reference that is 1.4 times too large", "kernel", NARROW,
               other_arithmetic(scatter="float16"), {"kind": "float32"}, sides=("both",),
               of_reference=Kind("", "", "result", plant=lambda values, rng: [np.multiply(x, 1.4, out=x) for x in values.values()]))
    for name, text, change in (("infinity_ignored", "an infinity among the numbers is taken for 1", np.ones_like),
                               ("infinity_negated", "an infinity has the other sign", np.negative)):
        yield Kind(name, text, "input", MISTAKE | ODD, for_the_kernel(added, change), {"kind": "float32", **(apart or {})}, sides=("observed",), alter=with_infinity(added))
    yield Kind("overflow_negated", "gradients beyond float16's largest number are infinities of the other sign, or NaN", "result", MISTAKE | ODD,
               turn_infinities, {**crowded, numbers: huge, "kind": "float16"}, arithmetic=ONCE, sides=("observed",))
    yield Kind("sum_stopped", "some hundred numbers of bfloat16 are added up in it, whose sum stops growing", "kernel",
               MISTAKE | {"stopped_sum", "reduced_precision"}, other_arithmetic(scatter="bfloat16"), {**crowded, numbers: positive, "kind": "bfloat16"},
               arithmetic=ONCE)
    yield clean("flushed", "additions flush subnormals, as a GPU's atomic ones do", call={numbers: underflowing, "kind": "float32"},
                arithmetic={"flushes": True})
