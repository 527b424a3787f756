"""The command msda-record: its messages before and after the program, signals, and what it leaves behind."""

import os
import pathlib
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

import h5py
import pytest
from conftest import BUILD, REPLAY, said
from support.recording import FLAKY, PRELOAD, RECORD, environment, pytestmark, record, target  # noqa: F401
from support.waiting import wait_until

from msda_replay import read_capture

CLIENT = BUILD / "tests" / "hostile_client"


@pytest.mark.parametrize("options, why", [
    (["-o", "{folder}"], "is a folder"),
    (["-o", "{folder}/"], "is a folder"),
    (["-o", "{folder}/missing/a.h5"], "there is no folder"),
    (["-o", "/dev/null"], "is no regular file"),
    (["-o", "/dev/null", "--force"], "is no regular file"),
    (["-o", "{folder}/fifo", "--force"], "is no regular file"),
    (["-o", "{folder}/link", "--force"], "a symbolic link"),
    (["-o", "{folder}/notes", "--force"], "no capture, and --force replaces only those"),
    (["--kernel", "("], "not a valid regular expression"),
    (["--kernel", 501 * "a"], "more than 500 characters"), (["--kernel", "a{{9}}"], "write the repeats out"),
    (["--adapter", "{folder}/missing.json"], "missing.json"),
    (["--keep", "last:0"], "last:K"), (["--keep", "last:-1"], "last:K"), (["--keep", "last:"], "last:K"),
    (["--keep", "last:1x"], "last:K"), (["--keep", "last:99999999999999999999"], "last:K"), (["--keep", "some"], "last:K"),
    (["--env", "MY_API_KEY"], "secret"), (["--env", "my_token"], "secret"), (["--env", "A=B"], "only the name of a variable"),
    (["--max-bytes", "-1"], "not negative"), (["--max-bytes", "1XB"], "not a size"), (["--max-bytes", "99999999999999999999"], "max-bytes"),
])
def test_what_cannot_be_is_said_before_the_program_runs(tmp_path, options, why):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "notes").write_text("mine")
    before = sorted(os.listdir(tmp_path))
    done = record("/bin/sh", "-c", "echo ran", options=[option.format(folder=tmp_path) for option in options], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr
    assert done.stderr.startswith("msda-record: ") and done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before and pathlib.Path("/dev/null").is_char_device()


@pytest.mark.parametrize("option", ["--hook", "--stages", "--max-bytes", "--keep", "--adapter", "-o", "--env"])
def test_what_a_terminal_acts_on_is_shown_escaped(tmp_path, option):
    done = record("/bin/true", options=[option, "a/=\x1b[31m\n\u202eb"], cwd=tmp_path)
    assert done.returncode == 2 and "=\\x1b[31m\\n\\u202eb" in done.stderr
    assert done.stderr.removesuffix("\n").isprintable()


@pytest.mark.parametrize("asked, given", [("1MB", 1000000), ("2GiB", 2 << 30), ("500", 500), ("3kib", 3072)])
def test_limits_have_units(asked, given):
    done = record("/bin/sh", "-c", "echo $MSDA_RECORD_MAX_BYTES", options=["--max-bytes", asked])
    assert done.stdout == f"{given}\n" and "records at most" not in done.stderr


def test_a_limit_that_nobody_asked_for(tmp_path):
    """The recorder enforces it; msda-record announces it."""
    done = record("/bin/sh", "-c", "echo .$MSDA_RECORD_MAX_BYTES", options=["-o", tmp_path / "a.h5"])
    disk = os.statvfs(tmp_path)
    (number, unit), = re.findall(r"^msda-record: records at most ([0-9.]+) ([GM]iB), half of what is free ", done.stderr)
    assert done.stdout == ".\n"
    assert float(number) * {"G": 1 << 30, "M": 1 << 20}[unit[0]] == pytest.approx(disk.f_bavail * disk.f_frsize / 2, rel=0.2)


def test_the_next_command(replay, tmp_path):
    capture = tmp_path / "a file's.h5"
    done = record(FLAKY, "--seed", "3", options=["-o", capture])
    line = done.stderr.splitlines()[-1]
    assert line.startswith("msda-record: next: msda-replay run ")
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {line.split('next: ')[1]}"], capture_output=True, text=True).stdout
    assert words.splitlines() == ["msda-replay", "run", str(capture)]
    digests = record(FLAKY, "--seed", "3", options=["-o", tmp_path / "d.h5", "--digest-only"])
    assert digests.stderr.splitlines()[-1] == f"msda-record: next: msda-replay diff {tmp_path / 'd.h5'} OTHER.h5, with another recording"
    # The name is taken now: said before the program says anything, with the command that opens the other one.
    done = record("/bin/sh", "-c", f"echo first >&2; exec {FLAKY} --seed 3", options=["-o", tmp_path / "a file's.h5"])
    (another,) = tmp_path.glob("a file's.*.h5")
    said_first = done.stderr.split("first\n")[0]
    assert f"{capture} exists and is kept" in said_first and str(another) in said_first and "msda-replay run" in said_first
    assert done.stderr.count("exists") == 1
    # A process that the program started records into a file of its own, which only the recorder in it can name.
    another.unlink()
    done = record("/bin/sh", "-c", f"{FLAKY} --seed 3; true", options=["-o", capture.name], cwd=tmp_path)
    (another,) = tmp_path.glob("a file's.*.h5")
    assert f"msda-record: {capture} exists; recording into {another}\n" in done.stderr


def test_force_keeps_what_is_there_until_there_is_a_call(tmp_path, target):
    capture = tmp_path / "a.h5"
    mine = b"\x89HDF\r\n\x1a\n"
    capture.write_bytes(mine)
    capture.chmod(0o644)
    done = record("/bin/true", options=["-o", capture, "--force"])
    assert done.returncode == 0 and capture.read_bytes() == mine
    record(*target("op.backward(make_inputs(**small))"), options=["-o", capture, "--force"])
    assert len(read_capture(capture).invocations) == 1 and stat.S_IMODE(capture.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "target.py"]


def test_force_replaces_no_capture_of_the_same_run(tmp_path):
    """Each program starts when the capture of the one before is complete."""
    capture = tmp_path / "a.h5"
    capture.write_bytes(b"\x89HDF\r\n\x1a\n")
    programs = "".join(f"{CLIENT} plain {calls}; while [ -e {capture}.spool ]; do sleep 0.01; done; " for calls in (1, 2, 3))
    done = record("/bin/sh", "-c", programs, options=["-o", capture, "--force"])
    assert done.returncode == 0
    assert sorted(len(read_capture(path).invocations) for path in tmp_path.glob("*.h5")) == [1, 2, 3], done.stderr
    assert len(read_capture(capture).invocations) == 1 and done.stderr.count(f"{capture} exists; recording into") == 2
    record(CLIENT, "plain", "4", options=["-o", capture, "--force"])
    assert len(read_capture(capture).invocations) == 4


@pytest.mark.parametrize("what", ["fifo", "folder", "link", "device"])
def test_recover_replaces_regular_files_alone(replay, tmp_path, target, what):
    spool = a_spool(tmp_path, target)
    out = tmp_path / "out"
    if what == "fifo":
        os.mkfifo(out)
    elif what == "folder":
        out.mkdir()
    elif what == "link":
        out.symlink_to("victim")
    else:
        try:
            os.mknod(out, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("may not make a device")
    before = out.lstat()
    done = replay("recover", spool, "-o", out, "--force", expect=2)
    assert done.err.count("\n") == 1 and str(out) in done.err
    assert (out.lstat().st_ino, out.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert not (tmp_path / "victim").exists() and not list(tmp_path.glob("out.*"))


def a_spool(folder, target, calls=3):
    capture = folder / "spooled.h5"
    command = target(f"""
        for seed in range({calls}): op.backward(make_inputs(**small, seed=seed))
    """)
    subprocess.run(command, env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER="/bin/true"))
    return pathlib.Path(f"{capture}.spool")


def test_the_output_is_opened_once(tmp_path, target):
    """Changing what the name stands for, when HDF5 is about to open it, cannot redirect the writing."""
    spool = a_spool(tmp_path, target)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "shim.c").write_text(r"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <unistd.h>
        typedef long hid_t;
        typedef hid_t (*Create)(const char*, unsigned, hid_t, hid_t);
        hid_t H5Fcreate(const char* name, unsigned flags, hid_t a, hid_t b) {
          unlink(getenv("NAME"));
          symlink("victim", getenv("NAME"));
          return ((Create)dlsym(RTLD_NEXT, "H5Fcreate"))(name, flags, a, b);
        }""")
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    out = tmp_path / "out.h5"
    done = subprocess.run([REPLAY, "recover", spool, "-o", out], capture_output=True, text=True,
                          env=environment(LD_PRELOAD=shim, NAME=out))
    assert victim.read_text() == "precious"
    assert done.returncode == 2 and str(out) in done.stderr and done.stderr.count("\n") == 1


def test_ignored_signals_stay_ignored():
    program = [sys.executable, "-c", "import signal; print([signal.getsignal(s) is signal.SIG_IGN for s in (2, 3, 15, 1)])"]
    for ignored in ([], [2], [3], [15, 1], [1, 2, 3, 15]):
        def ignore(ignored=ignored):
            for number in (1, 2, 3, 15):
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        done = subprocess.run([RECORD, "--", *program], capture_output=True, text=True, env=environment(), preexec_fn=ignore)
        assert done.stdout == f"{[number in ignored for number in (2, 3, 15, 1)]}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_program(tmp_path, target, number):
    capture, session = tmp_path / "a.h5", tmp_path / "tmp"
    session.mkdir()
    command = target("""
        import time
        for seed in range(3): op.backward(make_inputs(**small, seed=seed))
        open(sys.argv[1], "w").close()
        time.sleep(60)
    """)
    process = subprocess.Popen([RECORD, "-o", capture, "--", *command, tmp_path / "ready"], stderr=subprocess.PIPE, text=True,
                               env=environment(TMPDIR=session))
    wait_until((tmp_path / "ready").exists)
    process.send_signal(number)
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 128 + number, err
    assert f"{capture}: 3 invocations" in err and len(read_capture(capture).invocations) == 3
    assert list(session.iterdir()) == []


def test_a_program_that_answers_the_signal():
    # Python would sleep to the end if the signal came after its last look for one, so the sleeps are short.
    program = """if True:
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
        print("ready", flush=True)
        while True: time.sleep(0.05)
    """
    process = subprocess.Popen([RECORD, "--", sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment())
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 9


def test_session_folders_of_killed_runs_are_removed(tmp_path):
    run = [RECORD, "-o", tmp_path / "a.h5", "--", sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(60)"]
    session = tmp_path / "tmp"
    session.mkdir()
    processes = []
    for _ in range(2):
        processes.append(subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                          env=environment(TMPDIR=session), start_new_session=True))
        assert processes[-1].stdout.readline() == "ready\n"
    mine = session / "msda-record-of-mine"
    mine.mkdir()
    assert len(list(session.iterdir())) == 3
    killed, running = processes
    killed.kill()
    killed.wait()
    record("/bin/true", options=["-o", tmp_path / "a.h5"], TMPDIR=session)
    assert mine in session.iterdir() and len(list(session.iterdir())) == 2  # and that of the one that runs
    running.terminate()
    running.wait()
    assert list(session.iterdir()) == [mine]
    os.killpg(killed.pid, signal.SIGKILL)


def result(done, capture, calls):
    """msda-record returned when the capture was complete, and said so."""
    assert done.returncode == 0 and said(done.stderr) == f"msda-record: {capture}: {calls} invocations\n"
    with h5py.File(capture) as file:
        assert len(file["invocations"]) == calls


@pytest.mark.parametrize("temporary", ["missing", "/dev/full"])
def test_without_a_folder_for_temporary_files(tmp_path, temporary):
    done = record(CLIENT, "plain", "300", options=["-o", tmp_path / "a.h5"], TMPDIR=tmp_path / temporary)
    result(done, tmp_path / "a.h5", 300)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_a_full_disk_for_temporary_files(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", full], capture_output=True).returncode != 0:
        pytest.skip("may not mount a file system")
    try:
        (full / "a").write_bytes(bytes(4096))
        done = record(CLIENT, "plain", "300", options=["-o", tmp_path / "a.h5"], TMPDIR=full)
    finally:
        subprocess.run(["umount", "-l", full], check=True)
    result(done, tmp_path / "a.h5", 300)


@pytest.mark.parametrize("when", ["before", "after"])
def test_somebody_removes_temporary_files(tmp_path, when):
    """As cleaners of /tmp do: before the program's first call, or while its writer writes."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    commands = [f"{CLIENT} plain 300", f"rm -r {temporary}/msda-record-*"]
    done = record("/bin/sh", "-c", "; ".join(commands if when == "after" else commands[::-1]), options=["-o", tmp_path / "a.h5"],
                  TMPDIR=temporary)
    result(done, tmp_path / "a.h5", 300)


def test_a_writer_that_ends_with_its_namespace(replay, tmp_path):
    """As that of a container's first process does: the line says how to get what was recorded."""
    if subprocess.run(["unshare", "-pf", "true"], capture_output=True).returncode != 0:
        pytest.skip("may not make a namespace")
    capture = tmp_path / "a.h5"
    done = record("unshare", "-pf", CLIENT, "plain", "3", options=["-o", capture])
    if "killed" in done.stderr:  # or it was quick enough; what it left of the capture is none
        assert said(done.stderr) == (f"msda-record: {capture}: its writer was killed; to get what was recorded: "
                                     f"msda-replay recover {capture}.spool -o FILE\n")
        replay("recover", f"{capture}.spool", "-o", capture, "--force", expect=0)
    with h5py.File(capture) as file:
        assert len(file["invocations"]) == 3


def test_the_output_is_beside_where_msda_record_was_started(tmp_path):
    folder = tmp_path / "50%pure"
    (folder / "sub").mkdir(parents=True)
    done = record("/bin/sh", "-c", f"cd sub; {CLIENT} plain 300", options=["-o", "a.h5"], cwd=folder)
    result(done, folder / "a.h5", 300)


def installed(folder):
    """msda-record and its library alone, in a folder of their own."""
    for path in (RECORD, PRELOAD):
        (folder / path.parent.name).mkdir(parents=True)
        shutil.copy(path, folder / path.parent.name)
    return folder / "bin" / "msda-record", folder / "lib" / "libmsda_record.so"


@pytest.mark.parametrize("name", ["in stall", "in:stall", "$LIB"])
def test_an_install_folder_that_ld_preload_cannot_hold(tmp_path, name):
    program, library = installed(tmp_path / name)
    capture, session = tmp_path / "a.h5", tmp_path / "tmp"
    session.mkdir()
    done = subprocess.run([program, "-o", capture, "--", "/bin/sh", "-c", f"cd / && exec {FLAKY} --seed 3"],
                          capture_output=True, text=True, cwd=tmp_path, env=environment(TMPDIR="tmp"))
    assert said(done.stderr) == f"msda-record: {capture}: 2 invocations\n"
    run = read_capture(capture).run
    assert not {"LD_PRELOAD", "CUDA_INJECTION64_PATH"} & set(run["environment"])
    assert run["libraries"]["libmsda_record.so"] == str(library)
    assert list(session.iterdir()) == [] and library.exists()


@pytest.mark.parametrize("temporary", ["t mp", "missing"])
def test_an_install_folder_without_a_path_that_ld_preload_can_hold(tmp_path, temporary):
    program, library = installed(tmp_path / "in stall")
    (tmp_path / "t mp").mkdir()
    done = subprocess.run([program, "-o", tmp_path / "t mp" / "a.h5", "--", "/bin/echo", "ran"], capture_output=True,
                          text=True, env=environment(TMPDIR=tmp_path / temporary))
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"msda-record: {library}: ") and "TMPDIR" in done.stderr
    assert list((tmp_path / "t mp").iterdir()) == []


def test_a_raw_clone_keeps_nobody_waiting(tmp_path, target):
    """It has the program's descriptors, the writer's socket among them, and outlives the program."""
    command = target("""
        op.backward(make_inputs(**small))
        libc = ctypes.CDLL(None)
        if libc.syscall(56, 17, 0, 0, 0, 0) == 0:  # clone, SIGCHLD
            libc.close(1), libc.close(2)
            libc.sleep(30)
            os._exit(0)
    """)
    begin = time.monotonic()
    done = record(*command, options=["-o", tmp_path / "a.h5"])
    assert time.monotonic() - begin < 20
    assert done.returncode == 0 and len(read_capture(tmp_path / "a.h5").invocations) == 1


def test_a_writer_that_was_killed(replay, tmp_path, target):
    capture, ready, go = tmp_path / "a.h5", tmp_path / "ready", tmp_path / "go"
    command = target("""
        import time
        op.backward(make_inputs(**small))
        open(sys.argv[1], "w").close()
        while not os.path.exists(sys.argv[2]): time.sleep(0.01)
        op.backward(make_inputs(**small, seed=3))
    """)
    process = subprocess.Popen([RECORD, "-o", capture, "--", *command, ready, go], stderr=subprocess.PIPE, text=True,
                               env=environment())
    wait_until(lambda: ready.exists() and capture.exists())
    (writer,) = writers_of(capture)
    os.kill(writer, signal.SIGKILL)
    wait_until(lambda: not writers_of(capture))
    go.touch()
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 0
    spool = f"{capture}.spool"
    assert f"msda-record: {capture}: its writer was killed; to get what was recorded: msda-replay recover {spool} -o FILE\n" in err
    assert "no call was recorded" not in err
    replay("recover", spool, "-o", tmp_path / "b.h5", expect=0)


MOMENTS = int(os.environ.get("MSDA_KILLS", "30"))


@pytest.mark.parametrize("keep", ["all", "last:2"])
def test_killed_at_random_moments_with_the_writer(tmp_path, target, keep):
    """MSDA_KILLS: how many times. What had returned is in the spool, or in a capture that is whole, whoever is killed
    first. A capture whose writer was killed while HDF5 wrote may be unreadable; then the spool is there."""
    command = target("""
        for seed in range(100000):
            op.backward(make_inputs(**small, seed=seed))
            os.write(1, b"x")
    """)
    rng = random.Random(3)
    for i in range(MOMENTS // 2):
        capture, recovered = tmp_path / f"{i}.h5", tmp_path / f"{i}.r.h5"
        spool, older = pathlib.Path(f"{capture}.spool"), processes()
        process = subprocess.Popen(command, stdout=subprocess.PIPE,
                                   env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_KEEP=keep))
        assert process.stdout.read(1) == b"x"
        time.sleep(rng.uniform(0, 0.1))
        victims = [process.pid, *writers_of(capture, older)]
        for victim in rng.sample(victims, len(victims)):
            os.kill(victim, signal.SIGKILL)
            time.sleep(rng.choice([0, 0, 0.002]))
        done = 1 + len(process.stdout.read())
        process.wait()
        wait_until(lambda capture=capture, older=older: not writers_of(capture, older))
        in_capture = calls_in(capture) if capture.exists() and not spool.exists() else []
        in_spool = []
        if spool.exists():
            finished = subprocess.run([REPLAY, "recover", spool, "-o", recovered], capture_output=True, text=True)
            assert finished.returncode in (0, 2), finished.stderr
            assert finished.returncode == 0 or "holds no complete invocation" in finished.stderr, finished.stderr
            in_spool = calls_in(recovered) if recovered.exists() else []
        found = len(set(in_capture) | set(in_spool))
        if keep == "all":
            assert found in (done, done + 1), (i, done, len(in_capture), len(in_spool))
        else:
            assert found >= min(2, done), (i, done, len(in_capture), len(in_spool))
        for path in tmp_path.glob(f"{i}.*"):
            path.unlink(missing_ok=True)  # a writer that had not begun when writers were looked for may remove its spool


def calls_in(capture):
    """What distinguishes the calls of a capture."""
    verified = subprocess.run([REPLAY, "verify", capture], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    with h5py.File(capture) as file:  # read_capture() reads all tensors of what may be hundreds of calls
        return [call["inputs/value"][()].tobytes() for call in file["invocations"].values()]


def processes():
    return {name for name in os.listdir("/proc") if name.isdigit()}


def writers_of(capture, older=frozenset()):
    """The processes that follow its spool. Those that were there before it need not be looked at, which may be many."""
    found = []
    for name in processes() - older:
        try:
            arguments = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--follow" in arguments and f"{capture}.spool".encode() in arguments:
            found.append(int(name))
    return found


@pytest.mark.parametrize("name, status, why", [("nosuch", 127, "No such file or directory"), ("./nosuch", 127, "No such file or directory"),
                                               (".", 126, "Permission denied"), ("/etc/passwd", 126, "Permission denied")])
def test_a_program_that_cannot_be_started(tmp_path, name, status, why):
    """One line, and a shell's exit status."""
    done = subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--", name], capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"msda-record: {name}: {why}\n") and os.listdir(tmp_path) == []


def test_a_program_of_the_current_folder_without_a_path(tmp_path):
    """execvp() looks there where PATH is empty, so msda-record does, too."""
    shutil.copy(shutil.which("true"), tmp_path / "program")
    done = subprocess.run([RECORD, "-o", "a.h5", "--", "program"], cwd=tmp_path, capture_output=True, text=True, env={**environment(), "PATH": ""})
    assert done.returncode == 0, done.stderr
