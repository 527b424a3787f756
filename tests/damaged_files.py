#!/usr/bin/env python3
"""Can a damaged file harm whoever reads it? Damages captures, states and spools, and gives each to every command that reads it.

    python3 tests/damaged_files.py --captures 300 --states 300 --spools 300 [--seed 1] [--jobs 2] [--build build-asan-ubsan] [--keep DIR]

The files are copies of the project's captures and of small drawn ones of every operator, of states that `minimize` and `stress` left, and of
spools of killed recordings. Some have other bytes or fewer; most are still valid HDF5 or JSON, or have right checksums, and say what
nobody wrote: other types, shapes and links, absurd numbers, negative and unsorted indices, texts that are not UTF-8, with the digests that
they should have. They are made by tests/python/support/damage.py and tests/damaged/; docs/measured/campaign.md lists what is run. Use a build with
sanitizers (--preset asan-ubsan): what they report counts, but for libhdf5's own mistakes in the process that only reads.

Prints a line for each command. Exit status: 1 if a command ended by a signal or with a status of its own (neither 0 to 3 nor what it
documents), did not end in time, named no file on stderr, printed a control character or broken JSON, left a capture that `verify` refuses, or if a
sanitizer reported; 2 on bad usage.
"""

import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE / part) for part in ("tools/bench", "tools/python", "tests/python", "tests")]

from support.damage import damage as damage_capture  # noqa: E402
from damaged import commands, judge, runner, seeds, spools, states  # noqa: E402
from harness import Options, at_least  # noqa: E402

KINDS = ("capture", "state", "spool")
STORED = 0.15  # the share of captures that are copies of the project's own; of these the smaller ones are taken more often
PRINTED_EVERY, MOST_LINES_PRINTED = 20, 20  # seconds; of a fault
MOST_ENDLESS = 1  # commands that are given a file on which libhdf5 does not come to an end
MOST_KEPT, MOST_FILES_KEPT = 1 << 22, 400  # bytes of a file; files


def parse(arguments):
    parser = Options(__doc__)
    add, count = parser.add_argument, at_least(0)
    for kind in KINDS:
        add(f"--{kind}s", type=count, default=300, metavar="N", help="default 300")
    add("--first", type=count, default=0, metavar="I", help="begin with number I of each; default 0")
    add("--seed", type=count, default=1, metavar="S", help="default 1")
    add("--jobs", type=count, default=os.cpu_count() or 1, metavar="N", help="files at a time; default one a core")
    parser.add_build("msda-replay", default="build-asan-ubsan")
    add("--time-limit", type=count, default=60, metavar="SECONDS", help="of a command; default 60")
    add("--end-after", type=count, default=0, metavar="SECONDS", help="begin no further file then, and end a time limit later at the latest; default 0: never")
    add("--whole", type=Path, metavar="DIR", help="where the whole files are, or will be; by default they are made anew")
    add("--keep", type=Path, metavar="DIR", help="files with faults stay here, each with a text that says how")
    chosen = parser.parse_args(arguments)
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)
    return chosen


class Folder:
    """A file of a number, damaged in a folder of its own, and what is run on it."""

    def __init__(self, chosen, whole, kind, number, folder):
        self.places = random.Random(f"{chosen.seed} {kind} {number}")
        self.chosen, self.folder, self.number = chosen, folder, number
        self.path, self.source, self.runs = getattr(self, kind)(whole)
        self.data = self.path.read_bytes() if self.path.is_file() and self.path.stat().st_size < MOST_KEPT else None

    def capture(self, whole):
        stored = self.places.random() < STORED
        sources = [path for path in whole.captures if path.name.startswith("drawn") != stored]
        (source,) = self.places.choices(sources, [1 / (20_000 + path.stat().st_size) for path in sources])
        path = self.folder / "damaged.h5"
        damage_capture(source, path, self.places.getrandbits(60), structured=0.6)
        return path, source, commands.of_capture(path, source, self.folder, self.places)

    def state(self, whole):
        source = self.places.choice(whole.states)
        command = source.name.split("-")[0]
        small = self.folder / "small.h5"
        path = Path(f"{small}.state")
        states.damage(source, path, self.places)
        return path, source, commands.of_state(command, path, source.with_suffix(".h5"), small)

    def spool(self, whole):
        path = self.folder / "damaged.h5.spool"
        source = self.places.choice(whole.spools)
        spools.damage(source, path, self.places)
        return path, source, commands.of_spool(path, self.folder, self.places)


