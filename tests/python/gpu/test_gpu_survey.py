"""A survey on a GPU (docs/survey.md): the verdict of kernels of each kind, and programs that it must not change."""

import collections
import json
import re
import sys

import pytest
from support.gpu import PROGRAMS, tail

sys.path.insert(0, str(PROGRAMS))
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
needs_nvcc = pytest.mark.gpu("nvcc")


def survey_of(programs, command, *flags):
    """Returns what a program prints under a survey, and what the survey found, by kernel."""
    done, capture = programs.record(command, ["--survey", *flags])
    found = json.loads(programs.replay("survey", "--json", "-", capture, expected=(0, 1)).stdout)
    return done, {kernel["mangled"]: kernel for kernel in found["kernels"]}


def wrong_verdict(name, kernel):
    """Yields what is wrong of a kernel, whose name begins with its verdict."""
    if not name.startswith(kernel["verdict"] + "_"):
        yield f"{name} is {kernel['verdict']}"
    if kernel["surveyed"] < kernel["launches"]:
        yield f"{name} is not surveyed: {', '.join(kernel['not_surveyed'])}"


def wrong_evidence(name, kernel):
    """Yields what was measured that a kernel does not add: each of 2^18 threads adds once, to one of 32 addresses."""
    name, evidence = name.removeprefix("order_only_"), kernel["evidence"]
    if name in UNMEASURED and kernel["varied"] and kernel["evidence_missing"] != UNMEASURED[name]:
        yield f"{name}: additions are measured, or not, as {kernel['evidence_missing']}"
    if name not in ADDED or not kernel["varied"]:
        return
    if evidence is None:
        yield f"{name}: additions are not measured: {kernel['evidence_missing']}"
        return
    kind, most = ADDED[name]
    counts = tuple(evidence[which] for which in ("type", "addresses", "additions", "most_additions", "elsewhere", "other_words"))
    if counts != (kind, 32, 1 << 18, 1 << 13, 0, 0):
        yield f"{name}: {counts} were counted"
    greatest = evidence["greatest_addend"]
    if most is None:
        if (greatest, evidence["unbounded"]) != (None, evidence["differing"]):
            yield f"{name}: the greatest addend is {greatest}, which no twin shows"
        return
    if greatest is None or not 0.99 * most <= greatest <= 1.01 * most:
        yield f"{name}: the greatest addend is {greatest}"
    if evidence["exceeding"] or evidence["unbounded"] or not evidence["difference"] <= (evidence["bound"] or 0):
        yield f"{name}: order cannot change {evidence['difference']}, but {evidence['bound']}"


@needs_nvcc
@pytest.mark.parametrize("name, flags", [("surveyed", ()), ("unwritten", ("--survey-poison",))])
def test_kernels(programs, name, flags):
    program = programs.compiled(name)
    alone, wrong = programs.run([program]).stdout, collections.Counter()
    for _ in range(ROUNDS):
        done, found = survey_of(programs, [program], *flags)
        assert done.stdout == alone
        for kernel_name, kernel in found.items():
            wrong.update(wrong_verdict(kernel_name, kernel))
            wrong.update(wrong_evidence(kernel_name, kernel))
    assert not wrong


@needs_nvcc
def test_kept_launches_that_read_unwritten_memory(programs):
    """If a survey accuses a launch of reading unwritten memory, its replay says so, too, and names that memory. Some fail on other
    contents."""
    _, capture = programs.record([programs.compiled("unwritten")], ["--survey", "--survey-poison"])
    found = json.loads(programs.replay("run", capture, "--mode", "original", "--poison", "--json", "-", expected=(0, 1)).stdout)
    accused = {launch["kernel"]: launch["poison"] for launch in found["relaunched"] if launch["kernel"].startswith("reads_unwritten_")}
    wrong = {name for name, poison in accused.items() if poison["verdict"] != "reads_unwritten" or not any(
        "unwritten bytes" in memory for tensor in poison["tensors"].values() for memory in tensor.get("varies_across", ()))}
    failed = {name for name, poison in accused.items() if any(setting["state"] != "ran" for setting in poison["settings"])}
    assert accused and wrong <= failed


@needs_nvcc
def test_a_kept_launch_made_smaller_still_varies(programs):
    _, capture = programs.record([programs.compiled("surveyed")], ["--survey"])
    small = programs.folder() / "small.h5"
    print(programs.replay("minimize", capture, "-o", small).stdout)
    again = json.loads(programs.replay("run", small, "--mode", "original", "--repeat", "100", "--json", "-", expected=(0, 1)).stdout)
    assert max(tensor["distinct"] for tensor in again["relaunched"][0]["original"]["tensors"].values()) > 1
    programs.replay("verify", small)


@pytest.mark.gpu("torch")
def test_rows_that_nobody_wrote(programs):
    done, found = survey_of(programs, programs.python("unwritten_rows"), "--survey-poison")
    (words,) = [kernel["poison"]["unwritten_words"] for kernel in found.values() if kernel["verdict"] == "reads_unwritten"]
    assert words >= json.loads(done.stdout)["rows"]


def programs_and_flags():
    for name in harmless.PROGRAMS:
        marks = pytest.mark.gpu("torch", *(["triton"] if name in ("compiled", "autotuned") else []))
        for flags in ((),) if name in WITHOUT_POISON else ((), ("--survey-poison",)):
            yield pytest.param(name, flags, marks=marks, id="-".join((name, *flags)))


@pytest.mark.parametrize("name, flags", list(programs_and_flags()))
def test_a_program_is_not_changed(programs, name, flags):
    command = programs.python("harmless", name)
    if (alone := programs.run(command, expected=(0, harmless.clients.SKIPPED))).returncode:
        pytest.skip(tail(alone.stderr))
    assert programs.run(command).stdout == alone.stdout, "is not deterministic without a survey"
    done, found = survey_of(programs, command, *flags)
    assert not [kernel for kernel, row in found.items() if row["verdict"] == "reads_unwritten"]
    assert done.stdout == alone.stdout
    reasons = sum((collections.Counter(kernel["not_surveyed"]) for kernel in found.values()), collections.Counter())
    varying = [re.sub(r"[<(].*", "", kernel_name) for kernel_name, kernel in found.items() if kernel["varied"]]
    print({"not surveyed": reasons, "varying": varying})
