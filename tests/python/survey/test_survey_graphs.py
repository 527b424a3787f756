"""Launches in CUDA graphs under a survey, on the stand-in CUDA driver: verdicts as of launches without a graph, and nothing that the program sees."""

import struct
import subprocess

import h5py
import pytest
from conftest import BUILD
from support.recording import environment, pytestmark, record  # noqa: F401
from support.surveys import check_extra, judged

GRAPH_CLIENT = BUILD / "stand_in" / "stand_in_graph_client"
TIMES = 3  # that the client launches its graph
VERDICTS = {
    "survey_drawn_sum": "order_only", "survey_fixed_sum": "may_vary", "survey_locked_sum": "arrival_order", "survey_torn_sum": "race",
    "survey_twice": "deterministic", "survey_follow_table": "deterministic", "survey_count": "deterministic",
    "survey_number": "race"}  # which counts launches, the survey's, too
LAUNCHES = len(VERDICTS)  # in the graph, one of each
EXTRA = 2


def without_number(text):
    return [line for line in text.splitlines() if not line.startswith("count")]


def surveyed(capture, *arguments, hook="driver", options=(), **variables):
    """What the survey found of each kernel, and what the kernel that counts its launches left; all else that the program prints must be as
    without the survey."""
    plain = subprocess.run([GRAPH_CLIENT, *arguments], capture_output=True, text=True, timeout=60, env=environment(**variables))
    done = record(GRAPH_CLIENT, *arguments, options=["--survey", "--hook", hook, "-o", capture, *map(str, options)], **variables)
    assert (plain.returncode, done.returncode) == (0, 0), plain.stderr + done.stderr
    assert sorted(without_number(done.stdout)) == sorted(without_number(plain.stdout))
    return judged(capture), number_in(done.stdout)


def number_in(text):
    """The number of the last launch of the kernel that counts them."""
    return max(int(line.split()[-1]) for line in text.splitlines() if line.startswith("count, number"))


def kept(capture, kernel):
    """The recorded launch: its parameters' last four bytes, and float32 or int32 of the memory that it found, by its pointers."""
    with h5py.File(capture) as file:
        (entry,) = (invocation for invocation in file["invocations"].values() if invocation.attrs["kernel"] == kernel)
        last = int.from_bytes(entry["parameters"][()].tobytes()[-4:], "little")
        memory = [bytes(entry[place][()]) for place in (*(f"outputs_before/{name}" for name in entry["outputs_before"]), *(f"inputs/{name}" for name in entry["inputs"]))]
        return last, memory


def floats(memory, count):
    return list(struct.unpack(f"<{count}f", memory[:4 * count]))


def check_all(kernels, times=TIMES, reasons=None):
    """Each kernel was surveyed so many times, and not for these reasons."""
    assert {name: kernel["verdict"] for name, kernel in kernels.items()} == VERDICTS
    for name, kernel in kernels.items():
        assert (kernel["surveyed"], kernel["not_surveyed"]) == (times, reasons or {}), name
        assert kernel["launches"] == times + sum((reasons or {}).values()), name
        check_extra(kernel)
        assert (kernel["varied"] > 0) == (kernel["verdict"] in ("race", "arrival_order", "order_only")) == (kernel["kept"] == 1), name


def check_none(kernels, reason, of_others=None):
    """No launch was surveyed; the kernels that the graph has besides say another reason."""
    for name, kernel in kernels.items():
        assert kernel["not_surveyed"] == {(of_others or {}).get(name, reason): TIMES} and kernel["surveyed"] == kernel["varied"] == 0, name


def test_the_driver_does_the_same_without_a_graph(tmp_path):
    """What the tests below stand on."""
    said = [subprocess.run([GRAPH_CLIENT, way], capture_output=True, text=True, timeout=60, env=environment()).stdout for way in ("launches", "captured", "nodes")]
    assert said[0] == said[1] == said[2] and "follow_table 13 23 30 40" in said[0]


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("way, hook", [
    *(([way, *what], "driver") for way in ("captured", "nodes") for what in ([], ["as-kernel"], ["by-dlsym"], ["per-thread"])),
    (["captured"], "auto"), (["nodes"], "cupti"), (["captured", "to-host"], "driver"), (["captured", "destroyed"], "driver")])
def test_verdicts_are_those_of_launches(tmp_path, way, hook, asynchronous):
    kernels, number = surveyed(tmp_path / "a.h5", *way, hook=hook, MSDA_STAND_IN_ASYNC=asynchronous)
    check_all(kernels)
    # The program has the result of its own launch, the third: after the first two come their second runs, with extra launches.
    assert number == (TIMES - 1) * (1 + 1 + EXTRA) + 1


def test_launches_without_a_graph(tmp_path):
    kernels, _ = surveyed(tmp_path / "a.h5", "launches")
    check_all(kernels)


def test_copies_to_the_host_are_not_done_again(tmp_path):
    _, number = surveyed(tmp_path / "a.h5", "captured", "to-host")
    done = record(GRAPH_CLIENT, "captured", "to-host", options=["--survey", "--hook", "driver", "-o", tmp_path / "b.h5"])
    assert f"count, to host {number}, calls 0" in done.stdout.splitlines() and number == (TIMES - 1) * (1 + 1 + EXTRA) + 1


