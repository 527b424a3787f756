"""Recording of kernel launches through the driver hook, on the stand-in CUDA driver of tests/stand_in_driver."""

import os
import pathlib
import random
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from support.launches import CLIENT, COL2IM, TRITON, alone, described
from support.problems import backward
from support.recording import PRELOAD, RECORD, environment, pytestmark, record  # noqa: F401
from support.waiting import wait_until

from msda_replay import read_capture


def writer_of(spool):
    """Processes, by their numbers; without those that have ended, whoever has to ask for their status."""
    return [int(entry) for entry in subprocess.run(["pgrep", "-f", f"[-]-follow {spool}"], capture_output=True, text=True).stdout.split()]


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("via", ["dlsym", "procaddress"])
@pytest.mark.parametrize("entry", [[], ["--ex"], ["--packed"], ["--ptsz"], ["--as-kernel"], ["--ex", "--ptsz", "--as-kernel"], ["--cooperative"], ["--cooperative", "--ptsz"]])
@pytest.mark.parametrize("kernel", ["col2im17", "triton"])
def test_launches_are_recorded_and_unchanged(replay, tmp_path, kernel, entry, via, asynchronous):
    capture = tmp_path / "a.h5"
    arguments = ["--kernel", kernel, "--launches", "3", "--via", via, "--seed", "1", *entry]
    plain = alone(*arguments, MSDA_STAND_IN_ASYNC=asynchronous)
    done = record(CLIENT, *arguments, options=["-o", capture], MSDA_STAND_IN_ASYNC=asynchronous)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    whole = read_capture(capture)
    assert whole.run["gpu"] and whole.run["cuda"]
    invocations = whole.invocations
    assert len(invocations) == 3
    for call in invocations:
        assert call.kernel == (COL2IM if kernel == "col2im17" else TRITON)
        # The triton kernel's parameters do not show padding and align_corners: the outputs did.
        dialect, padding = ("deformable_detr", "zeros") if kernel == "col2im17" else ("msda_triton", "border")
        assert (call.dialect, call.padding_mode, call.align_corners) == (dialect, padding, False)
        assert list(call.facts["grid"]) and list(call.facts["block"]) and "stream" in call.facts
        assert call.facts.get("cooperative") == (1 if "--cooperative" in entry else None)
        assert set(call.outputs) == {"grad_value", "grad_sampling_locations", "grad_attention_weights"}
        assert not np.any(call.outputs_before["grad_value"])
        truth = backward(call.inputs, padding_mode=padding)
        for name, gradient in call.outputs.items():
            np.testing.assert_allclose(gradient, truth[name], rtol=1e-2, atol=1e-3)
    assert len({call.inputs["value"].tobytes() for call in invocations}) == 3
    replay("run", capture, expect=0)


def test_tensors_that_digests_name_are_missed_without_a_list(replay, tmp_path):
    path = tmp_path / "a.h5"
    record(CLIENT, options=["-o", path])
    with h5py.File(path, "r+") as file:
        del file["contents"], file.attrs["contents"]
    replay("verify", path, expect=0)
    with h5py.File(path, "r+") as file:
        names = sorted(name for name in file["invocations/000000/digests"].attrs if name.startswith("outputs/"))
        del file[f"invocations/000000/{names[0]}"]
    result = replay("verify", path, expect=2).err
    assert f"/invocations/000000/{names[0]} is missing; the invocation has the recorder's digest of it" in result
    with h5py.File(path, "r+") as file:
        del file["invocations/000000/outputs"]
    result = replay("verify", path, "--json", "-", expect=2).json
    assert [entry["object"] for entry in result["damaged"]] == [f"/invocations/000000/{name}" for name in names]


def test_float64_launches(tmp_path):
    done = record(CLIENT, "--kernel", "col2im17", "--double", options=["-o", tmp_path / "a.h5"])
    (call,) = read_capture(tmp_path / "a.h5").invocations
    assert done.returncode == 0 and call.inputs["value"].dtype == np.float64
    truth = backward(call.inputs)
    for name, gradient in call.outputs.items():
        np.testing.assert_allclose(gradient, truth[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [[], ["--digest-only"]])
def test_launches_that_the_driver_refuses(tmp_path, options):
    """At most 4,096 launches' digests may be under way: those of a launch that never runs must not stay so."""
    arguments = ["--launches", "3", "--refused", "2000"]
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "a.h5", *options])
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout)
    assert "under way" not in done.stderr
    assert len(read_capture(tmp_path / "a.h5").invocations) == 3


