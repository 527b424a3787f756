"""What the recorder costs: of launches that it passes by, and of those that it records."""

import re
import statistics

from .bench import Skip, expect, invocations_of, tail
from .registry import check

TINY_LIMIT, STALL_LIMIT, DIGEST_LIMIT_US = 1.03, 1.3, 60
ROW_1 = ["--sizes", "4,1000,8,3,32", "--levels", "64x64,32x32,16x16,8x8"]


def figure(done, name):
    return float(re.search(rf"^{name} (\S+)", done.stdout, re.M)[1])


@check("tiny-launches", f"20,000 launches that are not to be recorded: at most {TINY_LIMIT} times as long", ["nvcc"])
def tiny_launches(bench):
    program = bench.program("tiny")
    times = {"": [], "auto": [], "driver": []}
    for _ in range(5):
        for hook, found in times.items():
            done = bench.record([program], ["--hook", hook])[0] if hook else bench.run([program])
            found.append(figure(done, "launch_us"))
    alone = statistics.median(times[""])
    for hook in ("auto", "driver"):
        def ratio(hook=hook):
            mine = statistics.median(times[hook])
            text = f"{mine:.3f} us a launch, {alone:.3f} without: {mine / alone:.3f}"
            expect(mine <= TINY_LIMIT * alone, f"{text}, limit {TINY_LIMIT}")
            return f"{mine / alone:.3f}", text

        yield f"--hook {hook}", ratio


@check("stall", f"a recorded launch of 58 MB of new content: at most {STALL_LIMIT} times the time of copying it", ["nvcc"])
def stall(bench):
    command = [bench.program("col2im17"), "--time", "--launches", "15", "--pause", "150", *ROW_1]

    def added(options):
        plain = bench.run(command)
        done, capture = bench.record(command, options)
        launches = len(invocations_of(capture, done))
        expect(launches == 15, f"{launches} of 15 launches are recorded, the time means nothing: {tail(done.stderr)}")
        return figure(done, "launch_us") - figure(plain, "launch_us"), done, plain

    def whole():
        more, done, plain = added([])
        copy, launch = figure(done, "copy_us"), figure(plain, "launch_us")
        text = (f"{more:.0f} us more on {launch:.0f}; copying {figure(done, 'bytes') / 1e6:.1f} MB takes {copy:.0f} us, "
                f"without the recorder {figure(plain, 'copy_us'):.0f}")
        expect(more <= STALL_LIMIT * copy, f"ratio {more / copy:.2f}, limit {STALL_LIMIT}: {text}")
        return f"{more / copy:.2f}", text

    def digests():
        if "--digest-only" not in bench.run([bench.record_program, "--help"]).stdout:
            raise Skip("this msda-record has no --digest-only")
        more, _, plain = added(["--digest-only"])
        text = f"{more:.0f} us more on {figure(plain, 'launch_us'):.0f}"
        expect(more <= DIGEST_LIMIT_US, f"{text}, limit {DIGEST_LIMIT_US}")
        return f"{more:.0f} us", text

    yield "with its tensors", whole
    yield "--digest-only", digests
