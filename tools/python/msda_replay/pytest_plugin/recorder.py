"""The recorder in this process, and how a pytest is started again with it."""

import contextlib
import ctypes
import os
import re
import shutil
import sys
import tempfile
from time import monotonic  # as it is now: a test may replace it
from typing import Dict, Tuple

from ..programs import find_library, find_program
from . import files

_RESTARTED = "MSDA_PYTEST_RESTARTED"  # for the process that was started again: the descriptor of its lock, a colon, the session's folder
_LONGEST_PATH = 4096
_PATIENCE = 60  # seconds, that msda_record_complete() waits for the writer


class RecorderError(Exception):
    """The recorder could not do what it was asked to; the message says why."""


class TooSlowError(Exception):
    """The recorder goes on, but its writer did not complete a capture in time."""


class Recorder:
    """libmsda_record.so, loaded by LD_PRELOAD: the functions of recorder/preload/hooks/msda_record.h."""

    def __init__(self, library):
        self._label = library.msda_record_label
        self._label.argtypes, self._label.restype = [ctypes.c_char_p], None
        self._discard = library.msda_record_discard
        self._discard.argtypes, self._discard.restype = [], None
        self._complete = library.msda_record_complete
        self._complete.argtypes, self._complete.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_longlong
        self._survey = getattr(library, "msda_record_survey", None)  # a recorder of version 0.1 has none
        if self._survey is not None:
            self._survey.argtypes, self._survey.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_size_t

    @classmethod
    def loaded(cls):
        """That of this process, or None."""
        try:
            return cls(ctypes.CDLL(None))
        except (OSError, AttributeError):
            return None

    def label(self, text):
        self._label(text.encode(errors="replace") if text else None)

    def discard(self):
        self._discard()

    def survey(self):
        """By kernel, how many of its launches varied, how many were surveyed, and how many there were. None: there is no survey."""
        size = 1 << 16
        while self._survey is not None:
            text = ctypes.create_string_buffer(size)
            needed = self._survey(text, size)
            if needed == 0:
                return None
            if needed <= size:
                return self._kernels_of(text.value.decode(errors="replace"))
            size = 2 * needed
        return None

    @staticmethod
    def _kernels_of(lines):
        kernels: Dict[str, Tuple[int, int, int]] = {}
        for line in lines.splitlines():
            varied, surveyed, launches, name = line.split(" ", 3)
            so_far = kernels.get(name, (0, 0, 0))  # of a kernel of this name in another image
            kernels[name] = so_far[0] + int(varied), so_far[1] + int(surveyed), so_far[2] + int(launches)
        return kernels

    def complete(self):
        """Returns the path of the capture of the calls so far, or None if there were none."""
        path = ctypes.create_string_buffer(_LONGEST_PATH)
        since = monotonic()
        invocations = self._complete(path, len(path))
        if invocations < 0 and monotonic() - since >= _PATIENCE:
            raise TooSlowError("the recorder's writer needs more than a minute for them: other threads make calls faster than it writes them, or "
                               "the disk is slow; stop those threads in this test, or record it alone: "
                               "msda-record -o FILE -- python3 -m pytest THIS_TEST")
        if invocations < 0:
            raise RecorderError("recording has ended: the recorder's message above, or in the captured output, says why")
        return os.fsdecode(path.value) if invocations else None


def _command_line():
    if hasattr(sys, "orig_argv"):
        return list(sys.orig_argv)
    with open("/proc/self/cmdline", "rb") as file:  # Python 3.9
        return [os.fsdecode(argument) for argument in file.read().split(b"\0")[:-1]]


def _is_a_pytest_command(config):
    """Returns whether this process is `pytest ARGUMENTS` or `python -m pytest ARGUMENTS`, which can be started again."""
    program = sys.argv[0] if sys.argv else ""
    is_pytest = re.fullmatch(r"(pytest|py\.test)(-\d[\d.]*)?(\.py)?", os.path.basename(program)) or program.endswith(
        os.path.join("pytest", "__main__.py"))
    return bool(is_pytest) and [str(argument) for argument in config.invocation_params.args] == sys.argv[1:]


