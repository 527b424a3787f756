"""Recording of CPU calls under LD_PRELOAD: what is captured, and that the recorded program is not disturbed."""

import os
import pathlib
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import BUILD, REPLAY, SOURCE, said
from support.recording import COMPLETE, FLAKY, PRELOAD, RECORD, environment, pytestmark, record, target, wait_for  # noqa: F401

from msda_replay import __version__, read_capture

# What others may do to a capture while it is recorded, in a program of calls, whose tensors are in the spool, too, and of launches.
OTHERS = {
    "removed": ('os.remove("a.h5")', "a.h5: 5 invocations"),
    "another file": ('os.remove("a.h5"); open("a.h5", "w").write("mine")', "a.h5: is another file now; what was recorded is in {}/a.h5.kept"),
    "truncated": ('open("a.h5", "w").close()', "a.h5: another program wrote into it while it was recorded, and damaged it; "),
    "overwritten": ('open("a.h5", "r+").write("mine" * 999)', "a.h5: another program wrote into it while it was recorded, and damaged it; "),
    "opened for writing": ('open("a.h5", "r+").close()', "a.h5: 5 invocations"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_others_that_change_the_capture_meanwhile(replay, target, tmp_path, what):
    do, result = OTHERS[what]
    command = target(f"""
        for seed in range(5):
            op.backward(make_inputs(**small, seed=seed))
            while seed == 2 and not (os.path.exists("a.h5") and os.path.getsize("a.h5") > 30000): pass
            if seed == 2: {do}
    """)
    done = record(*command, options=["-o", "a.h5"], cwd=tmp_path)
    assert result.format(tmp_path) in done.stderr, done.stderr
    left = {path.name for path in tmp_path.glob("a.h5*")}
    if "damaged" in result:
        assert left == {"a.h5", "a.h5.spool"} and "msda-replay recover" in done.stderr and "next: msda-replay run" not in done.stderr
        replay("recover", tmp_path / "a.h5.spool", "-o", tmp_path / "b.h5", expect=0)
    elif what == "another file":
        assert left == {"a.h5", "a.h5.kept"} and (tmp_path / "a.h5").read_text() == "mine"
        (tmp_path / "a.h5.kept").rename(tmp_path / "b.h5")
    else:
        assert left == {"a.h5"}
        (tmp_path / "a.h5").rename(tmp_path / "b.h5")
    replay("verify", tmp_path / "b.h5", expect=0)
    assert len(read_capture(tmp_path / "b.h5").invocations) == 5


def test_a_capture_names_the_version(target, tmp_path):
    done = record(*target("op.backward(make_inputs(**small))"), options=["-o", tmp_path / "a.h5"])
    assert read_capture(tmp_path / "a.h5").tool_version == __version__, done.stderr


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_names_that_leave_no_room_for_what_is_added(target, tmp_path, options):
    added = 11 if options else 6  # .new-XXXXXX, .spool
    for length in (254 - added, 255 - added, 256 - added, 255, 300):
        name = "n" * (length - 3) + ".h5"
        done = record(*target("op.backward(make_inputs(**small))"), options=["-o", name, *options], cwd=tmp_path)
        if length + added <= 255:
            assert (tmp_path / name).exists(), done.stderr
        else:
            assert "too long a name for a file" in done.stderr and done.returncode != 0 and not list(tmp_path.glob("*.spool"))
            assert len(done.stderr.splitlines()) == 1
    done = record("true", options=["-o", "n" * 246 + "%p.h5"], cwd=tmp_path)
    assert "too long a name for a file" in done.stderr


def in_own_mounts(*command, **more):
    done = subprocess.run(["unshare", "-m", "sh", "-c", *command], capture_output=True, text=True, env=environment(), timeout=60, **more)
    if "unshare" in done.stderr:
        pytest.skip("no namespace of mounts can be made")
    return done


def test_without_proc(target, tmp_path):
    command = [RECORD, "-o", tmp_path / "a.h5", "--", *target("op.backward(make_inputs(**small))")]
    done = in_own_mounts('mount -t tmpfs none /proc && exec "$@"', "sh", *command)
    assert f"{tmp_path}/a.h5: 1 invocation\n" in done.stderr
    assert len(read_capture(tmp_path / "a.h5").invocations) == 1


def test_a_full_disk_is_called_that(target, tmp_path):
    """Not what HDF5 says of it. Whether the capture or the spool finds no room depends on which of them is written first."""
    command = [RECORD, "-o", tmp_path / "disk" / "a.h5", "--", *target("for seed in range(3): op.backward(make_inputs(**small, seed=seed))")]
    (tmp_path / "disk").mkdir()
    fill = f"mount -t tmpfs -o size=300k none {tmp_path}/disk && head -c 286720 /dev/zero >{tmp_path}/disk/fill && "
    done = in_own_mounts(fill + 'exec "$@"', "sh", *command)
    capture_told = r"a.h5: cannot (create it|flush): file write failed: No space left on device; is the disk full\?; msda-replay recover "
    spool_told = r"a.h5.spool: cannot write it: No space left on device; recording ends here"
    assert re.search(f"{capture_told}|{spool_told}", done.stderr) and "errno" not in done.stderr, done.stderr


def test_a_failing_run_is_recorded_and_explained(replay, tmp_path):
    capture = tmp_path / "flaky.h5"
    alone = subprocess.run([FLAKY, "--until-failure", "--seed", "1"], capture_output=True, text=True)
    recorded = record(FLAKY, "--until-failure", "--seed", "1", options=["-o", capture, "--keep", "last:2"])
    assert (recorded.returncode, recorded.stdout) == (alone.returncode, alone.stdout) and alone.returncode == 1
    assert said(recorded.stderr) == f"msda-record: {capture}: 2 invocations\n"
    result = replay("run", capture, "--invocation", 0, "--reference", 1, "--atol", 1e-3, "--rtol", 1e-2, "--json", "-",
                    expect=1).json
    assert result["verdict"]["at_fault"] == "reference"
    (finding,) = [f for f in result["invocations"][0]["findings"] if f["against"] == "reference"]
    assert finding["cause"] == "cell_boundary"
    assert f"element {np.ravel_multi_index(finding['index'], (1, 1000, 1, 4, 3, 2))}:" in alone.stdout
    replay("verify", capture, expect=0)


def test_a_library_that_is_closed_and_opened_again(tmp_path, target):
    """Where the library was, there is other memory then. Its calls are still recorded, and the recorder's function, which a
    plug-in that is linked to the library calls, does not lead there."""
    capture = tmp_path / "a.h5"
    command = target(f"""
        from _ctypes import dlclose
        from msda_replay import libmsda
        for seed in range(2):
            op.backward(make_inputs(**small, seed=seed))
            dlclose(libmsda.library()._handle)
            libmsda.library.cache_clear()
            ctypes.CDLL(None).mmap(None, 1 << 24, 0, 0x22, -1, 0)
        plugin = ctypes.CDLL({str(BUILD / 'stand_in' / 'libstand_in_msda_plugin.so')!r})
        print(plugin.plugin_backward(None, None, None))
    """)
    plain = subprocess.run(command, capture_output=True, text=True, env=environment())
    done = record(*command, options=["-o", capture])
    assert (plain.returncode, plain.stdout) == (0, "1\n"), plain.stderr
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert len(read_capture(capture).invocations) == 2


def test_a_second_copy_of_the_library_is_named(tmp_path, target):
    copy = tmp_path / "libmsda_too.so"
    copy.write_bytes((BUILD / "lib" / "libmsda.so").read_bytes())
    command = target(f"""
        op.backward(make_inputs(**small))
        for name in ("msda_backward", "msda_cuda_backward", "msda_backward"):
            print(ctypes.CDLL({str(copy)!r})[name](None, None, None, None, None, None) != 0)
    """)
    done = record(*command, options=["-o", tmp_path / "a.h5"])
    assert (done.returncode, done.stdout) == (0, "True\n" * 3), done.stderr
    printed = f"msda-record: a second msda_backward, of {copy}, is in this process; its calls are not recorded: load one libmsda only"
    assert done.stderr.count("a second ") == 1 and printed in done.stderr
    assert len(read_capture(tmp_path / "a.h5").invocations) == 1


def test_what_a_call_through_dlsym_leaves(tmp_path, target):
    capture = tmp_path / "a.h5"
    command = target("""
        recorder = ctypes.CDLL(None)
        recorder.msda_record_label(b"first")
        inputs = make_inputs(**small)
        results = op.backward(inputs)
        np.savez(sys.argv[1], **inputs, **results)
        for _ in range(4): op.backward(inputs)            # the same again: counted
        recorder.msda_record_label(None)
        op.backward(make_inputs(**small, seed=5))
    """)
    done = record(*command, str(tmp_path / "truth.npz"), options=["-o", capture], PYTHONHASHSEED="7", SECRET_TOKEN="x")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(capture.stat().st_mode) == 0o600
    both = read_capture(capture)
    first, second = both.invocations
    truth = np.load(tmp_path / "truth.npz")
    for name, array in {**first.inputs, **first.outputs}.items():
        assert array.tobytes() == truth[name].tobytes(), name
    assert set(first.inputs) == {"value", "spatial_shapes", "sampling_locations", "attention_weights", "grad_output"}
    assert first.facts["label"] == "first" and second.facts.get("label", "") == ""
    assert first.facts["duplicates"] == 4 and first.facts["distinct_outputs"] == 1
    assert (first.dialect, first.padding_mode, first.align_corners, first.kernel) == ("msda_triton", "border", False, "msda_backward")
    assert both.run["argv"][0] == sys.executable
    assert both.run["environment"]["PYTHONHASHSEED"] == "7" and "SECRET_TOKEN" not in both.run["environment"]
    assert "libmsda.so.0" in both.run["libraries"] or "libmsda.so" in both.run["libraries"]


def test_of_the_environment_names_that_are_asked_for(tmp_path, target):
    command = target("op.backward(make_inputs(**small))")
    asked = environment(OMP_NUM_THREADS="2", OMP_SECRET_THING="x", CUDA_SOMETHING_OF_MINE="y", MY_VARIABLE="z", OTHER="w",
                        MSDA_API_TOKEN="t", LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH", "/nowhere"))
    subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--env", "MY_VARIABLE", "--", *map(str, command)], env=asked, capture_output=True)
    recorded = read_capture(tmp_path / "a.h5").run["environment"]
    assert recorded["OMP_NUM_THREADS"] == "2" and recorded["MY_VARIABLE"] == "z"
    assert not {"OMP_SECRET_THING", "CUDA_SOMETHING_OF_MINE", "OTHER", "MSDA_API_TOKEN", "LD_PRELOAD"} & set(recorded)
    assert not [name for name in recorded if name.startswith("MSDA_RECORD")]  # what the recorder set itself
    # Even on request a capture gets no secret.
    subprocess.run(command, env=asked | {"LD_PRELOAD": str(PRELOAD), "MSDA_RECORD_OUTPUT": str(tmp_path / "b.h5"),
                                         "MSDA_RECORD_ENV": "MSDA_API_TOKEN:OTHER"})
    wait_for(tmp_path / "b.h5")
    recorded = read_capture(tmp_path / "b.h5").run["environment"]
    assert recorded["OTHER"] == "w" and "MSDA_API_TOKEN" not in recorded


def test_plain_preload(tmp_path):
    capture = tmp_path / "plain.h5"
    done = subprocess.run([FLAKY, "--seed", "3"], capture_output=True, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture))
    assert done.stderr == ""
    wait_for(capture)
    assert len(read_capture(capture).invocations) == 2


def test_what_a_terminal_acts_on_is_shown_escaped(tmp_path):
    done = subprocess.run([FLAKY, "--seed", "3"], capture_output=True, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=tmp_path / "a.h5",
                                          MSDA_RECORD_KEEP="\x1b[31m\n\u202eé"))
    assert done.stderr == "msda-record: MSDA_RECORD_KEEP=\\x1b[31m\\n\\u202eé is neither all nor last:K, and is ignored\n"


def test_the_library_needs_the_c_and_cpp_libraries_alone():
    dynamic = subprocess.run(["readelf", "-d", PRELOAD], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\.so", dynamic))
    assert "libc" in needed and needed <= {"libstdc++", "libgcc_s", "libc", "libm", "libdl", "libpthread", "ld-linux-x86-64"}


def test_programs_that_make_no_calls_leave_nothing(tmp_path):
    done = record("/bin/sh", "-c", "echo out; echo err >&2; exit 7", options=["-o", tmp_path / "a.h5"])
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert said(done.stderr) == "err\nmsda-record: no call was recorded\n"
    assert list(tmp_path.iterdir()) == []


def test_selection(tmp_path):
    done = record(FLAKY, "--seed", "3", options=["-o", tmp_path / "a.h5", "--kernel", "col2im"])
    assert "no call was recorded" in done.stderr
    done = record(FLAKY, "--seed", "3", options=["-o", tmp_path / "a.h5", "--kernel", "msda_.*ward"])
    assert "2 invocations" in done.stderr
    done = subprocess.run([FLAKY, "--seed", "3"], capture_output=True, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=tmp_path / "b.h5", MSDA_RECORD_KERNEL="("))
    assert done.returncode in (0, 1) and "is not a regular expression" in done.stderr
    done = record(FLAKY, "--runs", "20", "--seed", "3", options=["-o", tmp_path / "c.h5", "--max-bytes", "8000000"])
    assert "MSDA_RECORD_MAX_BYTES is reached" in done.stderr
    assert 0 < len(read_capture(tmp_path / "c.h5").invocations) < 6
    assert record(FLAKY, options=["--keep", "last:x"]).returncode == 2
    assert record().returncode == 2


@pytest.mark.parametrize("ending", ["os._exit(5)", "os.kill(os.getpid(), 9)", "sys.exit(5)", "os.abort()"])
def test_however_it_ends(tmp_path, target, ending):
    capture = tmp_path / "a.h5"
    command = target(f"""
        for seed in range(3): op.backward(make_inputs(**small, seed=seed))
        {ending}
    """)
    alone = subprocess.run(command, capture_output=True, env=environment())
    done = record(*command, options=["-o", capture])
    expected = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
    assert done.returncode == expected, done.stderr
    assert len(read_capture(capture).invocations) == 3


@pytest.mark.long
def test_killed_at_100_random_moments(tmp_path):
    """Every call that had returned is readable, whenever the process dies."""
    rng = random.Random(1)
    for i in range(100):
        capture = tmp_path / f"{i}.h5"
        process = subprocess.Popen([FLAKY, "--runs", "1000000", "--seed", str(i)], stdout=subprocess.DEVNULL,
                                   env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_KEEP="last:2"))
        time.sleep(rng.uniform(0.02, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        end = time.monotonic() + 20
        while pathlib.Path(f"{capture}.spool").exists() and time.monotonic() < end:
            time.sleep(0.01)
        if pathlib.Path(f"{capture}.spool").exists():  # killed before there was a writer: then nothing had returned
            recovered = subprocess.run([REPLAY, "recover", f"{capture}.spool", "-o", f"{capture}.r"], capture_output=True, text=True)
            assert "holds no complete invocation" in recovered.stderr
            assert not capture.exists()
        if capture.exists():
            verified = subprocess.run([REPLAY, "verify", capture], capture_output=True, text=True)
            assert verified.returncode == 0, verified.stderr
            assert len(read_capture(capture).invocations) in (1, 2)
            capture.unlink()


def test_recover_where_the_writer_was_killed_too(replay, tmp_path, target):
    capture, recovered = tmp_path / "a.h5", tmp_path / "b.h5"
    command = target("""
        for seed in range(3): op.backward(make_inputs(**small, seed=seed))
        os.kill(os.getpid(), 9)
    """)
    subprocess.run(command, env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER="/bin/true"))
    spool = pathlib.Path(f"{capture}.spool")
    assert not capture.exists() and stat.S_IMODE(spool.stat().st_mode) == 0o600
    with open(spool, "ab") as file:
        file.write(b"half a frame")
    out = replay("recover", spool, "-o", recovered, expect=0).words
    assert "3 invocations" in out and "12 bytes at the end are incomplete" in out
    assert len(read_capture(recovered).invocations) == 3
    replay("recover", spool, "-o", recovered, expect=2)  # exists
    replay("recover", spool, "-o", recovered, "--force", expect=0)
    spool.write_bytes(spool.read_bytes()[:-100])
    assert "2 invocations, 1 more had not ended" in replay("recover", spool, "-o", recovered, "--force", expect=0).words
    header = spool.read_bytes()[:16]
    for length in range(17):  # killed before a first frame was there, or even the header
        spool.write_bytes(header[:length])
        assert "holds no complete invocation" in replay("recover", spool, "-o", tmp_path / "c.h5", expect=2).err
        assert not (tmp_path / "c.h5").exists()
    for content in (b"not", b"not a spool at all, but long enough", header[:12] + b"\xff\0\0\0"):
        spool.write_bytes(content)
        error = replay("recover", spool, "-o", tmp_path / "c.h5", expect=2).err
        assert str(spool) in error and error.count("\n") == 1


def test_random_damage_of_a_spool(replay, tmp_path, target):
    capture = tmp_path / "a.h5"
    command = target("for seed in range(2): op.backward(make_inputs(**small, seed=seed))")
    subprocess.run(command, env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER="/bin/true"))
    spool = pathlib.Path(f"{capture}.spool")
    whole = spool.read_bytes()
    rng = random.Random(2)
    for i in range(60):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        spool.write_bytes(damaged[:rng.randrange(len(damaged))] if i % 3 == 0 else damaged)
        assert replay("recover", spool, "-o", tmp_path / "b.h5", "--force").status in (0, 2)


