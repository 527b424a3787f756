"""The commands msda-replay and msda-record of an installed package, which has them inside (setup.py)."""

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
