"""msda-replay survey --poison, on the stand-in CUDA driver: kernels whose names begin with the verdict that they must have."""

import json
import os
import re
import subprocess
import sys

import h5py
import pytest
from conftest import REPLAY
from support.recording import RECORD, environment, pytestmark, record  # noqa: F401
from support.report_page import read as read_page
from support.schemas import check
from support.survey_poison import CLIENT

import msda_replay

PARTS = ("dependent", "independent", "partial", "copied", "varying", "unsurveyed")


def plain(*words):
    return subprocess.run([CLIENT, *words], capture_output=True, text=True, timeout=60, env=environment()).stdout


def surveyed(capture, *words, options=(), poison=True, **variables):
    """What the survey found of each kernel; what the program prints must be as without it."""
    flags = ["--survey", *(["--survey-poison"] if poison else []), "--hook", "driver", "-o", capture, *map(str, options)]
    done = record(CLIENT, *words, options=flags, **variables)
    assert (done.returncode, done.stdout) == (0, plain(*words)), done.stderr
    printed = subprocess.run([REPLAY, "survey", capture, "--json", "-"], capture_output=True, text=True, timeout=60)
    result = json.loads(printed.stdout)
    check(result, "survey")
    kernels = {kernel["mangled"]: kernel for kernel in result["kernels"]}
    assert printed.returncode == any(kernel["varied"] or kernel["verdict"] == "reads_unwritten" for kernel in kernels.values())
    return kernels


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_every_kernel_has_its_verdict(tmp_path, asynchronous):
    kernels = surveyed(tmp_path / "a.h5", MSDA_STAND_IN_ASYNC=asynchronous)
    wrong = {name: kernel["verdict"] for name, kernel in kernels.items() if not name.startswith(kernel["verdict"] + "_")}
    assert not wrong and len(kernels) == 28
    for name, kernel in kernels.items():
        reads = kernel["verdict"] == "reads_unwritten"
        poison = kernel["poison"]
        assert poison["depend"] == (kernel["launches"] if reads else 0) and poison["no_room"] == 0, name
        assert (poison["first"] > 0) == (poison["most_words"] > 0) == (poison["unwritten_words"] > 0) == reads, name
        assert kernel["remedy"] is None and kernel["extra_launches"] == 2 * kernel["surveyed"]
    assert kernels["race_drawn"]["poison"]["launches"] == 0  # it varies anyway, so nothing is compared
    # What nobody wrote: 49,100 of 50,000 words, and the sum's own.
    rest = kernels["reads_unwritten_rest"]
    assert (rest["poison"]["unwritten_words"], rest["poison"]["unwritten_bytes"], rest["poison"]["most_words"]) == (49101, 200004, 1)
    assert kernels["reads_unwritten_beside_memset"]["poison"]["unwritten_words"] == 25001
    assert kernels["reads_unwritten_add_to"]["poison"]["most_words"] == 50000
    # A copy shows where two addresses have two patterns.
    assert 20000 < kernels["reads_unwritten_clone"]["poison"]["most_words"] <= 50000
    # Numbers that are hardly zero show only in a maximum, and all that is no number in a product.
    assert kernels["reads_unwritten_maximum"]["poison"]["most_words"] == 25000
    assert kernels["reads_unwritten_times_zero"]["poison"]["most_words"] == 50000


def test_without_poison_nothing_is_accused(tmp_path):
    kernels = surveyed(tmp_path / "a.h5", poison=False)
    assert "reads_unwritten" not in {kernel["verdict"] for kernel in kernels.values()}
    assert all(kernel["poison"] is None for kernel in kernels.values())


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone(tmp_path, part):
    kernels = surveyed(tmp_path / "a.h5", part)
    assert kernels and all(name.startswith(kernel["verdict"] + "_") for name, kernel in kernels.items())


def test_what_is_not_asked_for_counts_as_written(tmp_path):
    """The packed rows' kernel is launch 1, and the sum that reads the others is launch 2."""
    asked = {"deterministic_packed": "not_surveyed", "reads_unwritten_rest": "deterministic", "reads_unwritten_beside_memset": "reads_unwritten"}
    for flags in (["--survey-from", 2], ["--kernel", "unwritten|again|after"]):
        kernels = surveyed(tmp_path / "a.h5", "partial", options=[*flags, "--force"])
        assert {name: kernels[name]["verdict"] for name in asked if name in kernels} == {
            name: verdict for name, verdict in asked.items() if name in kernels}
        assert "reads_unwritten_rest" in kernels


