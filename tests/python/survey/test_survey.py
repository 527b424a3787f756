"""msda-replay survey and msda-record --survey, on the stand-in CUDA driver: kernels of each verdict, and what must not happen twice."""

import ctypes.util
import os
import re
import shlex
import struct
import subprocess
import sys

import h5py
import pytest
from conftest import BUILD, REPLAY
from support.cubins import make_cubin
from support.launches import CLIENT, COL2IM, alone
from support.recording import PRELOAD, RECORD, environment, pytestmark, record  # noqa: F401
from support.report_page import read as read_page
from support.surveys import PROGRAM, SURVEY_CLIENT, check_extra, plain, surveyed

# The client's kernels, what they are, and how many launches of each were surveyed.
VERDICTS = {
    "survey_drawn_sum": ("order_only", 5),
    "survey_fixed_sum": ("may_vary", 5),
    "survey_locked_sum": ("arrival_order", 5),
    "survey_torn_sum": ("race", 5),
    "survey_torn_later": ("race", 5),  # from the third launch on, whose results are looked at later
    "survey_torn_atomics": ("race", 5),
    "survey_scattered_sums": ("order_only", 5),
    "survey_wrong_sums": ("order_only", 5),
    "survey_vector_sums": ("order_only", 5),
    "survey_used_sums": ("order_only", 5),
    "survey_ticket_sums": ("order_only", 5),
    "survey_numbered_sums": ("order_only", 1),
    "survey_twice": ("deterministic", 3),
    "survey_follow_table": ("deterministic", 3),
    "survey_follow_host_table": ("deterministic", 3),
    "survey_follow_later": ("deterministic", 5),
    "survey_follow_hidden": ("not_surveyed", 0),
    "survey_count": ("deterministic", 4),
    "survey_count_on_host": ("not_surveyed", 0),
    "survey_read_host": ("deterministic", 2),
}


def check_kept(capture, kernels):
    """The first launch of each kernel that varied is recorded, with all of the memory behind its pointers; not of one with a variable."""
    terms = 2**3 * sum(1 / (i + 1) for i in range(1000))  # after three launches of survey_twice
    with h5py.File(capture) as file:
        kept = {invocation.attrs["kernel"]: invocation for invocation in file["invocations"].values()}
        assert set(kept) == {name for name, kernel in kernels.items() if kernel["varied"] and name != "survey_numbered_sums"} == {name for name, kernel in kernels.items() if kernel["kept"]}
        for name, entry in kept.items():
            if name.endswith("sums"):
                continue
            values, before, after = (bytes(entry[place][()]) for place in ("inputs/memory_1", "outputs_before/memory_0", "outputs/memory_0"))
            assert sum(struct.unpack("<1000f", values[:4000])) == pytest.approx(terms, rel=1e-5) and len(values) == 1_000_000
            (was,), (result,) = struct.unpack("<f", before), struct.unpack("<f", after)
            assert result - was == pytest.approx(terms, rel=1e-4)
            assert entry.attrs["pointers"] == "outputs/memory_0@0 inputs/memory_1@8"


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_every_verdict(tmp_path, asynchronous):
    kernels = surveyed(tmp_path / "a.h5", MSDA_STAND_IN_ASYNC=asynchronous)
    assert {name: (kernel["verdict"], kernel["surveyed"]) for name, kernel in kernels.items()} == VERDICTS
    for name, kernel in kernels.items():
        varies = kernel["verdict"] in ("order_only", "arrival_order", "race")
        most = 13 if name.endswith("sums") else 1  # squares modulo 23, and the number of the launch
        least = 1 if name == "survey_numbered_sums" else 2
        assert (kernel["varied"] >= least and 1 <= kernel["most_words"] <= most and kernel["first_varied"] > 0) == varies, name
        check_extra(kernel)
        assert kernel["launches"] == kernel["surveyed"] + sum(kernel["not_surveyed"].values())
        caller = ("SumBackward0", "sum", "") if varies and not name.endswith("sums") else ("", "", "")
        assert (kernel["node"], kernel["operation"], kernel["python"]) == caller, name
    twin = kernels["survey_drawn_sum"]["twin"]
    assert twin == {"replaced": 1, "left": 0, "refused": False, "trials": kernels["survey_drawn_sum"]["varied"], "equal": twin["trials"]}
    assert kernels["survey_torn_atomics"]["twin"]["equal"] < kernels["survey_torn_atomics"]["twin"]["trials"]
    check_kept(tmp_path / "a.h5", kernels)
    assert kernels["survey_follow_later"]["not_surveyed"] == {"other_memory": 1}  # the first that has pointers to more
    assert kernels["survey_follow_hidden"]["not_surveyed"] == {"other_memory": 3}
    assert kernels["survey_count_on_host"]["not_surveyed"] == {"shared_memory": 2}


