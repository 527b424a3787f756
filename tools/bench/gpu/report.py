"""Evaluates the times: promises kept or missed, and the tables."""

from harness import described, shown, table

from . import names
from .problems import ROWS, SHORT_ROWS

# Our promises and their limits. The fastest peer is that of the same row, type, contention and cache state.
DETERMINISTIC, ATOMIC, FLOAT64, CROWDED = 0.6, 0.45, 1.0, 3.0
# The first two of short calls, by row; and microseconds of the host, in rows that one launch does.
SHORT = {SHORT_ROWS[row].name: limits for row, limits in {5: (0.8, 0.7), 6: (0.8, 0.7), 7: (0.8, 0.7), 8: (0.8, 0.7), 9: (1.0, 1.0)}.items()}
HOST, HOST_ROWS = 10.0, [SHORT_ROWS[row].name for row in (5, 6, 9)]
JUDGED = [problem.name for problem in ROWS.values()]


def median(cell, name, cache):
    return cell["contenders"].get(name, {}).get(cache, {}).get("median")


def ours(cell, mode, cache):
    """Returns the slower of the two dialects: the ratio then holds for peers of either."""
    times = [median(cell, names.ours(mode, dialect), cache) for dialect in ("deformable_detr", "msda_triton")]
    return max((time for time in times if time), default=None)


def fastest_peer(cell, cache):
    """Returns (milliseconds, name), or None."""
    times = [(median(cell, name, cache), name) for name in names.PEERS if median(cell, name, cache)]
    return min(times, default=None)


def ratio(mine, base):
    return mine / base if mine and base else None


def promises(cells):
    """Returns a record for each promise in each cell: what, where, figure (None: nothing to judge by), limit, held."""
    def record(what, cell, cache, figure, limit):
        where = f"{cell['problem']} {cell['type']} {cell['contention']} {cache}"
        found.append({"what": what, "where": where, "figure": figure, "limit": limit,
                      "held": None if figure is None else figure <= limit})

    found = []
    uniform = {(cell["problem"], cell["type"]): cell for cell in cells if cell["contention"] == "uniform"}
    for cell in cells:
        if cell["problem"] not in JUDGED:
            continue
        for cache in caches_of(cell):
            peer, mine = fastest_peer(cell, cache), ours(cell, "deterministic", cache)
            if cell["contention"] != "uniform":
                base = uniform.get((cell["problem"], cell["type"]))
                record("deterministic / its own time on uniform inputs", cell, cache,
                       ratio(mine, base and ours(base, "deterministic", cache)), CROWDED)
            elif cell["type"] == "float32":
                limits = SHORT.get(cell["problem"], (DETERMINISTIC, ATOMIC))
                for mode, limit in zip(("deterministic", "atomic"), limits):
                    record(f"{mode} / fastest peer, float32", cell, cache, ratio(ours(cell, mode, cache), peer and peer[0]), limit)
            elif cell["type"] == "float64":
                record(f"deterministic / {names.MSDA_TRITON}, float64", cell, cache,
                       ratio(median(cell, names.ours("deterministic", "msda_triton"), cache),
                             median(cell, names.MSDA_TRITON, cache)), FLOAT64)
        if cell["contention"] == "uniform" and cell["problem"] in HOST_ROWS:
            for mode in ("deterministic", "atomic"):
                if figure := cell["contenders"].get(mode, {}).get("host", {}).get("median"):
                    record(f"host, microseconds, {mode}", cell, "host", figure, HOST)
    return found


def caches_of(cell):
    return [cache for cache in ("cold", "warm") if any(cache in times for times in cell["contenders"].values())]


def failures(cells):
    """Returns our contenders that were not measured, and why: above all, wrong results."""
    return [f"{cell['problem']} {cell['type']} {cell['contention']}: {name}: {times['absent']}"
            for cell in cells for name, times in cell["contenders"].items() if name not in names.PEERS and "absent" in times]


