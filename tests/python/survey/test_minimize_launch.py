"""msda-replay minimize of launches that a survey kept, of which only the machine code is known, on the stand-in driver."""

import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BUILD, REPLAY
from support.original import on_stand_in
from support.recording import pytestmark, record  # noqa: F401
from support.schemas import check

SURVEY_CLIENT = BUILD / "stand_in" / "stand_in_survey_client"
UNWRITTEN_CLIENT = BUILD / "stand_in" / "stand_in_unwritten_client"
SUM = 1000  # numbers that the sums in a drawn order add


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    for name, client, words, flags in (("varying", SURVEY_CLIENT, ("twice", "drawn", "locked"), ()),
                                       ("unwritten", UNWRITTEN_CLIENT, ("partial",), ("--survey-poison",))):
        done = record(client, *words, options=["--survey", *flags, "--hook", "driver", "-o", folder / f"{name}.h5"])
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def captures(kept, tmp_path):
    return shutil.copytree(kept, tmp_path / "kept")


def tensors_of(capture, number=0):
    with h5py.File(capture) as file:
        entry = file[f"invocations/{number:06}"]
        return {f"{section}/{name}": np.asarray(data) for section in ("inputs", "outputs_before", "outputs") if section in entry
                for name, data in entry[section].items()}, dict(entry.attrs)


def test_a_launch_is_made_smaller(replay, captures):
    whole, small = captures / "varying.h5", captures / "small.h5"
    result = replay("minimize", whole, "-o", small, "--json", "-", expect=0, env=on_stand_in()).json
    check(result, "minimize-launch")
    before, facts = tensors_of(whole)
    after, small_facts = tensors_of(small)
    assert set(after) == {"inputs/memory_1", "outputs_before/memory_0"}  # what it leaves is another result
    # A byte is as it was recorded, or 0; the drawn order needs some of the numbers that are added.
    for name, data in after.items():
        assert data.shape == before[name].shape and np.all((data == before[name]) | (data == 0))
    numbers = np.count_nonzero(after["inputs/memory_1"].view(np.float32))
    assert 2 <= numbers < SUM / 4 and result["zeros"] == sum(np.count_nonzero(data == 0) for data in after.values())
    assert result["recorded_zeros"] == sum(np.count_nonzero(before[name] == 0) for name in after) and result["bytes"] == 1_000_004
    assert small.stat().st_size == result["file_bytes"] < whole.stat().st_size / 10
    # The stand-in's kernel does not heed the number of blocks.
    assert list(small_facts["grid"]) == result["grid"] == [1, 1, 1] and result["recorded_grid"] == [4, 1, 1] and small_facts["minimized_grid"] == "4,1,1"
    assert small_facts["minimized_from"] == f"{whole} invocation 0"
    for name in ("kernel", "kernel_digest", "pointers", "shared_bytes"):
        assert small_facts[name] == facts[name]
    assert (result["finished"], result["launches"], result["kernel"]) == (True, 20, "survey_drawn_sum") and result["distinct"] > 1
    with h5py.File(small) as file:
        assert file.attrs["verdict"] == f"{result['distinct']} different results of 20 launches of survey_drawn_sum"
    replay("verify", small, expect=0)
    again = replay("run", small, "--mode", "original", "--repeat", 50, "--json", "-", expect=0, env=on_stand_in()).json
    assert again["relaunched"][0]["original"]["tensors"]["memory_0"]["distinct"] > 1
    assert {path.name for path in captures.iterdir()} == {"varying.h5", "unwritten.h5", "small.h5"}


def test_the_text_and_the_limit(replay, captures):
    small = captures / "small.h5"
    done = replay("minimize", captures / "varying.h5", "--invocation", 1, "--repeat", 30, "--trials", 3, "-o", small, expect=0, env=on_stand_in())
    out = done.out
    assert " different results of 30 launches of survey_locked_sum; the search was not finished grid: " in done.words
    assert "\n  3 trials\n" in out and f"\n  msda-replay run {small} --mode original --repeat 30\n" in out
    assert "exists; give --force" in replay("minimize", captures / "varying.h5", "-o", small, expect=2, env=on_stand_in()).err
    replay("minimize", captures / "varying.h5", "--force", "--trials", 1, "-o", small, expect=0, env=on_stand_in())
    # A small launch can be made smaller.
    replay("minimize", small, "-o", captures / "smaller.h5", expect=0, env=on_stand_in())


def test_control_c_writes_the_smallest_so_far(captures):
    small = captures / "small.h5"
    command = [REPLAY, "minimize", captures / "varying.h5", "--repeat", 20000, "-o", small]
    running = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env=on_stand_in(), start_new_session=True)
    until = time.monotonic() + 60
    while not list(captures.glob("small.h5.trial-*/a.json")) and time.monotonic() < until:  # the first trial is done
        time.sleep(0.01)
    time.sleep(0.2)
    os.killpg(running.pid, signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130 and "; the search was not finished grid: " in " ".join(out.split())
    after, _ = tensors_of(small)
    before, _ = tensors_of(captures / "varying.h5")
    for name, data in after.items():
        assert np.all((data == before[name]) | (data == 0))
    assert not list(captures.glob("small.h5.*"))


def test_launches_that_do_not_vary(replay, captures):
    printed = replay("minimize", captures / "unwritten.h5", "-o", captures / "small.h5", expect=2, env=on_stand_in()).err
    assert printed.startswith(f"msda-replay: {captures / 'unwritten.h5'}: 20 launches give equal results") and printed.count("\n") == 1
    assert not (captures / "small.h5").exists()


def test_without_a_device(replay, captures):
    printed = replay("minimize", captures / "varying.h5", "-o", captures / "small.h5", expect=3).err
    assert "needs a CUDA device" in printed and "known only by its machine code" in printed and printed.count("\n") == 1
    assert "trial" not in printed and str(captures / "varying.h5") in printed
    assert not (captures / "small.h5").exists()
    # Elements are those of operators.
    printed = replay("minimize", captures / "varying.h5", "--invocation", 0, "--cause", "rounding", "-o", captures / "small.h5", expect=3, env=on_stand_in()).err
    assert "known only by its machine code" in printed


def test_a_launch_that_cannot_be_made_is_refused(replay, captures):
    """Code of another kernel, which the driver does not find in the image."""
    with h5py.File(captures / "varying.h5", "r+") as file:
        file["invocations/000000"].attrs["kernel"] = "no_such_kernel"
    printed = replay("minimize", captures / "varying.h5", "--invocation", 0, "-o", captures / "small.h5", expect=3, env=on_stand_in()).err
    assert "no_such_kernel" in printed and printed.count("\n") == 1


def test_a_folder_that_is_not_there(replay, captures):
    printed = replay("minimize", captures / "varying.h5", "-o", captures / "nowhere" / "small.h5", expect=2, env=on_stand_in()).err
    assert str(captures / "nowhere") in printed and printed.count("\n") == 1
