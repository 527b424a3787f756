"""Programs that close descriptors, fork, limit themselves and die in odd ways: each behaves as without the recorder, and
every call that it finished is in the capture."""

import os
import signal
import subprocess
import time

import h5py
import pytest
from conftest import BUILD, REPLAY
from support.hostile import CLIENT, VFORK

from msda_replay import read_capture

RECORD, PRELOAD = BUILD / "bin" / "msda-record", BUILD / "lib" / "libmsda_record.so"


def environment(**more):
    return {name: value for name, value in os.environ.items() if not name.startswith("MSDA_RECORD_")} | more


def alone(folder, *arguments, **options):
    return subprocess.run([CLIENT, *map(str, arguments)], capture_output=True, text=True, cwd=folder, timeout=100,
                          env=environment(), **options)


def recorded(folder, *arguments, options=(), **more):
    """The program under msda-record, its capture folder/a.h5."""
    return subprocess.run([RECORD, "-o", folder / "a.h5", *options, "--", CLIENT, *map(str, arguments)],
                          capture_output=True, text=True, cwd=folder, timeout=100, env=environment(), **more)


def invocations(folder):
    assert subprocess.run([REPLAY, "verify", folder / "a.h5"], capture_output=True).returncode == 0
    return read_capture(folder / "a.h5").invocations


def count_invocations(folder, name="a.h5"):
    assert subprocess.run([REPLAY, "verify", folder / name], capture_output=True).returncode == 0
    with h5py.File(folder / name) as file:  # read_capture() reads their tensors, too, which takes seconds for a thousand
        return len(file["invocations"])


def folders(tmp_path):
    plain, under = tmp_path / "plain", tmp_path / "under"
    plain.mkdir()
    under.mkdir()
    return plain, under


@pytest.mark.parametrize("arguments, calls", [
    (["plain"], 20),
    (["closes_descriptors"], 6),
    (["closes_descriptors_alone"], 6),
    (["reuses_descriptors_as_sockets"], 6),
    (["closes_standard_streams", 1], 6),
    (["closes_standard_streams", 2], 6),
    (["closes_standard_streams", 0, 1, 2], 6),
    (["starts_a_program_that_is_not_there"], 3),
    (["counts_children"], 1),
    (["is_interrupted"], 1000),
    (["tells_ignored_signals"], 1),
    (["varies_options"], 6),
    (["fails_first"], 1),
    (["comes_back"], 2),
    (["ends", "quick_exit"], 3),
    (["ends", "exit_group"], 3),
    (["ends", "_Exit"], 3),
], ids=lambda value: "-".join(map(str, value)) if isinstance(value, list) else "")
def test_is_as_without_the_recorder_and_whole(tmp_path, arguments, calls):
    plain, under = folders(tmp_path)
    expected, done = alone(plain, *arguments), recorded(under, *arguments)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr
    assert count_invocations(under) == calls, done.stderr
    left = {path.name for path in under.iterdir()} - {path.name for path in plain.iterdir()}
    assert left == {"a.h5"}
    for path in plain.iterdir():
        assert path.read_bytes() == (under / path.name).read_bytes()


@pytest.mark.parametrize("limit", [1, 100, 4096, 20000])
def test_a_limit_on_file_sizes(tmp_path, limit):
    """Too small for a spool, for the memory shared with the writer, for the capture: never a signal."""
    done = recorded(tmp_path, "limits_file_sizes", limit)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_limit_on_descriptors(tmp_path):
    done = recorded(tmp_path, "limits_descriptors")
    assert done.returncode == 0 and "Too many open files; nothing is recorded" in done.stderr


def test_no_descriptor_is_left_for_the_spool(tmp_path):
    done = recorded(tmp_path, "uses_all_descriptors")
    assert done.returncode == 0 and count_invocations(tmp_path) == 1, done.stderr
    assert "a.h5.spool: the program closed it, and has no descriptor left to open it with (ulimit -n); recording ends here" in done.stderr


