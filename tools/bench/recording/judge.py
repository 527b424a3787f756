"""Evaluates the runs: ratios and limits, whether the program computed the same, and the table."""

import itertools
import math
import statistics

from harness import described, shown, summary, table
from recording.runs import MODES

RATIO = 1.10
# A recorded run may be this many times as far from the plain runs as those are from one another, see `spreads`.
SPREAD = 3.0
ROUNDING = 2.0**-21


def groups(runs):
    """By (model, steps): by mode, in the order of MODES: runs."""
    found = {}
    for run in sorted(runs, key=lambda run: list(MODES).index(run["mode"])):
        found.setdefault((run["model"], run["steps"]), {}).setdefault(run["mode"], []).append(run)
    return found


def rows(runs):
    """Returns a record for each model, number of steps and mode: times, what the promise allows, and what was captured."""
    found = []
    for (model, steps), modes in groups(runs).items():
        plain = median(modes.get("plain", []), "seconds")
        for mode, mine in modes.items():
            row = {"model": model, "steps": steps, "mode": mode, "runs": len(mine), "seconds": summary([run["seconds"] for run in mine]),
                   "step_seconds": statistics.median(run["client"]["step_seconds"] for run in mine)}
            if mode != "plain":
                row |= {name: median(mine, name) for name in ("bytes", "recorded", "duplicates")}
                row |= {"ratio": plain and row["seconds"]["median"] / plain, "limit": plain and limit(mode, mine, plain) / plain}
            if mode == "all":
                row["disk"] = median(mine, "disk")
            found.append(row)
    return found


def median(runs, name):
    return statistics.median(run[name] for run in runs) if runs else None


def limit(mode, mine, plain):
    """Returns the seconds that the promise allows: with everything kept, also the time that the disk takes for the bytes."""
    return RATIO * plain + (statistics.median(run["bytes"] / run["disk"] for run in mine) if mode == "all" else 0)


def missed(found):
    """Returns a line for each ratio beyond its limit, or that nothing was measured to compare with."""
    lines = []
    for row in found:
        where = f"{row['model']}, {row['steps']} steps, {row['mode']}"
        if row["mode"] != "plain" and row["ratio"] is None:
            lines.append(f"{where}: no plain run to compare with")
        elif row["mode"] != "plain" and row["ratio"] > row["limit"]:
            lines.append(f"{where}: {row['ratio']:.3f} times plain, at most {row['limit']:.3f} is promised")
    return lines


def failures(runs):
    """Returns a line for each way in which a recorded program differed from the plain one, or calls were lost."""
    lines = []
    for (model, steps), modes in groups(runs).items():
        for mode, mine in modes.items():
            found = [*differences(mine, modes.get("plain", [])), *([] if mode == "plain" else lost(mode, mine))]
            lines += [f"{model}, {steps} steps, {mode}: {text}" for text in dict.fromkeys(found)]
        far = spreads(modes)
        lines += [f"{model}, {steps} steps, {mode}: gradients that atomics reach are {figure:.1f} times as far from the plain runs' as "
                  f"those are from one another, at most {SPREAD:g} is promised"
                  for mode, figure in far.items() if mode != "plain" and figure > SPREAD]
    return lines


def differences(runs, plain):
    """Yields what differs from the first plain run in any bit."""
    for run in runs if plain else []:
        mine, first = run["client"], plain[0]["client"]
        settled = f" (without a deterministic kernel: {', '.join(mine['unsettled'])})" if mine.get("unsettled") else ""
        settled += ": the client alone varies, so that nothing can be compared" if run["mode"] == "plain" else ""
        for step, (loss, expected) in enumerate(itertools.zip_longest(mine["losses"], first["losses"]), 1):
            if loss != expected:
                yield f"loss of step {step} is {loss}, not {expected}{settled}"
                break
        if mine["stable"] != first["stable"]:
            yield f"gradients that no atomics reach differ from the plain run's{settled}"


def lost(mode, runs):
    for run in runs:
        # The recorder knows kernels of other operators, too, which the client does not count.
        calls, seen = run["client"]["calls"], run["recorded"] + run["duplicates"] - run.get("others", 0)
        if mode.startswith("last:"):
            expected = min(int(mode.partition(":")[2]), calls)
            if run["recorded"] != expected:
                yield f"the capture holds {run['recorded']} calls, not the last {expected}"
        elif mode == "default" and calls and not seen:
            yield "the capture holds no calls"
        elif mode != "default" and seen != calls:
            yield f"{seen} calls recorded of {calls}"


def spreads(modes):
    """By mode, how far its gradients are from the plain runs': the furthest run, in units of the plain runs' own spread.

    The gradients that atomics reach vary by themselves, and are known by sums with random signs (client.py). The distance
    of two runs is the root mean square, over the parameters, of the differences of these sums, each parameter's in units
    of its root mean square among the pairs of plain runs, or of 2^-21 of itself if that is more: runs that happen to add
    in the same order must not make rounding errors look large. A run's distance from the plain runs is its median
    distance to one of them. The forward pass being the same, gradients are linear in these rounding errors, and no
    threshold in the model enlarges them. A single parameter of 250 that is off by one in ten thousand exceeds the limit.
    """
    import numpy as np  # here, because --help does not need it

    plain = [run["client"]["sketch"] for run in modes.get("plain", [])]
    names = sorted(plain[0]) if plain else []
    if len(plain) < 2 or not names:
        return {}

    def vectors(sketches):
        return np.array([[sketch.get(name, [math.nan] * len(plain[0][name])) for name in names] for sketch in sketches])

    alone = vectors(plain)
    pairs = np.array([((a - b)**2).sum(-1) for a, b in itertools.combinations(alone, 2)])
    scale = np.maximum(pairs.mean(0), ROUNDING**2 * (alone[0]**2).sum(-1))
    scale[scale == 0] = np.finfo(float).tiny  # a gradient that is zero must stay so

    def distance(a, b):
        return math.sqrt((((a - b)**2).sum(-1) / scale).mean())

    found = {}
    for mode, runs in modes.items():
        mine = vectors([run["client"]["sketch"] for run in runs])
        far = [statistics.median(distance(run, plain_run) for j, plain_run in enumerate(alone) if mode != "plain" or i != j)
               for i, run in enumerate(mine)]
        found[mode] = math.inf if any(math.isnan(away) for away in far) else max(far)
    return found


HEADER = ["model", "steps", "mode", "runs", "s (quartiles)", "of it steps", "times plain", "at most", "calls kept", "MB", "disk GB/s", "spread"]


def cells(row, spread):
    """Returns a line of the table."""
    times, recorded = row["seconds"], row["mode"] != "plain"
    return [row["model"], str(row["steps"]), row["mode"], str(row["runs"]),
            f"{times['median']:.2f} ({times['q1']:.2f} to {times['q3']:.2f})", f"{row['step_seconds']:.2f}",
            shown(row["ratio"]) if recorded else "", shown(row["limit"]) if recorded else "",
            f"{row['recorded']:.0f}" if recorded else "", f"{row['bytes'] / 1e6:.1f}" if recorded else "",
            f"{row['disk'] / 1e9:.2f}" if "disk" in row else "", shown(spread)]


def markdown(report):
    """Returns the section for docs/measured/benchmarks.md."""
    far = {key: spreads(modes) for key, modes in groups(report["runs"]).items()}
    lines = [cells(row, far[row["model"], row["steps"]].get(row["mode"])) for row in rows(report["runs"])]
    return f"{described(report['machine'])}. Date: {report['date']}:\n\n    {report['command']}\n\n{table(HEADER, lines)}\n"
