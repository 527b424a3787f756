"""Where the programs of msda-replay are."""

import os
import pathlib
import shutil
import sys


def find_program(name):
    """The path of msda-record or msda-replay, or None. Searched: MSDA_BUILD/bin, this package, if pip installed it with the
    programs, PATH, the folder of this Python's own programs, and, in a source tree, build/bin."""
    here = pathlib.Path(__file__).resolve()
    folders = [pathlib.Path(sys.executable).parent, here.parents[3] / "build" / "bin"]
    if build := os.environ.get("MSDA_BUILD"):
        folders.insert(0, pathlib.Path(build) / "bin")
        own = shutil.which(name, path=str(folders[0]))
        if own:
            return own
    inside = shutil.which(name, path=str(here.parent / "bin"))
    return inside or shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))


def find_library(name, program="msda-replay"):
    """The path of a library that was built or installed with `program` (a name or a path), or None."""
    found = program if os.sep in str(program) else find_program(program)
    if found is None:
        return None
    folder = pathlib.Path(found).resolve().parent
    for pattern in (f"lib/{name}", f"lib64/{name}", f"lib/*-linux-gnu*/{name}", f"{folder.name}/{name}"):
        for library in sorted(folder.parent.glob(pattern)):
            return str(library)
    return None
