"""What else a recorded program does: it profiles itself, uses HDF5, compiles, forks and spawns."""

import re

from .bench import Skip, expect, invocations_of, recorder_lines, tail
from .registry import check


@check("profiler", "torch.profiler sees the program's kernels, and launches keep being recorded", ["torch"])
def profiler(bench):
    for hook in ("auto", "cupti", "driver"):
        def profiled(hook=hook):
            done, capture, _ = bench.outcome_kept(bench.target("profiler"), ["--hook", hook], saves=False)
            kernels = int(re.search(r"^kernels (\d+)", done.stdout, re.M)[1])
            expect(kernels > 0, "the profiler sees no kernel, with the recorder and without")
            calls = len(invocations_of(capture, done))
            expect(calls == 11, f"{calls} of 11 launches are recorded: {tail(done.stderr)}")
            lines = [line for line in recorder_lines(done) if "invocation" not in line]
            return f"{kernels} kernels seen", tail("\n".join(lines))

        yield f"--hook {hook}", profiled


@check("surroundings", "h5py, torch.compile and DataLoader workers in the recorded program", ["torch"])
def surroundings(bench):
    def counted(name, calls, *arguments, **variables):
        def run():
            done, capture, _ = bench.outcome_kept(bench.target(name, *arguments), saves=False, **variables)
            found = len(invocations_of(capture, done))
            expect(found == calls, f"{found} of {calls} launches are recorded: {tail(done.stderr)}")
            return f"{found} launches"
        return run

    def h5py():
        reason = bench.missing("h5py")
        if reason:
            raise Skip(reason)
        return counted("h5", 5)()

    def compiled():
        reason = bench.missing("triton")
        if reason:
            raise Skip(reason)
        # Caches of their own for both runs: else the second would compile nothing.
        command = bench.target("compiled")
        caches = [{"TORCHINDUCTOR_CACHE_DIR": bench.folder(), "TRITON_CACHE_DIR": bench.folder()} for _ in range(2)]
        plain = bench.run(command, **caches[0])
        done, capture = bench.record(command, **caches[1])
        expect(plain.stdout == done.stdout, f"prints other than without the recorder: {tail(done.stdout)}")
        found = len(invocations_of(capture, done))
        expect(found == 3, f"{found} of 3 launches are recorded: {tail(done.stderr)}")
        return f"{found} launches"

    yield "h5py", h5py
    yield "torch.compile", compiled
    for method in ("fork", "spawn"):
        yield f"DataLoader, {method}", counted("loader", 7, "--phase", method)
