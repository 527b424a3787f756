#!/usr/bin/env python3
"""What `msda_replay.record` costs: the time of a training step within it and without, side by side, on a CPU.

    python3 tools/bench/record_cost.py

In each round each model makes some steps without and some within `record`, in turn, in one process; in every other round those within come
first. The first step of a turn, which finds nothing in the caches, does not count. A turn's time is the median of its steps. The table has
the medians of the rounds, the ratio of a round's two times with its quartiles, and what a step adds to the capture: calls, megabytes, and
the time to write them when `record` ends. `mlp` makes many short calls, none of which is recorded: the worst case of seeing them.

Exit status 1 with --most if a model's median ratio is greater; 77 if there is no PyTorch.
"""

import pathlib
import statistics
import sys
import tempfile
import time
import warnings

from harness import SOURCE, Options, at_least, ended, listed, pytorch, summary, table, write_json

sys.path.insert(0, str(SOURCE / "tools" / "python"))


def convolutions(torch):
    """Convolutions, interpolate and grid_sample, on 4 images of 128x128."""
    functional = torch.nn.functional
    first, last = torch.nn.Conv2d(3, 32, 3, stride=2, padding=1), torch.nn.Conv2d(32, 16, 3, padding=1)
    images, grid = torch.randn(4, 3, 128, 128), 2 * torch.rand(4, 64, 64, 2) - 1

    def loss():
        features = functional.interpolate(first(images).relu(), scale_factor=2, mode="bilinear")
        return functional.grid_sample(last(features), grid, align_corners=False).square().mean()

    return torch.nn.ModuleList([first, last]), loss


def embeddings(torch):
    """4,096 words of 20,000, their means, and two layers."""
    words, layers = torch.nn.Embedding(20_000, 128), torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 16))
    tokens, classes = torch.randint(20_000, (64, 64)), torch.randint(16, (64,))
    return torch.nn.ModuleList([words, layers]), lambda: torch.nn.functional.cross_entropy(layers(words(tokens).mean(1)), classes)


def graph(torch):
    """Two layers that add up the messages of 20,000 edges between 2,000 nodes by index_add."""
    layers = torch.nn.ModuleList([torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)])
    nodes, (source, target) = torch.randn(2_000, 64), torch.randint(2_000, (2, 20_000))

    def loss():
        features = nodes
        for layer in layers:
            messages = layer(features)[source]
            features = torch.zeros(2_000, 64).index_add(0, target, messages).relu()
        return features.square().mean()

    return layers, loss


def perceptron(torch):
    """Sixteen small layers."""
    layers = torch.nn.Sequential(*(layer for _ in range(16) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())))
    rows = torch.randn(64, 64)
    return layers, lambda: layers(rows).square().mean()


MODELS = {"cnn": convolutions, "embedding": embeddings, "graph": graph, "mlp": perceptron}
HEADER = ("model", "step", "within record", "ratio", "calls a step", "MB a step", "written later")


def parse(arguments):
    parser = Options(__doc__)
    add = parser.add_argument
    add("--models", type=listed(MODELS), default=list(MODELS), metavar="MODEL,...", help=f"default {','.join(MODELS)}")
    add("--rounds", type=at_least(1), default=40, metavar="N", help="default 40")
    add("--steps", type=at_least(1), default=4, metavar="N", help="of a turn, besides the first (4)")
    add("--threads", type=at_least(1), metavar="N", help="of PyTorch; default its own choice")
    add("--most", type=float, metavar="RATIO", help="exit status 1 above it")
    add("--json", type=pathlib.Path, metavar="FILE", help="all rounds; written anew after each")
    return parser.parse_args(arguments)


def turn(step, count):
    """Returns the median seconds of `count` steps after one that does not count."""
    seconds = []
    for _ in range(count + 1):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def measure_round(chosen, model, step, number, folder):
    """Returns {"plain", "record": seconds of a step, "calls", "bytes", "written": of a step}."""
    import msda_replay

    found, path = {"model": model, "round": number}, folder / "cost.h5"
    for mode in ("plain", "record") if number % 2 == 0 else ("record", "plain"):
        if mode == "plain":
            found[mode] = turn(step, chosen.steps)
            continue
        with msda_replay.record(path, overwrite=True) as record:
            found[mode] = turn(step, chosen.steps)
            begin = time.perf_counter()
        written = time.perf_counter() - begin
        if record.left_out:
            raise RuntimeError(f"calls were left out: {record.left_out}")
        found.update({name: amount / (chosen.steps + 1) for name, amount in (
            ("calls", record.calls), ("bytes", path.stat().st_size), ("written", written))})
    return found


def row_of(model, rounds):
    return {"model": model, "ratio": summary([found["record"] / found["plain"] for found in rounds]),
            **{name: statistics.median(found[name] for found in rounds) for name in ("plain", "record", "calls", "bytes", "written")}}


def cells_of(row):
    ratio = "{median:.2f} ({q1:.2f} to {q3:.2f})".format_map(row["ratio"])
    return (row["model"], f"{row['plain'] * 1e3:.2f} ms", f"{row['record'] * 1e3:.2f} ms", ratio, f"{row['calls']:g}",
            f"{row['bytes'] / 1e6:.2f}", f"{row['written'] * 1e3:.2f} ms")


def measured(chosen):
    torch = pytorch("train")
    torch.set_num_threads(chosen.threads or torch.get_num_threads())
    warnings.filterwarnings("ignore", message=".*no call of an operator")  # of mlp
    found, steps = [], {}
    for model in chosen.models:
        torch.manual_seed(2026)
        layers, loss = MODELS[model](torch)
        optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)

        def step(loss=loss, optimizer=optimizer):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        steps[model] = step
    with tempfile.TemporaryDirectory(prefix="record.") as folder:
        for number in range(chosen.rounds):
            for model, step in steps.items():
                found.append(measure_round(chosen, model, step, number, pathlib.Path(folder)))
                write_json(chosen.json, found)
    rows = [row_of(model, [entry for entry in found if entry["model"] == model]) for model in chosen.models]
    print(table(HEADER, map(cells_of, rows)) + f"\n\nPyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    return [f"{row['model']}: {row['ratio']['median']:.2f} times as long, at most {chosen.most}"
            for row in rows if chosen.most is not None and row["ratio"]["median"] > chosen.most]


def main(arguments=None):
    chosen = parse(arguments)
    return ended("record_cost", lambda: measured(chosen))


if __name__ == "__main__":
    sys.exit(main())
