#!/usr/bin/env python3
"""Whether training steps have the same bits in every run with msda_replay.torch, and what that costs.

    python3 tools/bench/training_steps.py [--assert] [--json FILE] [--models rt-detr,gcn]

RT-DETR, Deformable DETR, Mask2Former and GPT-2 (Hugging Face transformers), Mask R-CNN, Keypoint R-CNN, RAFT, DeepLab and a deformable
convolution (torchvision), a graph network of three layers (torch-geometric, 200,000 edges), a 3D U-Net and small networks with the layers
of YOLO and of speech recognition, with random weights. Each is trained for ten steps in two processes under
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

import concurrent.futures
import pathlib
import sys

import models
from harness import Failed, Options, Skip, described, ended, listed, progress, run_client, table, write_json
from training import judge

CLIENT = pathlib.Path(__file__).resolve().parent / "training" / "client.py"


def parse(arguments=None):
    parser = Options(__doc__)
    parser.add_argument("--models", type=listed(models.TRAINED), default=list(models.TRAINED), help=f"some of {','.join(models.TRAINED)}")
    parser.add_argument("--steps", type=int, default=10, help="after which weights are compared (10)")
    parser.add_argument("--timed", type=int, default=40, help="steps of each mode that are timed (40)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", type=int, default=256, help="side of the images (256)")
    parser.add_argument("--edges", type=int, default=200_000, help="of the graph (200000)")
    parser.add_argument("--together", type=int, default=3, metavar="N", help="processes side by side that are not timed (3)")
    parser.add_client()
    parser.add_outcome()
    return parser.parse_args(arguments)


def run(chosen, model, mode, *more):
    command = [chosen.python, CLIENT, model, mode, "--steps", chosen.steps, "--device", chosen.device, "--size", chosen.size,
               "--edges", chosen.edges, *more]
    return run_client(command, f"{model}, {mode}", chosen.limit)[0]


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
            progress(f"training_steps: {model} done")
        except Skip as why:
            progress(f"training_steps: skipped: {why}")
        except Failed as why:
            failures.append(str(why))
        write_json(chosen.json, rows)
    return rows, failures


def main(arguments=None):
    chosen = parse(arguments)

    def failures():
        rows, failed = measure_all(chosen)
        if not rows and not failed:
            raise Skip("none of the models can be trained here")
        if rows:
            print(table(judge.HEADER, map(judge.cells_of, rows)) + "\n\n" + described({name: version for row in rows for name, version in row["machine"].items()}))
        broken = [line for row in rows for line in judge.missed(row)]
        if not chosen.asserts:
            for line in broken:
                progress(f"training_steps: {line}")
        return [*failed, *(broken if chosen.asserts else [])]

    return ended("training_steps", failures)


if __name__ == "__main__":
    sys.exit(main())
