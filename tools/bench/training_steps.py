#!/usr/bin/env python3
"""Whether training steps have the same bits in every run with msda_replay.torch, and what that costs.

    python3 tools/bench/training_steps.py [--assert] [--json FILE] [--models rt-detr,gcn]

RT-DETR, Deformable DETR, Mask2Former and GPT-2 (Hugging Face transformers), Mask R-CNN and RAFT (torchvision) and a graph network of
three layers (torch-geometric, 200,000 edges), with random weights. Each is trained for ten steps in two processes under
torch.use_deterministic_algorithms(True) and msda_replay.torch.deterministic(), and in two without either. Promises:

- with both switches the weights of the two processes are equal, bit for bit;
- without them the weights differ, or PyTorch refuses a step under use_deterministic_algorithms alone: this is shown, as else
  the first promise would mean nothing;
- a step takes at most 1.05 times the nondeterministic one: the median over rounds, in each of which both have a turn of five steps in one
  process, with the same settings of cuDNN (deterministic). The table has the quartiles, and the same of the context alone and of PyTorch's
  switch alone, so that it shows which of the two costs what.

A model may need an operator that PyTorch has no deterministic algorithm for and that msda_replay.torch does not replace: its
steps are then made with warn_only, and the last column names it. MSDA_BUILD names a build folder where msda-replay is not
installed. A process takes 20 s and more, of which each model has four. Those that are not timed run side by side, --together at a
time; then each model's timed one runs alone.

Prints a table in Markdown, and --json has the rows of each model as soon as it is done. Exit status 1 if a run fails or, with
--assert, a promise is missed; 77 if there is no GPU, no PyTorch or none of the models' libraries.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from training import judge  # noqa: E402

CLIENT = pathlib.Path(__file__).resolve().parent / "training" / "client.py"
MODELS = ("rt-detr", "deformable-detr", "mask-rcnn", "mask2former", "raft", "gcn", "gpt-2")
SKIPPED = 77


class Skip(Exception):
    """There is nothing to measure with here."""


class Failed(Exception):
    """A run failed."""


def models(argument):
    chosen = list(dict.fromkeys(argument.split(",")))
    if unknown := [name for name in chosen if name not in MODELS]:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {', '.join(MODELS)}")
    return chosen


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=models, default=MODELS, help=f"some of {','.join(MODELS)}")
    parser.add_argument("--steps", type=int, default=10, help="after which weights are compared (10)")
    parser.add_argument("--timed", type=int, default=40, help="steps of each mode that are timed (40)")
    parser.add_argument("--python", default=sys.executable, help="the Python with PyTorch (this one)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", type=int, default=256, help="side of the images (256)")
    parser.add_argument("--edges", type=int, default=200_000, help="of the graph (200000)")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="for one process (300)")
    parser.add_argument("--together", type=int, default=3, metavar="N", help="processes side by side that are not timed (3)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the rows as JSON as well, after each model")
    parser.add_argument("--assert", dest="asserts", action="store_true", help="exit status 1 if a promise is missed")
    return parser.parse_args(arguments)


def run(chosen, model, mode, *more):
    command = [chosen.python, CLIENT, model, mode, "--steps", chosen.steps, "--device", chosen.device, "--size", chosen.size,
               "--edges", chosen.edges, *more]
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=chosen.limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"{model}, {mode}: not done after {chosen.limit} s") from None
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if done.returncode == SKIPPED:
        raise Skip(f"{model}: {last}")
    if done.returncode != 0:
        raise Failed(f"{model}, {mode}: exit status {done.returncode}: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def begin_untimed(chosen, pool):
    """Begun runs, by model: two without either switch, the second of which asks what PyTorch refuses, and one with both."""
    return {model: [pool.submit(run, chosen, model, *how) for how in (("plain",), ("plain", "--alone"), ("deterministic",))]
            for model in chosen.models}


def measure(chosen, model, untimed):
    """Returns the row of a model, of which nothing runs any more."""
    *plain, both = [begun.result() for begun in untimed]
    timed = run(chosen, model, "deterministic", "--timed", chosen.timed)
    return judge.row_of(model, {"plain": plain, "deterministic": [both, timed]})


def measure_all(chosen):
    """Returns the rows and what failed. The rows so far are written after each model, as a run may be ended before its last."""
    rows, failures = [], []
    with concurrent.futures.ThreadPoolExecutor(chosen.together) as pool:
        begun = begin_untimed(chosen, pool)
    for model in chosen.models:  # all that is not timed has ended
        try:
            rows.append(measure(chosen, model, begun[model]))
            print(f"training_steps: {model} done", file=sys.stderr, flush=True)
        except Skip as skip:
            print(f"training_steps: skipped: {skip}", file=sys.stderr)
        except Failed as failed:
            failures.append(str(failed))
        if chosen.json:
            chosen.json.write_text(json.dumps(rows, indent=1) + "\n")
    return rows, failures


def main(arguments=None):
    chosen = parse(arguments)
    rows, failures = measure_all(chosen)
    if rows:
        print(judge.table(rows) + "\n\n" + ", ".join(dict.fromkeys(f"{name} {version}" for row in rows for name, version in row["machine"].items())))
    broken = [line for row in rows for line in judge.missed(row)]
    for line in (*failures, *broken):
        print(f"training_steps: {line}", file=sys.stderr)
    if failures or (broken and chosen.asserts):
        return 1
    return 0 if rows else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
