"""The whole files that are damaged: captures of all operators, states of `minimize` and `stress`, spools of killed recordings."""

import json
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from campaign import captures, cases
from campaign.subjects import SUBJECTS

SOURCE = Path(__file__).resolve().parents[2]
DRAWN = 30  # captures of each operator, as campaign.py draws them
SMALL_BYTES = 30_000
MOST_STATES = 6  # of each command
STRESS = ("--curve-runs", "0", "--threads", "1")
# A recorded program that is killed, as its writer is. Only msda has a C ABI whose calls are recorded on a CPU.
PROGRAM = """
import ctypes, os, sys
import numpy as np
from msda_replay import cpu
ctypes.CDLL(None).srand(7)
rng = np.random.default_rng(1)
for number, dtype in enumerate(sys.argv[1:]):
    def draw(*shape): return rng.standard_normal(shape).astype(dtype)
    call = [draw(1, 16, 2, 4), np.array([[3, 4], [2, 2]]), rng.random((1, 5, 2, 2, 2, 2)).astype(dtype), draw(1, 5, 2, 2, 2), draw(1, 5, 2, 4)]
    for _ in range(2):
        cpu.backward(*call, dialect=("msda_triton", "deformable_detr", "grid_sample")[number % 3], padding_mode=("border", "zeros")[number % 2])
os.kill(os.getpid(), 9)
"""
# Launches, where the build has the driver that stands in for a GPU's.
LAUNCHES = {"col2im": ["--kernel", "col2im17"], "triton": ["--kernel", "triton", "--launches", "2"], "double": ["--kernel", "col2im17", "--double"]}


@dataclass
class Seeds:
    """Lists of files; a state has beside it the capture that it is of, and begins with the name of the command that reads it."""

    captures: list
    states: list
    spools: list


def _stored(folder):
    """The captures that the project keeps."""
    for path in sorted([*(SOURCE / "docs" / "findings").glob("*.h5"), *(SOURCE / "tests" / "data").rglob("*.h5*")]):
        target = folder / f"{path.parent.name}-{path.name.removesuffix('.xz')}"
        target.write_bytes(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())


