"""Runs the client, with and without the recorder, and measures the disk that takes the captures."""

import os
import pathlib
import random
import shutil
import tempfile
import time

from harness import Failed, run_client

# Arguments of msda-record by mode; None: the client alone.
MODES = {"plain": None, "default": [], "last:2": ["--keep", "last:2"], "digest-only": ["--digest-only"], "all": ["--keep", "all"]}
# The bytes that a step is assumed to write until a run has shown how many.
STEP_BYTES = 1 << 30
BLOCK = 16 << 20


class Client:
    """The measured program: a command line that ends with a model's name and --steps with their number."""

    def __init__(self, command, record, limit):
        self.command, self.record, self.limit = command, record, limit

    def run(self, model, steps, mode, output_dir):
        """Returns one run as a dictionary: seconds, the client's own line, and what is in the capture. Removes the capture."""
        with tempfile.TemporaryDirectory(prefix="recording_cost.", dir=output_dir) as folder:
            arguments = MODES[mode]
            recorder = [] if arguments is None else [self.record, "-o", os.path.join(folder, "capture.h5"), *arguments, "--"]
            what = f"{model}, {steps} steps, {mode}"
            client, seconds, message = run_client([*recorder, *self.command, model, "--steps", steps], what, self.limit)
            if missing := {"calls", "losses", "stable", "sketch", "step_seconds"} - set(client):
                raise Failed(f"the client's line has no {', '.join(sorted(missing))}")
            run = {"model": model, "steps": steps, "mode": mode, "seconds": seconds, "client": client}
            return run if arguments is None else {**run, **captured(folder, client.get("kernel", "")), "said": message}


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
            for invocation in file["invocations"].values():
                duplicates = int(invocation.attrs.get("duplicates", 0))
                recorded, counted = recorded + 1, counted + duplicates
                others += 0 if kernel in invocation.attrs.get("kernel", "") else 1 + duplicates
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
