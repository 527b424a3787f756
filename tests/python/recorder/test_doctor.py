"""msda-replay doctor: what it says of the machine, and why a program's calls are not recorded; and mistyped commands."""

import json
import os
import re
import shlex
import shutil
import subprocess
import textwrap

import jsonschema
import pytest
from conftest import BUILD, REPLAY, SOURCE
from support.launches import CLIENT, TRITON
from support.recording import COMPLETE, FLAKY, RECORD, environment, pytestmark, target  # noqa: F401
from support.user_adapter import EXAMPLE

SCHEMA = json.loads((SOURCE / "docs" / "doctor.schema.json").read_text())
STAND_IN = BUILD / "stand_in"


def doctor(*arguments, program=REPLAY, **variables):
    """Runs it with --json; returns the exit status, the result, and the checks by name."""
    done = subprocess.run([program, "doctor", "--json", "-", *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=120,
                          env=environment(**variables))
    result = json.loads(done.stdout)
    jsonschema.validate(result, SCHEMA)
    assert done.returncode == (0 if result["ready"] else 1), done.stderr
    assert result["ready"] == all(check["status"] != "error" for check in result["checks"])
    return result, {check["name"]: check for check in result["checks"]}


def watched(*command, options=(), **variables):
    result, checks = doctor(*options, "--", *command, **variables)
    return checks["program"], result["program"]


def test_a_program_that_clears_the_environment(target):  # noqa: F811
    """The recorder is in env, and not in what env becomes."""
    done = subprocess.run([REPLAY, "doctor", "--", "env", "-i", *target("op.backward(make_inputs(**small))")], capture_output=True, text=True,
                          env=environment())
    text = " ".join(done.stdout.split())
    assert "the recorder was in" in text and "/env, and not in the program that this started in its place" in text
    assert "put msda-record behind what clears LD_PRELOAD" in text
    done = subprocess.run([REPLAY, "doctor", "--", "env", "true"], capture_output=True, text=True, env=environment())
    assert "called no function of libmsda" in " ".join(done.stdout.split())


def test_a_machine_that_can_record(replay, tmp_path):
    result, checks = doctor(TMPDIR=tmp_path, MSDA_RECORD_ADAPTERS="")
    assert result["ready"] and "program" not in result
    assert checks["recording"]["status"] == "ok" and checks["installation"]["status"] == "ok"
    version = subprocess.run([REPLAY, "--version"], capture_output=True, text=True).stdout
    assert checks["hdf5"]["summary"] == "HDF5 " + re.search("^HDF5: (.*)$", version, re.M)[1]
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize / 2**30
    line = [detail for detail in checks["disk"]["details"] if str(tmp_path) in detail][0]
    assert float(re.search(r"([\d.]+) GiB", line)[1]) == pytest.approx(free, rel=0.2)
    assert not list(tmp_path.iterdir())  # it leaves nothing
    text = replay("doctor", env=environment(), expect=0).out
    assert re.search(r"^\[ok\] +recording: a test call was recorded", text, re.M) and "keeps msda-record from" in text
    assert (checks["driver"]["status"] == "ok") != ("Without a GPU" in text)


def test_the_driver_and_cupti():
    """The stand-in's driver and CUPTI are found like NVIDIA's."""
    _, checks = doctor(LD_LIBRARY_PATH=STAND_IN)
    assert checks["driver"]["status"] == "ok" and "1 GPU" in checks["driver"]["summary"]
    assert re.fullmatch(r"cuda:0: .+, sm_\d+", checks["driver"]["details"][0])
    assert checks["cupti"]["summary"].startswith(str(STAND_IN.resolve())) or str(STAND_IN) in checks["cupti"]["summary"]


def test_kernels_for_gpus():
    """What doctor says: a libmsda with kernels, and one without; with no driver, one that can run them, and one that is older than they are."""
    version = subprocess.run([REPLAY, "--version"], capture_output=True, text=True).stdout
    built = re.search(r"^CUDA: built with (\d+)(.*)$", version, re.M)
    old = {"MSDA_STAND_IN_VERSION": f"{int(built[1]) - 1 if built else 12}080"}
    found = [doctor(**variables)[1]["libmsda"] for variables in ({}, {"LD_LIBRARY_PATH": STAND_IN}, {"LD_LIBRARY_PATH": STAND_IN, **old})]
    if built is None:
        assert all(check["status"] == "ok" and check["summary"].startswith("no kernels for GPUs") for check in found)
        assert [bool(check["remedy"]) for check in found][1:] == [True, True]
        return
    summary = f"kernels for GPUs, built with CUDA {built[1]}{built[2]}"
    assert [check["summary"] for check in found] == [summary, summary, f"{summary}, newer than the driver's {int(built[1]) - 1}.8"]
    assert [(check["status"], bool(check["remedy"])) for check in found] == [("ok", False), ("ok", False), ("warning", True)]
    assert doctor(LD_LIBRARY_PATH=STAND_IN, **old)[1]["driver"]["status"] == "ok"


def test_what_is_missing(tmp_path):
    """Programs without the library beside them; and no folder for temporary files."""
    (tmp_path / "bin").mkdir()
    for name in ("msda-replay", "msda-record"):
        shutil.copy(BUILD / "bin" / name, tmp_path / "bin")
    result, checks = doctor(program=tmp_path / "bin" / "msda-replay", LD_LIBRARY_PATH=BUILD / "lib")
    assert not result["ready"] and "libmsda_record.so is missing" in checks["installation"]["summary"]
    assert checks["recording"]["status"] == "error" and "libmsda_record.so" in checks["recording"]["summary"]
    result, checks = doctor(TMPDIR=tmp_path / "missing")
    assert not result["ready"] and checks["disk"]["status"] == "error" and "TMPDIR" in checks["disk"]["remedy"]


def test_limits():
    done = subprocess.run(["sh", "-c", f"ulimit -n 40; exec {REPLAY} doctor"], capture_output=True, text=True, env=environment())
    assert re.search(r"^\[warning\] limits: the limit on open files is low", done.stdout, re.M), done.stdout + done.stderr
    assert "ulimit -n" in done.stdout
    done = subprocess.run(["bash", "-c", f"ulimit -n 40; ulimit -v 8000000; exec {REPLAY} doctor"], capture_output=True, text=True,
                          env=environment())
    assert re.search(r"^\[warning\] limits: the limits on open files and address space are low", done.stdout, re.M), done.stdout + done.stderr
    assert "ulimit -v unlimited, or at least 8388608 (KiB" in " ".join(done.stdout.split())
    subprocess.run(["bash", "-c", "ulimit -v 8388608"], check=True)  # 8 GiB


def test_the_users_settings_are_not_the_machines(tmp_path):
    _, checks = doctor(TMPDIR=tmp_path, MSDA_RECORD_MAX_BYTES="10", MSDA_RECORD_KERNEL="(", MSDA_RECORD_ADAPTERS="")
    assert checks["recording"]["status"] == "ok", checks["recording"]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts need root")
def test_a_machine_without_proc_or_room(tmp_path):
    """As in some containers: /proc is not mounted, or the disk of temporary files is full."""
    def within(mounts, *command):
        return subprocess.run(["unshare", "-m", "sh", "-c", f"{mounts} && exec {shlex.join(map(str, command))}"], capture_output=True, text=True,
                              env=environment(TMPDIR=str(tmp_path)), timeout=120)

    if within("mount -t tmpfs none /proc", "true").returncode != 0:
        pytest.skip("this container may not mount")
    done = within("mount -t tmpfs none /proc", REPLAY, "doctor")
    assert re.search(r"^\[ok\] +installation: ", done.stdout, re.M) and "filesystem error" not in done.stderr, done.stdout + done.stderr
    assert re.search(r"^\[error\] +recording: /proc is not mounted.*\n +> mount it", done.stdout, re.M), done.stdout
    done = within("mount -t tmpfs none /proc", RECORD, "-o", tmp_path / "a.h5", "--", "true")
    assert done.returncode == 0 and "filesystem error" not in done.stderr, done.stderr
    full = f"mount -t tmpfs -o size=64k none {tmp_path} && dd if=/dev/zero of={tmp_path}/x bs=1k count=60 2>/dev/null"
    done = within(full, REPLAY, "doctor")
    assert re.search(rf"^\[error\] +recording: no room for temporary files in\s+{tmp_path}\n +> make room there", done.stdout, re.M), done.stdout


def test_a_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    done = subprocess.run(["sh", "-c", f"mkdir {gone} && cd {gone} && rmdir {gone} && exec {REPLAY} doctor"], capture_output=True, text=True,
                          env=environment())
    assert re.search(r"^\[error\] +disk: .*\n +current folder: No such file", done.stdout, re.M), done.stdout + done.stderr


def test_recording_that_cannot_start(tmp_path):
    folder = tmp_path / "goes"
    folder.mkdir()
    check, program = watched(RECORD, "-o", folder / "a.h5", "--", "sh", "-c", f"rmdir {folder} && exec {CLIENT} --kernel triton")
    assert check["status"] == "error" and check["summary"].startswith("recording could not start: "), check
    assert "nothing is recorded" in check["summary"] and program["kernels"][0]["fate"] == "matched"


@pytest.mark.parametrize("end, said", [(f"complete({'moved.h5'!r})", "are recorded (its exit status: 0)"),
                                       ("recorder.msda_record_discard()", "it discarded them")])
def test_a_program_that_ends_its_captures_itself(tmp_path, target, end, said):
    check, _ = watched(RECORD, "-o", tmp_path / "a.h5", "--", *target(f"os.chdir({str(tmp_path)!r})\n" + textwrap.dedent(COMPLETE) + f"call(1)\n{end}\n"))
    assert check["status"] == "ok" and said in check["summary"], check


def test_adapters_of_a_user(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(EXAMPLE))
    bad.write_text(json.dumps({**EXAMPLE, "version": 7}))
    result, _ = doctor("--adapter", good, MSDA_RECORD_ADAPTERS=bad)
    checks = [check for check in result["checks"] if check["name"] == "adapter"]
    assert [check["status"] for check in checks] == ["ok", "error"] and not result["ready"]
    assert EXAMPLE["adapters"][0]["name"] in checks[0]["summary"]
    assert str(bad) in checks[1]["summary"] and "version" in checks[1]["summary"]
    result, checks = doctor("--adapter", bad, "--", "touch", tmp_path / "ran")
    assert "was not run" in checks["program"]["summary"] and "program" not in result and not (tmp_path / "ran").exists()


def test_a_program_whose_calls_are_recorded(tmp_path):
    check, program = watched(FLAKY, "--seed", "3", TMPDIR=tmp_path)
    assert check["status"] == "ok" and program["captures"] == [{"invocations": 1, "error": ""}]
    assert [process["program"] for process in program["processes"]] == [str(FLAKY.resolve())]
    assert program["exit_status"] in (0, 1) and not program["processes"][0]["uses_cuda"]
    assert not list(tmp_path.iterdir())
    check, program = watched(CLIENT, "--kernel", "triton", "--seed", "3")
    assert check["status"] == "ok" and program["processes"][0]["uses_cuda"]
    assert {"name": TRITON, "fate": "matched", "adapter": "msda_triton"} in program["kernels"]


def test_a_kernel_that_no_adapter_knows():
    check, program = watched(CLIENT, "--kernel", "scale_add")
    assert check["status"] == "error" and "known to no adapter" in check["summary"] and "user-adapters.md" in check["remedy"]
    (kernel,) = program["kernels"]
    assert kernel == {"name": "_Z9scale_addi5ScalePKfPfPh", "fate": "unmatched", "adapter": ""}
    assert f"unknown: {kernel['name']}" in check["details"]


def test_a_kernel_that_is_left_out(tmp_path):
    """A command line of msda-record is watched as it is."""
    check, program = watched(RECORD, "-o", tmp_path / "a.h5", "--kernel", "other", "--", CLIENT, "--kernel", "triton")
    assert check["status"] == "error" and "--kernel leaves out" in check["summary"]
    assert program["kernels"] == [{"name": TRITON, "fate": "excluded", "adapter": ""}]
    check, program = watched(RECORD, "-o", tmp_path / "a.h5", "--", CLIENT, "--kernel", "triton")
    assert check["status"] == "ok" and (tmp_path / "a.h5").exists()


def test_launches_that_an_adapter_refuses(tmp_path):
    mine = json.loads(json.dumps(EXAMPLE))
    mine["adapters"][0]["conditions"].append("scale.columns == 6")
    (tmp_path / "mine.json").write_text(json.dumps(mine))
    check, program = watched(CLIENT, "--kernel", "scale_add", options=["--adapter", tmp_path / "mine.json"])
    assert check["status"] == "error"
    (refused,) = program["refused"]
    assert refused["kernel"] == "_Z9scale_addi5ScalePKfPfPh" and "scale.columns == 6" in refused["reasons"][0]
    assert any("scale.columns == 6" in detail for detail in check["details"])


def test_programs_that_the_recorder_is_not_loaded_into(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 3; }\n")
    static = tmp_path / "static"
    subprocess.run(["gcc", "-static", "-o", static, tmp_path / "a.c"], check=True)
    check, program = watched(static)
    assert "static program" in check["summary"] and program["exit_status"] == 3 and program["processes"] == []
    script = tmp_path / "script"
    script.write_text(f"#!{static} -x\n")
    script.chmod(0o755)
    assert f"{static} is a static program" in watched(script)[0]["summary"]
    another = tmp_path / "other"
    another.write_bytes(static.read_bytes()[:18] + b"\x16\x00" + static.read_bytes()[20:])  # S/390
    another.chmod(0o755)
    check, program = watched(another)
    assert "another architecture" in check["summary"] and program["exit_status"] != 3
    check, program = watched(tmp_path / "missing")
    assert "no such program" in check["summary"] and program["exit_status"] == 127
    assert watched(tmp_path)[0]["summary"] == f"{tmp_path} is a folder, and no program"
    if os.geteuid() == 0:
        changing = tmp_path / "changing"
        subprocess.run(["gcc", "-o", changing, tmp_path / "a.c"], check=True)
        shutil.chown(changing, user="nobody")
        changing.chmod(0o4755)
        check, program = watched(changing)
        if not program["processes"]:  # not where file systems ignore the right
            assert "changes its user" in check["summary"]


def test_a_program_without_calls():
    check, program = watched("sh", "-c", "echo out; echo err >&2; exit 7")
    assert check["status"] == "error" and "no CUDA driver" in check["summary"] and program["exit_status"] == 7
    assert len(program["processes"]) == 1
    command = [str(RECORD), "--kernel", "a b", "--", "sh", "-c", "exit 7"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    hint = done.stderr.splitlines()[-1]
    assert shlex.split(hint) == ["msda-record:", "next:", "msda-replay", "doctor", "--", *command]
    assert watched(*command)[1]["exit_status"] == 7


@pytest.mark.parametrize("arguments, meant", [
    (["rnu", "a.h5"], "run"), (["gradchek", "a.h5"], "gradcheck"), (["doctr"], "doctor"), (["stres", "x"], "stress"),
    (["run", "a.h5", "--tol", "1"], "--atol"), (["run", "a.h5", "--devise", "cpu"], "--device"), (["run", "a.h5", "--jsn=-"], "--json"),
    (["run", "a.h5", "--verbos"], "--verbose"), (["qqqqqq", "a.h5"], None), (["--versoin"], "--version"),
])
def test_mistyped_arguments(replay, arguments, meant):
    done = replay(*arguments, expect=2)
    wrong = next(word for word in arguments if word not in ("run", "a.h5")).split("=")[0]
    assert done.err.startswith(f"msda-replay: {wrong}: no such ") and done.err.count("\n") == 1
    assert (f"did you mean {meant}?" in done.err) if meant else ("did you mean" not in done.err)


@pytest.mark.parametrize("arguments, result", [
    (["help"], "help: no such command of msda-replay; did you mean --help?"),
    (["version"], "version: no such command of msda-replay; did you mean --version?"),
    (["RUN", "a.h5"], "RUN: no such command of msda-replay; did you mean run?"),
    ([__file__], f"{__file__}: no such command of msda-replay; did you mean msda-replay run {__file__}?"),
    ([], "give a command: run, list, show, stages, "), (["stages", "a.h5", "b.h5"], "b.h5: one argument more than stages takes"),
    (["run", "a.h5", "--color", "rainbow"], "--color rainbow: give one of auto,always,never"), (["run", "a.h5", "--mode", ""], "--mode: names no mode"),
    (["order", "a.h5", "--exhaustive", "99"], "--exhaustive 99: from 0 to 18"),
])
def test_commands_that_are_none(replay, arguments, result):
    assert replay(*arguments, expect=2).err.startswith(f"msda-replay: {result}")


def test_what_is_said_where_nothing_was_recorded(tmp_path):
    done = subprocess.run([RECORD, "-o", "a.%p.h5", "--", "sh", "-c", "exit 5"], capture_output=True, text=True, cwd=tmp_path, env=environment())
    assert f"half of what is free on the disk of {tmp_path};" in done.stderr
    assert "msda-record: next: see what the program says; its exit status is 5\n" in done.stderr
    assert done.stderr.endswith(f"next: msda-replay doctor -- {RECORD} -o a.%p.h5 -- sh -c 'exit 5'\n")


def test_flags_before_their_command(replay):
    refused = replay("--json", "-", "run", "a.h5", expect=2)
    assert refused.err == "msda-replay: --json: is a flag of run: give it behind that word (see --help)\n"


def test_the_help_names_what_is_recorded(replay):
    for program, flag in ((REPLAY, "--help"), (RECORD, "--help")):
        text = " ".join(subprocess.run([program, flag], capture_output=True, text=True).stdout.split())
        for operator in ("multi-scale deformable attention", "grid_sample", "scatter_add", "interpolate", "roi_align"):
            assert operator in text.split("Usage:")[0], (program, operator)


@pytest.mark.parametrize("flag, meant", [("--keeep", "--keep"), ("--ouput=a.h5", "--output"), ("--xyzxyz", None)])
def test_mistyped_flags_of_msda_record(tmp_path, flag, meant):
    done = subprocess.run([RECORD, flag, "--", "/bin/sh", "-c", "echo ran"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and f"{flag.split('=')[0]}: no such flag of msda-record" in done.stderr
    assert (f"did you mean {meant}?" in done.stderr) if meant else ("did you mean" not in done.stderr)
