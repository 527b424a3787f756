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
        self._folder: Any = None
        self._left_out: Dict[str, int] = collections.Counter()
        self._hook = ImportHook({"torch": self._begin})
        self._hook.install()

    def _begin(self, _=None):
        """Enters the mode below those that tests enter, and for all tests: they may leave theirs in another order than fixtures do."""
        if self._calls is not None or self._owner != (getpid(), threading.get_ident()):  # label() tries again
            return
        try:
            from ..recording.operator_calls import OperatorCalls

            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="msda-calls-")
            self._calls = OperatorCalls(self._label).__enter__()
        except Exception as error:  # PyTorch may be too old, or replaced by a test
            self._left_out[f"PyTorch's calls cannot be recorded: {error}"] += 1

    def _label(self):
        return self._text if getpid() == self._owner[0] else None  # nobody would take the calls of a forked process

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
        path = os.path.join(self._folder.name, "calls.h5") if self._calls.invocations else None
        if path:
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
            self._folder.cleanup()