def test_what_varies_beside_other_work_alone(tmp_path):
    """One that varies beside other work is not named, unless its code cannot explain it, or one of many launches without such work varies."""
    capture = tmp_path / "a.h5"
    kernels = surveyed(capture, "crowded")
    found = {name: [kernel[what] for what in ("verdict", "varied", "varied_beside", "extra_launches")] for name, kernel in kernels.items()}
    assert found == {
        "survey_crowded_sum": ["may_vary", 0, 5, 2 * 5 + 4 * 20],
        "survey_crowded_torn": ["race", 5, 0, 2 * 5 + 4 * 20],
        "survey_crowded_rare": ["arrival_order", 5, 0, 2 * 5 + 20]}
    assert kernels["survey_crowded_rare"]["extra_that_differ"] == 5 + 1 and kernels["survey_crowded_sum"]["node"] == "SumBackward0"
    printed = " ".join(subprocess.run([REPLAY, "survey", capture], capture_output=True, text=True, timeout=60).stdout.split())
    assert "2 of 3 kernels vary, in 10 of 15 launches 1 kernel varies only beside other work, in 5 launches" in printed
    assert ("may_vary survey_crowded_sum None of 5 launches varied. With the device for itself it gave equal results in 85 extra launches; while other work occupied a "
            "part of the device 5 of 5 differed. Its blocks can hand results to one another as they arrive: compare-and-swap") in printed
    assert kernels["survey_crowded_sum"]["kept"] == 1 and "did not vary, but may" not in printed
    (alone,) = surveyed(tmp_path / "b.h5", "crowded", options=["--kernel", "crowded_sum", "--survey-no-neighbour"]).values()
    assert (alone["varied"], alone["varied_beside"], alone["extra_launches"]) == (0, 0, 10)


def test_how_often_other_work_is_beside(tmp_path):
    """If a kernel's code cannot make it vary: at its first eight launches, and then every fourth."""
    kernels = surveyed(tmp_path / "a.h5", "often", "twice", "fixed")
    assert {name: (kernel["surveyed"], kernel["extra_launches"], kernel["extra_beside"]) for name, kernel in kernels.items()} == {
        "survey_twice": (20, 40, 8 + 3), "survey_fixed_sum": (20, 40, 20)}


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_what_varies_once_while_the_program_goes_on(tmp_path, asynchronous):
    """Its order-free twin is tried, and it is kept, though the results are looked at when the launch has returned: only its caller is not known any more."""
    capture = tmp_path / "a.h5"
    kernel = surveyed(capture, "other_once", MSDA_STAND_IN_ASYNC=asynchronous)["survey_other_once"]
    assert [kernel[what] for what in ("verdict", "surveyed", "varied", "first_varied", "kept", "node")] == ["order_only", 5, 1, 3, 1, ""]
    assert (kernel["twin"]["trials"], kernel["twin"]["equal"], kernel["evidence"]["additions"]) == (1, 1, 1000)
    with h5py.File(capture) as file:
        (entry,) = file["invocations"].values()
        (was,), (result,) = (struct.unpack("<f", bytes(entry[place][()])) for place in ("outputs_before/memory_0", "outputs/memory_0"))
    each = sum(1 / (i + 1) for i in range(1000))
    assert (was, result) == (pytest.approx(2 * each, rel=1e-5), pytest.approx(3 * each, rel=1e-5))


