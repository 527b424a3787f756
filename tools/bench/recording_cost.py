#!/usr/bin/env python3
"""What recording costs a program that trains a detector: seconds of the whole process with and without msda-record.

    python3 tools/bench/recording_cost.py [--assert] [--json FILE]

The client (tools/bench/recording/client.py) trains Deformable DETR or RT-DETR of Hugging Face transformers with random
weights for some steps. Each mode has its turn in each round: `plain`, without the recorder; `default`, `last:2`,
`digest-only` and `all`, under msda-record with these options. Its time ends when msda-record does, that is, when the
capture is written. Promise: at most 1.10 times plain, medians; with `all`, which writes all tensors, 1.10 times plain
plus the time that the disk takes for that many bytes, which a sequential write with fsync of the same size measures
after each such run.

The recorder must not change what the program computes. PyTorch's grid_sample adds atomically, so some gradients differ
from run to run without any recorder. The client therefore determines from the autograd graph which gradients
atomic additions reach, and lets only the others change weights. The losses of all steps, and the gradients that no
atomics reach, are therefore compared bit for bit. For the others, recorded runs may differ from plain runs at most three
times as much as those do among themselves (column `spread`: the furthest run, in units of the plain runs' own
root-mean-square difference). And the capture must hold as many calls as the client made.

Prints a table in Markdown. Exit status 1 if a recorded program differs from the plain one, calls are missing, a run
fails or, with --assert, a promised ratio is missed; 77 if there is no PyTorch, no transformers or no GPU.
"""

import datetime
import json
import pathlib
import shlex
import sys

import models
from harness import Failed, Options, at_least, ended, listed, numbers, progress, write_json
from recording import judge, runs

CLIENT = pathlib.Path(__file__).resolve().parent / "recording" / "client.py"


def parse(arguments):
    parser = Options(__doc__)
    add = parser.add_argument
    add("--models", type=lambda names: names.split(","), default=list(models.DETECTORS), help=f"default {','.join(models.DETECTORS)}")
    add("--steps", type=numbers, default=[1, 10], help="training steps of a process; default 1,10")
    add("--modes", type=listed(runs.MODES), default=list(runs.MODES), help=f"default {','.join(runs.MODES)}")
    add("--rounds", type=at_least(2), default=5, help="default 5")
    add("--seconds", type=float, metavar="S", help="begin no more turns after so long")
    parser.add_build("msda-record")
    parser.add_client(CLIENT)
    add("--output-dir", type=pathlib.Path, default=pathlib.Path("."), metavar="DIR", help="for captures; default here")
    parser.add_outcome()
    add("--from", dest="sources", type=pathlib.Path, nargs="+", metavar="FILE", help="measure nothing: read what --json wrote, together")
    chosen = parser.parse_args(arguments)
    if not chosen.output_dir.is_dir():
        parser.error(f"no folder {chosen.output_dir}: make it, or name another with --output-dir")
    parser.need(chosen.client, "name it with --client")
    for source in chosen.sources or ():
        parser.need(source, "write it with --json")
    return chosen


def measured(chosen, report):
    """Fills `report["runs"]`; a run cut short leaves what it has measured in the JSON file."""
    client = runs.Client([chosen.python, chosen.client], chosen.build / "bin" / "msda-record", chosen.limit)

    def keep(run):
        if run["round"] >= 0:
            report["runs"].append(run)
        report["machine"] = run["client"].pop("machine", report["machine"])
        progress(f"round {run['round']}: {run['model']}, {run['steps']} steps, {run['mode']}: {run['seconds']:.2f} s")
        write_json(chosen.json, report)

    runs.measure(client, chosen, keep)


def together(sources):
    """Returns one report of several: the runs of all, the rest of the first."""
    reports = [json.loads(source.read_text()) for source in sources]
    return {**reports[0], "runs": [run for report in reports for run in report["runs"]]}


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = parse(arguments)
    report = {"command": shlex.join(["python3", "tools/bench/recording_cost.py", *arguments]),
              "date": f"{datetime.datetime.now(datetime.timezone.utc):%F}", "machine": {}, "runs": []}

    def failures():
        found, broken = report, []
        try:
            if chosen.sources:
                found = together(chosen.sources)
            else:
                measured(chosen, found)
        except Failed as why:  # earlier measurements are still reported
            broken.append(str(why))
        print(judge.markdown(found), end="")
        return [*broken, *judge.failures(found["runs"]), *(judge.missed(judge.rows(found["runs"])) if chosen.asserts else [])]

    return ended("recording_cost", failures)


if __name__ == "__main__":
    sys.exit(main())
