"""All kinds of scatter_add's captures: faults of either side, and clean variations in which nothing is wrong."""

from dataclasses import replace

import numpy as np

from .. import excused
from ..planting import MISTAKE, Kind, clean, tampering, whole
from ..scatter import faults, kinds
from . import problems
from .problems import BY_FREQUENCY, CONVENTIONS, EMBEDDING, INDEX_ADD, INDEX_PUT, INTO_BUFFER, MEAN, MEAN_OF_ADDED, SCATTER, UNHELD


def with_other(**changes):
    return faults.conventions_of(lambda conventions, rng: replace(conventions, **{name: change(getattr(conventions, name)) for name, change in changes.items()}))


def rows_on(step):
    return lambda targets, s, rng: np.where(targets >= 0, targets + step(s.problem), -1)


def clamped(targets, s, rng):
    """Negative indices are taken for the first row."""
    index = np.maximum(s.problem.index, 0)
    return s.problem.named(index)


def last_missing(result, s, rng):
    targets, there = result
    there = there.copy()
    there[-max(1, len(there) // 8):] = False
    return targets, there


def of_all_rows(divisor, s, rng):
    """The number of all source rows in place of those of an index."""
    return np.full(divisor.shape, float(max(s.problem.index.shape[s.problem.dim if s.problem.conventions.per_element else 0], 2)))


HELD = (INDEX_ADD, SCATTER, INTO_BUFFER, INDEX_PUT)
KERNEL = {
    **faults.KERNEL,
    "other_reduce": ("the mean in place of the sum, or the sum in place of the mean", with_other(reduce=lambda given: "sum" if given == "mean" else "mean")),
    "self_left_out": ("what the sum held is left out", whole("held", lambda held, s, rng: 0 * held)),
    "self_twice": ("what the sum held is added twice", whole("held", lambda held, s, rng: 2 * held)),
    "self_of_next_row": ("another row's old sum is the first addend", whole("held", lambda held, s, rng: np.roll(held, 1, 0))),
    "frequency_ignored": ("scale_grad_by_freq is ignored", with_other(by_frequency=lambda given: False)),
    "padding_added": ("rows of padding_idx are added", with_other(padding_idx=lambda given: None)),
    "negative_clamped": ("negative indices are taken for row 0", whole("targets", clamped)),
    "other_index": ("the next source's index is used", tampering("targets", lambda targets, s, rng: np.roll(targets, 1))),
    "first_index": ("all go where the first one goes", tampering("targets", lambda targets, s, rng: np.full(targets.shape, targets[0]))),
    "last_rows_lost": ("the last eighth of the sources is not handled", whole("lands", last_missing)),
    "mean_of_all": ("the mean divides by the number of all source rows", whole("divisor", of_all_rows)),
    "mean_counts_one_more": ("the mean divides by one more than there are", whole("divisor", lambda divisor, s, rng: divisor + 1)),
}
MEANS = (MEAN, MEAN_OF_ADDED)
NEEDS = {
    "self_left_out": HELD, "self_twice": HELD, "self_of_next_row": HELD, "frequency_ignored": (BY_FREQUENCY,), "padding_added": (EMBEDDING,),
    "negative_clamped": (INDEX_PUT,), "mean_of_all": MEANS, "mean_counts_one_more": MEANS,
}


def variations():
    yield from kinds.variations(problems.CROWDED, UNHELD)
    yield clean("into_the_buffer", "what the sum held is known by the buffer alone", conventions=(INTO_BUFFER,))
    yield clean("means", "means, of what the sum held or without it", conventions=MEANS)
    yield clean("by_frequency", "each row is divided by how many have its index", conventions=(BY_FREQUENCY,))
    yield clean("negative_indices", "indices that count from the end", conventions=(INDEX_PUT,))
    yield clean("each_once", "no two sources share an index", call={"place": problems.each_once})
    yield clean("text", "few indices are frequent", call={"place": problems.power})
    yield clean("no_sources", "nothing is added", call={"shape": ((0, 4), 0, 5)}, conventions=tuple(c for c in CONVENTIONS if not c.per_element))


def listed():
    yield from kinds.planted(KERNEL, {}, NEEDS, unheld=UNHELD)
    yield from variations()
    yield from kinds.once_excused({"shape": ((800,), 0, 2), "place": problems.hot}, (problems.SELECT,))
    yield Kind("count_stopped", "a mean's count is one of bfloat16, which stops at 256", "kernel", MISTAKE | {"stopped_sum"},
               whole("divisor", lambda divisor, s, rng: np.minimum(divisor, 256)), {"kind": "bfloat16", "shape": ((1200,), 0, 2), "place": problems.hot},
               (MEAN_OF_ADDED,), excused.ONCE)


KINDS = {kind.name: kind for kind in listed()}