def test_what_has_no_room_counts_as_written(tmp_path):
    """The launches have two allocations of 200,000 bytes; those of sums have less, and are surveyed."""
    kernels = surveyed(tmp_path / "a.h5", "partial", options=["--survey-memory", 1], MSDA_STAND_IN_MEMORY=64_000_000, MSDA_STAND_IN_HOST_MEMORY=1_000_000)
    assert {name: kernel["verdict"] for name, kernel in kernels.items()} == {
        "deterministic_packed": "not_surveyed", "reads_unwritten_rest": "deterministic", "deterministic_packed_again": "not_surveyed",
        "deterministic_after_memset": "deterministic", "reads_unwritten_beside_memset": "reads_unwritten"}
    assert kernels["deterministic_packed"]["not_surveyed"] == {"over_limit": 1}


def test_kept_launches_have_the_memory_that_they_found(tmp_path):
    kernels = surveyed(tmp_path / "a.h5", "partial")
    with h5py.File(tmp_path / "a.h5") as file:
        kept = {invocation.attrs["kernel"]: invocation for invocation in file["invocations"].values()}
        assert set(kept) == {name for name, kernel in kernels.items() if kernel["kept"]} == {"reads_unwritten_rest", "reads_unwritten_beside_memset"}
        (rows,) = (bytes(entry[()]) for entry in kept["reads_unwritten_rest"]["inputs"].values())
        assert set(rows[3600:]) == {0xCD} and len(rows) == 200000 and set(rows[:3600]) != {0xCD}


def test_the_command_the_text_and_the_page(tmp_path, replay):
    run = [REPLAY, "survey", "--poison", "-o", tmp_path / "s.h5", "--", CLIENT]
    done = subprocess.run([*run, "partial"], capture_output=True, text=True, timeout=60, env=environment())
    story = re.sub(r"\s+", " ", done.stdout)
    assert done.returncode == 1 and "none of 5 kernels varied, in 5 launches 2 kernels depend on memory that nobody wrote, in 2 launches" in story, done.stderr
    assert "reads_unwritten reads_unwritten_rest None of 1 launch varied. Its results depend on memory that nobody wrote since it was allocated" in story
    assert "That launch reaches 49101 words that nobody wrote, in allocations of 200004 bytes. Write this memory first, as torch.zeros does" in story
    assert "2 launches are kept; to run them again:" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()[1:] if str(tmp_path) not in line)
    printed = replay("report", tmp_path / "s.h5", "-o", tmp_path / "s.html", expect=1)
    assert printed.out.startswith("2 of 5 kernels vary.\n")
    page = read_page(tmp_path / "s.html")
    assert page.tags.count("article") == 2 and "write this memory first" in page.text
    assert "2 depend on memory that nobody wrote" in page.text


@pytest.mark.parametrize("before, after", [(None, "1"), ("0", "0")])
def test_pytorch_hands_out_no_memory_twice(tmp_path, before, after):
    """A user's own setting stays."""
    given = environment(**({} if before is None else {"PYTORCH_NO_CUDA_MEMORY_CACHING": before}))
    program = [sys.executable, "-c", "import os; print(os.environ.get('PYTORCH_NO_CUDA_MEMORY_CACHING'))"]
    for flags, expected in ((["--survey", "--survey-poison"], after), (["--survey"], str(before))):
        done = subprocess.run([RECORD, *flags, "-o", tmp_path / "a.h5", "--", *program], capture_output=True, text=True, timeout=60, env=given)
        assert done.stdout.strip() == expected, done.stderr


def test_the_function_in_python(monkeypatch):
    for name, value in environment(MSDA_REPLAY=REPLAY, MSDA_RECORD_HOOK="driver").items():
        monkeypatch.setenv(name, value)
    found = msda_replay.survey([os.fspath(CLIENT), "partial"], poison=True)
    assert [kernel.kernel for kernel in found.varying] == ["reads_unwritten_rest", "reads_unwritten_beside_memset"]