def test_managed_memory_is_the_hosts_as_well(tmp_path):
    """The host changes it as soon as a launch has returned: its extra launches are over by then, and what explains its results."""
    each = sum(1 / (i + 1) for i in range(1000))
    assert f"managed {1000 + 4 * each:.2f}" in plain("managed")
    kernel = surveyed(tmp_path / "a.h5", "managed")["survey_other_once"]
    assert (kernel["verdict"], kernel["surveyed"], kernel["varied"]) == ("order_only", 4, 1)


def test_what_is_told_before_the_last_results_are_known(tmp_path):
    """The results of the third launch of a kernel that cannot vary are looked at after the writer heard of the launch, a second after the second one."""
    kernel = surveyed(tmp_path / "a.h5", "slow", "twice")["survey_twice"]
    assert (kernel["launches"], kernel["surveyed"]) == (3, 3)


def test_more_launches_and_one_kernel(tmp_path):
    kernels = surveyed(tmp_path / "a.h5", "count", "twice", options=["--survey-runs", 7, "--kernel", "twice"])
    assert list(kernels) == ["survey_twice"] and kernels["survey_twice"]["extra_launches"] == 21


def test_some_launches(tmp_path):
    """The client's launches are three of survey_twice, then five of survey_drawn_sum."""
    kernels = surveyed(tmp_path / "a.h5", "twice", "drawn", options=["--survey-from", 3, "--survey-to", 5])
    assert [(kernels[name]["surveyed"], kernels[name]["not_surveyed"]) for name in ("survey_twice", "survey_drawn_sum")] == [
        (1, {"not_asked": 2}), (2, {"not_asked": 3})]
    labelled = surveyed(tmp_path / "b.h5", "twice", options=["--survey-label", "no such label", "--survey-seconds", 1000])
    assert labelled["survey_twice"]["not_surveyed"] == {"not_asked": 3}
    label = {"PYTEST_CURRENT_TEST": "test_a.py::test_b (call)"}
    assert surveyed(tmp_path / "c.h5", "twice", options=["--survey-label", "test_b"], **label)["survey_twice"]["surveyed"] == 3


def test_what_has_no_room_is_not_run_again(tmp_path):
    """The allowed share of the device's memory is smaller than two copies, and the driver has no such memory of the host."""
    kernels = surveyed(tmp_path / "a.h5", "twice", options=["--survey-memory", 1], MSDA_STAND_IN_MEMORY=64_000_000, MSDA_STAND_IN_HOST_MEMORY=1_000_000)
    assert kernels["survey_twice"]["not_surveyed"] == {"over_limit": 3}


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_copies_on_the_host(tmp_path, asynchronous):
    """Where the device has no room: verdicts are as with copies on the device, but of eight launches of each kernel, no more."""
    little = {"options": ["--survey-memory", 1], "MSDA_STAND_IN_MEMORY": 64_000_000, "MSDA_STAND_IN_ASYNC": asynchronous}
    kernels = surveyed(tmp_path / "a.h5", "often", "drawn", "locked", "torn_sum", "follow_table", **little)
    assert {name: kernel["verdict"] for name, kernel in kernels.items()} == {name: VERDICTS[name][0] for name in kernels} and len(kernels) == 4
    for name, kernel in kernels.items():
        few = name == "survey_follow_table"  # it reaches two small allocations, of which copies fit on the device
        assert (kernel["surveyed"], kernel["not_surveyed"]) == ((20, {}) if few else (8, {"over_limit": 12})), name


