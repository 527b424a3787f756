"""The command: chooses checks, runs them, prints the table."""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

from .bench import SOURCE, Bench, Failed, Skip, gpu_missing
from .registry import CHECKS
from . import kernels, pytorch, speed, surroundings, triton, digests, original, poison, subnormals, devices, gpu_operator, own_calls, surveyed, torch_operators  # noqa: F401, E401 (each adds its checks)

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"


class Table:
    """Prints each row as soon as it is known, so that an interrupted run has shown its results."""

    def __init__(self):
        self.rows = []

    def add(self, check, case, result, figure="", note=""):
        name = f"{check}: {case}" if case else check
        row = {"check": name, "result": result, "figure": str(figure), "note": " ".join(str(note).split())}
        self.rows.append(row)
        print(f"{name:<52} {result:<8} {row['figure']:<28} {row['note']}".rstrip(), flush=True)


def told(error):
    """Returns the result and note for an exception of a check."""
    if isinstance(error, Skip):
        return SKIPPED, error
    if isinstance(error, Failed):
        return FAILED, error
    place = traceback.extract_tb(error.__traceback__)[-1]  # an error in the check itself; the others still run
    return FAILED, f"{type(error).__name__}: {error} ({pathlib.Path(place.filename).name}:{place.lineno})"


def run_check(table, bench, check):
    try:
        for need in check.needs:
            bench.require(need)
        for case, function in check.cases(bench):
            try:
                found = function()
                figure, note = found if isinstance(found, tuple) else (found or "", "")
                table.add(check.name, case, PASSED, figure, note)
            except Exception as error:  # noqa: BLE001
                result, note = told(error)
                table.add(check.name, case, result, "", note)
    except Exception as error:  # noqa: BLE001 (what the cases have in common did not work)
        result, note = told(error)
        table.add(check.name, "", result, "", note)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="gpu-check", description="Runs all that needs a GPU and prints one table: check, "
                                     "result, figure, note. Exit status 0 if all passed or were skipped, 1 otherwise.")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "bin", metavar="DIR",
                        help="where msda-record and msda-replay are, beside ../lib (default: build/bin)")
    parser.add_argument("--python", default=sys.executable, help="the Python of the programs with torch (default: this one)")
    parser.add_argument("--only", metavar="NAME,...", help="these checks")
    parser.add_argument("--list", action="store_true", help="name the checks, and run none")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the table as JSON as well")
    parser.add_argument("--tuner-runs", type=int, default=3, metavar="N", help="runs of the autotuner with and without (3)")
    parser.add_argument("--poison-runs", type=int, default=100, metavar="N", help="runs of the check poison (100)")
    parser.add_argument("--scatter-problems", type=int, default=300, metavar="N", help="random problems of each operator in scatter (300)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="a new folder for captures and programs, not removed")
    chosen = parser.parse_args(arguments)

    if chosen.list:
        for check in CHECKS.values():
            print(f"{check.name:<16} {check.what}" + (f" (needs {', '.join(check.needs)})" if check.needs else ""))
        return 0
    names = chosen.only.split(",") if chosen.only else list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        parser.error(f"no check {', '.join(unknown)}; --list names them")

    table = Table()
    missing = gpu_missing()
    if missing:
        print(f"gpu-check: no GPU here: {missing}; all checks are skipped")
        for name in names:
            table.add(name, "", SKIPPED, "", "no GPU")
    else:
        run_checks(table, chosen, names)
    if chosen.json:
        chosen.json.write_text(json.dumps(table.rows, indent=1) + "\n")
    return int(any(row["result"] == FAILED for row in table.rows))


def run_checks(table, chosen, names):
    binaries = chosen.bin.resolve()
    for program in ("msda-record", "msda-replay"):
        if not (binaries / program).exists():
            sys.exit(f"gpu-check: {binaries / program} is not there: build it, or name its folder by --bin")
    if chosen.keep:
        try:
            chosen.keep.mkdir(parents=True)
        except OSError as error:
            sys.exit(f"gpu-check: --keep {chosen.keep}: {error.strerror}: name a folder that is not there yet")
    work = chosen.keep.resolve() if chosen.keep else pathlib.Path(tempfile.mkdtemp(prefix="msda-gpu-check-"))
    try:
        bench = Bench(binaries, chosen.python, work, tuner_runs=chosen.tuner_runs, poison_runs=chosen.poison_runs,
                      scatter_problems=chosen.scatter_problems)
        begin = time.monotonic()
        for name in names:
            run_check(table, bench, CHECKS[name])
        counts = [sum(row["result"] == result for row in table.rows) for result in (PASSED, FAILED, SKIPPED)]
        print("{} passed, {} failed, {} skipped".format(*counts) + f", in {time.monotonic() - begin:.0f} s")
    finally:
        if not chosen.keep:
            shutil.rmtree(work, ignore_errors=True)
