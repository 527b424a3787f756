"""Whether what `msda-replay diff --json` says of a pair of runs is right. Every function returns what is wrong, as text; "" if nothing is."""

import re

from . import expected

SIDES = ("a", "b")


def wrong_clients(runs, planted):
    """Returns what is wrong in the clients' own lines: a plant without effect shows nothing, nor do equal runs that differ."""
    for side, run in zip(SIDES, runs):
        if run["took"] is False:
            return f"the plant did not take in run {side}: what it is for did not happen"
    if not planted:
        for what in ("losses", "gradients", "weights"):
            if runs[0][what] != runs[1][what]:
                return f"the client's own {what} differ: its runs are not equal"
    return ""


def wrong_recording(trails, least):
    for side, trail in zip(SIDES, trails):
        if trail.launches() < least:
            return f"run {side} has {trail.launches()} launches, at least {least} are wanted"
        if trail.missing:
            return f"{trail.missing} launches of run {side} are missing"
    return ""


def wrong_equal(status, answer):
    if answer["equal"] and status == 0 and answer["first"] is None:
        return ""
    first = answer["first"] or {}
    named = (first.get("a") or first.get("b") or {}).get("kernel")
    return f"equal runs, but exit status {status}, first: {first.get('kind')} ({first.get('cause')}) at {named or 'a copy'}"


def identifier(name):
    """Returns a kernel's name without scopes, templates and arguments, which its mangled name holds as well."""
    scoped = (name or "").replace("(anonymous namespace)", "")
    return (re.split(r"[<(]", scoped)[0].split("::")[-1].split() or ["no name"])[-1]


def wrong_place(first, expect, trails):
    """Returns what is wrong unless diff names a planted row, by the markers in the files."""
    for side, trail in zip(SIDES, trails):
        if first.get(side) is None:
            continue
        row = first[side]["row"]
        begin = trail.row_of(expect["marker"])
        if begin is None:
            return f"run {side} has not one marker {expect['marker']}"
        end = trail.row_of(expect["end"]) if expect["end"] else begin + 1 + expect["reach"]
        if end is None:
            return f"run {side} has not one marker {expect['end']}"
        if not begin < row < end:
            return f"row {row} of run {side} is named, the plant is in {begin + 1} to {end - 1}"
        name = trail.name_at(row)
        if name is None or not expected.matches(expect["kernel"], name):
            return f"row {row} of run {side} is {name or 'no kernel'}, wanted is {expect['kernel']}"
        if name and identifier(first[side]["kernel"]) not in name:
            return f"'{first[side]['kernel']}' of run {side} is named, row {row} is {name}"
    return ""


def wrong_planted(status, answer, expect, trails):
    first = answer["first"]
    if answer["equal"] or first is None:
        return "said to be equal"
    if status != 1:
        return f"exit status {status}, wanted is 1"
    if first["kind"] not in expect["kinds"]:
        return f"kind {first['kind']}, wanted is {' or '.join(expect['kinds'])}"
    if first.get("a") is None and first.get("b") is None:
        return "no launch is named"
    if expect["marker"] and (wrong := wrong_place(first, expect, trails)):
        return wrong
    if first.get("cause") not in expect["causes"]:
        return f"cause {first.get('cause')}, wanted is {' or '.join(map(str, expect['causes']))}"
    return ""


def wrong(pair):
    """pair: runs (the clients' lines), trails, status and answer (diff's), expect (None for equal runs), least (launches)."""
    expect = pair["expect"]
    return (wrong_clients(pair["runs"], expect is not None) or wrong_recording(pair["trails"], pair["least"])
            or (wrong_planted(pair["status"], pair["answer"], expect, pair["trails"]) if expect else wrong_equal(pair["status"], pair["answer"])))


HEADER = ("planted", "right", "launches", "bytes a launch", "seconds a run", "what was wrong")


def lines_of(rows):
    """Yields a line of the table for each kind. rows: of each pair kind, wrong, launches, bytes, seconds."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        recorded = [row for row in mine if row["launches"]]
        launches = [row["launches"] for row in recorded]
        size = f"{max(row['bytes'] / row['launches'] for row in recorded):.1f}" if recorded else "-"
        counts = "-" if not launches else f"{min(launches):,} to {max(launches):,}" if min(launches) < max(launches) else f"{launches[0]:,}"
        seconds = sorted(row["seconds"] for row in mine)[len(mine) // 2]
        said = [row["wrong"] for row in mine if row["wrong"]]
        why = "; ".join(f"{said.count(text)} x {text}" for text in dict.fromkeys(said)).replace("|", "\\|")
        yield kind, f"{len(mine) - len(said)} of {len(mine)}", counts, size, f"{seconds:.1f}", why
