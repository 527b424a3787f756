"""The conventions of a call that is imported. They cannot be read off the tensors: a kernel under test may be wrong in just this. What
nobody states is asked for, together with what fits the observed gradients.

A dialect alone may be missing, in archives of a time before it was asked for: where padding and align_corners are stated, it decides
how a coordinate is rounded, which the observed bits show. It is taken from them if they leave no doubt."""

import itertools
import math
import os
import tempfile
from dataclasses import dataclass

import numpy as np

from .capture import Invocation, write_capture
from .command import CommandError
from .commands import run
from .operator_rows import DIALECT_OF_TESTS
from .reading import open_capture
from .scalars import fact_of

_SAMPLES = 4096  # that are replayed
_RELATIVE = 1e-6  # differences below this, of a value or of the typical value, show nothing
_UNEXPLAINED = ("implementation_error", "uninitialized_output")  # causes for which other conventions may be the reason
_MOST = 1 / 50  # of the gradients have such causes, at most, where conventions fit
_CHANCE = 1e-9  # that one dialect is nearer by accident
_WHERE = 'docs/python.md, "Which dialect is mine?", lists them by framework'


@dataclass
class Fit:
    """Conventions under which rounding explains the observed gradients, and the deterministic replay of these."""

    conventions: dict
    replay: dict


def _candidates(schema, stated):
    """Returns all conventions that agree with the stated ones."""
    values = {name: schema.conventions[name].get("values", (False, True)) for name in schema.fitted}
    every = [dict(zip(values, choice)) for choice in itertools.product(*values.values())]
    return [entry for entry in every if _is_possible(schema, entry) and all(entry[name] == value for name, value in stated.items())]


def _is_possible(schema, conventions):
    """Returns whether some kernel follows them: a dialect may know one padding only."""
    stated = {"axes": len(schema.axes), **conventions}
    return not any(all(stated[name] == value for name, value in rule.items()) for rule in schema.row.impossible)


