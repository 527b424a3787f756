"""msda-triton, its autotuner included."""

import re
import statistics

from .bench import expect, invocations_of, same, saved_tensors, tail
from .registry import check

TUNED = re.compile(r"Triton autotuning for function (\w+).*?best config selected: (.*?);", re.S)


def by_case(out):
    """For each case the digests of its tensors, and the autotuner's last choice for the backward kernel."""
    cases, choice = {}, None
    for part in re.split(r"^case ", out, flags=re.M)[1:]:
        for function, config in TUNED.findall(part):
            choice = config if "bwd" in function else choice
        digests = dict(re.findall(r"^\S+ (\w+) ([0-9a-f]{40})$", part, re.M))
        digests.pop("grad_value")  # depends on the order of atomics
        cases[part.split()[0]] = (choice, digests)
    return cases


@check("msda-triton", "four conventions, float32 and float64: outcome, last call, the autotuner's choice, time",
       ["torch", "triton", "msda_triton"])
def msda_triton(bench):
    settings = {"TRITON_CACHE_DIR": bench.folder(), "TRITON_PRINT_AUTOTUNING": "1", "limit": 300}
    command = bench.target("msda")
    bench.run(command, **settings)  # compiles
    plain, recorded, seconds = [], [], ([], [])
    for _ in range(max(1, bench.tuner_runs)):
        saved_in = bench.folder()
        alone = bench.run(command, **settings)
        done, capture = bench.record([*command, "--save", saved_in], **settings)
        for run, runs, times in ((alone, plain, seconds[0]), (done, recorded, seconds[1])):
            runs.append(by_case(run.stdout))
            times.append(float(re.search(r"^took (\S+)", run.stdout, re.M)[1]))
    saved = saved_tensors(saved_in)  # of the last run, as is the capture
    calls = invocations_of(capture, done)

    def last_call(name, call):
        padding, align = name.split("-")[1:3]
        for tensor, array in {**call.inputs, **call.outputs}.items():
            same(array, saved[name][tensor], tensor)
        found = (call.dialect, call.padding_mode, call.align_corners)
        expect(found == ("msda_triton", padding, align == "align"), f"the capture says {found}")
        duplicates = call.facts.get("duplicates", 0)
        for run in recorded:
            choice, digests = run[name]
            twins = [other for other_choice, other in (one[name] for one in plain) if other_choice == choice]
            expect(not twins or digests in twins, "the order-independent outputs are other than without the recorder")
        return f"{duplicates} autotuner launches counted"

    if len(calls) == len(saved):
        for (name, _), call in zip(sorted(saved.items()), calls):
            yield name, lambda name=name, call=call: last_call(name, call)
    else:
        def all_recorded():
            expect(False, f"{len(calls)} invocations for {len(saved)} calls: {tail(done.stderr)}")

        yield "every call once", all_recorded

    def choices():
        """Returns how often a run's choices occur in the runs without the recorder; for one of these, in the others."""
        def agreeing(run, others):
            return sum(run[name][0] in {other[name][0] for other in others} for name in saved)

        expect(any(choice for run in plain for choice, _ in run.values()), "the autotuner prints nothing with TRITON_PRINT_AUTOTUNING=1")
        total = len(saved) * len(plain)
        mine = sum(agreeing(run, plain) for run in recorded)
        theirs = sum(agreeing(run, plain[:i] + plain[i + 1:]) for i, run in enumerate(plain))
        text = f"without the recorder {theirs} of {total}"
        # A count lower by more than two standard deviations is attributed to the recorder.
        expect(mine >= theirs - 2 * max(1, total - theirs) ** 0.5, f"{mine} of {total} alike, {text}")
        return f"{mine} of {total} alike", text

    yield "the autotuner's choice", choices

    def ratio():
        one, other = map(statistics.median, seconds)
        return f"{other / one:.2f} times as long", f"backward calls with tuning {one:.2f} s, recorded {other:.2f} s"

    yield "time", ratio
