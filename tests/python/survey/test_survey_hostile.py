"""Programs that are hard to run under a survey: they end in odd ways, fork, let go of what launches use, fail, and launch what waits
for something that they do later. Each ends and prints as without the survey, and what was surveyed until then is in the capture."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import REPLAY
from support.full_disk import small_disk  # noqa: F401
from support.hostile import CLIENT as CALLING_CLIENT
from support.hostile_surveys import CLIENT, WORDS, run
from support.recording import RECORD, environment, pytestmark  # noqa: F401
from support.schemas import check

OPTIONS = ["--survey", "--hook", "driver", "-o", "a.h5"]


def kernels_of(capture):
    printed = subprocess.run([REPLAY, "survey", capture, "--json", "-"], capture_output=True, text=True, timeout=60)
    assert printed.returncode in (0, 1, 3), printed.stderr
    result = json.loads(printed.stdout)
    check(result, "survey")
    for kernel in result["kernels"]:
        assert kernel["launches"] >= kernel["surveyed"] + sum(kernel["not_surveyed"].values())
    return {kernel["mangled"]: kernel for kernel in result["kernels"]}


def surveyed(tmp_path, *words, options=(), expected=None, **variables):
    """What it found of each kernel; the program is as without it. `expected`: what it prints, where it would not end without patience."""
    plain = run(tmp_path / "plain", [CLIENT, *words], **variables)
    done = run(tmp_path / "under", [RECORD, *OPTIONS, *map(str, options), "--", CLIENT, *words], **variables)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stderr
    assert expected is None or plain.stdout == expected
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "under").iterdir() if path.name != "a.h5"} == files
    return kernels_of(tmp_path / "under" / "a.h5")


@pytest.mark.parametrize("word", WORDS)
def test_is_as_without_the_survey(tmp_path, word):
    kernels = surveyed(tmp_path, word, expected=WORDS[word])
    assert kernels and all(kernel["surveyed"] >= 1 for kernel in kernels.values())


@pytest.mark.parametrize("word", list(WORDS)[:7])
def test_is_as_without_a_survey_with_poison(tmp_path, word):
    """On a device that does its work at once."""
    kernels = surveyed(tmp_path, word, options=["--survey-poison"], expected=WORDS[word], MSDA_STAND_IN_ASYNC=0)
    assert kernels and all(kernel["surveyed"] >= 1 for kernel in kernels.values())


def test_many_contexts_leave_what_is_known_of_the_first(tmp_path):
    """Each destroyed context takes its own streams and copies, and no other's: pointers are followed as before."""
    kernels = surveyed(tmp_path, "makes_contexts:5")
    assert kernels["survey_follow_table"]["surveyed"] == 5 and not kernels["survey_follow_table"]["not_surveyed"]
    assert kernels["tiny_kernel"]["surveyed"] == 10


def test_memory_of_the_other_device(tmp_path):
    """A launch that changes it does not run again; one that reads it does."""
    kernels = surveyed(tmp_path, "reaches_the_other_device:4", expected="read 7\nthere 4\n")
    assert kernels["tiny_kernel"]["not_surveyed"] == {"shared_memory": 4}
    assert kernels["survey_read_host"]["surveyed"] == 4


@pytest.mark.parametrize("word", ["exports_memory", "imports_memory"])
def test_memory_of_another_process(tmp_path, word):
    kernels = surveyed(tmp_path, f"{word}:4", expected="number 4, lost 0\n")
    assert kernels["survey_take_long"]["not_surveyed"] == {"shared_memory": 4}
    assert kernels["tiny_kernel"]["surveyed"] == 4  # it reaches none of it


def test_a_graph_of_two_contexts_does_not_run_again(tmp_path):
    kernels = surveyed(tmp_path, "launches_a_graph_of_two_contexts:3", expected="here 3\nthere 3\n")
    assert kernels["tiny_kernel"]["not_surveyed"] == {"captured": 6}


@pytest.mark.parametrize("words, waits, surveyed_launches", [
    (["awaits_the_host:50"], "survey_await", 0),
    (["awaits_a_stream:20"], "survey_await", 0),
    (["launches_beside_a_host_function:500"], "tiny_kernel", 3),
    (["launches_beside_a_value:500"], "tiny_kernel", 3),
    (["launches_beside_an_event:500"], "tiny_kernel", 3),
], ids=lambda value: value[0].split(":")[0] if isinstance(value, list) else "")
def test_what_waits_for_the_program_is_waited_for_once(tmp_path, words, waits, surveyed_launches):
    """Never for ever, and not for each launch."""
    begin = time.monotonic()
    kernels = surveyed(tmp_path, *words, options=["--survey-patience", 1])
    assert time.monotonic() - begin < 10
    kernel = kernels[waits]
    assert kernel["surveyed"] == surveyed_launches
    assert kernel["not_surveyed"] == {"busy": kernel["launches"] - surveyed_launches}