class Worker:
    """The worker of a process that takes one file after the other."""

    def __init__(self, chosen, whole):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.chosen, self.whole = chosen, whole
        self.reports = tempfile.TemporaryDirectory(prefix="reports-")
        self.begin()

    def begin(self):
        self.runner = runner.Runner(self.chosen.build, Path(self.reports.name), self.chosen.time_limit)

    def outcomes(self, kind, number):
        """Returns [(command as text, outcome)] of one file."""
        with tempfile.TemporaryDirectory(prefix="damaged-") as name:
            folder = Folder(self.chosen, self.whole, kind, number, Path(name))
            found = list(self.run_each(folder, kind))
            kept = self.chosen.keep
            if kept and len(os.listdir(kept)) < MOST_FILES_KEPT and any(outcome.faults for _, outcome in found):
                keep(kept / f"{kind}-{number}", folder, found)
            return found

    def run_each(self, folder, kind):
        endless = 0
        for command in folder.runs:
            if endless == MOST_ENDLESS:  # whoever opens it meets the same limit of time
                continue
            outcome = judge.judge(self.runner, command, folder.folder)
            endless += outcome.is_endless
            yield " ".join(map(str, command.arguments)), outcome
            if command.made and outcome.status in (0, 130) and command.made.exists():
                verify = commands.Command("verify what was made", ["verify", command.made], [command.made], (0,))
                yield f"verify {command.made.name}", judge.judge(self.runner, verify, folder.folder)
                command.made.unlink()
        if kind == "capture":
            for outcome in judge.in_python(folder.path, self.chosen.time_limit):
                yield outcome.name, outcome


def begin_worker(*chosen):
    global worker
    worker = Worker(*chosen)


def outcomes_of(kind, number):
    try:
        return worker.outcomes(kind, number)
    except Exception:  # a mistake of this program is reported with the others; the process that forks commands may have ended
        worker.begin()
        return failed(traceback.format_exc())


def failed(why):
    return [("damaged_files.py", judge.Outcome("damaged_files.py", "raised", 0, [why]))]


def keep(target, folder, found):
    """The damaged file, as it was before commands wrote to it, and what is wrong."""
    target.mkdir(parents=True, exist_ok=True)
    if folder.data is not None:
        (target / folder.path.name).write_bytes(folder.data)
    faults = "\n".join(f"{text}\n  {fault}" for text, outcome in found for fault in outcome.faults)
    (target / "faults.txt").write_text(f"copy of {folder.source}\n{faults}\n")


def run_all(chosen, whole):
    """Yields (kind, number, outcomes); the kinds take turns, so that an early end leaves some of each."""
    counts = {kind: getattr(chosen, f"{kind}s") for kind in KINDS}
    tasks = sorted(((number + 0.5) / counts[kind], kind, chosen.first + number) for kind in KINDS for number in range(counts[kind]))
    tasks = iter([(kind, number) for _, kind, number in tasks])
    end = time.monotonic() + chosen.end_after if chosen.end_after else float("inf")
    with ProcessPoolExecutor(max(chosen.jobs, 1), initializer=begin_worker, initargs=(chosen, whole)) as pool:
        running = {}
        while True:
            while len(running) < 2 * chosen.jobs and time.monotonic() < end and (task := next(tasks, None)):
                try:
                    running[pool.submit(outcomes_of, *task)] = task
                except BrokenProcessPool:  # one of its processes was killed: all running tasks report this
                    end = 0
            done, _ = wait(running, max(0, end + chosen.time_limit - time.monotonic()) if chosen.end_after else None, FIRST_COMPLETED)
            for task in done:
                yield (*running.pop(task), failed(str(task.exception())) if task.exception() else task.result())
            if not running or not done:
                break
        for kind, number in running.values():
            print(f"{kind} {number}: had not ended", file=sys.stderr)
        if running:
            for worker in multiprocessing.active_children():
                worker.kill()


def main(arguments=None):
    chosen = parse(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and so these commands, ignore it
    with tempfile.TemporaryDirectory(prefix="whole-files-") as made:
        folder = chosen.whole or Path(made) / "whole"
        if not (folder / "made.json").is_file():
            seeds.make(chosen.build, folder, chosen.seed)
        return report(chosen, run_all(chosen, seeds.take(folder)))


def report(chosen, found):
    files, faults, statuses, seconds, in_hdf5 = Counter(), Counter(), defaultdict(Counter), Counter(), Counter()
    begin = printed = time.monotonic()
    for kind, number, outcomes in found:
        files[kind] += 1
        for text, outcome in outcomes:
            statuses[outcome.name][outcome.status] += 1
            seconds[outcome.name] += outcome.seconds
            in_hdf5[outcome.name] += outcome.in_hdf5
            faults[outcome.name] += bool(outcome.faults)
            for fault in outcome.faults:
                lines = [line[:300] for line in fault.splitlines()[:MOST_LINES_PRINTED]]
                print(f"{kind} {number}: {text}:", *lines, sep="\n  ", file=sys.stderr, flush=True)
        if time.monotonic() - printed > PRINTED_EVERY:
            printed = time.monotonic()
            print(f"{printed - begin:.0f} s: {dict(files)}, {sum(faults.values())} faults", flush=True)
    print(f"\n{'command':26} {'runs':>7} {'CPU s':>8} {'in HDF5':>8} {'faults':>7}  statuses")
    for name, times_of in statuses.items():
        text = ", ".join(f"{status}: {times}" for status, times in sorted(times_of.items(), key=str))
        print(f"{name:26} {times_of.total():7} {seconds[name]:8.1f} {in_hdf5[name]:8} {faults[name]:7}  {text}")
    print(f"\n{dict(files)} of seed {chosen.seed} from number {chosen.first} on in {time.monotonic() - begin:.0f} s; "
          f"{statuses and sum(of.total() for of in statuses.values())} runs of {sum(seconds.values()):.0f} s, {sum(faults.values())} with faults")
    return 1 if sum(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
