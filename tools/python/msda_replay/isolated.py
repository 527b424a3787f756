"""Reads a capture in a process of its own (server.py), which may crash on a damaged file."""

import atexit
import json
import os
import pickle
import socket
import sys
import threading
from typing import Any, List

import numpy as np

from .capture import CaptureError
from .server import receive, send

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from msda_replay.server import main; main()"
_ERRORS = {"IndexError": IndexError, "ValueError": ValueError, "TypeError": TypeError}


class _Starter:
    """The process from which those that read are forked, in milliseconds. It ends when this one does."""

    def __init__(self):
        self.owner = os.getpid()
        self.control, theirs = socket.socketpair()
        null = [(os.POSIX_SPAWN_OPEN, i, os.devnull, os.O_WRONLY, 0) for i in (1, 2)]
        with theirs:
            os.posix_spawn(sys.executable, [sys.executable, "-W", "ignore", "-c", _START, json.dumps(sys.path)], os.environ,
                           file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *null])

    def connect(self):
        connection, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.control, [b"c"], [theirs.fileno()])
        return connection


_starter: List[_Starter] = []
_starting = threading.Lock()


@atexit.register
def _stop():
    for starter in _starter:
        starter.control.close()


def _connect():
    with _starting:
        if not _starter or _starter[0].owner != os.getpid():
            _starter[:] = [_Starter()]
        try:
            return _starter[0].connect()
        except OSError:  # somebody has ended it
            _starter[:] = [_Starter()]
            return _starter[0].connect()


def _with_arrays(received):
    """Returns the attributes that are arrays, as server.py sends them."""
    if isinstance(received, dict) and received.keys() == {"array", "type"}:
        return np.array(received["array"], received["type"])
    return {name: _with_arrays(value) for name, value in received.items()} if isinstance(received, dict) else received


class IsolatedFile:
    """An open capture in another process. Every error is CaptureError, but for an index that does not fit."""

    def __init__(self, path: str):
        self.path = path
        self._lock = threading.RLock()
        self._connection: Any = None
        self._open()

    def _open(self):
        self._owner = os.getpid()
        try:
            self._connection = _connect()
            receive(self._connection)  # that it is ready
        except (EOFError, OSError) as error:
            raise CaptureError(f"{self.path}: cannot start a process that reads it by {sys.executable}: {error}") from None
        send(self._connection, {"path": self.path, "folder": os.curdir if os.path.isabs(self.path) else os.getcwd()})
        self.ask("open")

    def ask(self, what: str, *arguments: Any, index: Any = None) -> Any:
        with self._lock:
            if self._connection is None:
                raise CaptureError(f"{self.path}: is closed; open it again with open_capture")
            if self._owner != os.getpid():  # a forked process must not use its parent's connection
                self._open()
            try:
                send(self._connection, {"what": what, "arguments": arguments}, b"" if index is None else pickle.dumps(index))
                answer, data = receive(self._connection)
            except (EOFError, OSError, ValueError):
                self.close()
                raise CaptureError(f"{self.path}: is damaged so that reading it crashes or does not come to an end; read a copy of it, "
                                   "or record again") from None
        if "error" in answer:
            raise _ERRORS.get(answer["type"], CaptureError)(answer["error"])
        return (answer["result"], data) if what == "read" else _with_arrays(answer["result"])

    def read(self, path: str, index: Any) -> np.ndarray:
        result, data = self.ask("read", path, index=index)
        return np.frombuffer(data, np.dtype(result["dtype"])).reshape(result["shape"])[()]

    @property
    def is_closed(self) -> bool:
        return self._connection is None

    def close(self) -> None:
        """Waits until the other process has closed the file, which it locks."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with connection:
            if self._owner != os.getpid():  # the parent still uses the connection
                return
            try:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except OSError:
                pass

    def __del__(self) -> None:
        self.close()
