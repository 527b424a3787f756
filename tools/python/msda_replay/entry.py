"""The commands msda-replay and msda-record of a wheel, which has them inside the package (tools/package/make_wheel)."""

import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "bin"


def _become(name):
    os.execv(FOLDER / name, [name, *sys.argv[1:]])


def replay():
    _become("msda-replay")


def record():
    _become("msda-record")
