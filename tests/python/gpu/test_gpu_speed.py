"""The recorder's cost on a GPU for launches that it ignores, and for launches that it records."""

import math
import re
import statistics
import time

import numpy as np
import pytest
from support.gpu import invocations_of

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
    ratios = [times[name] / times[base] for times in rounds]
    slower = sum(ratio > 1 for ratio in ratios)
    chance = sum(math.comb(len(ratios), k) for k in range(slower, len(ratios) + 1)) / 2 ** len(ratios)
    return statistics.median(ratios), min(ratios), max(ratios), chance


def judge_slowdown(rounds, name, base, control):
    """Returns the ratio and a note. Fails if the median is above the limit and chance does not explain it: runs of one program
    differ by several percent, as `control`, the base once more, shows."""
    middle, lowest, highest, chance = slowdown(rounds, name, base)
    again, least, most, _ = slowdown(rounds, control, base)
    mine, alone = (statistics.median(times[key] for times in rounds) for key in (name, base))
    text = (f"{lowest:.3f} to {highest:.3f} times, {mine:.3f} us a launch, {alone:.3f} without; without, once more: "
            f"{again:.3f} times, {least:.3f} to {most:.3f}; {len(rounds)} rounds")
    assert middle <= TINY_LIMIT or chance > CHANCE, f"{middle:.3f}, limit {TINY_LIMIT}: {text}"
    return f"{middle:.3f}, " + (text if middle <= TINY_LIMIT else f"above {TINY_LIMIT}, but so by chance in {chance:.0%}: {text}")


@pytest.fixture(scope="module")
def rounds_of_tiny_launches(programs):
    """20,000 launches that are not to be recorded."""
    command = [programs.compiled("tiny"), "--repetitions", "3"]

    def alone():
        return figure(programs.run(command), "launch_us")

    def hooked(hook):
        return lambda: figure(programs.record(command, ["--hook", hook])[0], "launch_us")

    return rounds_of({"alone": alone, "control": alone, "auto": hooked("auto"), "driver": hooked("driver")})


@pytest.mark.gpu("nvcc")
@pytest.mark.parametrize("hook", ["auto", "driver"])
def test_launches_that_are_ignored_take_no_longer(rounds_of_tiny_launches, hook):
    print(judge_slowdown(rounds_of_tiny_launches, hook, "alone", "control"))


def added_by_recording(programs, options, pause):
    """Returns the microseconds that recording adds to a launch of 58 MB of new content, and both finished programs."""
    command = [programs.compiled("col2im17"), "--time", "--launches", "15", "--pause", str(pause), *ROW_1]
    plain = programs.run(command)
    done, capture = programs.record(command, options)
    invocations_of(capture, done, 15)  # else the time means nothing
    return figure(done, "launch_us") - figure(plain, "launch_us"), done, plain


@pytest.mark.gpu("nvcc")
def test_a_recorded_launch_stalls_the_program_for_a_copy(programs):
    added, done, plain = added_by_recording(programs, [], pause=150)  # ms, for the writer
    copy = figure(done, "copy_us")
    print(f"ratio {added / copy:.2f}: {added:.0f} us more on {figure(plain, 'launch_us'):.0f}; copying {figure(done, 'bytes') / 1e6:.1f} MB "
          f"takes {copy:.0f} us, without the recorder {figure(plain, 'copy_us'):.0f}")
    assert added <= STALL_LIMIT * copy


@pytest.mark.gpu("nvcc")
def test_digests_stall_the_program_for_less(programs):
    """Single runs differ by 20 us, as the processor's caches do."""
    times = sorted(added_by_recording(programs, ["--digest-only"], pause=20)[0] for _ in range(STALL_ROUNDS))
    print(f"{statistics.median(times):.0f} us, {times[0]:.0f} to {times[-1]:.0f} us more in {STALL_ROUNDS} rounds")
    assert statistics.median(times) <= DIGEST_LIMIT_US


# What is made of times


def made_up_rounds(rng, ratio, scatter=0.04):
    """Times of 15 rounds: each a few percent off, on a machine that slows down by half; one contender is `ratio` slower."""
    def around(time):
        return lambda: time * next(drift) * np.exp(rng.normal(0, scatter))

    drift = iter(np.linspace(1, 1.5, 45))
    return rounds_of({"alone": around(2.5), "control": around(2.5), "auto": around(2.5 * ratio)})


@pytest.mark.parametrize("ratio, least, most", [(1, 0, 0.03), (1.01, 0, 0.06), (1.1, 0.95, 1), (1.5, 1, 1)])
def test_slowdown_is_judged_past_the_noise(rng, ratio, least, most):
    """By the share of 400 checks that fail, of made-up times whose true ratio is known."""
    def fails():
        try:
            judge_slowdown(made_up_rounds(rng, ratio), "auto", "alone", "control")
        except AssertionError:
            return True
        return False

    assert least <= sum(fails() for _ in range(400)) / 400 <= most


def test_slowdown_by_hand():
    # Ratios 1.1 (4 times), 1.0, 1.02, 1.04; the median is 1.1; 6 of 7 are slower, by chance in (7 + 1) / 128.
    ratios, stray = (1.1, 1, 1.1, 1.02, 1.1, 1.04, 1.1), (0.9, 1.2, 1.2, 0.9, 0.9, 1.2, 1.2)
    rounds = [{"alone": 2, "control": 2 * again, "auto": 2 * ratio} for ratio, again in zip(ratios, stray)]
    assert slowdown(rounds, "auto", "alone") == pytest.approx((1.1, 1, 1.1, 8 / 128))
    note = judge_slowdown(rounds, "auto", "alone", "control")
    assert note.startswith("1.100, above 1.03, but so by chance in 6%: 1.000 to 1.100 times, 2.200 us a launch, 2.000 without")
    assert "once more: 1.200 times, 0.900 to 1.200; 7 rounds" in note
    rounds[1]["auto"] = 2.01  # 7 of 7: 1 / 128
    with pytest.raises(AssertionError, match=r"^1\.100, limit 1\.03: 1\.005 to 1\.100 times"):
        judge_slowdown(rounds, "auto", "alone", "control")


def test_contenders_take_turns():
    called = []
    contenders = {name: lambda name=name: called.append(name) or len(called) for name in "abc"}
    rounds = rounds_of(contenders, count=4)
    assert "".join(called) == "abc" "bca" "cab" "abc"
    assert rounds[1] == {"b": 4, "c": 5, "a": 6}
    assert len(rounds_of(contenders, seconds=0)) == 7 and len(rounds_of(contenders)) == 15
