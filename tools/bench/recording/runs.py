"""Runs the client, with and without the recorder, and measures the disk that takes the captures."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

SKIPPED = 77
# Arguments of msda-record by mode; None: the client alone.
MODES = {"plain": None, "default": [], "last:2": ["--keep", "last:2"], "digest-only": ["--digest-only"], "all": ["--keep", "all"]}
# The bytes that a step is assumed to write until a run has shown how many.
STEP_BYTES = 1 << 30
BLOCK = 16 << 20


class Skip(Exception):
    """There is nothing to measure with here."""


class Failed(Exception):
    """A run cannot be started, or failed."""


class Client:
    """The measured program: a command line that ends with a model's name and a number of steps."""

    def __init__(self, command, record, limit):
        self.command, self.record, self.limit = [*map(str, command)], str(record), limit

    def run(self, model, steps, mode, output_dir):
        """Returns one run as a dictionary: seconds, the client's own line, and what is in the capture. Removes the capture."""
        with tempfile.TemporaryDirectory(prefix="recording_cost.", dir=output_dir) as folder:
            arguments, begin = MODES[mode], time.perf_counter()
            recorder = [] if arguments is None else [self.record, "-o", os.path.join(folder, "capture.h5"), *arguments, "--"]
            status, out, err = finish([*recorder, *self.command, model, str(steps)], self.limit)
            seconds = time.perf_counter() - begin
            if status == SKIPPED:
                raise Skip(last_line(err))
            if status != 0:
                raise Failed(f"{model}, {steps} steps, {mode}: exit status {status}: {tail(err)}")
            run = {"model": model, "steps": steps, "mode": mode, "seconds": seconds, "client": client_line(out)}
            kernel = run["client"].get("kernel", "")
            return run if arguments is None else {**run, **captured(folder, kernel), "said": last_line(err)}


def finish(command, limit, more=None):
    """Returns (exit status, stdout, stderr). A program that runs longer than `limit` seconds is ended with its children. `more`:
    variables."""
    surroundings = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("MSDA_RECORD_")}
    surroundings.update(more or {})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               env=surroundings, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"{' '.join(command)}: not done after {limit} s") from None
        raise
    return process.returncode, out, err


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def tail(text):
    """Returns the last messages of a failed program and the recorder, on one line."""
    return " / ".join(text.strip().splitlines()[-4:]) or "it said nothing"


def client_line(out):
    try:
        found = json.loads(last_line(out))
        missing = {"calls", "losses", "stable", "sketch", "step_seconds"} - set(found)
    except (ValueError, TypeError):
        raise Failed(f"the client's last line is no JSON: {last_line(out)[:200]}") from None
    if missing:
        raise Failed(f"the client's line has no {', '.join(sorted(missing))}")
    return found


def captured(folder, kernel=""):
    """Returns the bytes on the disk, and how many calls the captures hold and count; of these, those of other kernels than the client
    counts."""
    import h5py  # here, because it loads slowly and only measurements need it

    files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    recorded = counted = others = 0
    for path in files:
        if path.suffix != ".h5":
            raise Failed(f"{path.name} is left beside the capture: it was not finished")
        with h5py.File(path, "r") as file:
            for one in file["invocations"].values():
                duplicates = int(one.attrs.get("duplicates", 0))
                recorded, counted = recorded + 1, counted + duplicates
                others += 0 if kernel in one.attrs.get("kernel", "") else 1 + duplicates
    return {"bytes": sum(path.stat().st_size for path in files), "recorded": recorded, "duplicates": counted, "others": others}


def write_speed(output_dir, size):
    """Returns the bytes a second of one sequential file of `size` bytes, until they are on the disk."""
    block = memoryview(os.urandom(BLOCK))
    with tempfile.NamedTemporaryFile(prefix="recording_cost.", dir=output_dir, buffering=0) as file:
        begin = time.perf_counter()
        left = size
        while left > 0:
            left -= file.write(block[:min(left, BLOCK)])
        os.fsync(file.fileno())
        return size / (time.perf_counter() - begin)


def check_room(output_dir, needed):
    free = shutil.disk_usage(output_dir).free
    if free < needed:
        raise Failed(f"{output_dir} has {free / 1e9:.1f} GB free, a run may need {needed / 1e9:.1f}: name another folder with --output-dir")


def schedule(chosen):
    """Yields (round, model, steps, modes in the order of their turns), the same each time.

    Each round has its own order; in a fixed order the same modes would always follow the runs that write the most.
    Round -1 is not counted: one plain run of each model, which reads everything from the disk for the first time.
    """
    for model in chosen.models:
        yield -1, model, chosen.steps[0], ["plain"]
    for turn in range(chosen.rounds):
        for model in chosen.models:
            for steps in chosen.steps:
                order = random.Random(f"{model} {steps} {turn}")
                yield turn, model, steps, order.sample(chosen.modes, len(chosen.modes))


def measure(client, chosen, keep):
    """Makes all runs; `keep` gets each as a dictionary as soon as it has ended.

    Before a run begins, the disk finishes the writes of the previous one. After --seconds no more turns begin.
    """
    begin, largest = time.monotonic(), {}
    for turn, model, steps, modes in schedule(chosen):
        for mode in modes if not chosen.seconds or time.monotonic() - begin < chosen.seconds else []:
            needed = 0 if mode == "plain" else 1.1 * largest.get((model, steps), STEP_BYTES * steps)
            check_room(chosen.output_dir, needed)
            os.sync()
            run = {"round": turn, **client.run(model, steps, mode, chosen.output_dir)}
            if mode == "all":
                largest[model, steps] = run["bytes"]
                os.sync()
                run["disk"] = write_speed(chosen.output_dir, run["bytes"])
            keep(run)
