"""Wall time and peak memory of `msda-replay run` on a capture of a whole call, row 1 of docs/measured/benchmarks.md (58 MB).

    python3 replay_run.py [--rounds 5] [--seconds 2] [--memory 6]

Exit status 1 if the median takes longer than `--seconds`, or the memory exceeds `--memory` times the capture's size.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

from libmsda import BUILD, Operator, make_inputs

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))
from msda_replay import Invocation, Result, write_capture  # noqa: E402


def measure(command):
    """Returns the wall seconds, peak memory in bytes and exit status of a program."""
    begin = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(process, 0)
    return time.perf_counter() - begin, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--memory", type=float, default=6, help="times the capture's size")
    chosen = parser.parse_args()
    inputs = make_inputs()
    right = Operator(dialect=1, padding=1).backward(inputs)
    reference = Operator(dialect=2, padding=1).backward(inputs)
    flipped = {name: -gradient for name, gradient in right.items()}
    print("| capture | MB | wall s (median) | peak MB | peak / capture |")
    print("|---|---|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, outputs, results, asserted in (
            ("right, without a reference", right, {}, True),
            ("right, with a reference", right, {"reference": Result(reference, "reference")}, True),
            ("every gradient's sign flipped", flipped, {}, False),
        ):
            path = os.path.join(folder, "call.h5")
            call = Invocation(inputs, outputs, "msda_triton", "border", results=results, atol=1e-3, rtol=1e-2)
            write_capture(path, call, overwrite=True)
            size = os.path.getsize(path)
            runs = [measure([os.path.join(BUILD, "bin", "msda-replay"), "run", path]) for _ in range(chosen.rounds)]
            assert all(status in (0, 1) for *_, status in runs), runs
            seconds, memory = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
            print(f"| {name} | {size / 1e6:.1f} | {seconds:.2f} | {memory / 1e6:.0f} | {memory / size:.1f} |", flush=True)
            if asserted and (seconds > chosen.seconds or memory > chosen.memory * size):
                failed = True
    if failed:
        print(f"replay_run: more than {chosen.seconds} s or {chosen.memory} times the capture", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
