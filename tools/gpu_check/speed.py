"""The recorder's cost for launches that it ignores, and for launches that it records."""

import math
import re
import statistics
import time

from .bench import Skip, expect, invocations_of, tail
from .registry import check

TINY_LIMIT, STALL_LIMIT, DIGEST_LIMIT_US = 1.03, 1.3, 60
ROUNDS, FEWEST, LONGEST_S, CHANCE = 15, 7, 50, 0.02  # of the tiny launches
STALL_ROUNDS = 7
ROW_1 = ["--sizes", "4,1000,8,3,32", "--levels", "64x64,32x32,16x16,8x8"]


def figure(done, name):
    return float(re.search(rf"^{name} (\S+)", done.stdout, re.M)[1])


def rounds_of(contenders, count=ROUNDS, seconds=LONGEST_S):
    """For each round, what each contender's function returned, by name. Each round begins with another contender, because
    the position in a round may affect the time. A slow machine makes fewer rounds than `count`, at least 7: the fewest
    for which all being slower is significant (1 / 128)."""
    names, rounds, begin = list(contenders), [], time.monotonic()
    while len(rounds) < count and (len(rounds) < FEWEST or time.monotonic() - begin < seconds):
        first = len(rounds) % len(names)
        rounds.append({name: contenders[name]() for name in names[first:] + names[:first]})
    return rounds


def slowdown(rounds, name, base):
    """Returns the ratio to `base` in the same round: the median, lowest and highest of the rounds; and the probability that this
    many rounds or more are slower if the two are equally fast."""
    ratios = [one[name] / one[base] for one in rounds]
    slower = sum(ratio > 1 for ratio in ratios)
    chance = sum(math.comb(len(ratios), k) for k in range(slower, len(ratios) + 1)) / 2 ** len(ratios)
    return statistics.median(ratios), min(ratios), max(ratios), chance


def judge_slowdown(rounds, name, base, control):
    """Returns a figure and a note. Failed if the median is above the limit and chance does not explain it: runs of one program
    differ by several percent, as `control`, the base once more, shows."""
    middle, lowest, highest, chance = slowdown(rounds, name, base)
    again, least, most, _ = slowdown(rounds, control, base)
    mine, alone = (statistics.median(one[key] for one in rounds) for key in (name, base))
    text = (f"{lowest:.3f} to {highest:.3f} times, {mine:.3f} us a launch, {alone:.3f} without; without, once more: "
            f"{again:.3f} times, {least:.3f} to {most:.3f}; {len(rounds)} rounds")
    expect(middle <= TINY_LIMIT or chance > CHANCE, f"{middle:.3f}, limit {TINY_LIMIT}: {text}")
    return f"{middle:.3f}", text if middle <= TINY_LIMIT else f"above {TINY_LIMIT}, but so by chance in {chance:.0%}: {text}"


@check("tiny-launches", f"20,000 launches that are not to be recorded: at most {TINY_LIMIT} times as long", ["nvcc"])
def tiny_launches(bench):
    command = [bench.program("tiny"), "--repetitions", "3"]

    def alone():
        return figure(bench.run(command), "launch_us")

    def hooked(hook):
        return lambda: figure(bench.record(command, ["--hook", hook])[0], "launch_us")

    hooks = ("auto", "driver")
    begin = time.monotonic()
    rounds = rounds_of({"alone": alone, "control": alone, **{hook: hooked(hook) for hook in hooks}})
    each = f" of {(time.monotonic() - begin) / len(rounds):.1f} s"
    for hook in hooks:
        def judged(hook=hook):
            ratio, text = judge_slowdown(rounds, hook, "alone", "control")
            return ratio, text + each

        yield f"--hook {hook}", judged


@check("stall", f"a recorded launch of 58 MB of new content: at most {STALL_LIMIT} times the time of copying it", ["nvcc"])
def stall(bench):
    def added(options, pause):
        command = [bench.program("col2im17"), "--time", "--launches", "15", "--pause", str(pause), *ROW_1]
        plain = bench.run(command)
        done, capture = bench.record(command, options)
        launches = len(invocations_of(capture, done))
        expect(launches == 15, f"{launches} of 15 launches are recorded, the time means nothing: {tail(done.stderr)}")
        return figure(done, "launch_us") - figure(plain, "launch_us"), done, plain

    def whole():
        more, done, plain = added([], pause=150)  # ms, for the writer
        copy, launch = figure(done, "copy_us"), figure(plain, "launch_us")
        text = (f"{more:.0f} us more on {launch:.0f}; copying {figure(done, 'bytes') / 1e6:.1f} MB takes {copy:.0f} us, "
                f"without the recorder {figure(plain, 'copy_us'):.0f}")
        expect(more <= STALL_LIMIT * copy, f"ratio {more / copy:.2f}, limit {STALL_LIMIT}: {text}")
        return f"{more / copy:.2f}", text

    def digests():
        if "--digest-only" not in bench.run([bench.record_program, "--help"]).stdout:
            raise Skip("this msda-record has no --digest-only")
        # Single runs differ by 20 us, as the processor's caches do.
        times = sorted(added(["--digest-only"], pause=20)[0] for _ in range(STALL_ROUNDS))
        more = statistics.median(times)
        text = f"{times[0]:.0f} to {times[-1]:.0f} us more in {STALL_ROUNDS} rounds"
        expect(more <= DIGEST_LIMIT_US, f"{more:.0f} us more, limit {DIGEST_LIMIT_US}: {text}")
        return f"{more:.0f} us", text

    yield "with its tensors", whole
    yield "--digest-only", digests
