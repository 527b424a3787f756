"""Programs that write to a terminal."""

import os
import pathlib
import pty
import re
import signal
import subprocess
import threading
import time

import pytest


def read_terminal(end, take=lambda shown: None):
    """All that a terminal is given, until no process holds a descriptor of its other end any more. One read may give a part of it:
    the system hands it over in pieces, in the background."""
    shown = b""
    while True:
        try:
            piece = os.read(end, 65536)
        except OSError:  # EIO: the other end is closed, and everything has been read
            piece = b""
        if not piece:
            return shown.decode()
        shown += piece
        take(shown.decode(errors="replace"))


class Shown:
    """A running program whose standard error is a terminal, which is read all the time: a full one would stop the program."""

    def __init__(self, *command, **options):
        try:
            ours, theirs = pty.openpty()
        except OSError:
            pytest.skip("this machine has no pseudo-terminals")
        self.shown, self.ended, self.news = "", False, threading.Condition()
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=theirs, text=True, **options)
        os.close(theirs)
        self.reader = threading.Thread(target=self._read, args=(ours,))
        self.reader.start()

    def wait_for(self, pattern, seconds=300):
        """Until the program has shown it."""
        with self.news:
            assert self.news.wait_for(lambda: self.ended or re.search(pattern, self.shown), seconds)
            assert re.search(pattern, self.shown), f"{pattern} was not shown, but {self.shown}"

    def wait_for_work(self, seconds):
        """Until it has computed for so long, however busy the machine is."""
        begun = self._computed()
        while self._computed() < begun + seconds:
            assert self.process.poll() is None, "it has ended"
            time.sleep(0.01)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def finish(self, timeout=300):
        """Its standard output, and all that it showed."""
        out = self.process.communicate(timeout=timeout)[0]
        self.reader.join()
        return out, self.shown

    @property
    def returncode(self):
        return self.process.returncode

    def _read(self, end):
        def take(shown):
            with self.news:
                self.shown = shown
                self.news.notify_all()

        read_terminal(end, take)
        os.close(end)
        with self.news:
            self.ended = True
            self.news.notify_all()

    def _computed(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")  # utime