@pytest.mark.parametrize("keep", ["all", "last:1"])
def test_autotuning_keeps_the_real_call(replay, tmp_path, keep):
    """Autotuner launches on equal inputs are counted; the last launch is the call for which they were made."""
    arguments = ["--kernel", "triton", "--launches", "12", "--repeat", "4", "--seed", "9"]
    capture = tmp_path / "a.h5"
    done = record(CLIENT, *arguments, options=["-o", capture, "--keep", keep], MSDA_STAND_IN_ASYNC=1)
    assert done.stdout == alone(*arguments).stdout
    invocations = read_capture(capture).invocations
    assert len(invocations) == (3 if keep == "all" else 1)
    for call in invocations:
        # The autotuner launches began with another grad_value, so their results do not show nondeterminism.
        assert (call.facts["duplicates"], call.facts["distinct_outputs"]) == (3, 1)
        assert not np.any(call.outputs_before["grad_value"])
        np.testing.assert_allclose(call.outputs["grad_value"], backward(call.inputs, padding_mode="border")["grad_value"],
                                   rtol=1e-2, atol=1e-3)
    replay("run", capture, expect=0)
    replay("verify", capture, expect=0)


@pytest.mark.parametrize("via", ["dlsym", "procaddress", "linked"])
@pytest.mark.parametrize("tuned", [5, 16, 17, 300])
def test_measured_launches_are_counted(replay, tmp_path, via, tuned):
    """An autotuner's launches on the same buffers: each is counted, whether or not its inputs were checked."""
    arguments = ["--kernel", "triton", "--tune", str(tuned), "--via", via, "--seed", "3"]
    capture = tmp_path / "a.h5"
    done = record(CLIENT, *arguments, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert done.stdout == alone(*arguments).stdout
    (call,) = read_capture(capture).invocations
    assert (call.facts["duplicates"], call.facts["distinct_outputs"]) == (tuned + 1, 1)
    assert not np.any(call.outputs_before["grad_value"])
    replay("run", capture, expect=0)


@pytest.mark.parametrize("change", [1, 3, 16, 40, 299])
def test_measured_launches_on_other_inputs(replay, tmp_path, change):
    """Measured launches need not be repetitions: those counted as equal were equal, and a warning reports the others."""
    arguments = ["--kernel", "triton", "--tune", "300", "--change", str(change), "--seed", "3"]
    capture = tmp_path / "a.h5"
    done = record(CLIENT, *arguments, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert done.stdout == alone(*arguments).stdout
    first, second = read_capture(capture).invocations
    assert "seemed to repeat an equal one" in done.stderr
    assert first.facts.get("duplicates", 0) <= change
    assert not np.array_equal(first.inputs["attention_weights"], second.inputs["attention_weights"])
    assert len(np.unique(second.inputs["attention_weights"])) == 1
    replay("run", capture, expect=0)


def test_threads_and_streams(tmp_path):
    arguments = ["--kernel", "col2im17", "--launches", "6", "--threads", "4", "--streams", "3", "--seed", "2"]
    capture = tmp_path / "a.h5"
    plain = alone(*arguments, MSDA_STAND_IN_ASYNC=1)
    done = record(CLIENT, *arguments, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert done.stdout == plain.stdout
    sums = {call.inputs["value"].tobytes() for call in read_capture(capture).invocations}
    assert len(sums) == len(read_capture(capture).invocations) > 1


def test_other_kernels_pass_by(tmp_path):
    plain = alone("--kernel", "tiny", "--launches", "2000", "--seed", "1")
    done = record(CLIENT, "--kernel", "tiny", "--launches", "2000", "--seed", "1", options=["-o", tmp_path / "a.h5"])
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert "no call was recorded" in done.stderr and not list(tmp_path.iterdir())


def test_kernels_that_are_not_asked_for(tmp_path):
    done = record(CLIENT, "--kernel", "col2im17", "--launches", "2", options=["-o", tmp_path / "a.h5", "--kernel", "triton"])
    assert done.returncode == 0 and "no call was recorded" in done.stderr


def test_launches_killed_at_random_moments(replay, tmp_path):
    rng = random.Random(2)
    recorded = 0
    for i in range(20):
        capture = tmp_path / f"{i}.h5"
        process = subprocess.Popen([CLIENT, "--kernel", "col2im17", "--launches", "100000", "--seed", str(i)], stdout=subprocess.DEVNULL,
                                   env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_KEEP="last:3"))
        time.sleep(rng.uniform(0.05, 0.4))
        process.kill()
        process.wait()
        end = time.monotonic() + 20
        while pathlib.Path(f"{capture}.spool").exists() and time.monotonic() < end:
            time.sleep(0.01)
        if capture.exists():
            replay("verify", capture, expect=0)
            recorded += len(read_capture(capture).invocations)
    assert recorded > 20


def test_what_a_killed_writer_has_not_read_is_in_the_spool(replay, tmp_path):
    """It was in the memory shared with the writer, which the program still has; later launches go into the spool. Nobody reads what the program
    prints until the writer has ended: it waits with launches to come."""
    capture, writer, launches = tmp_path / "a.h5", tmp_path / "writer", 800
    writer.write_text("#!/bin/sh\nhead -c 9 > /dev/null\ntouch $0.read\nkill -KILL $$\n")  # it is notified of each launch
    writer.chmod(0o755)
    arguments = ["--kernel", "col2im17", "--launches", str(launches), "--seed", "1"]
    with subprocess.Popen([CLIENT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER=writer)) as process:
        wait_until(lambda: (tmp_path / "writer.read").exists() and not writer_of(f"{capture}.spool"))
        printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, alone(*arguments).stdout) and "ended unexpectedly" in errors, errors
    assert replay("recover", f"{capture}.spool", "-o", capture, expect=0).words == f"{capture}: {launches} invocations"
    replay("verify", capture, expect=0)


def test_launches_whose_capture_another_program_damages(tmp_path):
    """The spool only names them: recover is not promised to get them."""
    capture = tmp_path / "a.h5"
    with subprocess.Popen([RECORD, "-o", capture, "--", CLIENT, "--kernel", "col2im17", "--launches", "200"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, env=environment()) as process:
        wait_until(lambda: capture.exists() and capture.stat().st_size > 1_000_000)
        capture.write_bytes(b"")
        result = process.communicate(timeout=60)[1]
    assert "a.h5: another program wrote into it while it was recorded, and damaged it; nothing else holds its 200 calls" in result, result
    assert "recover" not in result and "next: msda-replay run" not in result


def test_what_a_killed_writer_held_is_counted(replay, tmp_path):
    """With little shared memory it copies the calls that --keep last:K keeps into its own."""
    capture, spool = tmp_path / "a.h5", tmp_path / "a.h5.spool"
    process = subprocess.Popen([CLIENT, "--kernel", "col2im17", "--launches", "400", "--seed", "1"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True,
                               env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_KEEP="last:30", MSDA_RECORD_RING_BYTES=1 << 20))
    wait_until(lambda: spool.exists() and spool.stat().st_size > 100_000)
    process.send_signal(signal.SIGSTOP)
    (writer,) = writer_of(spool)
    state = pathlib.Path("/proc", str(writer), "stat")
    wait_until(lambda: all(state.read_text().rsplit(")", 1)[1].split()[0] == "S" or time.sleep(0.01) for _ in range(3)))
    os.kill(writer, signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    (held,) = re.findall("it held ([0-9]+) of the last calls in its own memory, and they are lost", errors)
    assert process.returncode == 0 and 1 <= int(held) <= 30, errors
    replay("recover", spool, "-o", capture, expect=0)
    assert len(read_capture(capture).invocations) >= 30  # the last ones came later


def test_launches_that_are_missing_after_the_writer_was_killed_are_counted(tmp_path):
    """Nobody reads what the program prints: it waits with launches to come. None has room, so that none is written."""
    spool, launches = tmp_path / "a.h5.spool", 3000
    with subprocess.Popen([CLIENT, "--kernel", "col2im17", "--launches", str(launches), "--seed", "1"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=tmp_path / "a.h5", MSDA_RECORD_RING_BYTES=4096)) as process:
        wait_until(lambda: writer_of(spool))
        (writer,) = writer_of(spool)
        os.kill(writer, signal.SIGKILL)
        wait_until(lambda: not writer_of(spool))
        errors = process.communicate(timeout=60)[1]
    printed = [line for line in errors.splitlines() if line.startswith("msda-record")]
    assert process.returncode == 0 and len(printed) == 3 and "ended unexpectedly; recording continues into" in printed[1], errors
    assert f"a.h5: {launches} of {launches} launches are missing: their tensors take more memory than" in printed[2], errors


@pytest.mark.long
def test_launches_whose_writer_dies_go_on_into_the_spool(replay, tmp_path):
    """Calls that it had written are in its capture, if that is whole; the others are in the spool."""
    capture = tmp_path / "a.h5"
    process = subprocess.Popen([CLIENT, "--kernel", "col2im17", "--launches", "1000", "--seed", "1"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture))
    # In short steps, so that the writer begins before the program ends, however loaded the machine is.
    while not capture.exists():
        process.send_signal(signal.SIGCONT)
        time.sleep(0.003)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.02)
    subprocess.run(["pkill", "-9", "-f", f"[-]-follow {capture}.spool"], check=True)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 0 and errors.count("msda-record:") == 1 and "ended unexpectedly; recording continues into" in errors
    replay("recover", f"{capture}.spool", "-o", tmp_path / "b.h5", expect=0)
    assert read_capture(tmp_path / "b.h5").invocations  # how many depends on when the writer was killed
    replay("verify", tmp_path / "b.h5", expect=0)


def test_a_thread_with_little_stack(tmp_path):
    """The least that launches take, alone, and recorded: the first one, which begins the recording, and later ones."""
    arguments = ["--kernel", "triton", "--launches", "3", "--seed", "1"]

    def least(is_enough):
        too_little, enough = 256, 1 << 16
        while enough - too_little > 64:
            stack = (too_little + enough) // 2
            too_little, enough = (too_little, stack) if is_enough(stack) else (stack, enough)
        return enough

    def records(stack, after):
        path = tmp_path / f"{stack}_{after}.h5"
        done = record(CLIENT, *arguments, options=["-o", path], MSDA_STAND_IN_ASYNC=1, MSDA_STAND_IN_STACK=stack, MSDA_STAND_IN_STACK_AFTER=after)
        return done.returncode == 0 and len(read_capture(path).invocations) == 3

    own = least(lambda stack: alone(*arguments, MSDA_STAND_IN_ASYNC=1, MSDA_STAND_IN_STACK=stack).returncode == 0)
    first, later = (least(lambda stack: records(stack, after)) for after in (0, 1))
    # 4,180 and 1,020 bytes; 1,720 where the recording began on the thread itself, 2,740 where symbols were bound at their first call.
    assert later - own < 5 * 1024 and first - later < 1400, (own, first, later)


def test_memory_that_is_too_small_for_a_launch(tmp_path):
    arguments = ["--kernel", "col2im17", "--launches", "2", "--seed", "1"]
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "a.h5"], MSDA_RECORD_RING_BYTES=4096)
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout)
    assert "MSDA_RECORD_RING_BYTES" in done.stderr and "no call was recorded" in done.stderr
    assert "a.h5: 2 of 2 launches are missing: " in done.stderr and done.stderr.count("is not recorded: no room for its") == 1