def test_full_disk(tmp_path, target):
    """A limit on file sizes stands for it: the write fails, and would raise SIGXFSZ in the program."""
    command = target("""
        for seed in range(6): print(op.backward(make_inputs(**small, seed=seed))["grad_value"].sum())
    """)
    alone = subprocess.run(command, capture_output=True, text=True, env=environment())
    capture = tmp_path / "a.h5"
    done = subprocess.run(command, capture_output=True, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture),
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY)))
    assert (done.returncode, done.stdout) == (0, alone.stdout)
    assert done.stderr.count("\n") >= 1 and "recording ends here" in done.stderr.splitlines()[0]


def test_places_that_cannot_be_written(tmp_path, target):
    command = target("print(op.backward(make_inputs(**small))['grad_value'].sum())")
    alone = subprocess.run(command, capture_output=True, text=True, env=environment())
    for output in (tmp_path / "missing" / "a.h5", pathlib.Path("/proc/a.h5")):
        done = subprocess.run(command, capture_output=True, text=True,
                              env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=output))
        assert (done.returncode, done.stdout) == (0, alone.stdout)
        assert done.stderr.count("\n") == 1 and "nothing is recorded" in done.stderr


def test_an_output_that_exists_is_kept(tmp_path, target):
    capture, precious = tmp_path / "a.h5", tmp_path / "precious"
    command = target("op.backward(make_inputs(**small))")
    capture.write_bytes(mine := b"\x89HDF\r\n\x1a\n")  # as a capture begins: --force replaces no other file
    done = record(*command, options=["-o", capture])
    assert capture.read_bytes() == mine and f"{capture} exists and is kept" in done.stderr
    (another,) = [path for path in tmp_path.glob("a.*.h5")]
    assert len(read_capture(another).invocations) == 1
    another.unlink()
    done = subprocess.run(command, capture_output=True, text=True, env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture))
    (another,) = [path for path in tmp_path.glob("a.*.h5")]
    assert done.stderr == f"msda-record: {capture} exists; recording into {another}\n"
    wait_for(another)
    done = record(*command, options=["-o", capture, "--force"])
    assert len(read_capture(capture).invocations) == 1
    # Links are not followed, neither the output's nor the spool's.
    precious.write_text("mine")
    link = tmp_path / "link.h5"
    link.symlink_to(precious)
    pathlib.Path(f"{tmp_path / 'spooled.h5'}.spool").symlink_to(precious)
    record(*command, options=["-o", link])
    record(*command, options=["-o", tmp_path / "spooled.h5"])
    assert precious.read_text() == "mine"
    (another,) = tmp_path.glob("spooled.*.h5")
    assert len(read_capture(another).invocations) == 1


