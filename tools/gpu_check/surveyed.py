"""A survey (docs/survey.md): the verdict of kernels of each kind, and programs that it must not change."""

import collections
import json
import math
import re
import sys

from .bench import TARGETS, Failed, expect, first_difference, tail
from .registry import check

sys.path.insert(0, str(TARGETS))
import harmless  # noqa: E402

ROUNDS = 10
# What kernels of surveyed.cu add to 32 addresses: the type, and the greatest addend, None where no twin shows it (the compiler
# takes the addresses of pairs for generic ones); or why nothing is measured.
ADDED = {"red_float": ("float32", 1), "red_double": ("float64", 1 / 3), "red_half2": ("float16", None), "red_bfloat162": ("bfloat16", None),
         "called": ("float32", 1), "constants": ("float32", 1 / 3), "variable": ("float32", 1 / 3)}
UNMEASURED = {"red_float2": "vectors", "red_float4": "vectors", "atom_float": "results_used", "atom_double": "results_used",
              "generic_float": "results_used"}
# PyTorch captures no graph without its caching allocator, and fills no memory that is not its own.
WITHOUT_POISON = ("graphs", "memory-full")


def survey_of(bench, command, flags=(), expected=(0,)):
    """Returns what a program prints under a survey, and what the survey found, by kernel."""
    done, capture = bench.record(command, ["--survey", *flags], expected=expected)
    found = json.loads(bench.replay("survey", "--json", "-", capture, expected=(0, 1)).stdout)
    return done, {kernel["mangled"]: kernel for kernel in found["kernels"]}


def judged(kernels, wrong):
    """Notes the kernels whose verdict is not what their names begin with."""
    for name, kernel in kernels.items():
        if not name.startswith(kernel["verdict"] + "_"):
            wrong[f"{name} is {kernel['verdict']}"] += 1
        if kernel["surveyed"] < kernel["launches"]:
            wrong[f"{name} is not surveyed: {', '.join(kernel['not_surveyed'])}"] += 1


def measured(kernels, wrong):
    """Notes the kernels of which something else was measured than what they add: each of 2^18 threads once, to one of 32 addresses."""
    for name, kernel in kernels.items():
        name, evidence = name.removeprefix("order_only_"), kernel["evidence"]
        if name in UNMEASURED and kernel["varied"] and kernel["evidence_missing"] != UNMEASURED[name]:
            wrong[f"{name}: additions are measured, or not, as {kernel['evidence_missing']}"] += 1
        if name not in ADDED or not kernel["varied"]:
            continue
        if evidence is None:
            wrong[f"{name}: additions are not measured: {kernel['evidence_missing']}"] += 1
            continue
        kind, most = ADDED[name]
        counts = tuple(evidence[which] for which in ("type", "addresses", "additions", "most_additions", "elsewhere", "other_words"))
        if counts != (kind, 32, 1 << 18, 1 << 13, 0, 0):
            wrong[f"{name}: {counts} were counted"] += 1
        greatest = evidence["greatest_addend"]
        if most is None:
            if (greatest, evidence["unbounded"]) != (None, evidence["differing"]):
                wrong[f"{name}: the greatest addend is {greatest}, as no twin tells"] += 1
            continue
        if greatest is None or not 0.99 * most <= greatest <= 1.01 * most:
            wrong[f"{name}: the greatest addend is {greatest}"] += 1
        if evidence["exceeding"] or evidence["unbounded"] or not evidence["difference"] <= (evidence["bound"] or 0):
            wrong[f"{name}: order cannot change {evidence['difference']}, but {evidence['bound']}"] += 1