def test_launches_that_a_writer_misses_while_it_stands_still_are_counted(replay, tmp_path):
    capture, spool, launches = tmp_path / "a.h5", tmp_path / "a.h5.spool", 400
    with subprocess.Popen([CLIENT, "--kernel", "col2im17", "--launches", str(launches), "--seed", "1"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_RING_BYTES=150000)) as process:
        wait_until(capture.exists)
        process.send_signal(signal.SIGSTOP)
        (writer,) = writer_of(spool)
        os.kill(writer, signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        process.wait(timeout=60)
        os.kill(writer, signal.SIGCONT)
        printed = [line for line in process.communicate(timeout=60)[1].splitlines() if line.startswith("msda-record")]
    assert process.returncode == 0 and len(printed) == 2 and "launches are skipped until it reads on" in printed[0], printed
    (missing,) = re.findall(f"a.h5: ([0-9]+) of {launches} launches are missing: the writer stood still, .*--kernel", printed[1])
    assert int(missing) + len(read_capture(capture).invocations) == launches
    replay("verify", capture, expect=0)


@pytest.mark.parametrize("keep, calls", [("all", 40), ("last:30", 30)])
def test_a_small_memory_makes_the_program_wait(replay, tmp_path, keep, calls):
    arguments = ["--kernel", "col2im17", "--launches", "40", "--seed", "1"]
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "a.h5", "--keep", keep], MSDA_RECORD_RING_BYTES=200000)
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout)
    assert len(read_capture(tmp_path / "a.h5").invocations) == calls, done.stderr
    replay("verify", tmp_path / "a.h5", expect=0)


