#!/usr/bin/env python3
"""Compares the backward pass on a GPU with every installed peer: same inputs, alternating in one run.

    python3 tools/bench/gpu_bench.py [--assert] [--rows 1,2,Q100000] [--types float32,...] [--deformable-detr LIB.so] [--json FILE]

Prints tables in Markdown. docs/measured/benchmarks.md says how it measures. Exit status 1 if libmsda's results are wrong
or, with --assert, a promise is missed; 77 if there is no PyTorch, no GPU, or libmsda.so was built without CUDA.
"""

import datetime
import platform
import shlex
import subprocess
import sys
import time

from gpu import comparison, report
from gpu.problems import CONTENTIONS, EVERY_ROW, ROWS, SHORT_ROWS, TYPES
from harness import Options, at_least, ended, listed, progress, pytorch, write_json

MODES = ("deterministic", "atomic", "float64")
LINE_SECONDS = 5  # for the rounds of a line, so that a slow peer does not make the run long


def parse(arguments):
    parser = Options(__doc__)
    add = parser.add_argument
    add("--rows", type=listed(EVERY_ROW), default=list(ROWS), help=f"some of {','.join(map(str, EVERY_ROW))}; default 1,2,...,9")
    add("--types", type=listed(TYPES), default=list(TYPES), help=f"default {','.join(TYPES)}")
    add("--modes", type=listed(MODES), default=list(MODES), help=f"of libmsda; default {','.join(MODES)}")
    add("--contention", type=listed(CONTENTIONS), default=list(CONTENTIONS),
        help=f"default {','.join(CONTENTIONS)}; all but uniform in float32, and not in rows 5 to 9")
    add("--runs", type=at_least(2), default=30, help="timed runs each, at most; default 30")
    add("--deformable-detr", metavar="LIB.so", help="a build of the Deformable DETR kernels that exports dd_backward_f32 ...")
    parser.add_library()
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: by wall clock, what there is for the CPU")
    parser.add_outcome()
    chosen = parser.parse_args(arguments)
    parser.need(chosen.library, "build it, or name it with --library")
    return chosen


def cells_of(chosen):
    """Returns (row, type, contention) of each line of the table."""
    return [(row, dtype, contention) for row in chosen.rows for dtype in chosen.types for contention in chosen.contention
            if contention == "uniform" or (dtype == "float32" and row not in SHORT_ROWS)]


def device_here(chosen):
    """PyTorch's device, libmsda and a clock, or harness.Skip."""
    torch = pytorch("measure")
    from gpu import clock, contenders

    if chosen.device == "cpu":
        return torch.device("cpu"), contenders.load(str(chosen.library)), clock.HostClock()
    library = comparison.on_gpu(torch, chosen.library)
    return torch.device("cuda", torch.cuda.current_device()), library, clock.DeviceClock()


def machine(device):
    import torch

    facts = {"PyTorch": torch.__version__, "Python": platform.python_version()}
    if device.type == "cuda":
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            driver = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.split()[0]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            driver = "unknown"
        facts = {"GPU": torch.cuda.get_device_name(device), "driver": driver, "CUDA": torch.version.cuda, **facts}
    for module in ("triton", "msda_triton"):
        try:
            facts[module.replace("_", "-")] = __import__(module).__version__
        except Exception:  # noqa: BLE001 (absent peers are reported elsewhere)
            pass
    return facts


def measured(chosen, command):
    """Returns the report that --json writes, after each cell, so that an interrupted run leaves its results."""
    begin = time.monotonic()
    device, library, clock = device_here(chosen)
    from gpu import contenders, measure

    present, absent = contenders.all_of(library, chosen.modes, chosen.deformable_detr, device.type == "cuda")
    found = {"command": command, "date": f"{datetime.datetime.now(datetime.timezone.utc):%F}", "machine": machine(device),
             "absent": absent, "cells": [], "promises": [], "seconds": 0}
    measuring = measure.Measuring(library, present, clock, device)
    for row, dtype, contention in cells_of(chosen):
        cell = {"problem": EVERY_ROW[row].name, "type": dtype, "contention": contention}
        progress(f"{time.monotonic() - begin:.0f} s: {' '.join(cell.values())}")
        hosts = device.type == "cuda" and contention == "uniform" and dtype == "float32"
        cell["contenders"] = measuring.cell(EVERY_ROW[row], dtype, contention, chosen.runs, LINE_SECONDS, hosts=hosts)
        found["cells"].append(cell)
        found.update(promises=report.promises(found["cells"]), seconds=round(time.monotonic() - begin))
        write_json(chosen.json, found)
    return found


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = parse(arguments)

    def failures():
        found = measured(chosen, shlex.join(["python3", "tools/bench/gpu_bench.py", *arguments]))
        print(report.markdown(found), end="")
        missed = [f"{promise['where']}: {promise['what']}: {promise['figure']:.2f}, at most {promise['limit']:.2f} is promised"
                  for promise in found["promises"] if promise["held"] is False]
        return [*report.failures(found["cells"]), *(missed if chosen.asserts else [])]

    return ended("gpu_bench", failures)


if __name__ == "__main__":
    sys.exit(main())
