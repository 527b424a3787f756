"""Compares libmsda with PyTorch on a GPU: what that needs, measuring in alternation, and the table."""

import datetime
import math
import statistics

from harness import Options, Skip, line, listed, pytorch, table, write_json

PROMISED, ROUNDING = 1.0, 1e-2
TYPES = ("float32", "float16", "bfloat16", "float64")
PYTORCH = "PyTorch"


def options_of(what, rows, types=TYPES):
    """Returns the options of a comparison. `types`: those that are measured by default."""
    parser = Options(what)
    parser.add_argument("--rows", type=listed(rows), default=list(rows), help=f"default {','.join(rows)}")
    parser.add_argument("--types", type=listed(TYPES), default=list(types), help=f"default {','.join(types)}")
    parser.add_argument("--runs", type=int, default=31, help="timed runs each; default 31")
    parser.add_library()
    parser.add_outcome()
    return parser


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


def cells_of(row, dtype, cache, found, ours):
    """Returns a line of the table: microseconds, and ratios to PyTorch's; nothing where a contender is missing."""
    medians = [1e3 * statistics.median(found[name][cache]) if name in found else None for name in (*ours, PYTORCH)]
    peer = medians[-1]
    return [row, dtype, cache, *("" if time is None else f"{time:.1f}" for time in medians),
            *(f"{time / peer:.2f}" if peer and time else "" for time in medians[:-1])]


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
          f"microseconds, medians of {chosen.runs} runs\n\n"
          + table([what, "type", "L2", *ours, PYTORCH, *(f"{name} / {PYTORCH}" for name in ours)]))
    figures, failures, clock = [], [], DeviceClock()
    for name in chosen.rows:
        row = rows[name]
        for dtype in [dtype for dtype in chosen.types if dtype in row.types]:
            found, wrong = measured(chosen, torch, library, clock, row, dtype)
            figures.append({"row": name, "type": dtype, **found})
            failures += wrong
            for cache in clock.caches:
                print(line(cells_of(row, dtype, cache, found["contenders"], ours)), flush=True)
            write_json(chosen.json, figures)
    return failures