@pytest.mark.parametrize("limit", ["-f 50000", "-v 200000"])
def test_a_limit_on_the_memory_that_can_be_shared(tmp_path, limit):
    """Less than the first segment would take."""
    arguments = ["--kernel", "col2im17", "--launches", "3", "--seed", "1"]
    limited = ["/bin/bash", "-c", f'ulimit {limit}; exec "$0" "$@"', CLIENT, *arguments]
    done = record(*limited, options=["-o", tmp_path / "a.h5"])
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout)
    assert len(read_capture(tmp_path / "a.h5").invocations) == 3, done.stderr


@pytest.mark.parametrize("kernel", ["col2im17", "triton"])
def test_digests_alone(replay, tmp_path, kernel):
    arguments = ["--kernel", kernel, "--launches", "4", "--repeat", "2", "--seed", "5"]
    plain = alone(*arguments, MSDA_STAND_IN_ASYNC=1)
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "whole.h5"], MSDA_STAND_IN_ASYNC=1)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "digests.h5", "--digest-only"], MSDA_STAND_IN_ASYNC=1)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    whole, alone_ = read_capture(tmp_path / "whole.h5").invocations, read_capture(tmp_path / "digests.h5").invocations
    assert len(whole) == len(alone_) == 2 and (tmp_path / "digests.h5").stat().st_size < 100_000
    for full, call in zip(whole, alone_):
        assert not call.inputs and not call.outputs and call.facts["duplicates"] == 1
        assert call.digests == full.digests and len(call.digests) == len(full.inputs) + 6
        for section in ("inputs", "outputs_before", "outputs"):
            for name, array in getattr(full, section).items():
                assert full.digests[f"{section}/{name}"] == described(array)
    assert "inputs/value" in replay("show", tmp_path / "digests.h5", expect=0).out
    assert "--digest-only" in replay("run", tmp_path / "digests.h5", expect=3).err
    replay("verify", tmp_path / "digests.h5", expect=0)


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("kernel", ["index_add", "index_put", "embedding"])
def test_digests_of_launches_whose_indices_change(tmp_path, kernel, asynchronous):
    """As an allocator gives each launch the memory of the one before; the indices in it are others."""
    arguments = ["--kernel", kernel, "--repeat", "8", "--seed", "5"]
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "a.h5", "--digest-only"], MSDA_STAND_IN_ASYNC=asynchronous)
    assert (done.returncode, done.stdout) == (0, alone(*arguments).stdout)
    assert "not recorded" not in done.stderr
    calls = read_capture(tmp_path / "a.h5").invocations
    assert len({call.digests["inputs/index"] for call in calls}) == 8


