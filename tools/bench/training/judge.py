"""Judges the runs of tools/bench/training_steps.py: what was promised, and the table."""

import statistics

RATIO = 1.05
COMPARED = ("deterministic", "context", "alone")


def row_of(model, runs):
    """Returns a record of a model: `runs` by mode, each a list of what the client printed."""
    both, plain = runs["deterministic"], runs["plain"]
    seconds = next((run["seconds"] for run in both if run.get("seconds")), None)
    row = {"model": model, "equal": one_digest(both), "plain_equal": one_digest(plain),
           "alone": next((run["alone"] for run in plain if "alone" in run), ""),
           "refused": sorted({name for run in both for name in run["refused"]}), "machine": both[0]["machine"]}
    if seconds:
        row["seconds"] = {mode: statistics.median(times) for mode, times in seconds.items()}
        row["ratios"] = {mode: ratio_to_plain(seconds, mode) for mode in COMPARED}
    return row


def ratio_to_plain(seconds, mode):
    """Returns the quartiles over rounds of a mode's time to the plain one of the same round: lower, median, upper."""
    ratios = [mine / plain for mine, plain in zip(seconds[mode], seconds["plain"], strict=True)]
    return statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios


def one_digest(runs):
    """Returns whether all runs ended with the same weights, bit for bit, and had the same losses."""
    return len({(run["weights"], *run["losses"]) for run in runs}) == 1


def missed(row):
    """Yields a line for each promise that is missed."""
    if not row["equal"]:
        yield f"{row['model']}: two runs with both switches ended with other weights"
    if row["plain_equal"] and not row["alone"]:
        yield f"{row['model']}: without the context the weights are equal, and PyTorch refuses nothing: nothing is shown"
    if "ratios" not in row:
        yield f"{row['model']}: no times were measured"
    elif (median := row["ratios"]["deterministic"][1]) > RATIO:
        yield f"{row['model']}: a step takes {median:.3f} times the nondeterministic one, at most {RATIO:g} is promised"


HEADER = ("model", "weights, both switches", "weights, plain", "use_deterministic_algorithms alone", "step, plain", "both switches",
          "context alone", "PyTorch's switch alone", "refused in spite of both")


def cells_of(row):
    """Returns a line of the table."""
    times = ["not measured", "", "", ""]
    if "ratios" in row:
        ratios = (row["ratios"][mode] for mode in COMPARED)
        times = [f"{1e3 * row['seconds']['plain']:.1f} ms", *(f"{median:.3f} ({low:.3f} to {high:.3f})" for low, median, high in ratios)]
    return [row["model"], "equal" if row["equal"] else "DIFFER", "equal" if row["plain_equal"] else "differ",
            f"refused: {row['alone'].replace('|', '/')}" if row["alone"] else "runs", *times, ", ".join(row["refused"]) or "nothing"]
