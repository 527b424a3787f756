"""Programs under msda-record."""

import os
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import BUILD, SOURCE

RECORD = BUILD / "bin" / "msda-record"
PRELOAD = BUILD / "lib" / "libmsda_record.so"
FLAKY = BUILD / "bin" / "flaky_backward_test"
LINKED = subprocess.run(["ldd", FLAKY], capture_output=True, text=True).stdout
pytestmark = pytest.mark.skipif("libasan" in LINKED or "libtsan" in LINKED,
                                reason="a sanitizer must be loaded before anything preloaded")


def environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MSDA_RECORD_", "LD_PRELOAD", "PYTEST_"))}
    return {**kept, "MSDA_BUILD": str(BUILD), **{name: str(value) for name, value in variables.items()}}


def record(*command, options=(), cwd=None, **variables):
    return subprocess.run([RECORD, *options, "--", *command], capture_output=True, text=True, timeout=120, cwd=cwd,
                          env=environment(**variables))


@pytest.fixture
def target(tmp_path):
    """A Python program that calls libmsda.so through ctypes, and so through dlsym, with the lines given."""

    def make(body):
        path = tmp_path / "target.py"
        path.write_text(f"import sys, os\nsys.path.insert(0, {str(SOURCE / 'tools' / 'bench')!r})\n"
                        "import ctypes, numpy as np\nfrom libmsda import Operator, make_inputs\n"
                        "small = dict(B=1, Q=8, M=2, P=2, D=4, levels=((5, 6), (3, 2)))\n"
                        "op = Operator(dialect=1, padding=1)\n" + textwrap.dedent(body))
        return [sys.executable, str(path)]

    return make


def wait_for(path, seconds=20):
    """Until the writer has finished: the spool is gone and the capture there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and not pathlib.Path(f"{path}.spool").exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


COMPLETE = """
    recorder = ctypes.CDLL(None)
    recorder.msda_record_complete.restype = ctypes.c_longlong
    recorder.msda_record_complete.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    def complete(to=None, size=4096):
        path = ctypes.create_string_buffer(4096)
        print(recorder.msda_record_complete(path, size), flush=True)
        if to: os.rename(path.value.decode(), to)
    def call(seed): op.backward(make_inputs(**small, seed=seed))
"""