def _cost(replay, capture):
    """Returns the seconds of a processor that `run` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([replay, "run", capture, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _drawn(replay, folder, seed):
    """Small captures without digests, of every operator, type and convention: of twice as many those that are cheaper to judge."""
    for operator, subject in SUBJECTS.items():
        costs, number = {}, 0
        while len(costs) < 2 * DRAWN:
            with np.errstate(all="ignore"):
                case = cases.draw(seed, number, None, subject)
            target = folder / f"drawn-{operator}-{number}.h5"
            captures.write(target, case)
            number += 1
            if target.stat().st_size > SMALL_BYTES:
                target.unlink()
            else:
                costs[target] = _cost(replay, target)
        for dear in sorted(costs, key=costs.get)[DRAWN:]:
            dear.unlink()


SURVEY = {
    "_Z3sumPfPKfi": {"launches": 5, "surveyed": 5, "varied": 4, "first_varied": 2, "float_atomics": 1, "may_communicate": 0, "twin_replaced": 1,
                     "twin_left": 0, "twin_trials": 4, "twin_equal": 4, "twin_refused": 0, "most_words": 7, "most_bytes": 4096,
                     "evidence_type": "f32", "evidence_addresses": 7, "evidence_additions": 100, "evidence_most_additions": 30,
                     "evidence_launches": 4, "evidence_differing": 9, "evidence_exceeding": 1, "evidence_difference": 1e-5,
                     "evidence_bound": 1e-4, "evidence_share": 1.5, "evidence_greatest_addend": 3.0,
                     "lines_of_additions": "RED\t2\t/inner.cuh:7\t/outer.cu:12\nATOMG\t1\t/outer.cu:15\n"},
    "scan": {"launches": 3, "surveyed": 2, "varied": 1, "float_atomics": 0, "may_communicate": 1, "strong_loads": 2, "not_surveyed_busy": 1,
             "lines_of_communication": "strong_loads\t2\t/scan.cuh:3\n"},
    "nccl": {"launches": 2, "not_surveyed_collective": 2},
}


def _surveyed(folder):
    """Surveys, which only a GPU makes, or the driver that stands in for it: beside the calls of small captures."""
    for number, source in enumerate(sorted(folder.glob("drawn-*.h5"), key=lambda path: path.stat().st_size)[:4]):
        target = folder / f"drawn-survey-{number}.h5"
        shutil.copy(source, target)
        with h5py.File(target, "r+") as file:
            for place, (kernel, facts) in enumerate(SURVEY.items()):
                group = file.create_group(f"survey/{place:06}")
                group.attrs.update({"kernel": kernel, "node": "SumBackward0"})
                group.attrs.update({name: np.int64(fact) if isinstance(fact, int) else fact for name, fact in facts.items()})


def _recorded(build, output):
    """Returns the environment of a program that is recorded, whose writer does nothing. A sanitizer's library comes first, whoever loads
    it."""
    recorder = build / "lib" / "libmsda_record.so"
    linked = subprocess.run(["ldd", recorder], capture_output=True, text=True, check=True).stdout
    sanitizers = [line.split()[2] for line in linked.splitlines() if "libasan" in line or "libubsan" in line]
    return {**os.environ, "LD_PRELOAD": " ".join([*sanitizers, str(recorder)]), "ASAN_OPTIONS": "detect_leaks=0", "MSDA_BUILD": str(build),
            "PYTHONPATH": str(SOURCE / "tools" / "python"), "MSDA_RECORD_WRITER": "/bin/true", "MSDA_RECORD_OUTPUT": str(output)}


def _spools(build, folder):
    client = build / "stand_in" / "stand_in_client"
    programs = {types[0]: [sys.executable, "-c", PROGRAM, *types] for types in (["float32"], ["float64", "float32"])}
    programs |= {name: [client, *arguments] for name, arguments in LAUNCHES.items() if client.exists()}
    for name, command in programs.items():
        done = subprocess.run(command, env=_recorded(build, folder / f"{name}.h5"), capture_output=True, text=True, check=False)
        assert (folder / f"{name}.h5.spool").is_file(), f"{command[0]}: nothing was recorded: {done.stderr}"


def _recovered(build, spools, folder):
    """Captures with stages and a list of contents."""
    for spool in sorted(spools.glob("*.spool")):
        for stages in ("summary", "full"):
            target = folder / f"recovered-{stages}-{spool.name.split('.')[0]}.h5"
            subprocess.run([build / "bin" / "msda-replay", "recover", spool, "-o", target, "--stages", stages], check=True, stdout=subprocess.DEVNULL)


def _minimize_state(replay, capture, target):
    """Kills a search when it has written its state. Returns whether it lasted that long."""
    output = target.with_suffix(".h5")
    state = Path(f"{output}.state")
    process = subprocess.Popen([replay, "minimize", capture, "-o", output, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not state.exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    output.unlink(missing_ok=True)
    return state.exists() and state.rename(target)


def _stress_state(replay, capture, target, flag="--state"):
    done = subprocess.run([replay, "stress", capture, *STRESS, "--runs", "3", flag, target], capture_output=True, check=False)
    return done.returncode in (0, 1) and target.exists()


def _stress_result(replay, capture, target):
    return _stress_state(replay, capture, target, "--json")


def _states(build, files, folder):
    for name, make in (("minimize", _minimize_state), ("stress", _stress_state), ("report", _stress_result)):
        made = 0
        operators = set()
        for capture in files:
            operator = capture.name.split("-")[1] if capture.name.startswith("drawn") else "stored"
            if made == MOST_STATES:
                break
            if operator not in operators and make(build / "bin" / "msda-replay", capture, folder / f"{name}-{made}.state"):
                shutil.copy(capture, folder / f"{name}-{made}.h5")
                operators.add(operator)
                made += 1


def make(build, folder, seed):
    """Makes the seeds in an empty folder."""
    for name in ("captures", "states", "spools"):
        (folder / name).mkdir(parents=True)
    _stored(folder / "captures")
    _drawn(build / "bin" / "msda-replay", folder / "captures", seed)
    _surveyed(folder / "captures")
    _spools(build, folder / "spools")
    _recovered(build, folder / "spools", folder / "captures")
    _states(build, sorted((folder / "captures").iterdir(), key=lambda path: path.stat().st_size), folder / "states")
    (folder / "made.json").write_text(json.dumps({"seed": seed}))


def take(folder):
    """Returns the seeds in a folder."""
    def files(name, pattern):
        found = sorted((folder / name).glob(pattern))
        assert found, f"{folder / name}: holds none"
        return found

    return Seeds(files("captures", "*.h5"), files("states", "*.state"), files("spools", "*.spool"))