@pytest.mark.long
def test_exits_from_a_signal_handler_at_40_moments(tmp_path):
    for i in range(40):
        capture = tmp_path / f"{i}.h5"
        done = subprocess.run([RECORD, "-o", capture, "--", CLIENT, "exits_from_a_handler", str(20000 + 777 * i)],
                              capture_output=True, text=True, timeout=20, env=environment())
        assert done.returncode == 7, done.stderr


def test_a_vfork_child_before_anything_is_recorded(tmp_path):
    done = subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--", CLIENT, "plain"], capture_output=True, text=True,
                          env=environment(LD_PRELOAD=str(VFORK)))
    assert done.returncode == 0
    assert count_invocations(tmp_path) == 20


def test_a_copy_that_no_fork_made_is_left_alone(tmp_path):
    start = time.monotonic()
    # No pipe: the copy would keep it open.
    done = subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--", CLIENT, "clones_itself", "20"], cwd=tmp_path, timeout=100,
                          env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert done.returncode == 0 and time.monotonic() - start < 15, "the recorder waits for a copy of the program"
    assert count_invocations(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5"}


def test_forks_amidst_calls(tmp_path):
    done = recorded(tmp_path, "forks_amidst_calls", 40, options=["--keep", "last:4"])
    assert (done.returncode, done.stdout) == (0, "failed 0\n"), done.stderr
    # A child that is forked before the program's own first call is recorded may be the first to record: then a.h5 is its.
    assert sorted(count_invocations(tmp_path, path.name) for path in tmp_path.glob("*.h5")) == 40 * [1] + [4]
    assert (tmp_path / "a.h5").exists()


def test_no_lock_of_a_static_local_survives_a_fork():
    """A static local that is made at run time has a lock, which stays locked in a child that is forked meanwhile. Those of each thread
    have none, and <regex> never makes the one that it has for another grammar than ours."""
    symbols = subprocess.run(["nm", "-C", PRELOAD], capture_output=True, text=True, check=True).stdout
    guarded = [line.split("guard variable for ")[1] for line in symbols.splitlines() if "guard variable for " in line]
    assert guarded, "nm shows no symbols"
    per_thread = ("float_type_of", "digest_of_zeros", "label_of_thread")
    assert not [name for name in guarded if "::_AnyMatcher<" not in name and not any(function in name for function in per_thread)]


@pytest.mark.parametrize("pattern", [480 * "a" + "|msda", 120 * "(a?" + 120 * ")" + "|msda"], ids=["long", "nested"])
def test_patterns_take_no_stack_of_the_program(tmp_path, pattern):
    done = recorded(tmp_path, "has_little_stack", options=["--kernel", pattern])
    assert done.returncode == 0, done.stderr
    assert count_invocations(tmp_path) == 1


def compiled(folder, name, source, *flags):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-w", "-o", folder / name, folder / f"{name}.c", *flags], check=True)
    return folder / name


def test_a_debugger_is_told_of_no_process_that_is_not_the_programs(tmp_path):
    """It would take the writer for a thread, and the writer's exec for the program's; or follow it, and leave the program."""
    debugger = compiled(tmp_path, "debugger", """
        #include <stdio.h>
        #include <sys/ptrace.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int count, char** arguments) {
          int status, program = fork();
          if (program == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); execv(arguments[1], arguments + 1); return 9; }
          waitpid(program, &status, 0);
          ptrace(PTRACE_SETOPTIONS, program, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC);
          for (int stopped = program;; stopped = waitpid(-1, &status, __WALL)) {
            if (stopped < 0) return 8;
            if (stopped == program && WIFEXITED(status)) return WEXITSTATUS(status);
            unsigned long fresh = 0;
            char thread[99];
            ptrace(PTRACE_GETEVENTMSG, stopped, 0, &fresh);
            sprintf(thread, "/proc/%d/task/%lu", program, fresh);
            if (status >> 16 && access(thread, F_OK)) printf("event %d: %lu\\n", status >> 16, fresh);
            ptrace(PTRACE_CONT, stopped, 0, 0);
          }
        }""")
    done = subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--", debugger, CLIENT, "plain"], capture_output=True, text=True,
                          timeout=100, env=environment())
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert count_invocations(tmp_path) == 20