def test_a_thread_waits_while_launches_run_again_and_no_longer(tmp_path):
    """A launch takes 0.4 s, three of them more than patience: results of the other thread, in the same allocation, stay."""
    kernels = surveyed(tmp_path, "writes_beside_a_long_launch:400", options=["--survey-patience", 1, "--survey-runs", 3],
                       expected="numbers 2, 0 too few\n")
    assert kernels["survey_take_long"]["surveyed"] == 2 and not kernels["survey_take_long"]["varied"]


def test_patience(tmp_path):
    kernels = surveyed(tmp_path / "short", "takes_long:1200", options=["--survey-patience", 1])
    assert kernels["survey_take_long"]["not_surveyed"] == {"busy": 1}
    kernels = surveyed(tmp_path / "long", "takes_long:1200", options=["--survey-patience", 5, "--survey-runs", 1])
    assert kernels["survey_take_long"]["surveyed"] == 1


@pytest.mark.parametrize("words, status", [
    (["exits_beside_a_thread:40"], 5),
    (["exits_from_a_handler:300000"], 7),
    (["ends_from_a_handler:300000"], 7),
    (["raises:11"], -11),
    (["limits_file_sizes:20000"], 0),
], ids=lambda value: value[0].split(":")[0] if isinstance(value, list) else "")
def test_ends(tmp_path, words, status):
    done = run(tmp_path / "under", [RECORD, *OPTIONS, "--", CLIENT, *words])
    assert done.returncode == (status if status >= 0 else 128 - status), done.stderr
    if words[0].startswith("limits"):
        assert done.stdout == "number 10\n"  # there may be no room for a capture
        return
    kernels = kernels_of(tmp_path / "under" / "a.h5")
    assert sum(kernel["surveyed"] for kernel in kernels.values()) >= 1
    if words[0].startswith("exits_beside"):
        assert kernels["survey_drawn_sum"]["surveyed"] > 30  # all, though a thread is launching


@pytest.mark.parametrize("words", [
    ["plain"], ["closes_descriptors"], ["reuses_descriptors_as_sockets"], ["closes_standard_streams", "0", "1", "2"],
    ["starts_a_program_that_is_not_there"], ["counts_children"], ["tells_ignored_signals"], ["limits_file_sizes", "100"],
    ["limits_descriptors"], ["uses_all_descriptors"], ["forks_amidst_calls", "10"], ["ends", "quick_exit"], ["ends", "exit_group"],
], ids="-".join)
def test_calls_without_launches_are_as_without_the_survey(tmp_path, words):
    plain = run(tmp_path / "plain", [CALLING_CLIENT, *words])
    done = run(tmp_path / "under", [RECORD, *OPTIONS, "--survey-poison", "--", CALLING_CLIENT, *words])
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stderr
    left = {path.name for path in (tmp_path / "under").iterdir()} - {path.name for path in (tmp_path / "plain").iterdir()}
    assert all(name.startswith("a.") and name.endswith(".h5") for name in left)  # forked children have their own


def test_a_full_disk(small_disk, tmp_path):  # noqa: F811
    (small_disk / "others").write_bytes(bytes((2 << 20) - 20_000))
    done = run(tmp_path / "under", [RECORD, "--survey", "--hook", "driver", "-o", small_disk / "a.h5", "--max-bytes", "1GB", "--",
                                    CLIENT, "launches:4"])
    assert (done.returncode, done.stdout) == (0, "number 8\n"), done.stderr
    assert "msda-record: " in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_is_killed(tmp_path, number):
    process = subprocess.Popen([RECORD, *OPTIONS, "--", CLIENT, "runs_on"], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment(MSDA_STAND_IN_ASYNC=1), start_new_session=True)
    for _ in range(20 + os.getpid() % 7):
        assert process.stdout.readline() == "x\n"
    subprocess.run(["pkill", f"-{int(number)}", "-s", str(process.pid), "-x", CLIENT.name[:15]], check=True)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + number, errors
    assert kernels_of(tmp_path / "a.h5")["tiny_kernel"]["surveyed"] >= 1
