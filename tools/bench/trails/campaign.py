#!/usr/bin/env python3
"""Whether `msda-replay diff` names first what was planted: pairs of recorded runs with one divergence, and pairs without.

    python3 tools/bench/trails/campaign.py --model mask_rcnn --pairs 20 --jobs 4 -o mask_rcnn.json

For each pair the client (client.py beside this file) is recorded twice by `msda-record --trail`, the second time with one plant in the middle of its
steps, and `msda-replay diff` compares the two. Right is: that the runs differ, the kind of the first divergence, the launch that it names, and the
cause. Where the plant is, is read from the files by a reader of this program's own: the client launches a marker just before it (expected.py).
Of the kind `equal` nothing is planted, and diff has to say that the runs are equal; the client's own digests say whether they are. A first run without a
plant serves the pairs of several kinds.

--jobs runs are recorded side by side on the device. Captures are removed when their pair is judged, unless it is wrong and --keep names a
folder. `gpu` needs --other-gpu: the number of a device of another model, on which the second runs are made.

Prints a table in Markdown; -o writes all pairs, with what diff said, after each. Exit status 1 if a pair is wrong or fails; 77 if there is no GPU, PyTorch,
torchvision or Triton.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

from trails import expected, judge, pairs, reading  # noqa: E402 (after the path)

EQUAL = "equal"
KINDS = (EQUAL, *expected.PLANTS)


def kinds(argument):
    chosen = list(dict.fromkeys(argument.split(",")))
    if unknown := [one for one in chosen if one not in KINDS]:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {', '.join(KINDS)}")
    return chosen


def count(argument):
    if not argument.isdecimal() or int(argument) < 1:
        raise argparse.ArgumentTypeError(f"'{argument}': a number from 1 on")
    return int(argument)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", choices=expected.MODELS, required=True)
    add("--kinds", type=kinds, metavar="KIND,...", help=f"some of {','.join(KINDS)}; default all, gpu only with --other-gpu")
    add("--pairs", type=count, default=20, metavar="N", help="of each kind (20)")
    add("--jobs", type=count, default=1, metavar="K", help="runs at a time (1)")
    add("--steps", type=count, metavar="N", help="training steps of a run; default: the client's")
    add("--least", type=int, default=5000, metavar="N", help="launches that a run has to have (5000)")
    add("--other-gpu", metavar="NUMBER", help="for the second runs of kind gpu")
    add("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("MSDA_BUILD", "build")), metavar="DIR", help="default build")
    add("--python", default=sys.executable, metavar="PROGRAM", help="that runs the client; default this one")
    add("--client", type=pathlib.Path, default=pairs.CLIENT, metavar="FILE", help="another client that prints the same line")
    add("--limit", type=float, default=300, metavar="S", help="for one process (300)")
    add("--keep", type=pathlib.Path, metavar="DIR", help="where the captures of wrong pairs go")
    add("-o", "--output", type=pathlib.Path, metavar="FILE", help="all pairs, as JSON")
    chosen = parser.parse_args(arguments)
    chosen.kinds = chosen.kinds or [one for one in KINDS if one != "gpu" or chosen.other_gpu]
    if "gpu" in chosen.kinds and not chosen.other_gpu:
        parser.error("kind gpu needs a device of another model: name its number with --other-gpu")
    for program in ("msda-record", "msda-replay"):
        if not (chosen.build / "bin" / program).is_file():
            parser.error(f"no file {chosen.build / 'bin' / program}: build it, or name the build folder with --build")
    chosen.build = chosen.build.absolute()
    return chosen


class Campaign:
    def __init__(self, chosen, folder):
        self.chosen, self.folder, self.rows = chosen, folder, []
        self.programs = pairs.Programs(chosen.build, chosen.python, chosen.limit, folder, chosen.client)
        self.lock, self.plain = threading.Lock(), {}
        self.arguments = [chosen.model, *(["--steps", chosen.steps] if chosen.steps else [])]
        self.users = collections.Counter(number for kind in chosen.kinds if self.is_shared(kind) for number in range(chosen.pairs))

    @staticmethod
    def is_shared(kind):
        """Returns whether the first run of its pairs is the program without a plant."""
        return kind == EQUAL or not expected.PLANTS[kind].both

    def record(self, name, plant=(), more=None):
        capture = self.folder / f"{name}.h5"
        return capture, self.programs.run_client([*self.arguments, *plant], capture, more)

    def first_run(self, kind, number, pool):
        """Returns a future of the first run, begun once for all kinds that share it."""
        if not self.is_shared(kind):
            return pool.submit(self.record, f"{kind}-{number}-a", ("--plant", kind, "--side", "a"))
        if number not in self.plain:
            self.plain[number] = pool.submit(self.record, f"plain-{number}")
        return self.plain[number]

    def second_run(self, kind, number, pool):
        plant = () if kind == EQUAL else ("--plant", kind, "--side", "b")
        more = {"CUDA_VISIBLE_DEVICES": self.chosen.other_gpu} if kind == "gpu" else None
        return pool.submit(self.record, f"{kind}-{number}-b", plant, more)

    def judge_pair(self, kind, number, runs):
        row = {"kind": kind, "pair": number, "wrong": "", "launches": 0, "bytes": 0, "seconds": 0.0, "answer": None}
        try:
            (first, of_first), (second, of_second) = (run.result() for run in runs)
            row["seconds"] = (of_first["process"] + of_second["process"]) / 2
            trails = [reading.Trail(path) for path in (first, second)]
            row["launches"], row["bytes"] = trails[1].launches(), second.stat().st_size
            status, row["answer"] = self.programs.compare(first, second)
            row["wrong"] = judge.wrong({"runs": (of_first, of_second), "trails": trails, "status": status, "answer": row["answer"],
                                        "expect": of_second["expect"], "least": self.chosen.least})
            if row["wrong"] and self.chosen.keep:
                self.chosen.keep.mkdir(parents=True, exist_ok=True)
                for side, path in zip(judge.SIDES, (first, second)):
                    shutil.copy(path, self.chosen.keep / f"{self.chosen.model}-{kind}-{number}-{side}.h5")
        except (pairs.Failed, OSError, KeyError, ValueError, TypeError) as error:
            row["wrong"] = " ".join(str(error).split()) or type(error).__name__
        return row

    def done_with(self, kind, number):
        """Removes the captures of a pair; the shared one after its last pair."""
        names = [f"{kind}-{number}-a", f"{kind}-{number}-b"]
        if self.is_shared(kind):
            self.users[number] -= 1
            names += [f"plain-{number}"] if not self.users[number] else []
        for name in names:
            (self.folder / f"{name}.h5").unlink(missing_ok=True)

    def keep_rows(self, row):
        self.rows.append(row)
        if self.chosen.output:
            part = self.chosen.output.with_name(self.chosen.output.name + ".part")
            part.write_text(json.dumps({"model": self.chosen.model, "pairs": self.rows}, indent=1) + "\n")
            part.replace(self.chosen.output)

    def work(self):
        self.programs.run_client(self.arguments)  # compiles, and lets the tuner choose
        with concurrent.futures.ThreadPoolExecutor(self.chosen.jobs) as pool:
            begun = [(kind, number, [self.first_run(kind, number, pool), self.second_run(kind, number, pool)])
                     for number in range(self.chosen.pairs) for kind in self.chosen.kinds]
            for kind, number, runs in begun:
                row = self.judge_pair(kind, number, runs)
                self.done_with(kind, number)
                self.keep_rows(row)
                print(f"campaign: {kind} {number}: {row['wrong'] or 'right'}", file=sys.stderr, flush=True)


def main(arguments=None):
    chosen = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="trails.") as folder:
        campaign = Campaign(chosen, pathlib.Path(folder))
        try:
            campaign.work()
        except pairs.Skip as why:
            print(f"campaign: skipped: {why}", file=sys.stderr)
            return pairs.SKIPPED
        except pairs.Failed as why:
            print(f"campaign: the client without a recorder: {why}", file=sys.stderr)
            return 1
    print(judge.table(campaign.rows))
    return 1 if any(row["wrong"] for row in campaign.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
