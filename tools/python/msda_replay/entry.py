"""The commands msda-replay and msda-record of an installation by pip, which has them inside the package (tools/package/wheel)."""

import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "bin"


def _become(name):
    program = FOLDER / name
    if not program.exists():
        sys.exit(f"{name}: this installation of the Python package was made from its sources, which hold no programs: build them "
                 "(docs/building.md) and put their folder before this one on the PATH, or install the wheel (docs/packages.md)")
    os.execv(program, [name, *sys.argv[1:]])


def replay():
    _become("msda-replay")


def record():
    _become("msda-record")
