"""Records the calls of PyTorch's operators in this process as msda_replay.record does, without a preloaded library."""

import collections
import os
import sys
import tempfile
import threading
from typing import Any, Dict, Optional

from .imports import ImportHook

getpid = os.getpid  # as it is now: a test may replace it


class OperatorRecorder:
    """Sees the calls of this thread once PyTorch has been imported. It has the functions of Recorder."""

    def __init__(self):
        self._text: Optional[str] = None
        self._owner = getpid(), threading.get_ident()
        self._calls: Any = None
        self._left_out: Dict[str, int] = collections.Counter()
        self._hook = ImportHook({"torch": self._begin})
        self._hook.install()

    def _begin(self, _=None):
        """Enters the mode once for all tests: a fixture may enter a mode of its own in one test and leave it in another."""
        if self._calls is not None or self._owner != (getpid(), threading.get_ident()):
            return  # if another thread imported PyTorch, the next label() begins
        try:
            from ..recording.operator_calls import OperatorCalls

            self._calls = OperatorCalls(self._label).__enter__()
        except Exception as error:  # PyTorch may be too old, or a test may have replaced it
            self._left_out[f"PyTorch's calls cannot be recorded: {error}"] += 1

    def _label(self):
        return self._text if getpid() == self._owner[0] else None  # nobody takes the calls of a forked process

    def label(self, text):
        self._text = text
        if sys.modules.get("torch") is not None:
            self._begin()

    def discard(self):
        self._left_out.clear()
        if self._calls is not None:
            self._calls.clear()

    def complete(self):
        """Returns the path of a capture of the calls so far, which has to be moved away, or None if there are none."""
        if self._calls is None:
            return None
        path = None
        if self._calls.invocations:
            descriptor, path = tempfile.mkstemp(prefix="msda-calls-", suffix=".h5")
            os.close(descriptor)
            self._calls.write(path, overwrite=True)
        self._left_out.update(self._calls.left_out)
        self._calls.clear()
        return path

    def take_left_out(self):
        """Returns how many of the calls that complete() has seen since it was last asked are in no capture, by the reasons."""
        taken, self._left_out = dict(self._left_out), collections.Counter()
        return taken

    def close(self):
        self._text = None
        self._hook.uninstall()
        if self._calls is not None:
            self._calls.leave()
