"""Milliseconds of msda's backward pass on a CPU, by mode, type and number of threads; medians. Results are new arrays.

    python3 operator_bench.py [--threads 1,2] [--rounds 5]
"""

import statistics
import sys
import time

import numpy as np
from harness import Options, at_least, ended, line, numbers, table
from libmsda import ATOMIC, DETERMINISTIC, FLOAT64, Operator, make_inputs

ROWS = {
    "4 1000 8 4 3 32": {},
    "4 1000 8 4 4 32": {"P": 4},
    "4 10000 8 4 4 32": {"Q": 10_000, "P": 4},
    "2 22223 8 4 4 32": {"B": 2, "Q": 22_223, "P": 4, "levels": ((100, 167), (50, 84), (25, 42), (13, 21))},
}


def milliseconds(inputs, mode, threads, rounds):
    operator, times = Operator(dialect=1, padding=1), []
    for _ in range(rounds):
        begin = time.perf_counter()
        operator.backward(inputs, mode=mode, threads=threads)
        times.append(1e3 * (time.perf_counter() - begin))
    return f"{statistics.median(times):.1f}"


def measured(chosen):
    print(table(["B Q M L P D", "threads", "deterministic", "atomic", "float64 of float32", "float64 tensors", "deterministic, every query on one pixel"]))
    for name, sizes in ROWS.items():
        inputs = make_inputs(**sizes)
        wide = {key: array.astype(np.float64) if array.dtype == np.float32 else array for key, array in inputs.items()}
        crowded = {**inputs, "sampling_locations": np.full_like(inputs["sampling_locations"], 0.5)}
        ways = (inputs, DETERMINISTIC), (inputs, ATOMIC), (inputs, FLOAT64), (wide, DETERMINISTIC), (crowded, DETERMINISTIC)
        for threads in chosen.threads:
            print(line([name, threads, *(milliseconds(*way, threads, chosen.rounds) for way in ways)]), flush=True)
    return []


def main():
    parser = Options(__doc__)
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="default 1,2")
    parser.add_argument("--rounds", type=at_least(1), default=5, help="default 5")
    chosen = parser.parse_args()
    return ended("operator_bench", lambda: measured(chosen))


if __name__ == "__main__":
    sys.exit(main())
