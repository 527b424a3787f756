"""Wall time and peak memory of `msda-replay run` on a capture of a whole call, row 1 of docs/measured/benchmarks.md (58 MB).

    python3 replay_run.py [--rounds 5] [--seconds 2] [--memory 6]

Exit status 1 if the median takes longer than `--seconds`, or the memory exceeds `--memory` times the capture's size.
"""

import os
import statistics
import sys
import tempfile

from harness import Options, ended, line, measure_process, table
from libmsda import BUILD, Operator, make_inputs

from msda_replay import Invocation, Result, write_capture

REPLAY = os.path.join(BUILD, "bin", "msda-replay")


def measured(chosen):
    inputs = make_inputs()
    right = Operator(dialect=1, padding=1).backward(inputs)
    reference = Operator(dialect=2, padding=1).backward(inputs)
    flipped = {name: -gradient for name, gradient in right.items()}
    print(table(["capture", "MB", "wall s (median)", "peak MB", "peak / capture"]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "call.h5")
        for name, outputs, results, asserted in (
            ("right, without a reference", right, {}, True),
            ("right, with a reference", right, {"reference": Result(reference, "reference")}, True),
            ("every gradient's sign flipped", flipped, {}, False),
        ):
            call = Invocation(inputs, outputs, "msda_triton", "border", results=results, atol=1e-3, rtol=1e-2)
            write_capture(path, call, overwrite=True)
            size = os.path.getsize(path)
            runs = [measure_process([REPLAY, "run", path]) for _ in range(chosen.rounds)]
            assert all(status in (0, 1) for *_, status in runs), runs
            seconds, memory = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
            print(line([name, f"{size / 1e6:.1f}", f"{seconds:.2f}", f"{memory / 1e6:.0f}", f"{memory / size:.1f}"]), flush=True)
            if asserted and (seconds > chosen.seconds or memory > chosen.memory * size):
                yield f"{name}: more than {chosen.seconds} s or {chosen.memory} times the capture"


def main():
    parser = Options(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--memory", type=float, default=6, help="times the capture's size")
    chosen = parser.parse_args()
    return ended("replay_run", lambda: list(measured(chosen)))


if __name__ == "__main__":
    sys.exit(main())