def test_fork_exec_and_threads(tmp_path, target):
    command = target("""
        import threading
        op.backward(make_inputs(**small, seed=100))
        child = os.fork()
        if child == 0:
            op.backward(make_inputs(**small, seed=101)); op.backward(make_inputs(**small, seed=102))
            os._exit(3)
        assert os.waitpid(-1, 0) == (child, 3 << 8)        # no child but the program's own
        threads = [threading.Thread(target=lambda s=s: [op.backward(make_inputs(**small, seed=1000 * s + i)) for i in range(5)])
                   for s in range(8)]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
        try:
            os.waitpid(-1, os.WNOHANG)
            raise AssertionError("a child that is not the program's")
        except ChildProcessError:
            pass
        if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, __file__, "again"])
    """)
    done = record(*command, options=["-o", "a.%p.h5"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    captures = sorted(tmp_path.glob("a.*.h5"))
    # The program, its child, what it became, and that one's child.
    assert sorted(len(read_capture(path).invocations) for path in captures) == [2, 2, 41, 41], done.stderr
    assert not list(tmp_path.glob("*.spool"))


@pytest.mark.parametrize("keep", ["all", "last:3"])
def test_captures_while_the_program_runs(tmp_path, replay, target, keep):
    command = target(COMPLETE + """
    complete()
    call(1); call(1); call(2)
    complete("first.h5")
    complete()
    call(1); call(3)
    recorder.msda_record_discard()
    for seed in range(50):
        call(seed)
        recorder.msda_record_discard()
    call(1); call(4)
    if os.fork() == 0:
        call(5)
        complete("child.h5")
        os._exit(0)
    os.wait()
    complete("second.h5")
    call(6)
    """)
    done = record(*command, options=["-o", "last.h5", "--keep", keep], cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.split() == ["0", "2", "0", "1", "2"], done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"first.h5", "second.h5", "child.h5", "last.h5", "target.py"}
    assert re.search(r"last.h5: 1 invocation$", done.stderr, re.M), done.stderr
    assert re.search(r"last.h5: 4 invocations in captures that the program completed", done.stderr), done.stderr
    for name, duplicates in (("first", [1, 0]), ("second", [0, 0]), ("child", [0]), ("last", [0])):
        replay("verify", tmp_path / f"{name}.h5", expect=0)
        capture = read_capture(tmp_path / f"{name}.h5")
        assert [invocation.facts.get("duplicates", 0) for invocation in capture.invocations] == duplicates, name
        assert capture.run["argv"][0] == sys.executable


def test_captures_that_the_program_does_not_move_in_time(tmp_path, target):
    """Another thread calls all the time, also between the end of a capture and its move."""
    command = target(COMPLETE + """
    call(1)
    complete()
    call(2)
    complete(to="2.h5")
    call(3)
    """)
    for options in ([], ["--force"]):
        done = record(*command, options=["-o", "a.h5", *options], cwd=tmp_path)
        assert done.stdout.split() == ["1", "1"] and "a.2.h5: 1 invocation\n" in done.stderr, done.stderr
        for seed, name in enumerate(("a", "2", "a.2"), 1):
            (call,) = read_capture(tmp_path / f"{name}.h5").invocations
            assert call.facts["time"], seed
            (tmp_path / f"{name}.h5").unlink()
        assert [path.name for path in tmp_path.iterdir()] == ["target.py"]


def test_captures_that_cannot_be_completed(tmp_path, replay, target):
    command = target(COMPLETE + """
    call(1)
    complete(size=2)                                  # no room for the name: the file is there
    os.remove(sys.argv[1])
    for seed in range(100): call(seed)                # beyond the limit
    complete()
    """)
    done = record(*command, str(tmp_path / "a.h5"), options=["-o", tmp_path / "a.h5", "--max-bytes", "100kB"])
    assert done.stdout.split() == ["-1", "-1"] and "MSDA_RECORD_MAX_BYTES is reached" in done.stderr
    replay("verify", tmp_path / "a.h5", expect=0)
    # A killed writer: nothing that was recorded is lost.
    command = target(COMPLETE + """
    call(1)
    recorder.msda_record_discard()
    call(2)
    complete()
    call(3)
    """)
    done = subprocess.run(command, capture_output=True, text=True, env=environment(
        LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=tmp_path / "b.h5", MSDA_RECORD_WRITER="/bin/true"))
    assert done.stdout.split() == ["-1"]
    replay("recover", tmp_path / "b.h5.spool", "-o", tmp_path / "recovered.h5", expect=0)
    assert len(read_capture(tmp_path / "recovered.h5").invocations) == 3


def memory_hooks():
    """Functions that only a survey or a trail needs, with their twins."""
    table = "".join((SOURCE / f"recorder/preload/hooks/{name}_table.h").read_text() for name in ("memory", "graph"))
    twins = re.findall(r"^  MSDA_TWINS\(X, (cu\w+), (\w+),", table, re.MULTILINE)
    names = {*re.findall(r"^  X\((cu\w+),", table, re.MULTILINE), *(name for name, _ in twins), *(name + suffix for name, suffix in twins)}
    assert len(names) > 50 and all(re.match("cu(Mem|Stream|Graph|Ipc|EventQuery|LaunchHostFunc|WaitExternal)", name) for name in names)
    return names


def test_only_interposed_names_are_seen():
    names = subprocess.run(["nm", "-D", "--defined-only", PRELOAD], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in names.splitlines()} == {
        "dlsym", "msda_backward", "msda_cuda_backward", "msda_record_complete", "msda_record_discard", "msda_record_label", "msda_record_survey", "cuGetProcAddress", "cuGetProcAddress_v2", "cuLaunchKernel",
        "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz", "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz", "cuCtxSynchronize", "cuCtxSynchronize_v2", "cuCtxDestroy_v2", "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2",
        "cuStreamDestroy_v2", "cuStreamSynchronize",
        "cuStreamSynchronize_ptsz", "cuEventSynchronize", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord",
        "cuEventRecord_ptsz", "cuEventRecordWithFlags", "cuEventRecordWithFlags_ptsz", "curandSetPseudoRandomGeneratorSeed",
        "_ZN2at16CPUGeneratorImpl16set_current_seedEm", "_ZN2at17CUDAGeneratorImpl16set_current_seedEm", "srand", "srandom",
        "initstate", "srand48", "seed48", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuModuleUnload",
        "cuLibraryLoadData", "cuLibraryUnload", "cuptiSubscribe", "cuptiSubscribe_v2", "cuptiFinalize", "InitializeInjection",
        "_exit", "_Exit"} | memory_hooks()


def test_digests_alone_of_calls_on_the_cpu(tmp_path, target):
    program = target("op.backward(make_inputs(**small, seed=1))\nop.backward(make_inputs(**small, seed=1))")
    record(*program, options=["-o", tmp_path / "whole.h5"])
    record(*program, options=["-o", tmp_path / "digests.h5", "--digest-only"])
    (whole,), (call,) = (read_capture(tmp_path / f"{name}.h5").invocations for name in ("whole", "digests"))
    from support.launches import described
    assert not call.inputs and not call.outputs and call.facts["duplicates"] == 1
    assert call.digests == {f"{section}/{name}": described(array) for section in ("inputs", "outputs")
                            for name, array in getattr(whole, section).items()}
