#!/usr/bin/env python3
"""Whether `msda-replay diff` names first what was planted: pairs of recorded runs with one divergence, and pairs without.

    python3 tests/trails/campaign.py --model mask_rcnn --pairs 20 --jobs 4 -o mask_rcnn.json

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

import collections
import concurrent.futures
import pathlib
import shutil
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "tools" / "bench")]

from harness import Failed, Options, at_least, ended, listed, progress, table, write_json  # noqa: E402 (after the path)
from trails import expected, judge, pairs, reading  # noqa: E402

EQUAL = "equal"
KINDS = (EQUAL, *expected.PLANTS)


def options_of(what):
    """Returns the options of a program that judges pairs."""
    parser = Options(what)
    add = parser.add_argument
    add("--steps", type=at_least(1), metavar="N", help="training steps of a run; default: the client's")
    add("--least", type=int, default=5000, metavar="N", help="launches that a run has to have (5000)")
    add("--keep", type=pathlib.Path, metavar="DIR", help="where the captures of wrong pairs go")
    parser.add_build("msda-record", "msda-replay")
    return parser


def parse(arguments):
    parser = options_of(__doc__)
    add = parser.add_argument
    add("--model", choices=expected.MODELS, required=True)
    add("--kinds", type=listed(KINDS), metavar="KIND,...", help=f"some of {','.join(KINDS)}; default all, gpu only with --other-gpu")
    add("--pairs", type=at_least(1), default=20, metavar="N", help="of each kind (20)")
    add("--jobs", type=at_least(1), default=1, metavar="K", help="runs at a time (1)")
    add("--other-gpu", metavar="NUMBER", help="for the second runs of kind gpu")
    parser.add_client(pairs.CLIENT)
    add("-o", "--output", type=pathlib.Path, metavar="FILE", help="all pairs, as JSON")
    chosen = parser.parse_args(arguments)
    chosen.kinds = chosen.kinds or [kind for kind in KINDS if kind != "gpu" or chosen.other_gpu]
    if "gpu" in chosen.kinds and not chosen.other_gpu:
        parser.error("kind gpu needs a device of another model: name its number with --other-gpu")
    return chosen


class Campaign:
    def __init__(self, chosen, folder):
        self.chosen, self.folder, self.rows = chosen, folder, []
        self.programs = pairs.Programs(chosen, folder, chosen.client)
        self.plain = {}
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
        except (Failed, OSError, KeyError, ValueError, TypeError) as error:
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
        write_json(self.chosen.output, {"model": self.chosen.model, "pairs": self.rows})

    def work(self):
        self.programs.run_client(self.arguments)  # compiles, and lets the tuner choose
        with concurrent.futures.ThreadPoolExecutor(self.chosen.jobs) as pool:
            try:
                begun = [(kind, number, [self.first_run(kind, number, pool), self.second_run(kind, number, pool)])
                         for number in range(self.chosen.pairs) for kind in self.chosen.kinds]
                for kind, number, runs in begun:
                    row = self.judge_pair(kind, number, runs)
                    self.done_with(kind, number)
                    self.keep_rows(row)
                    progress(f"campaign: {kind} {number}: {row['wrong'] or 'right'}")
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # an interrupt ends with the runs under way, not with all


def judged(rows):
    """Prints the table, and returns what failed."""
    print(table(judge.HEADER, judge.lines_of(rows)))
    wrong = sum(bool(row["wrong"]) for row in rows)
    return [f"{wrong} of {len(rows)} pairs are wrong"] if wrong else []


def main(arguments=None):
    chosen = parse(arguments)

    def failures():
        with tempfile.TemporaryDirectory(prefix="trails.") as folder:
            campaign = Campaign(chosen, pathlib.Path(folder))
            campaign.work()
        return judged(campaign.rows)

    return ended("campaign", failures)


if __name__ == "__main__":
    sys.exit(main())
