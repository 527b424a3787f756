#!/usr/bin/env python3
"""Whether `msda-replay diff` of two folders names the rank at which two runs of several ranks part, and its launch.

    python3 tests/trails/ddp.py --kinds equal,dropout_seed,weight_bit --pairs 3

The client trains the Triton model on two GPUs by torchrun and DistributedDataParallel, each rank recorded into its own file by `msda-record --trail
-o RUN/%r.h5`. In the second run rank 1 has a plant. From the next all-reduce on every rank differs; diff has to name rank 1, and the launch there,
as in campaign.py. Of the kind `equal` nothing is planted.

Prints a table in Markdown. Exit status 1 if a pair is wrong or fails; 77 if there are less than two GPUs, or no PyTorch or Triton.
"""

import pathlib
import shutil
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "tools" / "bench")]

from harness import Failed, Skip, at_least, ended, finish, listed, progress  # noqa: E402 (after the path)
from trails import campaign, expected, judge, pairs, reading  # noqa: E402

RANKS, PLANTED = 2, 1


def parse(arguments):
    parser = campaign.options_of(__doc__)
    parser.add_argument("--kinds", type=listed(campaign.KINDS), default=["equal", "dropout_seed", "weight_bit"], metavar="KIND,...",
                        help="default equal,dropout_seed,weight_bit")
    parser.add_argument("--pairs", type=at_least(1), default=3, metavar="N", help="of each kind (3)")
    parser.add_client()
    return parser.parse_args(arguments)


def wrong_rank(answer):
    """Returns "" if diff names the rank with the plant."""
    rank = (answer["first"] or {}).get("rank")
    return "" if str(rank) == str(PLANTED) else f"rank {rank} is named, the plant is in rank {PLANTED}"


def run_pair(programs, chosen, kind, number, folder):
    """Returns a row as campaign.py has it."""
    steps, runs, folders, lines = ["--steps", chosen.steps] if chosen.steps else [], [], [], []
    for side in judge.SIDES:
        folders.append(folder / side)
        folders[-1].mkdir()
        needed = kind != campaign.EQUAL and (side == "b" or expected.PLANTS[kind].both)
        plant = ["--plant", kind, "--side", side, "--plant-rank", PLANTED] if needed else []
        lines.append(programs.run_client(["triton", *steps, *plant], folders[-1] / "%r.h5"))
        runs.append([reading.Trail(folders[-1] / f"{rank}.h5") for rank in range(RANKS)])
    status, answer = programs.compare(*folders)
    trails = [run[PLANTED] for run in runs]
    wrong = judge.wrong({"runs": lines, "trails": trails, "status": status, "answer": answer, "expect": lines[1]["expect"],
                         "least": chosen.least})
    if kind != campaign.EQUAL:
        wrong = wrong or wrong_rank(answer)
    if wrong and chosen.keep:
        shutil.copytree(folder, chosen.keep / f"{kind}-{number}")
    size = (folders[1] / f"{PLANTED}.h5").stat().st_size
    return {"kind": kind, "wrong": wrong, "launches": trails[1].launches(), "bytes": size, "seconds": sum(line["process"] for line in lines) / 2}


def work(programs, chosen):
    rows = []
    for number in range(chosen.pairs):
        for kind in chosen.kinds:
            with tempfile.TemporaryDirectory(prefix="trails.") as folder:
                try:
                    rows.append(run_pair(programs, chosen, kind, number, pathlib.Path(folder)))
                except (Failed, OSError, KeyError, ValueError, TypeError) as error:
                    rows.append({"kind": kind, "wrong": " ".join(str(error).split()), "launches": 0, "bytes": 0, "seconds": 0.0})
            progress(f"ddp: {kind}: {rows[-1]['wrong'] or 'right'}")
    return rows


def measured(chosen):
    with tempfile.TemporaryDirectory(prefix="trails.") as cache:
        programs = pairs.Programs(chosen, pathlib.Path(cache))
        status, out, _ = finish([chosen.python, "-c", "import torch; print(torch.cuda.device_count())"], chosen.limit)
        if status or int(out) < RANKS:
            raise Skip(f"PyTorch finds {out.strip() or 'nothing'}, {RANKS} GPUs are needed")
        programs.client[1:1] = ["-m", "torch.distributed.run", "--nproc-per-node", RANKS]
        programs.run_client(["triton", *(["--steps", chosen.steps] if chosen.steps else [])])  # compiles, and lets the tuner choose
        return campaign.judged(work(programs, chosen))


def main(arguments=None):
    chosen = parse(arguments)
    return ended("ddp", lambda: measured(chosen))


if __name__ == "__main__":
    sys.exit(main())