def test_a_library_that_is_unloaded_and_loaded_elsewhere(tmp_path):
    """One that is not ours, and that the C library would unmap. It has a function of ours, which the program finds without a handle."""
    library = compiled(tmp_path, "library.so", "int msda_backward() { return 7; }", "-shared", "-fPIC")
    program = compiled(tmp_path, "program", """
        #include <dlfcn.h>
        #include <stdio.h>
        #include <sys/mman.h>
        int main(int count, char** arguments) {
          for (int round = 0; round < 3; ++round) {
            void* library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
            int (*function)(void*, void*, void*, void*, void*, void*) = dlsym(RTLD_DEFAULT, "msda_backward");
            printf("%d\\n", function(0, 0, 0, 0, 0, 0));
            Dl_info at;
            dladdr(dlsym(library, "msda_backward"), &at);
            dlclose(library);
            for (long page = -32; page < 32; ++page)
              mmap((char*)at.dli_fbase + page * 4096, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
          }
        }""", "-ldl")
    done = subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--", program, library], capture_output=True, text=True,
                          timeout=100, env=environment())
    assert (done.returncode, done.stdout) == (0, "7\n7\n7\n"), done.stderr


def test_ignored_signals_stay_ignored(tmp_path):
    ignored = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP}
    ignore = lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored]  # noqa: E731
    plain, under = folders(tmp_path)
    expected = alone(plain, "tells_ignored_signals", preexec_fn=ignore)
    done = recorded(under, "tells_ignored_signals", preexec_fn=ignore)
    assert expected.stdout.startswith("1 1 1 1 ") and done.stdout == expected.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_program(tmp_path, number):
    process = subprocess.Popen([RECORD, "-o", tmp_path / "a.h5", "--", CLIENT, "waits_for_a_signal"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.wait(timeout=20) == 40 + number
    process.communicate()
    assert count_invocations(tmp_path) == 4


def test_calls_that_ask_for_something_else_are_no_repetitions(tmp_path):
    recorded(tmp_path, "varies_options")
    calls = invocations(tmp_path)
    assert [call.facts["mode"] for call in calls] == ["deterministic", "atomic", "atomic", "mixed", "mixed", "deterministic"]
    assert [call.facts.get("seed") for call in calls] == [None, 0, 1, None, None, None]
    assert [call.facts.get("float64_stages") for call in calls] == [None, None, None, 0, 256, None]
    assert all((call.facts["duplicates"], call.facts["distinct_outputs"]) == (1, 1) for call in calls)


def test_keeps_the_last_call_though_it_came_before(tmp_path):
    recorded(tmp_path, "comes_back", options=["--keep", "last:1"])
    (call,) = invocations(tmp_path)
    assert (call.inputs["value"] == 1).all()


@pytest.mark.long
def test_killed_at_random_moments(tmp_path, rng):
    """As often as MSDA_KILLS says: every call that had returned is in the capture."""
    for i in range(int(os.environ.get("MSDA_KILLS", 20))):
        capture = tmp_path / f"{i}.h5"
        process = subprocess.Popen([RECORD, "-o", capture, "--", CLIENT, "runs_long", "1000000"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True)
        time.sleep(rng.uniform(0.02, 0.3))
        kill = ["pkill", "-KILL", "-s", str(process.pid), "-x", "hostile_client"]
        while subprocess.run(kill, check=False).returncode != 0 and process.poll() is None:
            time.sleep(0.01)  # on a busy machine it has not begun yet
        out, err = process.communicate(timeout=60)
        returned = out.count("\n")
        if returned == 0:
            continue
        if not capture.exists():  # its writer, which was the program's copy until a moment ago, was killed with it
            subprocess.run([REPLAY, "recover", f"{capture}.spool", "-o", capture], check=True, capture_output=True)
        whole = count_invocations(tmp_path, capture.name)
        assert returned <= whole <= returned + 1, err
        capture.unlink()