@pytest.mark.parametrize("options", [[], ["--digest-only"]])
@pytest.mark.parametrize("kernel", ["col2im17", "triton"])
def test_levels_that_change_in_place(tmp_path, kernel, options):
    """As where images in portrait and landscape follow each other, and an allocator gives them the same memory. Triton's kernel
    may not say how many pixels there are: without a wait, the first launch with other levels is noticed too late for its
    digests; then they are looked at before."""
    arguments = ["--kernel", kernel, "--turn", "8"]
    done = record(CLIENT, *arguments, options=["-o", tmp_path / "a.h5", *options], MSDA_STAND_IN_ASYNC=1)
    assert (done.returncode, done.stdout) == (0, alone(*arguments, MSDA_STAND_IN_ASYNC=1).stdout)
    calls = read_capture(tmp_path / "a.h5").invocations
    is_late = kernel == "triton" and bool(options)
    assert len(calls) == (8 if is_late else 9)
    assert ("it is not recorded" in done.stderr) == is_late, done.stderr
    levels = [call.digests["inputs/spatial_shapes"] for call in calls]
    assert len(set(levels)) == 2 and all(levels[i] != levels[i + 1] for i in range(1, len(levels) - 1))
    assert len({call.digests["inputs/attention_weights"] for call in calls}) == len(calls)
