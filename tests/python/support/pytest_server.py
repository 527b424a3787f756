"""Runs pytest on files, each in a process of its own that begins with pytest and NumPy loaded: to load them takes longer than a small
file's tests. For each line of JSON that it reads, [file, output], it writes pytest's exit status."""

import json
import os
import signal
import sys

import numpy  # noqa: F401
import pytest

for line in sys.stdin:
    file, output = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(300)
        os.chdir(os.path.dirname(file))
        sys.path[0] = ""  # as of `python -m pytest`
        out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", os.path.basename(file)]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