def test_two_graphs(tmp_path):
    kernels, _ = surveyed(tmp_path / "a.h5", "captured", "two")
    in_both = ("survey_twice", "survey_fixed_sum")
    assert {name: kernel["surveyed"] for name, kernel in kernels.items()} == {name: TIMES * (2 if name in in_both else 1) for name in VERDICTS}
    assert {name: kernel["verdict"] for name, kernel in kernels.items()} == VERDICTS


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_threads_that_launch_graphs(tmp_path, asynchronous):
    kernels, _ = surveyed(tmp_path / "a.h5", "captured", "threads", "per-thread", MSDA_STAND_IN_ASYNC=asynchronous)
    assert all(kernel["launches"] == 4 * TIMES == kernel["surveyed"] + sum(kernel["not_surveyed"].values()) for kernel in kernels.values())


@pytest.mark.parametrize("change", [None, "update", "set-kernel", "set-set", "set-copy"])
def test_changed_graphs_are_surveyed_as_they_are(tmp_path, change):
    """The second launch, and the graph was changed before it. Each kernel of it finds what it found in the program's own launch."""
    kernels, number = surveyed(tmp_path / "a.h5", "nodes", *filter(None, [change]), options=["--survey-from", LAUNCHES + 1])
    check_all(kernels, TIMES - 1, {"not_asked": 1})
    assert number == 1 + (1 + 1 + EXTRA) + 1
    count, (sums, values) = kept(tmp_path / "a.h5", "survey_drawn_sum")
    assert count == (500 if change in ("update", "set-kernel") else 1000)
    assert floats(sums, 1) == [1.0 if change == "set-set" else 0.0] and floats(values, 2) == [4.0, 2.0]
    _, (results,) = kept(tmp_path / "a.h5", "survey_number")
    copied = results[4:20]
    assert floats(copied, 4)[:2] == [4.0, 2.0] if change == "set-copy" else struct.unpack("<4i", copied) == (12, 22, 30, 40)


def test_a_disabled_node(tmp_path):
    kernels, _ = surveyed(tmp_path / "a.h5", "nodes", "disable")
    assert {name: (kernel["launches"], kernel["surveyed"]) for name, kernel in kernels.items()} == {
        name: (1, 1) if name == "survey_twice" else (TIMES, TIMES) for name in VERDICTS}


@pytest.mark.parametrize("arguments", [["captured", "failing-update"], ["nodes", "disable", "update"], ["nodes", "set-child"]])
def test_changes_that_are_not_followed(tmp_path, arguments):
    kernels, number = surveyed(tmp_path / "a.h5", *arguments)
    check_all(kernels, 1, {"captured": TIMES - 1})
    assert number == (1 + 1 + EXTRA) + TIMES - 1


@pytest.mark.parametrize("what, reason, of_others", [
    (["host"], "graph_nodes", {}), (["hidden-table"], "other_memory", {}), (["count-on-host"], "shared_memory", {}), (["to-host", "back"], "shared_memory", {}),
    (["unknown-code"], "captured", {"tiny_kernel": "unknown_code"})])
def test_graphs_that_must_not_be_done_again(tmp_path, what, reason, of_others):
    kernels, number = surveyed(tmp_path / "a.h5", "captured", *what)
    assert kernels.keys() >= VERDICTS.keys() and number == TIMES
    check_none(kernels, reason, of_others)


def test_a_pointer_that_the_graph_brings_along(tmp_path):
    """The first launch brings it; later ones find it in memory before they begin."""
    kernels, _ = surveyed(tmp_path / "a.h5", "captured", "late-table")
    assert kernels["survey_twice"]["not_surveyed"] == {"other_memory": 1} and kernels["survey_twice"]["surveyed"] == TIMES - 1
    assert (kernels["survey_follow_table"]["surveyed"], kernels["survey_follow_table"]["not_surveyed"]) == (2 * (TIMES - 1), {"other_memory": 2})


def test_a_graph_of_which_nothing_is_known(tmp_path):
    kernels, number = surveyed(tmp_path / "a.h5", "captured", "unknown-graph")
    assert list(kernels) == ["cuGraphLaunch"] and number == TIMES
    check_none(kernels, "captured")


def test_no_room_for_copies(tmp_path):
    kernels, number = surveyed(tmp_path / "a.h5", "captured", options=["--survey-memory", 1], MSDA_STAND_IN_MEMORY=64_000_000, MSDA_STAND_IN_HOST_MEMORY=1_000_000)
    check_none(kernels, "over_limit")
    assert number == TIMES


def test_some_launches(tmp_path):
    """In the order of the graph's edges, whatever order the driver gives its nodes in; numbers go on from launch to launch."""
    order = ["survey_twice", "survey_drawn_sum", "survey_fixed_sum", "survey_locked_sum", "survey_torn_sum", "survey_follow_table", "survey_count", "survey_number"]
    kernels, _ = surveyed(tmp_path / "a.h5", "captured", options=["--survey-from", 4, "--survey-to", LAUNCHES + 1])
    times = {name: int(number >= 4) + int(number == 1) for number, name in enumerate(order, 1)}
    for name, kernel in kernels.items():
        assert (kernel["surveyed"], kernel["not_surveyed"]) == (times[name], {"not_asked": TIMES - times[name]}), name
    none, number = surveyed(tmp_path / "b.h5", "captured", options=["--survey-label", "no such label"])
    check_none(none, "not_asked")
    assert number == TIMES
    entry, number = surveyed(tmp_path / "c.h5", "captured", options=["--kernel", "drawn"])
    assert list(entry) == ["survey_drawn_sum"] and entry["survey_drawn_sum"]["surveyed"] == TIMES and number == (TIMES - 1) * 2 + 1


def test_without_a_survey_no_graph_is_looked_at(tmp_path):
    done = record(GRAPH_CLIENT, "captured", options=["-o", tmp_path / "a.h5"])
    assert done.stdout == subprocess.run([GRAPH_CLIENT, "captured"], capture_output=True, text=True, env=environment()).stdout
