#!/usr/bin/env python3
"""What a trail costs: the time of a training step with `msda-record --trail` and without, side by side.

    python3 tools/bench/trail_cost.py --rounds 3 -o cost.json

In each round each model (tools/bench/surveyed/client.py) is trained in two processes, one after the other, without the recorder and with it;
in every other round the recorded one is first. A process's step is the median of its steps but the first two, which compile and load. The ratio
is of the two processes of a round; the table has the median of the rounds and the least and the greatest one. "bytes" is the size of the
capture for each launch.

Exit status 1 if a run fails, or with --most if a model's median ratio is greater; 77 if there is no GPU, PyTorch, or a model's library.
"""

import pathlib
import statistics
import sys
import tempfile

from harness import Failed, Options, Skip, at_least, ended, progress, run_client, table, write_json

CLIENT = pathlib.Path(__file__).resolve().parent / "surveyed" / "client.py"
MODELS = ("detr", "gpt-2", "raft", "mask-rcnn")
WARM = 2  # steps at the beginning that do not count
LAUNCH = 0  # the kind of a row of a trail


def parse(arguments):
    parser = Options(__doc__)
    add = parser.add_argument
    add("--models", type=lambda names: names.split(","), default=MODELS, metavar="MODEL,...", help=f"of the surveyed client; default {','.join(MODELS)}")
    add("--rounds", type=at_least(1), default=3, metavar="N", help="default 3")
    add("--steps", type=at_least(WARM + 1), default=60, metavar="N", help=f"of a process (60); the first {WARM} do not count")
    add("--most", type=float, metavar="RATIO", help="exit status 1 above it")
    parser.add_build("msda-record")
    parser.add_client(CLIENT)
    add("-o", "--output", type=pathlib.Path, metavar="FILE", help="all runs, as JSON")
    return parser.parse_args(arguments)


def launches_in(capture):
    import h5py  # here, because it loads slowly and only recorded trails need it

    with h5py.File(capture, "r") as file:
        return int((file["trail/kind"][:] == LAUNCH).sum())


def measure_round(chosen, model, number, folder):
    """Returns {"plain", "trail": seconds of a step, "launches", "bytes"}."""
    found, capture = {"model": model, "round": number}, folder / "cost.h5"
    # The tuner's choices and the compiled kernels are those of the first run.
    variables = {"TRITON_CACHE_DIR": str(folder / "triton"), "MSDA_BUILD": str(chosen.build)}
    for mode in ("plain", "trail") if number % 2 == 0 else ("trail", "plain"):
        recorder = [chosen.build / "bin" / "msda-record", "--trail", "-o", capture, "--"] if mode == "trail" else []
        client = [chosen.python, chosen.client, model, "--steps", chosen.steps]
        run, _, _ = run_client([*recorder, *client], f"{model}, {mode}", chosen.limit, variables)
        found[mode] = statistics.median(run["seconds"][WARM:])
    found["launches"], found["bytes"] = launches_in(capture), capture.stat().st_size
    capture.unlink()
    return found


def rows_of(found):
    """Yields a row for each model: medians of the rounds, and the ratios' range."""
    for model in dict.fromkeys(run["model"] for run in found):
        mine = [run for run in found if run["model"] == model]
        ratios = [run["trail"] / run["plain"] for run in mine]
        yield {"model": model, "ratio": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios),
               **{mode: statistics.median(run[mode] for run in mine) for mode in ("plain", "trail")}, "launches": mine[-1]["launches"],
               "bytes": max(run["bytes"] / max(run["launches"], 1) for run in mine)}


HEADER = ("model", "step", "with a trail", "ratio", "launches", "bytes a launch")


def cells_of(row):
    ratio = f"{row['ratio']:.2f} ({row['least']:.2f} to {row['greatest']:.2f})"
    return row["model"], f"{row['plain'] * 1e3:.1f} ms", f"{row['trail'] * 1e3:.1f} ms", ratio, f"{row['launches']:,}", f"{row['bytes']:.1f}"


def measured(chosen):
    found, failures = [], []
    with tempfile.TemporaryDirectory(prefix="trails.") as name:
        for number in range(chosen.rounds):
            for model in chosen.models:
                try:
                    found.append(measure_round(chosen, model, number, pathlib.Path(name)))
                except Skip as why:
                    progress(f"trail_cost: skipped: {why}")
                except (Failed, OSError, KeyError) as why:
                    failures.append(f"{model}: {why}")
                write_json(chosen.output, found)
    if not found and not failures:
        raise Skip("none of the models can be trained here")
    rows = list(rows_of(found))
    if rows:
        print(table(HEADER, map(cells_of, rows)))
    return failures + [f"{row['model']}: {row['ratio']:.2f} times as long, at most {chosen.most}"
                       for row in rows if chosen.most and row["ratio"] > chosen.most]


def main(arguments=None):
    chosen = parse(arguments)
    return ended("trail_cost", lambda: measured(chosen))


if __name__ == "__main__":
    sys.exit(main())
