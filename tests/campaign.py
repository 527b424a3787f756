#!/usr/bin/env python3
"""Is msda-replay ever wrong? Makes captures whose right judgement is known, runs `msda-replay run` on them, and counts.

    python3 tests/campaign.py --captures 3000 [--operator msda] [--seed 1] [--jobs 2] [--replay build/bin/msda-replay] [--keep DIR] [--assert]
    python3 tests/campaign.py --capture FILE

Each capture is a random call of the operator: any type, dialect, padding and align_corners, with a tolerance from the customary one down to
1e-7 or none. The kinds of captures take turns: a fault planted in the recorded side, in the reference or in both, or none, where only
rounding, the order of additions, boundaries, borders or odd inputs make sides differ. With --capture the calls are those of a recorded
capture: each once as it was recorded, then with every kind of fault that applies planted in what was recorded. --list-kinds prints the kinds;
docs/measured/campaign.md says what is counted, and the figures. Captures, gradients and bounds share no code with the project (tests/campaign/).

Prints a table by kind. Exit status with --assert: 1 if a side is accused of a mistake that it did not make, if a visible fault is charged
to the wrong side, if one is missed and the bound printed with it does not explain that, or if what a buffer held is not named though
enough values of 16 bits fit it; 2 on bad usage.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from campaign import cases, real_calls, table  # noqa: E402
from campaign.judge import judge  # noqa: E402
from campaign.subjects import SUBJECTS  # noqa: E402


def count(argument):
    if not argument.isdecimal() or int(argument) < 1:
        raise argparse.ArgumentTypeError(f"'{argument}': a number from 1")
    return int(argument)


def kinds_of(operator):
    """By name, of one operator or of all."""
    return {name: kind for named, subject in SUBJECTS.items() if operator in (None, named) for name, kind in subject.kinds.items()}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    build = Path(os.environ.get("MSDA_BUILD", "build"))
    add("--capture", type=Path, metavar="FILE", help="take the calls of this recorded capture")
    add("--operator", choices=list(SUBJECTS), help="whose calls; default msda, of a recorded capture all")
    add("--captures", type=count, metavar="N", help="default 3000, of a recorded capture all that can be made")
    add("--first", type=int, default=0, metavar="I", help="begin with capture number I; default 0")
    add("--seed", type=int, default=1, metavar="S", help="default 1")
    add("--kinds", metavar="LIST", help="only these, by commas; default all")
    add("--list-kinds", action="store_true", help="print the kinds, and judge nothing")
    add("--jobs", type=count, default=os.cpu_count() or 1, metavar="N", help="captures at a time; default one a core")
    add("--replay", type=Path, default=build / "bin" / "msda-replay", metavar="PROGRAM", help="default build/bin/msda-replay")
    add("--keep", type=Path, metavar="DIR", help="captures that were judged wrong stay here, each with a text that says how")
    add("--json", type=Path, metavar="FILE", help="every outcome")
    add("--markdown", action="store_true", help="tables in Markdown")
    add("--assert", dest="judge", action="store_true", help="exit status 1 if anything was judged wrong")
    chosen = parser.parse_args(arguments)
    if chosen.capture and not chosen.capture.is_file():
        parser.error(f"{chosen.capture}: there is no such file")
    if not chosen.capture:
        chosen.operator, chosen.captures = chosen.operator or "msda", chosen.captures or 3000
    known = kinds_of(chosen.operator)
    chosen.kinds = list(dict.fromkeys(chosen.kinds.split(","))) if chosen.kinds else None
    unknown = [name for name in chosen.kinds or () if name not in known]
    if unknown:
        parser.error(f"argument --kinds: '{unknown[0]}' is none of {', '.join(known)}")
    if not chosen.list_kinds and not chosen.replay.is_file():
        parser.error(f"{chosen.replay}: there is no such program; build it (docs/building.md), or name it with --replay")
    return chosen


def entry(task):
    """The outcome of a number's capture; none if a recorded call has none of this number."""
    chosen, index = task
    if chosen.capture:
        case = real_calls.calls_of(chosen.capture, chosen.operator).case(chosen.seed, index, chosen.kinds)
    else:
        case = cases.draw(chosen.seed, index, chosen.kinds, SUBJECTS[chosen.operator])
    return case and judge(chosen.replay, case, chosen.keep)


def outcomes(chosen, numbers):
    tasks = [(chosen, index) for index in numbers]
    if chosen.jobs == 1:
        yield from map(entry, tasks)
        return
    with ProcessPoolExecutor(chosen.jobs) as pool:
        yield from pool.map(entry, tasks, chunksize=4)


def numbers_of(chosen):
    """Returns the numbers of the captures to make."""
    last = chosen.first + chosen.captures if chosen.captures else None
    if not chosen.capture:
        return range(chosen.first, last)
    calls = real_calls.calls_of(chosen.capture, chosen.operator)
    print(f"{chosen.capture}: {len(calls.calls)} calls")
    for name, why in calls.left_out.items():
        print(f"call {name} is left out: {why}", file=sys.stderr)
    return range(calls.count(chosen.kinds))[chosen.first:last]


def main(arguments=None):
    chosen = parse(arguments)
    if chosen.list_kinds:
        print("\n".join(f"{kind.room}: {name}: {kind.text}" for name, kind in kinds_of(chosen.operator).items()))
        return 0
    numbers = numbers_of(chosen)
    found, done = [], 0
    try:
        for outcome in outcomes(chosen, numbers):
            done += 1
            if outcome is None:
                continue
            found.append(outcome)
            for failure in outcome.failures:
                print(f"{outcome.case}: {failure}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: the figures are those of {len(found)} captures", file=sys.stderr)
    summary = table.summary(found)
    if chosen.json:
        chosen.json.write_text(json.dumps({"summary": summary, "outcomes": [vars(outcome) for outcome in found]}, indent=1))
    if chosen.markdown:
        print(table.markdown(found, "kind"), table.markdown(found, "operator, type"), sep="\n\n")
    else:
        print(table.text(found))
    if chosen.capture:
        print("", "kinds of faults planted: " + "; ".join(table.kinds_planted(found)), sep="\n")
    print()
    print(", ".join(f"{name} {value}" for name, value in summary.items()))
    return 1 if chosen.judge and (summary["captures with failures"] or done < len(numbers)) else 0


if __name__ == "__main__":
    sys.exit(main())