@check("survey", "kernels of each verdict in a survey; programs that it must not change", ["nvcc"])
def survey(bench):
    def kernels(name, *flags):
        program = bench.program(name)
        alone, wrong, count = bench.run([program]).stdout, collections.Counter(), 0
        for _ in range(ROUNDS):
            done, found = survey_of(bench, [program], flags)
            expect(done.stdout == alone, f"prints other than without a survey: {first_difference(alone, done.stdout)}")
            judged(found, wrong)
            measured(found, wrong)
            count += len(found)
        if wrong:
            raise Failed(f"{sum(wrong.values())} of {count}: " + "; ".join(f"{what} {times} times" for what, times in wrong.most_common(8)))
        return f"{count} verdicts in {ROUNDS} runs"

    def unchanged(name, *flags):
        def run():
            bench.require("torch")
            if name in ("compiled", "autotuned"):
                bench.require("triton")
            command = bench.target("harmless", name)
            first, second = (bench.run(command).stdout for _ in range(2))
            expect(first == second, "is not deterministic without a survey")
            done, found = survey_of(bench, command, flags)
            accused = [kernel for kernel, row in found.items() if row["verdict"] == "reads_unwritten"]
            expect(not accused, f"{accused} is accused of reading memory that nobody wrote")
            expect(done.stdout == first, f"computes something else under a survey; {tail(done.stderr)}")
            launches, surveyed = (sum(kernel[which] for kernel in found.values()) for which in ("launches", "surveyed"))
            reasons = collections.Counter()
            for kernel in found.values():
                reasons.update(kernel["not_surveyed"])
            varying = [re.sub(r"[<(].*", "", name) for name, kernel in found.items() if kernel["varied"]]
            notes = [f"{count} {reason}" for reason, count in reasons.items()] + [f"{name} varies" for name in varying]
            return f"{surveyed} of {launches} surveyed", ", ".join(notes)
        return run

    def packed_rows():
        bench.require("torch")
        done, found = survey_of(bench, bench.target("unwritten_rows"), ["--survey-poison"])
        rows = json.loads(done.stdout)["rows"]
        accused = {name: kernel["poison"]["unwritten_words"] for name, kernel in found.items() if kernel["verdict"] == "reads_unwritten"}
        expect(len(accused) == 1, f"{sorted(accused) or 'nothing'} is accused, not one matrix product")
        (words,) = accused.values()
        expect(words >= rows, f"of {rows} words that nobody wrote, {words} were found")
        return f"{next(iter(accused))[:60]}: {words} words"

    def kept_launches():
        """If a survey accuses a launch of reading unwritten memory, its replay says so, too, and names that memory."""
        _, capture = bench.record([bench.program("unwritten")], ["--survey", "--survey-poison"])
        told = json.loads(bench.replay("run", capture, "--mode", "original", "--poison", "--json", "-", expected=(0, 1)).stdout)
        accused = {one["kernel"]: one["poison"] for one in told["relaunched"] if one["kernel"].startswith("reads_unwritten_")}
        wrong = [name for name, poison in accused.items() if poison["verdict"] != "reads_unwritten" or not any(
            "unwritten bytes" in memory for tensor in poison["tensors"].values() for memory in tensor.get("varies_across", ()))]
        failed = [name for name, poison in accused.items() if any(one["state"] != "ran" for one in poison["settings"])]
        expect(accused and set(wrong) <= set(failed), f"of {len(accused)} kept launches these depend on no unwritten byte: {sorted(wrong)}")
        return f"{len(accused)} launches", f"{len(failed)} fail on other contents"

    def small_launch():
        """A launch that was kept, made smaller, still varies for whoever runs it."""
        _, capture = bench.record([bench.program("surveyed")], ["--survey"])
        small = bench.folder() / "small.h5"
        told = json.loads(bench.replay("minimize", capture, "-o", small, "--json", "-").stdout)
        again = json.loads(bench.replay("run", small, "--mode", "original", "--repeat", "100", "--json", "-", expected=(0, 1)).stdout)
        distinct = max(tensor["distinct"] for tensor in again["relaunched"][0]["original"]["tensors"].values())
        expect(distinct > 1, f"100 launches of {told['kernel']} give equal results")
        bench.replay("verify", small)
        blocks = [math.prod(told[which]) for which in ("recorded_grid", "grid")]
        return f"{told['kernel'][:60]}: {blocks[0]} blocks to {blocks[1]}, {capture.stat().st_size} bytes to {told['file_bytes']}, {told['trials']} trials"

    yield "kernels", lambda: kernels("surveyed")
    yield "kernels that read unwritten memory", lambda: kernels("unwritten", "--survey-poison")
    yield "kept launches that read unwritten memory", kept_launches
    yield "a kept launch made smaller", small_launch
    yield "rows that nobody wrote", packed_rows
    for name in harmless.PROGRAMS:
        yield name, unchanged(name)
        if name not in WITHOUT_POISON:
            yield f"{name}, poisoned", unchanged(name, "--survey-poison")