def test_the_program_has_the_result_of_its_own_launch(tmp_path):
    """A survey of three launches, each followed by two others."""
    done = record(SURVEY_CLIENT, "number", options=["--survey", "--hook", "driver", "-o", tmp_path / "a.h5"])
    assert "number 3" in plain("number").splitlines() and "number 7" in done.stdout.splitlines()


@pytest.mark.parametrize("library, holds_lock", [("PyDLL", True), ("CDLL", False)])
def test_the_line_of_python_that_launches(tmp_path, library, holds_lock):
    program, image, capture = tmp_path / "train.py", tmp_path / "image", tmp_path / "a.h5"
    program.write_text(PROGRAM)
    image.write_bytes(make_cubin(["survey_number"], bytes(16)))
    done = record(sys.executable, program, library, BUILD / "stand_in" / "libcuda.so.1", image, options=["--survey", "--hook", "driver", "-o", capture])
    assert done.returncode == 0, done.stderr
    with h5py.File(capture) as file:
        (kernel,) = [dict(entry.attrs) for entry in file["survey"].values()]
    line = 1 + PROGRAM.splitlines().index(next(line for line in PROGRAM.splitlines() if line.endswith("# here")))
    assert kernel["varied"] == 1 and kernel.get("python") == (f"{program}:{line} step" if holds_lock else None)


@pytest.mark.parametrize("hook, arguments", [
    *(("driver", entry) for entry in (
        ["--threads", 3, "--launches", 4], ["--threads", 2, "--streams", 3, "--launches", 4], ["--ex", "--ptsz", "--launches", 3], ["--packed"],
        ["--cooperative", "--launches", 3], ["--as-kernel", "--launches", 3], ["--tune", 5, "--launches", 2])),
    *((hook, ["--cupti", "--threads", 2, "--launches", 4, *way]) for hook in ("auto", "cupti") for way in ([], ["--hidden"], ["--cooperative"]))])
@pytest.mark.parametrize("asynchronous", [0, 1])
def test_programs_go_on_as_without(tmp_path, hook, arguments, asynchronous):
    """Launches in every way, of several threads on several streams, seen by the driver hook or by CUPTI."""
    image = tmp_path / "image"
    image.write_bytes(make_cubin([COL2IM], bytes(16)))
    given = ["--image", str(image), "--seed", "3", *map(str, arguments)]
    expected = alone(*given, MSDA_STAND_IN_ASYNC=asynchronous)
    capture = tmp_path / "a.h5"
    done = record(CLIENT, *given, options=["--survey", "--hook", hook, "-o", capture], MSDA_STAND_IN_ASYNC=asynchronous)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(expected.stdout.splitlines())), done.stderr
    with h5py.File(capture) as file:
        (kernel,) = [dict(entry.attrs) for entry in file["survey"].values()]
    assert kernel["kernel"] == COL2IM and kernel["surveyed"] == kernel["launches"] > 0 and kernel["varied"] == 0


def test_the_command_runs_a_program(tmp_path):
    run = [REPLAY, "survey", "-o", tmp_path / "s.h5"]
    done = subprocess.run([*run, "--", SURVEY_CLIENT, "drawn"], capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1 and "order_only  survey_drawn_sum\n" in done.stdout, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines()[1:] if str(tmp_path) not in line)
    (tmp_path / "s.h5").chmod(0o755)  # as every file is on some file systems
    again = subprocess.run([REPLAY, "survey", tmp_path / "s.h5"], capture_output=True, text=True, timeout=60)
    assert again.returncode == 1 and done.stdout.endswith(again.stdout)
    taken = subprocess.run([*run, "--", SURVEY_CLIENT, "twice"], capture_output=True, text=True, timeout=60, env=environment())
    assert taken.returncode == 2 and f"{tmp_path / 's.h5'}: exists; name another file with -o, or replace it with --force" in taken.stderr
    steady = subprocess.run([*run, "--force", "--", SURVEY_CLIENT, "twice"], capture_output=True, text=True, timeout=60, env=environment())
    assert steady.returncode == 0 and "none of 1 kernel varied, in 3 launches 1 kernel cannot vary (--all)" in " ".join(steady.stdout.split())


