"""The writer on a disk that fills up: complete calls stay, and a message says what is missing and what to do."""

import os
import re
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BUILD, REPLAY, said
from support.full_disk import small_disk  # noqa: F401
from support.launches import CLIENT
from support.recording import environment, pytestmark, record, target  # noqa: F401

from msda_replay import read_capture

MEBIBYTE = 1 << 20


def checksum(array):
    total = 0xCBF29CE484222325
    for byte in array.tobytes():
        total = ((total ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{total:016x}"


def verify(capture):
    done = subprocess.run([REPLAY, "verify", capture], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# With little memory to share the program waits for the writer, and still launches when the disk is full.
@pytest.mark.parametrize("keep, memory", [("all", {}), ("last:30", {}), ("all", {"MSDA_RECORD_RING_BYTES": 200000})],
                         ids=["all", "last:30", "little-memory"])
def test_launches_that_do_not_fit(small_disk, keep, memory):
    capture = small_disk / "a.h5"
    launches = 40
    arguments = ["--kernel", "col2im17", "--launches", str(launches), "--seed", "1"]
    plain = subprocess.run([CLIENT, *arguments], capture_output=True, text=True, env=environment())
    done = record(CLIENT, *arguments, options=["-o", capture, "--keep", keep, "--max-bytes", "1GB"], **memory)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    lines = [line for line in said(done.stderr).splitlines() if line.startswith("msda-record")]
    asked = launches if keep == "all" else 30
    sums = dict(re.findall(r"^(\d+ \w+) (\w{16})$", plain.stdout, re.M))
    verify(capture)
    calls = read_capture(capture).invocations
    assert 0 < len(calls) < asked
    first = launches - asked
    for i, call in enumerate(calls):
        assert len(call.inputs) >= 5
        assert {name: checksum(array) for name, array in call.outputs.items()} == {
            name: sums[f"{first + i} {name}"] for name in call.outputs} and len(call.outputs) == 3
    assert lines == [
        f"msda-record: {capture}: {asked - len(calls)} calls not recorded: no room on the disk; "
        "free some space, or keep fewer calls (--keep last:K, --kernel)",
        f"msda-record: {capture}: {len(calls)} invocations"]
    assert os.listdir(small_disk) == ["a.h5"]
    # What was reserved and not needed is given back.
    with h5py.File(capture) as file:
        assert capture.stat().st_blocks * 512 < capture.stat().st_size + 8192
        assert file.id.get_filesize() == capture.stat().st_size


def test_calls_that_stay_in_the_spool(replay, tmp_path, target):
    """A limit on file sizes for the writer only: the spool has enough space."""
    capture, recovered = tmp_path / "a.h5", tmp_path / "b.h5"
    writer = tmp_path / "writer"
    writer.write_text(f"#!/bin/sh\nulimit -S -f 1024\nexec {BUILD / 'bin' / 'msda-record'} \"$@\"\n")
    writer.chmod(0o755)
    command = target("""
        for seed in range(30): np.savez(f"{sys.argv[1]}/{seed}.npz", **op.backward(make_inputs(**{**small, "Q": 500}, seed=seed)))
    """)
    said = tmp_path / "stderr"
    with open(said, "w") as stderr:
        done = subprocess.run([*command, str(tmp_path)], stderr=stderr,
                              env=environment(LD_PRELOAD=BUILD / "lib" / "libmsda_record.so", MSDA_RECORD_OUTPUT=capture,
                                              MSDA_RECORD_WRITER=writer))
    assert done.returncode == 0
    end = time.monotonic() + 20
    while not said.read_text().endswith("\n") and time.monotonic() < end:
        time.sleep(0.02)
    written = len(read_capture(capture).invocations)
    verify(capture)
    assert 0 < written < 30
    assert said.read_text() == (
        f"msda-record: {capture}: {30 - written} calls not recorded: no room on the disk; "
        f"msda-replay recover {capture}.spool -o FILE gets them, on a disk with free space\n")
    out = replay("recover", f"{capture}.spool", "-o", recovered, expect=0).words
    assert out.endswith(f"{30 - written} invocations")
    calls = read_capture(capture).invocations + read_capture(recovered).invocations
    for seed, call in enumerate(calls):
        truth = np.load(tmp_path / f"{seed}.npz")
        for name, array in call.outputs.items():
            assert array.tobytes() == truth[name].tobytes(), (seed, name)


def test_no_room_at_all(replay, small_disk, tmp_path):
    """No empty capture is left behind."""
    (small_disk / "full").write_bytes(bytes(2 * MEBIBYTE - 65536))
    capture = small_disk / "a.h5"
    done = record(CLIENT, "--kernel", "col2im17", "--launches", "3", options=["-o", capture, "--max-bytes", "1GB"])
    assert done.returncode == 0 and not capture.exists()
    assert "3 calls not recorded: no room on the disk" in done.stderr
    assert "no call was recorded" in done.stderr
