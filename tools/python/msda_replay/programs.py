"""Where the programs of msda-replay are."""

import os
import pathlib
import shutil
import sys


def find_program(name):
    """The path of msda-record or msda-replay, or None. Searched: MSDA_BUILD/bin, PATH, the folder of this Python's own
    programs, and, in a source tree, build/bin."""
    here = pathlib.Path(__file__).resolve()
    folders = [pathlib.Path(sys.executable).parent, here.parents[3] / "build" / "bin"]
    if build := os.environ.get("MSDA_BUILD"):
        folders.insert(0, pathlib.Path(build) / "bin")
        own = shutil.which(name, path=str(folders[0]))
        if own:
            return own
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))


def find_recorder_library(recorder):
    """libmsda_record.so of the program msda-record at this path, or None."""
    folder = pathlib.Path(recorder).resolve().parent
    library = "libmsda_record.so"
    for pattern in (f"lib/{library}", f"lib64/{library}", f"lib/*-linux-gnu*/{library}", f"{folder.name}/{library}"):
        for found in sorted(folder.parent.glob(pattern)):
            return str(found)
    return None