def test_nothing_to_survey(tmp_path, replay, demo_capture):
    done = subprocess.run([REPLAY, "survey", "-o", tmp_path / "s.h5", "--", "/bin/true"], capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 3 and "nothing was surveyed" in done.stderr
    assert replay("survey", demo_capture, expect=2).err == f"msda-replay: {demo_capture}: has no survey; record one: msda-replay survey -- COMMAND\n"


def test_commands_for_calls_name_the_survey(tmp_path, replay):
    surveyed(tmp_path / "a.h5", "twice")
    assert replay("run", tmp_path / "a.h5", expect=2).err == (
        f"msda-replay: {tmp_path / 'a.h5'}: holds no invocations, but a survey: msda-replay survey {tmp_path / 'a.h5'}\n")


def test_the_page(tmp_path, replay):
    capture, page = tmp_path / "a.h5", tmp_path / "a.html"
    kernels = surveyed(capture)
    with h5py.File(capture, "r+") as file:
        file["survey/000000"].attrs["kernel"] = "<script>alert(1)</script>"
    printed = replay("report", capture, "-o", page, expect=1)
    varying = sum(kernel["varied"] > 0 for kernel in kernels.values())
    assert printed.out == f"{varying} of {len(kernels)} kernels vary.\n --> {page}\n"
    read = read_page(page)
    for name, kernel in kernels.items():
        assert name in read.text or kernel["verdict"] == "deterministic" and "<script>alert(1)</script>" in read.text
    assert read.tags.count("article") == varying and read.tags.count("progress") == len(kernels)
    assert "equal results in" in read.text and "SumBackward0, sum" in read.text and "other_memory" in read.text
    entry = tmp_path / "one.html"
    assert replay("report", capture, "-o", entry, "--invocation", 0, expect=3).err.count("known only by its machine code") == 1


def test_a_survey_is_verified(tmp_path, replay):
    surveyed(tmp_path / "a.h5", "twice")
    replay("verify", tmp_path / "a.h5", expect=0)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["survey/000000"].attrs["varied"] = 1
    assert "/survey/000000" in replay("verify", tmp_path / "a.h5", expect=2).err


@pytest.mark.parametrize("number", [-1, 2**63 - 1])
def test_numbers_that_no_survey_has(tmp_path, replay, number):
    surveyed(tmp_path / "a.h5", "twice")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["survey/000000"].attrs["launches"] = number
    printed = replay("survey", tmp_path / "a.h5", "--all", expect=2).err
    assert printed == f"msda-replay: {tmp_path / 'a.h5'}: the survey says of survey_twice that launches is {number}: the file is damaged; record again\n"


def test_without_a_survey_nothing_is_run_again(tmp_path):
    """The recorder stands in for memory's functions only in a survey."""
    done = record(SURVEY_CLIENT, options=["-o", tmp_path / "a.h5"])
    assert done.stdout == plain() and not os.path.exists(tmp_path / "a.h5")


def test_a_machine_without_a_driver_is_named_before_the_program_runs(tmp_path):
    """Both programs say the same, and what to type then."""
    plain = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has a CUDA driver")
    program = ["sh", "-c", "echo begun >&2"]
    for command, status in ([RECORD, "--survey"], 0), ([REPLAY, "survey"], 3):
        done = subprocess.run([*command, "-o", tmp_path / "a.h5", "--", *program], capture_output=True, text=True, timeout=60, env=plain)
        assert done.returncode == status, done.stderr
        before, after = done.stderr.split("begun\n")
        assert "no CUDA driver (libcuda.so.1) is found here" in before and "msda_replay.record" in before and "driver" not in after
        assert set(re.findall(r"msda-replay doctor .*?'echo begun >&2'", after)) == {f"msda-replay doctor -- {shlex.join(program)}"}
