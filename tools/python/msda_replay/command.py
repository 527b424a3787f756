"""Runs the command msda-replay."""

import html
import json
import os
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from .programs import find_program
from .results import RunResult

_NAME = "msda-replay"
Path = Union[str, os.PathLike[str]]


class CommandError(Exception):
    """msda-replay could not do it. The text is the command's own message; `status` its exit status: 2 for bad usage or bad
    input, 3 for a mode or device that is unavailable here, negative for a signal, None if the command was not found."""

    def __init__(self, message: str, status: Optional[int] = None, command: Sequence[str] = ()):
        super().__init__(message)
        self.status = status
        self.command = list(command)


def find_command() -> str:
    """Returns the path of msda-replay: MSDA_REPLAY, or where programs.py searches. Raises CommandError."""
    named = os.environ.get("MSDA_REPLAY")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise CommandError(f"MSDA_REPLAY={named}: is no program; set it to the path of {_NAME}")
        return named
    found = find_program(_NAME)
    if found is None:
        raise CommandError(f"{_NAME} was not found: build it (docs/building.md) and add its folder to PATH, or set MSDA_REPLAY to its path")
    return found


def _execute(arguments: Sequence[str], timeout: Optional[float]) -> List[str]:
    """Returns what the command says on stderr. Raises CommandError unless it ends with 0 or 1."""
    command = [find_command(), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              errors="replace", timeout=timeout)
    except OSError as error:
        raise CommandError(f"{command[0]}: cannot start it: {error}", None, command) from error
    except subprocess.TimeoutExpired:
        raise CommandError(f"{_NAME} {arguments[0]}: not finished after {timeout:g} s; allow more by timeout=", None, command) from None
    said = [line.removeprefix(f"{_NAME}: ") for line in done.stderr.splitlines()]
    if done.returncode not in (0, 1):
        raise CommandError("\n".join(said) or f"{_NAME} ended with status {done.returncode}", done.returncode, command)
    return said


def _flags(values: Dict[str, Any]) -> List[str]:
    """Returns {"atol": 1e-3, "damaged": True} as the command line has it."""
    flags = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
        elif isinstance(value, (list, tuple)):
            flags += [flag, ",".join(map(str, value))]
        else:
            flags += [flag, str(value)]
    return flags


def _definitions(operator: Union[Path, Sequence[Path], None]) -> List[str]:
    files = [] if operator is None else operator if isinstance(operator, (list, tuple)) else [operator]
    return [word for file in files for word in ("--operator", os.fspath(file))]


def run(
    capture: Path,
    *,
    invocation: Union[int, str, None] = None,
    reference: Optional[int] = None,
    operator: Union[Path, Sequence[Path], None] = None,
    mode: Union[str, Sequence[str], None] = None,
    float64_stages: Union[str, Sequence[str], None] = None,
    device: Optional[str] = None,
    device_memory: Union[int, str, None] = None,
    block: Optional[int] = None,
    kernel_digest: Optional[str] = None,
    repeat: Optional[int] = None,
    threads: Optional[int] = None,
    seed: Optional[int] = None,
    atol: Optional[float] = None,
    rtol: Optional[float] = None,
    customary: bool = False,
    poison: bool = False,
    poison_folder: Optional[Path] = None,
    damaged: bool = False,
    save_replays: Optional[Path] = None,
    timeout: Optional[float] = None,
) -> RunResult:
    """Runs `msda-replay run` with these flags (docs/commands.md) and returns what it found. Raises CommandError."""
    path = os.fspath(capture)
    flags = _flags({
        "invocation": invocation, "reference": reference, "mode": mode, "float64_stages": float64_stages, "device": device,
        "device_memory": device_memory, "block": block, "kernel_digest": kernel_digest, "repeat": repeat, "threads": threads,
        "seed": seed, "atol": atol, "rtol": rtol, "customary": customary, "poison": poison,
        "damaged": damaged,
        "poison_folder": None if poison_folder is None else os.fspath(poison_folder),
        "save_replays": None if save_replays is None else os.fspath(save_replays),
    })
    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        target = os.path.join(folder, "run.json")  # not a pipe: a large result would be in memory twice
        messages = _execute(["run", "--quiet", "--json", target, *flags, *_definitions(operator), "--", path], timeout)
        with open(target, encoding="ascii") as file:
            return RunResult(path, json.load(file), messages)


class Page:
    """A page of HTML (docs/commands.md, "report"), which a notebook shows, and `save` writes."""

    def __init__(self, html: str):
        self.html = html

    def save(self, path: Path) -> None:
        with open(path, "x", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        # In a frame, since a notebook's own policy would stop the page's script, and its style would reach the notebook.
        return f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="700" style="border: 0"></iframe>'


def report(
    capture: Path,
    *,
    invocation: Union[int, str, None] = None,
    reference: Optional[int] = None,
    operator: Union[Path, Sequence[Path], None] = None,
    mode: Union[str, Sequence[str], None] = None,
    device: Optional[str] = None,
    atol: Optional[float] = None,
    rtol: Optional[float] = None,
    findings: Optional[int] = None,
    stages: bool = True,
    order: bool = False,
    stress: Optional[int] = None,
    damaged: bool = False,
    timeout: Optional[float] = None,
) -> Page:
    """Returns the page that `msda-replay report` makes with these flags: where the errors lie, how large they are, and why. Raises
    CommandError."""
    flags = _flags({"invocation": invocation, "reference": reference, "mode": mode, "device": device, "atol": atol, "rtol": rtol,
                    "findings": findings, "no_stages": not stages, "order": order, "stress": stress, "damaged": damaged})
    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        target = os.path.join(folder, "page.html")
        _execute(["report", "--quiet", "-o", target, *flags, *_definitions(operator), "--", os.fspath(capture)], timeout)
        with open(target, encoding="utf-8") as file:
            return Page(file.read())


def replay(capture: Path, invocation: int, mode: str = "float64") -> Dict[str, np.ndarray]:
    """Returns the gradients that a mode of `msda-replay run` gives for a recorded call. Raises CommandError."""
    from .reading import open_capture

    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        target = os.path.join(folder, "replays.h5")
        run(capture, invocation=invocation, mode=mode, device=None if mode == "original" else "cpu", save_replays=target)
        with open_capture(target) as saved:
            results = saved[0].results
            if mode not in results:
                raise CommandError(f"{os.fspath(capture)}: mode {mode} gave no gradients")
            return {name: tensor[()] for name, tensor in results[mode].items()}
