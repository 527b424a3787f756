"""What the benchmarks share: options, programs and clients that are run, tables, figures, and how a benchmark ends.

A benchmark ends with exit status 1 if something failed, or a promise was missed and --assert is given; with 77 if there is nothing to
measure with."""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


class Skip(Exception):
    """There is nothing to measure with here."""


class Failed(Exception):
    """A run cannot be started, or failed."""


# Options


def listed(known, or_none=False):
    """Returns an argparse type: some of `known`, separated by commas, or "none"."""
    by_text = {str(name): name for name in known}

    def parse(argument):
        texts = [] if or_none and argument == "none" else argument.split(",")
        for text in texts:
            if text not in by_text:
                raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(by_text)}")
        return [by_text[text] for text in dict.fromkeys(texts)]

    return parse


def numbers(argument):
    return [at_least(1)(text) for text in dict.fromkeys(argument.split(","))]


def at_least(least):
    """Returns an argparse type."""
    def parse(argument):
        if not argument.isdecimal() or int(argument) < least:
            raise argparse.ArgumentTypeError(f"'{argument}': a number from {least} on")
        return int(argument)

    return parse


class Options(argparse.ArgumentParser):
    def __init__(self, what):
        super().__init__(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)

    def add_build(self, *programs, default="build"):
        """Adds --build, in which these programs have to be."""
        self.programs = programs
        self.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("MSDA_BUILD", default)), metavar="DIR",
                          help=f"default {default}")

    def add_library(self):
        default = pathlib.Path(os.environ.get("MSDA_BUILD", "build")) / "lib" / "libmsda.so"
        self.add_argument("--library", type=pathlib.Path, default=default, help="default build/lib/libmsda.so")

    def add_client(self, client=None):
        """Adds --python and --limit, and --client if another one may be named."""
        self.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="that runs the client; default this one")
        self.add_argument("--limit", type=float, default=300, metavar="S", help="for one process (300)")
        if client:
            self.add_argument("--client", type=pathlib.Path, default=client, metavar="FILE", help="another client that prints the same line")

    def add_outcome(self):
        self.add_argument("--assert", dest="asserts", action="store_true", help="exit status 1 if a promise is missed")
        self.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures; written anew after each")

    def need(self, path, remedy):
        if not path.is_file():
            self.error(f"no file {path}: {remedy}")

    def parse_args(self, arguments=None):
        chosen = super().parse_args(arguments)
        if "build" in chosen:
            for program in self.programs:
                self.need(chosen.build / "bin" / program, "build it, or name the build folder with --build")
            chosen.build = chosen.build.absolute()
        return chosen


# Programs


def finish(command, limit, variables=None):
    """Returns (exit status, stdout, stderr) of a program that is not recorded. What runs longer than `limit` seconds is ended with
    its children."""
    surroundings = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("MSDA_RECORD_")}
    surroundings.update(variables or {})
    command = [str(part) for part in command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               env=surroundings, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"{' '.join(command)}: not done after {limit:g} s") from None
        raise
    return process.returncode, out, err


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def run_client(command, what, limit, variables=None):
    """Returns the JSON that a client prints last, the seconds of its process, and its last message. `what`: the run, for messages."""
    begin = time.perf_counter()
    status, out, err = finish(command, limit, variables)
    seconds = time.perf_counter() - begin
    if status == SKIPPED:
        raise Skip(f"{what}: {last_line(err)}")
    if status != 0:
        raise Failed(f"{what}: exit status {status}: " + (" / ".join(err.strip().splitlines()[-4:]) or "it said nothing"))
    try:
        return json.loads(last_line(out)), seconds, last_line(err)
    except ValueError:
        raise Failed(f"{what}: the client's last line is no JSON: {last_line(out)[:200]}") from None


def measure_process(command):
    """Returns the wall seconds, peak memory in bytes and exit status of a program whose output nobody reads."""
    command, begin = [str(part) for part in command], time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(process, 0)
    return time.perf_counter() - begin, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def pytorch(purpose):
    try:
        import torch
    except ImportError:
        raise Skip(f"PyTorch is not installed here: nothing to {purpose} with") from None
    return torch


# Figures


def summary(times):
    """Returns the median and quartiles."""
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else 3 * list(times)
    return {"median": middle, "q1": low, "q3": high, "runs": len(times)}


def shown(figure):
    return "" if figure is None else f"{figure:.2f}"


def line(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table(header, rows=()):
    """Returns a table in Markdown; without rows its first lines."""
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def described(machine):
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def write_json(path, value):
    """Replaces a file, if there is a path: complete whenever the run is interrupted."""
    if path:
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(value, indent=1) + "\n")
        part.replace(path)


def progress(text):
    print(text, file=sys.stderr, flush=True)


def ended(name, measure):
    """Prints what failed, which `measure` returns, and returns the exit status of the benchmark."""
    try:
        failures = measure()
    except Skip as why:
        print(f"{name}: {why}")
        return SKIPPED
    except Failed as why:
        failures = [why]
    for failure in failures:
        progress(f"{name}: {failure}")
    return int(bool(failures))
