#!/usr/bin/env python3
"""Compares the backward pass on a GPU with every installed peer: same inputs, alternating in one run.

    python3 tools/bench/gpu_bench.py --markdown docs/measured/benchmarks.md --svg docs/measured/gpu-growth.svg [--deformable-detr LIB.so]

docs/measured/benchmarks.md says how it measures. Exit status 1 if libmsda's results are wrong or, with --assert, a promise is missed;
77 if there is no PyTorch, no GPU, or libmsda.so was built without CUDA.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import time

from gpu import comparison, names, report
from gpu.problems import CONTENTIONS, EVERY_ROW, GROWTH, ROWS, TYPES, growth_problem, swept_problems, work_of
from harness import Options, at_least, ended, listed, progress, pytorch, write_json

MODES = ("deterministic", "atomic", "float64")
# Limits for the rounds of a line of the table and of a point of the plot, so that a slow peer does not make the run long.
LINE_SECONDS, POINT_SECONDS = 5, 1.5


def queries(argument):
    texts = [] if argument == "none" else argument.split(",")
    if any(not text.isdecimal() or not 1 <= int(text) <= GROWTH[-1] for text in texts):
        raise argparse.ArgumentTypeError(f"'{argument}': numbers from 1 to {GROWTH[-1]}, or none")
    return [int(text) for text in dict.fromkeys(texts)]


def parse(arguments):
    parser = Options(__doc__)
    add = parser.add_argument
    add("--rows", type=listed(EVERY_ROW, or_none=True), help="of the table, by number; default 1,2,...,9")
    add("--types", type=listed(TYPES), help=f"default {','.join(TYPES)}")
    add("--modes", type=listed(MODES), default=list(MODES), help=f"of libmsda; default {','.join(MODES)}")
    add("--contention", type=listed(CONTENTIONS), default=list(CONTENTIONS),
        help=f"default {','.join(CONTENTIONS)}; in the table, all but uniform in float32 and rows 1 to 4 only")
    add("--growth", type=queries, help="numbers of queries in the plot, or none; default 100,300,...,1000000")
    add("--sweep", action="store_true", help="also time per sample over D, L, P and Q")
    add("--runs", type=at_least(2), default=30, help="timed runs each, at most; default 30")
    add("--deformable-detr", metavar="LIB.so", help="a build of the Deformable DETR kernels that exports dd_backward_f32 ...")
    parser.add_library()
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: by wall clock, what there is for the CPU")
    add("--quick", action="store_true", help="two rows, two types, a plot of four points: below a minute")
    parser.add_outcome()
    add("--markdown", type=pathlib.Path, metavar="FILE", help="the tables; in a file that has the marks, between them")
    add("--svg", type=pathlib.Path, metavar="FILE", help="the plot")
    add("--from", dest="source", type=pathlib.Path, metavar="FILE", help="measure nothing: read what --json wrote")
    chosen = parser.parse_args(arguments)
    chosen.rows = chosen.rows if chosen.rows is not None else [1, 2] if chosen.quick else list(EVERY_ROW)
    chosen.types = chosen.types if chosen.types is not None else ["float32", "float64"] if chosen.quick else list(TYPES)
    if chosen.growth is None:
        chosen.growth = [100, 1000, 10000, 100000] if chosen.quick else list(GROWTH)
    needed, remedy = (chosen.source, "write it with --json") if chosen.source else (chosen.library, "build it, or name it with --library")
    parser.need(needed, remedy)
    return chosen


def cells_of(chosen):
    """Returns (row, type, contention) of each line of the table."""
    return [(row, dtype, contention) for row in chosen.rows for dtype in chosen.types for contention in chosen.contention
            if contention == "uniform" or (dtype == "float32" and row in ROWS)]


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
             "absent": absent, "cells": [], "growth": [], "sweep": [], "promises": [], "seconds": 0}

    def add(to, problem, cell, measuring, *limits, **how):
        cell = {"problem": problem.name, **cell}
        progress(f"{time.monotonic() - begin:.0f} s: {' '.join(map(str, cell.values()))}")
        cell["contenders"] = measuring.cell(problem, cell["type"], cell["contention"], chosen.runs, *limits, **how)
        found[to].append(cell)
        found.update(promises=report.promises(found["cells"]), seconds=round(time.monotonic() - begin))
        write_json(chosen.json, found)

    measuring = measure.Measuring(library, present, clock, device)
    for row, dtype, contention in cells_of(chosen):
        hosts = device.type == "cuda" and contention == "uniform" and dtype == "float32"
        add("cells", EVERY_ROW[row], {"type": dtype, "contention": contention}, measuring, None, LINE_SECONDS, hosts=hosts)
    # Only these two of libmsda's contenders are plotted; the table has the other dialect and float64.
    plotted = measure.Measuring(library, [contender for contender in present if contender.name in (*MODES[:2], *names.PEERS)], clock, device)
    for contention in chosen.contention:
        for count in chosen.growth:
            cell = {"type": "float32", "contention": contention, "queries": count}
            add("growth", growth_problem(count), cell, plotted, clock.caches[:1], POINT_SECONDS)
    ours = measure.Measuring(library, [contender for contender in present if contender.name in MODES[:2]], clock, device)
    for name, problem in swept_problems().items() if chosen.sweep else ():
        cell = {"type": "float32", "contention": "uniform", "sweep": name, "work": work_of(problem)}
        add("sweep", problem, cell, ours, clock.caches[:1], POINT_SECONDS)
    return found


def draw_growth(growth, path):
    """Draws milliseconds by queries, a panel each contention."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    cells = [(cell, cache) for cell in growth for cache in report.caches_of(cell)[:1]]
    contentions = list(dict.fromkeys(cell["contention"] for cell, _ in cells))
    figure, panels = pyplot.subplots(1, len(contentions), sharey=True, squeeze=False, figsize=(3.6 * len(contentions), 5))
    for panel, contention in zip(panels[0], contentions):
        lines = {}
        for cell, cache in cells:
            for name, times in cell["contenders"].items():
                if cell["contention"] == contention and cache in times:
                    lines.setdefault(name, []).append((cell["queries"], times[cache]["median"]))
        for name, points in lines.items():
            panel.loglog(*zip(*sorted(points)), "o-", markersize=3, label=name)
        panel.set(title=contention, xlabel="queries")
    panels[0][0].set_ylabel("milliseconds")
    panels[0][0].legend(fontsize="small")
    figure.savefig(path, bbox_inches="tight")


def write(chosen, found):
    if chosen.svg and any(report.caches_of(cell) for cell in found["growth"]):
        draw_growth(found["growth"], chosen.svg)
    link = chosen.svg and os.path.relpath(chosen.svg, chosen.markdown.parent if chosen.markdown else ".")
    section = report.markdown(found, link)
    if chosen.markdown:
        old = chosen.markdown.read_text() if chosen.markdown.exists() else ""
        chosen.markdown.write_text(report.put_between_marks(old, section) or section)
    print(section, end="")


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = parse(arguments)

    def failures():
        command = shlex.join(["python3", "tools/bench/gpu_bench.py", *arguments])
        found = json.loads(chosen.source.read_text()) if chosen.source else measured(chosen, command)
        write(chosen, found)
        missed = [f"{promise['where']}: {promise['what']}: {promise['figure']:.2f}, at most {promise['limit']:.2f} is promised"
                  for promise in report.promises(found["cells"]) if promise["held"] is False]
        return [*report.failures([*found["cells"], *found["growth"], *found.get("sweep", [])]), *(missed if chosen.asserts else [])]

    return ended("gpu_bench", failures)


if __name__ == "__main__":
    sys.exit(main())