def short(milliseconds):
    """Returns the number with three digits."""
    if milliseconds is None:
        return ""
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:#.3g}"


def columns(cells):
    """Returns the names of contenders, ours first, as they were measured; without a peer that is absent from all cells."""
    seen = dict.fromkeys(name for cell in cells for name in cell["contenders"])
    return [name for name in seen if any("absent" not in cell["contenders"].get(name, {"absent": 1}) for cell in cells)]


def times_table(cells):
    present = columns(cells)
    rows = []
    for cell in cells:
        for cache in caches_of(cell):
            times = [cell["contenders"].get(name, {}) for name in present]
            spreads = [(figures[cache]["q3"] - figures[cache]["q1"]) / figures[cache]["median"] for figures in times if cache in figures]
            peer = fastest_peer(cell, cache)
            rows.append([
                cell["problem"], cell["type"], cell["contention"], cache,
                *(short(figures[cache]["median"]) if cache in figures else "absent" if "absent" in figures else "" for figures in times),
                *(shown(ratio(ours(cell, mode, cache), peer and peer[0])) for mode in ("deterministic", "atomic")),
                f"{100 * max(spreads, default=0):.0f} %"])
    return table(["B Q M L P D", "type", "contention", "L2", *present, "deterministic / fastest peer", "atomic / fastest peer",
                  "widest quartiles"], rows)


def promises_table(records):
    """Returns a line for each promise, with the case that comes nearest to its limit or exceeds it most."""
    rows = []
    for what in dict.fromkeys(record["what"] for record in records):
        mine = [record for record in records if record["what"] == what]
        judged = [record for record in mine if record["figure"] is not None]
        worst = max(judged, key=lambda record: record["figure"], default=None)
        kept = sum(record["held"] for record in judged)
        rows.append([what, f"{mine[0]['limit']:.2f}", shown(worst and worst["figure"]), worst["where"] if worst else "nothing to judge by",
                     f"{kept} of {len(judged)}" + (f", {len(mine) - len(judged)} not judged" if len(judged) < len(mine) else "")])
    return table(["promise", "at most", "worst", "there", "kept"], rows)


def hosts_table(cells):
    """Returns the microseconds that the host takes to enqueue a call."""
    rows = []
    for cell in cells:
        times = {name: figures["host"]["median"] for name, figures in cell["contenders"].items() if "host" in figures}
        if times:
            rows.append([cell["problem"], cell["type"], *(f"{times[name]:.1f}" if name in times else "" for name in columns(cells))])
    return table(["host, microseconds", "type", *columns(cells)], rows) if rows else ""


def remarks(cells):
    """Returns which contenders are absent and why, and other notes; a line each, with the cases to which it applies."""
    lines = {}
    for cell in cells:
        for name, times in cell["contenders"].items():
            for kind in ("absent", "note"):
                if kind in times:
                    text = f"{name}: {'absent: ' if kind == 'absent' else ''}{times[kind]}"
                    lines.setdefault(text, []).append(cell["type"])
    return [f"- {text} ({', '.join(dict.fromkeys(where))})" for text, where in lines.items()]


def markdown(report):
    """Returns machine, command and date, then the tables."""
    cells = report["cells"]
    absent = [f"- {name}: absent: {why} (everywhere)" for name, why in report["absent"].items()]
    parts = [f"{described(report['machine'])}. Date: {report['date']}. It took {report['seconds']} s:", f"    {report['command']}",
             f"Backward, all three gradients, milliseconds, medians of {runs_text(cells)} runs.",
             times_table(cells), promises_table(report["promises"]), hosts_table(cells), "\n".join([*absent, *remarks(cells)])]
    return "\n\n".join(filter(None, parts)) + "\n"


def runs_text(cells):
    runs = [times[cache]["runs"] for cell in cells for times in cell["contenders"].values() for cache in ("cold", "warm") if cache in times]
    if not runs:
        return "no"
    return str(min(runs)) if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
