#!/usr/bin/env python3
"""What recording costs a program that trains a detector: seconds of the whole process with and without msda-record.

    python3 tools/bench/recording_cost.py --record build/bin/msda-record [--assert] [--json FILE]

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

import argparse
import datetime
import json
import os
import pathlib
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from recording import judge, runs  # noqa: E402

CLIENT = pathlib.Path(__file__).resolve().parent / "recording" / "client.py"
MODELS = ("deformable-detr", "rt-detr")


def names(argument):
    return list(dict.fromkeys(argument.split(",")))


def modes(argument):
    unknown = [mode for mode in names(argument) if mode not in runs.MODES]
    if unknown:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {', '.join(runs.MODES)}")
    return names(argument)


def counts(argument):
    if any(not text.isdecimal() or int(text) < 1 for text in argument.split(",")):
        raise argparse.ArgumentTypeError(f"'{argument}': numbers from 1, with commas between them")
    return [int(text) for text in names(argument)]


def round_count(argument):
    if not argument.isdecimal() or int(argument) < 2:
        raise argparse.ArgumentTypeError(f"'{argument}': 2 or more, plain runs are compared with one another")
    return int(argument)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--models", type=names, default=list(MODELS), help=f"default {','.join(MODELS)}")
    add("--steps", type=counts, default=[1, 10], help="training steps of a process; default 1,10")
    add("--modes", type=modes, default=list(runs.MODES), help=f"default {','.join(runs.MODES)}")
    add("--rounds", type=round_count, default=5, help="default 5")
    add("--seconds", type=float, metavar="S", help="begin no more turns after so long")
    add("--limit", type=float, default=300, metavar="S", help="for one process; default 300")
    add("--record", type=pathlib.Path, default=pathlib.Path(os.environ.get("MSDA_BUILD", "build")) / "bin" / "msda-record",
        metavar="PROGRAM", help="default build/bin/msda-record")
    add("--python", default=sys.executable, metavar="PROGRAM", help="that runs the client; default this one")
    add("--client", type=pathlib.Path, default=CLIENT, metavar="FILE", help="another client that prints the same line")
    add("--output-dir", type=pathlib.Path, default=pathlib.Path("."), metavar="DIR", help="for captures; default here")
    add("--assert", dest="judge", action="store_true", help="exit status 1 if a promised ratio is missed")
    add("--json", type=pathlib.Path, metavar="FILE", help="all runs; written anew after each")
    add("--from", dest="sources", type=pathlib.Path, nargs="+", metavar="FILE", help="measure nothing: read what --json wrote, together")
    chosen = parser.parse_args(arguments)
    if not chosen.output_dir.is_dir():
        parser.error(f"no folder {chosen.output_dir}: make it, or name another with --output-dir")
    for needed, remedy in [(one, "write it with --json") for one in chosen.sources or ()] or [
            (chosen.record, "build it, or name it with --record"), (chosen.client, "name it with --client")]:
        if not needed.is_file():
            parser.error(f"no file {needed}: {remedy}")
    return chosen


def measured(chosen, report):
    """Fills `report["runs"]`; a run cut short leaves what it has measured in the JSON file."""
    client = runs.Client([chosen.python, chosen.client], chosen.record.absolute(), chosen.limit)

    def keep(run):
        if run["round"] >= 0:
            report["runs"].append(run)
        report["machine"] = run["client"].pop("machine", report["machine"])
        where = f"round {run['round']}: {run['model']}, {run['steps']} steps, {run['mode']}"
        print(f"{where}: {run['seconds']:.2f} s", file=sys.stderr, flush=True)
        if chosen.json:
            part = chosen.json.with_name(chosen.json.name + ".part")
            part.write_text(json.dumps(report) + "\n")
            part.replace(chosen.json)

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
    broken = []
    try:
        if chosen.sources:
            report = together(chosen.sources)
        else:
            measured(chosen, report)
    except runs.Skip as why:
        print(f"recording_cost: {why}")
        return runs.SKIPPED
    except runs.Failed as why:  # earlier measurements are still reported
        broken.append(str(why))
    broken += judge.failures(report["runs"])
    broken += judge.missed(judge.rows(report["runs"])) if chosen.judge else []
    print(judge.markdown(report), end="")
    for line in broken:
        print(f"recording_cost: {line}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
