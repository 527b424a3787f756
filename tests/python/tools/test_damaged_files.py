"""tests/damaged_files.py: what it calls harm, and that what it makes of files does none."""

import os
import random
import signal
import sys

import pytest
from conftest import BUILD, SOURCE
from support import damage

sys.path.insert(0, str(SOURCE / "tests"))
import damaged_files as PROGRAM  # noqa: E402
from damaged import judge, runner, spools, states  # noqa: E402
from damaged.commands import Command  # noqa: E402

REPORT = """cat > "$(echo "$ASAN_OPTIONS" | sed 's/log_path=\\([^:]*\\).*/\\1/').$$" <<END
==1==ERROR: AddressSanitizer: heap-buffer-overflow
    #0 0x7f00 in __interceptor_memcpy (/lib/libasan.so.8+0x1)
    #1 0x7f01 {}
END"""
IN_HDF5 = "in H5MM_memcpy (/lib/x86_64-linux-gnu/libhdf5_serial.so.103+0x1)"


@pytest.mark.parametrize("script, harm", [
    ("exit 0", ""), ("exit 1", ""), ("echo 'a.h5: is damaged' >&2; exit 2", ""),
    ("kill -SEGV $$", "ended by signal 11, SIGSEGV"), ("exit 5", "exit status 5"), ("sleep 9", "did not end in 1 s"),
    ("echo 'is damaged' >&2; exit 2", "names no file"), ("printf '\\033[2J'", "control character"), ("echo '{'", "no JSON"),
    (REPORT.format("in msda::run /src/run.cpp:7"), "AddressSanitizer"), (REPORT.format(IN_HDF5), ""),
], ids=lambda value: str(value)[:20])
def test_what_is_harm(tmp_path, script, harm):
    program = tmp_path / "bin" / "msda-replay"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script if 'echo' in script and '{' in script or 'exit' in script else script + '; echo {}'}\n")
    program.chmod(0o755)
    command = Command("run", ["run", "a.h5"], [tmp_path / "a.h5"], json="{" in script)
    outcome = judge.judge(runner.Runner(tmp_path, tmp_path, 1), command, tmp_path)
    assert bool(outcome.faults) == bool(harm) and all(harm in fault for fault in outcome.faults)
    assert outcome.in_hdf5 == (IN_HDF5 in script)


def test_a_number_gives_the_same_file_anywhere(tmp_path):
    state, spool = tmp_path / "a.state", tmp_path / "a.spool"
    state.write_text('{"subject": {"element": "x[0]"}, "digest": "", "reached": {"trials": 3, "kept": [[0, 1], [2]]}, "output": ""}')
    spool.write_bytes(b"msda-spool\n\0\2\0\0\0" + b"".join(spools.frame(kind, bytearray(b"message %d" % kind), bytearray(kind)) for kind in range(1, 6)))
    frames = spools.frames_of(spool.read_bytes())
    assert [(kind, bytes(message), len(payload)) for kind, message, payload in frames] == [(kind, b"message %d" % kind, kind) for kind in range(1, 6)]
    for source, change in ((state, states.damage), (spool, spools.damage)):
        made = [set(), set()]
        for number in range(40):
            for which in made:
                target = tmp_path / f"{number}-{len(list(tmp_path.iterdir()))}"
                change(source, target, random.Random(number))
                which.add(target.read_bytes() if target.is_file() and target.stat().st_size < 1 << 24 else target.lstat().st_mode)
        assert made[0] == made[1] and len(made[0]) > 25


def test_what_libhdf5_cannot_change_ends_nothing(tmp_path, monkeypatch):
    """h5py raised where it closed a file, which ended the program."""

    def structure(path, places):
        number = places.random()
        if number < 0.4:
            raise RuntimeError("Can't decrement id ref count")
        if number < 0.8:
            os.kill(os.getpid(), signal.SIGKILL)
        path.write_text(str(number))

    monkeypatch.setattr(damage, "_structure", structure)
    (tmp_path / "whole").write_bytes(bytes(100))
    for seed in range(9):
        damage.damage(tmp_path / "whole", tmp_path / "damaged", seed, structured=1)
        assert float((tmp_path / "damaged").read_text()) >= 0.8


def test_a_mistake_of_the_program_ends_nothing(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "msda-replay").write_text("")
    chosen = PROGRAM.parse(["--build", str(tmp_path)])
    PROGRAM.begin_worker(chosen, None)
    [(name, outcome)] = PROGRAM.outcomes_of("capture", 0)
    assert (name, outcome.status) == ("damaged_files.py", "raised") and "Traceback" in outcome.faults[0]


@pytest.mark.long
def test_no_harm_is_done(tmp_path, capsys):
    """MSDA_FUZZ says how many of each."""
    count = os.environ.get("MSDA_FUZZ", "20")
    status = PROGRAM.main([f"--{kind}s={count}" for kind in PROGRAM.KINDS] + ["--jobs", "2", "--build", str(BUILD), "--keep", str(tmp_path / "kept")])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert f"'capture': {count}" in printed.out
