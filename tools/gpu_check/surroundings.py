"""What else a recorded program does: it profiles itself, uses HDF5, compiles, forks and spawns."""

import re

from .bench import expect, expect_calls, recorder_lines, tail
from .registry import check


@check("profiler", "torch.profiler sees the program's kernels, and launches keep being recorded", ["torch"])
def profiler(bench):
    for hook in ("auto", "cupti", "driver"):
        def profiled(hook=hook):
            done, capture, _ = bench.outcome_kept(bench.target("profiler"), ["--hook", hook], saves=False)
            kernels = int(re.search(r"^kernels (\d+)", done.stdout, re.M)[1])
            expect(kernels > 0, "the profiler sees no kernel, with the recorder and without")
            expect_calls(11, capture, done)
            lines = [line for line in recorder_lines(done) if "invocation" not in line]
            return f"{kernels} kernels seen", tail("\n".join(lines))

        yield f"--hook {hook}", profiled


@check("surroundings", "h5py, torch.compile and DataLoader workers in the recorded program", ["torch"])
def surroundings(bench):
    def counted(name, calls, *arguments, **variables):
        def run():
            done, capture, _ = bench.outcome_kept(bench.target(name, *arguments), saves=False, **variables)
            return expect_calls(calls, capture, done)
        return run

    def h5py():
        bench.require("h5py")
        return counted("h5", 5)()

    def compiled():
        bench.require("triton")
        # Separate caches for both runs; otherwise the second would compile nothing.
        command = bench.target("compiled")
        caches = [{"TORCHINDUCTOR_CACHE_DIR": bench.folder(), "TRITON_CACHE_DIR": bench.folder()} for _ in range(2)]
        plain = bench.run(command, **caches[0])
        done, capture = bench.record(command, **caches[1])
        expect(plain.stdout == done.stdout, f"prints other than without the recorder: {tail(done.stdout)}")
        return expect_calls(3, capture, done)

    yield "h5py", h5py
    yield "torch.compile", compiled
    for method in ("fork", "spawn"):
        yield f"DataLoader, {method}", counted("loader", 7, "--phase", method)