def _fits_ld_preload(path):
    return not set(" :$") & set(path)


class Launch:
    """A pytest that is to be started again with the recorder. `obstacle` says why it cannot be, if so."""

    def __init__(self, config, directory, surveys=False):
        self.config, self.directory, self.surveys = config, directory, surveys
        self.program = find_program("msda-record")
        self.library = find_library("libmsda_record.so", self.program) if self.program else None
        self.obstacle = self._obstacle()

    def _obstacle(self):
        if _RESTARTED in os.environ:
            return f"the dynamic loader did not load {self.library or 'libmsda_record.so'}: is it built for this machine?"
        if not self.program:
            return "msda-record is not found: add its folder to PATH, or set MSDA_BUILD to the build folder"
        if not self.library:
            return f"libmsda_record.so is not beside {self.program}, in ../lib: install it whole"
        if not _fits_ld_preload(self.library) and not _fits_ld_preload(str(self.directory)):
            return (f"LD_PRELOAD cannot hold a path with a space, a colon or a dollar sign, such as {self.library}: name a "
                    "folder without them, for a link, with --msda-dir")
        if hasattr(self.config, "workerinput"):
            return "this worker runs without the recorder"
        if not _is_a_pytest_command(self.config):
            return ("pytest was started by another program, which cannot be started again: start that with "
                    f"LD_PRELOAD={self.library}")
        return ""

    def start_again(self):
        """Replaces this process by the same command with the recorder loaded; returns, with an obstacle, if that fails."""
        try:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.stat(self.directory)  # of a path that is too long makedirs tries each part, by recursion
            os.makedirs(self.directory, exist_ok=True)
            session = tempfile.mkdtemp(prefix=f".session-{os.getpid()}-", dir=self.directory)
            lock = files.lock(session)
        except OSError as error:
            self.obstacle = f"{self.directory}: cannot create a folder there: {error.strerror}"
            return
        try:
            variables = self._environment(session)
            variables[_RESTARTED] = f"{'' if lock is None else lock}:{session}"
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os.chdir(self.config.invocation_params.dir)
            os.execve(sys.executable, [sys.executable, *_command_line()[1:]], variables)
        except OSError as error:
            shutil.rmtree(session, ignore_errors=True)
            self.obstacle = f"cannot start {sys.executable} again: {error.strerror}"

    def _environment(self, session):
        assert self.program and self.library  # otherwise there is an obstacle
        library = self.library
        if not _fits_ld_preload(library):
            library = os.path.join(session, os.path.basename(self.library))
            os.symlink(self.library, library)
        variables = {name: value for name, value in os.environ.items()
                     if name not in ("MSDA_RECORD_SESSION", "MSDA_RECORD_ANNOUNCED", "MSDA_RECORD_FORCE")}
        others = variables.get("LD_PRELOAD")
        variables["LD_PRELOAD"] = f"{library}:{others}" if others else library
        variables["MSDA_RECORD_WRITER"] = self.program
        # Each process has its own capture: xdist's workers, and what tests start.
        variables["MSDA_RECORD_OUTPUT"] = os.path.join(session.replace("%", "%%"), "%p.h5")
        if self.surveys:
            variables["MSDA_RECORD_SURVEY"] = "1"
            variables["MSDA_RECORD_OUTPUT"] = os.path.join(str(self.directory).replace("%", "%%"), "survey-%p.h5")
        return variables


def take_session():
    """Returns the session's folder, in the process that was started again; otherwise None. Its children do not see it."""
    lock, _, session = os.environ.pop(_RESTARTED, "").partition(":")
    if lock:
        os.set_inheritable(int(lock), False)
    return session or None