def _some_samples(schema, inputs, observed):
    """Returns the inputs and the gradients of some samples. grad_value and grad_input are sums over all samples, and are left out."""
    if not schema.has_dialect:
        return inputs, {name: array for name, array in observed.items() if name == "grad_grid"} or observed
    batch, queries, *others = inputs["attention_weights"].shape
    count = max(1, _SAMPLES // max(1, batch * math.prod(others)))
    chosen = np.unique(np.linspace(0, queries - 1, min(count, queries)).astype(int)) if queries else np.zeros(0, int)

    def part(tensors):
        return {name: array[:, chosen] if schema.dimensions[name][1] == "query" else array for name, array in tensors.items()
                if name != "level_start_index"}

    two_dimensional = {name: array for name, array in inputs.items() if len(schema.dimensions[name]) > 1}
    return part(two_dimensional), part({name: array for name, array in observed.items() if name != "grad_value"})


def _invocation(schema, inputs, outputs, conventions):
    if schema.has_dialect:
        return Invocation(inputs, outputs, **conventions)
    return Invocation(inputs, outputs, "", facts={name: fact_of(schema.conventions[name], value) for name, value in conventions.items()})


def _typical(array):
    """Returns the root mean square of the finite numbers."""
    finite = array[np.isfinite(array)].astype(np.float64)
    return math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0


def _fits(schema, inputs, observed, candidates):
    """Returns the conventions that fit. Raises CommandError."""
    fits = []
    scale = min(_typical(array) for array in observed.values())
    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        # Apart, because a call in the dialect of tests beside others with its inputs is taken for their reference.
        for is_reference in (False, True):
            some = [candidate for candidate in candidates if (candidate.get("dialect") == DIALECT_OF_TESTS) == is_reference]
            if not some:
                continue
            call, replays = (os.path.join(folder, f"{name}{is_reference}.h5") for name in ("calls", "replays"))
            write_capture(call, [_invocation(schema, inputs, observed, entry) for entry in some])
            found = run(call, mode="deterministic", device="cpu", atol=_RELATIVE * scale, rtol=_RELATIVE, save_replays=replays)
            with open_capture(replays) as saved:
                for conventions, result, replay in zip(some, found.invocations, saved):
                    unexplained = sum(entry["count"] for entry in result["judged"] if entry["cause"] in _UNEXPLAINED and entry["against"] == "float64")
                    if unexplained <= _MOST * sum(array.size for array in observed.values()):
                        fits.append(Fit(conventions, {name: replay.results["deterministic"][name][()] for name in observed}))
    return fits


def _is_nearer(fit, another, observed):
    """Returns whether the observed gradients are nearer to the first replay, more often than chance explains; equal replays are a tie."""
    wins = losses = 0
    for name, array in observed.items():
        exact = array.astype(np.float64)
        apart, further = (np.abs(exact - entry.replay[name].astype(np.float64)) for entry in (fit, another))
        wins, losses = wins + int((apart < further).sum()), losses + int((apart > further).sum())
    if wins + losses == 0:
        return True
    # Hoeffding's bound on the probability of so many wins where both are as likely.
    lead = (wins - losses) / (wins + losses)
    return lead > 0 and math.exp(-(wins + losses) * lead**2 / 2) < _CHANCE


def _spelled(source, schema, conventions, missing):
    names = missing
    if "dialect" in missing and len(_candidates(schema, {"dialect": conventions["dialect"]})) == 1:
        names = ["dialect"]  # which says the rest
    return " ".join(source.spelled(name, conventions[name]) for name in names)


def _refuse(source, schema, missing, fits, why_unknown):
    what = f"does not state {', '.join(missing)}, and {'it is' if len(missing) == 1 else 'they are'} not guessed"
    if why_unknown:
        says = f"what fits the observed gradients is not known: {why_unknown}; give {_placeholders(source, schema, missing)}"
    elif not fits:
        says = ("no conventions fit the observed gradients: check that shapes are (height, width), locations (x, y), and what belongs "
                 f"to which call; then give {_placeholders(source, schema, missing)}")
    else:
        lines = [_spelled(source, schema, fit.conventions, missing) for fit in fits]
        says = f"what fits the observed gradients: {'; or '.join(lines)}. Give those that the kernel is meant to follow"
    source.fail(source.noun, f"{what}: {says}{source.remedy} ({_WHERE})")


def _placeholders(source, schema, missing):
    words = {name: schema.scalars[name][1].removeprefix("one of ").replace(", ", "|").replace(" or ", "|") for name in missing}
    return " ".join(source.spelled(name, word) for name, word in words.items())


def choose(source, schema, scalars, inputs, observed):
    """Returns the call's conventions, and a sentence on what was found out, or nothing."""
    stated = {name: scalars[name] for name in schema.fitted if name in scalars}
    if "align_corners" in stated:
        stated["align_corners"] = bool(stated["align_corners"])
    possible = _candidates(schema, {"dialect": stated["dialect"]}) if "dialect" in stated else []
    if len(possible) == 1:
        stated = {**possible[0], **stated}
    missing = [name for name in schema.fitted if name not in stated]
    if not missing:
        if schema.has_dialect and not _is_possible(schema, stated):
            rest = " and ".join(f"{name} {str(value).lower()}" for name, value in possible[0].items() if name != "dialect")
            source.fail(source.noun, f"is of dialect {stated['dialect']}, which has {rest} only")
        return stated, ""
    inputs, some = _some_samples(schema, inputs, observed)
    fits, why_unknown = [], ""
    if not some or not all(array.size for array in some.values()):
        why_unknown = "there are no observed gradients of samples"
    else:
        try:
            fits = _fits(schema, inputs, some, _candidates(schema, stated))
        except CommandError as error:
            why_unknown = str(error).splitlines()[0]
    if missing == ["dialect"] and source.takes_measured_dialect:
        for fit in sorted(fits, key=lambda entry: entry.conventions["dialect"] != schema.conventions["dialect"]["preferred"]):
            if all(_is_nearer(fit, another, some) for another in fits if another is not fit):
                return fit.conventions, _told(source, fit, fits, some)
    return _refuse(source, schema, missing, fits, why_unknown)


def _told(source, fit, fits, observed):
    dialect = fit.conventions["dialect"]
    same = [another.conventions["dialect"] for another in fits if another is not fit and _is_nearer(another, fit, observed)]
    also = f"; {' and '.join(same)} gives the same bits here" if same else ""
    return (f"dialect {dialect}, as the observed gradients are nearest to its arithmetic{also}. "
            f"If the kernel is another, say so: --dialect ({_WHERE})")
