"""What the programs that compare libmsda with PyTorch on a GPU share: options, what they need, measuring in alternation, the table
and how they end. PyTorch is imported when it is needed: without it they say so."""

import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import sys

SKIPPED, PROMISED, ROUNDING = 77, 1.0, 1e-2
TYPES = ("float32", "float16", "bfloat16", "float64")
PYTORCH = "PyTorch"


class Skip(Exception):
    """There is nothing to measure with here."""


def listed(known):
    """Returns an argparse type: some of `known`, separated by commas, or "none"."""
    by_text = {str(one): one for one in known}

    def parse(argument):
        texts = [] if argument == "none" else argument.split(",")
        for text in texts:
            if text not in by_text:
                raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(by_text)}")
        return [by_text[text] for text in dict.fromkeys(texts)]

    return parse


def parser_of(what):
    return argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_library(parser):
    default = pathlib.Path(os.environ.get("MSDA_BUILD", "build")) / "lib" / "libmsda.so"
    parser.add_argument("--library", type=pathlib.Path, default=default, help="default build/lib/libmsda.so")


def add_outcome(parser):
    parser.add_argument("--assert", dest="judge", action="store_true", help="exit status 1 if a promise is missed")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures")


def add_comparison(parser, rows, types=TYPES):
    """Adds the options of a program that ends with compare(). `types`: those that are measured by default."""
    parser.add_argument("--rows", type=listed(rows), default=list(rows), help=f"default {','.join(rows)}")
    parser.add_argument("--types", type=listed(TYPES), default=list(types), help=f"default {','.join(types)}")
    parser.add_argument("--runs", type=int, default=31, help="timed runs each; default 31")
    add_library(parser)
    add_outcome(parser)


def pytorch(purpose):
    try:
        import torch
    except ImportError:
        raise Skip(f"PyTorch is not installed here: nothing to {purpose} with") from None
    return torch


def on_gpu(torch, path):
    """Returns libmsda with functions for the GPU that PyTorch uses."""
    if not torch.cuda.is_available():
        raise Skip("no GPU that PyTorch can use")
    from .contenders import load

    torch.zeros(1, device="cuda")  # makes the context that libmsda joins
    library = load(str(path))
    if not hasattr(library, "msda_cuda_device_count") or library.msda_cuda_device_count() == 0:
        raise Skip(f"{path} is built without CUDA")
    return library


def share_off(result, truth, dtype):
    """Returns the share of elements that are further from float64 than rounding may carry them."""
    tolerance = {"float64": 1e-8, "float32": 1e-3}.get(dtype, 3e-2)
    near = (result.double() - truth).abs() <= tolerance * (truth.abs() + truth.abs().mean())
    return 1 - near.double().mean().item()


def input_sets(draw, cache_bytes, least):
    """Returns what `draw(seed)` draws, as often as the cache does not hold all of it, at least `least` and at most 8 times."""
    first = draw(0)
    number = max(least, min(8, math.ceil(1.2 * cache_bytes / sum(tensor.nbytes for tensor in first))))
    return [first] + [draw(seed) for seed in range(1, number)]


def alternating(clock, calls, runs):
    """By contender: {"cold": [ms], "warm": [ms]}. `calls`: contenders by name, for each set of inputs. They take turns with a set,
    in an order that rotates."""
    from .clock import Track

    found, tracks = {name: {cache: [] for cache in clock.caches} for name in calls[0]}, {}
    for name, call in calls[0].items():
        tracks[name] = Track()
        for cache in 2 * clock.caches:
            clock.milliseconds(call, cache, tracks[name])
        tracks[name].widen()
    for turn in range(runs):
        names = list(found)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            for cache in clock.caches:
                found[name][cache].append(clock.milliseconds(calls[turn % len(calls)][name], cache, tracks[name]))
    clock.release()
    return found


def heading(what, ours):
    """Returns a table's heading; `ours`: libmsda's contenders."""
    cells = [what, "type", "L2", *ours, PYTORCH, *(f"{name} / {PYTORCH}" for name in ours)]
    return "| " + " | ".join(cells) + " |\n|" + "---|" * len(cells)


def line(row, dtype, cache, found, ours):
    def median(name):
        return statistics.median(found[name][cache]) if name in found else None

    peer = median(PYTORCH)
    cells = [str(row), dtype, cache]
    cells += ["" if median(name) is None else f"{1e3 * median(name):.1f}" for name in (*ours, PYTORCH)]
    cells += [f"{median(name) / peer:.2f}" if peer and median(name) else "" for name in ours]
    return "| " + " | ".join(cells) + " |"


def missed(row, dtype, cache, found, name):
    """Returns whether this promise is missed: that contender `name` takes no longer than PyTorch, in float32 in the rows that have it."""
    if not row.promised or dtype != "float32" or name not in found or PYTORCH not in found:
        return False
    return statistics.median(found[name][cache]) > PROMISED * statistics.median(found[PYTORCH][cache])


def compare(chosen, rows, what, ours, measured):
    """Prints the table, writes all figures and returns what failed. `what`: the first column; `ours`: libmsda's contenders.
    `measured(chosen, torch, library, clock, row, dtype)`: figures, with "contenders" by name, and failures."""
    torch = pytorch("compare")
    library = on_gpu(torch, chosen.library)
    from .clock import DeviceClock

    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {datetime.datetime.now(datetime.timezone.utc):%F}, "
          f"microseconds, medians of {chosen.runs} runs\n\n{heading(what, ours)}")
    figures, failures, clock = [], [], DeviceClock()
    for name in chosen.rows:
        row = rows[name]
        for dtype in [one for one in chosen.types if one in row.types]:
            found, wrong = measured(chosen, torch, library, clock, row, dtype)
            figures.append({"row": name, "type": dtype, **found})
            failures += wrong
            for cache in clock.caches:
                print(line(row, dtype, cache, found["contenders"], ours), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(figures))
    return failures


def ended(name, measure):
    """Prints the failures that `measure` returns, and returns the exit status of the program `name`."""
    try:
        failures = measure()
    except Skip as why:
        print(f"{name}: {why}")
        return SKIPPED
    for failure in failures:
        print(f"{name}: {failure}", file=sys.stderr)
    return int(bool(failures))
