#!/usr/bin/env python3
"""Whether `msda-replay diff` of two folders names the rank at which two runs of several ranks part, and its launch.

    python3 tools/bench/trails/ddp.py --kinds equal,dropout_seed,weight_bit --pairs 3

The client trains the Triton model on two GPUs by torchrun and DistributedDataParallel, each rank recorded into its own file by `msda-record --trail
-o RUN/%r.h5`. In the second run rank 1 has a plant. From the next all-reduce on every rank differs; diff has to name rank 1, and the launch there,
as in campaign.py. Of the kind `equal` nothing is planted.

Prints a table in Markdown. Exit status 1 if a pair is wrong or fails; 77 if there are less than two GPUs, or no PyTorch or Triton.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

from trails import campaign, expected, judge, pairs, reading  # noqa: E402 (after the path)

RANKS, PLANTED = 2, 1


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--kinds", type=campaign.kinds, default=["equal", "dropout_seed", "weight_bit"], metavar="KIND,...",
        help="default equal,dropout_seed,weight_bit")
    add("--pairs", type=campaign.count, default=3, metavar="N", help="of each kind (3)")
    add("--steps", type=campaign.count, metavar="N", help="training steps of a run; default: the client's")
    add("--least", type=int, default=5000, metavar="N", help="launches that each rank has to have (5000)")
    add("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("MSDA_BUILD", "build")), metavar="DIR", help="default build")
    add("--python", default=sys.executable, metavar="PROGRAM", help="that runs torchrun; default this one")
    add("--limit", type=float, default=300, metavar="S", help="for one run (300)")
    add("--keep", type=pathlib.Path, metavar="DIR", help="where the captures of wrong pairs go")
    chosen = parser.parse_args(arguments)
    for program in ("msda-record", "msda-replay"):
        if not (chosen.build / "bin" / program).is_file():
            parser.error(f"no file {chosen.build / 'bin' / program}: build it, or name the build folder with --build")
    chosen.build = chosen.build.absolute()
    return chosen


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
    return {"kind": kind, "wrong": wrong, "launches": trails[1].launches(), "bytes": size, "seconds": sum(one["process"] for one in lines) / 2}


def work(programs, chosen):
    rows = []
    for number in range(chosen.pairs):
        for kind in chosen.kinds:
            with tempfile.TemporaryDirectory(prefix="trails.") as folder:
                try:
                    rows.append(run_pair(programs, chosen, kind, number, pathlib.Path(folder)))
                except (pairs.Failed, OSError, KeyError, ValueError, TypeError) as error:
                    rows.append({"kind": kind, "wrong": " ".join(str(error).split()), "launches": 0, "bytes": 0, "seconds": 0.0})
            print(f"ddp: {kind}: {rows[-1]['wrong'] or 'right'}", file=sys.stderr, flush=True)
    return rows


def main(arguments=None):
    chosen = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="trails.") as cache:
        programs = pairs.Programs(chosen.build, chosen.python, chosen.limit, pathlib.Path(cache))
        status, out, _ = programs.finish([chosen.python, "-c", "import torch; print(torch.cuda.device_count())"])
        if status or int(out) < RANKS:
            print(f"ddp: skipped: PyTorch finds {out.strip() or 'nothing'}, {RANKS} GPUs are needed", file=sys.stderr)
            return pairs.SKIPPED
        programs.client[1:1] = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        try:
            programs.run_client(["triton", *(["--steps", chosen.steps] if chosen.steps else [])])  # compiles, and lets the tuner choose
        except pairs.Failed as why:
            print(f"ddp: the client without a recorder: {why}", file=sys.stderr)
            return 1
        rows = work(programs, chosen)
    print(judge.table(rows))
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
