"""Outcomes as a table, by kind, or by operator and type."""

from collections import Counter

from .planting import UNTOUCHED
from .subjects import SUBJECTS

KINDS = list(dict.fromkeys((UNTOUCHED.name, *(name for subject in SUBJECTS.values() for name in subject.kinds))))
KEYS = {"kind": lambda outcome: outcome.kind, "operator, type": lambda outcome: f"{outcome.operator}, {outcome.type}"}

COLUMNS = ("captures", "clean", "faulty", "visible", "named", "missed", "in float64", "by chance", "beyond chance", "not printed", "unexplained", "wrong side", "falsely accused", "wrong verdict",
           "leaning", "falsely leaning")


def total(outcomes):
    counts = Counter(captures=len(outcomes))
    for outcome in outcomes:
        counts.update(outcome.counts)
    return counts


def share(part, whole):
    return "-" if whole == 0 else f"{part / whole:.6f}".rstrip("0").rstrip(".") if part != whole else "1.0"


def summary(outcomes):
    """The figures that are promised."""
    counts = total(outcomes)
    failed = [outcome for outcome in outcomes if outcome.failures]
    right = counts["accused"] - counts["falsely accused"]
    return {
        "captures": counts["captures"], "precision": share(right, counts["accused"]), "recall": share(counts["named"], counts["visible"] - counts["in float64"]),
        "side": share(counts["visible"] - counts["wrong side"], counts["visible"]), "captures with failures": len(failed),
        **{name: counts[name] for name in COLUMNS[1:]},
    }


def rows(outcomes, by):
    groups = {}
    for outcome in outcomes:
        groups.setdefault(KEYS[by](outcome), []).append(outcome)
    order = KINDS if by == "kind" else sorted(groups)
    return [(name, total(groups[name])) for name in order if name in groups]


def markdown(outcomes, by):
    lines = ["| " + " | ".join((by, *COLUMNS)) + " |", "|" + "---|" * (len(COLUMNS) + 1)]
    for name, counts in (*rows(outcomes, by), ("all", total(outcomes))):
        lines.append("| " + " | ".join((name, *(f"{counts[column]:,}" for column in COLUMNS))) + " |")
    return "\n".join(lines)


def text(outcomes):
    lines = []
    width = max(len(name) for name in (*KINDS, *map(KEYS["operator, type"], outcomes)))
    lines.append(" " * width + "".join(f"{column:>16}" for column in COLUMNS))
    for name, counts in (*rows(outcomes, "kind"), *rows(outcomes, "operator, type"), ("all", total(outcomes))):
        lines.append(f"{name:{width}}" + "".join(f"{counts[column]:>16,}" for column in COLUMNS))
    return "\n".join(lines)


def kinds_planted(outcomes):
    """How many kinds of faults there were, of each operator and type: "scatter_add, float16: 41"."""
    return [f"{name}: {len({outcome.kind for outcome in outcomes if KEYS['operator, type'](outcome) == name and outcome.side != 'none'})}"
            for name, _ in rows(outcomes, "operator, type")]
