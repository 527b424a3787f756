"""Runs the command msda-replay."""

import json
import os
import subprocess
import tempfile
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from .flags import words_of
from .programs import find_program

_NAME = "msda-replay"


class CommandError(Exception):
    """msda-replay could not do it. The text is the command's own message; `status` its exit status: 2 for bad usage or bad
    input, 3 for a mode or device that is unavailable here, negative for a signal, None if the command was not found."""

    def __init__(self, message: str, status: Optional[int] = None, command: Sequence[str] = ()):
        super().__init__(message)
        self.status = status
        self.command = list(command)


class Said(NamedTuple):
    """What a command said: its text, its warnings, and its JSON if that was asked for."""

    text: str
    messages: List[str]
    json: Any = None


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


def execute(subcommand: str, words: Sequence[str], flags: Mapping[str, Any]) -> Said:
    """Runs a subcommand with these words after its flags; `timeout` may be among `flags`. Raises CommandError unless it ends with 0 or 1."""
    values = dict(flags)
    timeout = values.pop("timeout", None)
    command = [find_command(), subcommand, *words_of(values), *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout)
    except OSError as error:
        raise CommandError(f"{command[0]}: cannot start it: {error}", None, command) from error
    except subprocess.TimeoutExpired:
        raise CommandError(f"{_NAME} {subcommand}: not finished after {timeout:g} s; allow more by timeout=", None, command) from None
    messages = [line.removeprefix(f"{_NAME}: ") for line in done.stderr.splitlines()]
    if done.returncode not in (0, 1):
        raise CommandError("\n".join(messages) or f"{_NAME} ended with status {done.returncode}", done.returncode, command)
    return Said(done.stdout, messages)


def ask(subcommand: str, words: Sequence[str], flags: Mapping[str, Any]) -> Said:
    """Runs a subcommand, as `execute` does, also for its JSON."""
    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        target = os.path.join(folder, "result.json")  # not a pipe, which has the text
        said = execute(subcommand, words, {**flags, "json": target})
        with open(target, encoding="ascii") as file:
            return said._replace(json=json.load(file))
