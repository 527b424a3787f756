"""Where the programs of msda-replay are."""

import os
import pathlib
import shutil

_PACKAGE = pathlib.Path(__file__).resolve().parent
_OWN = _PACKAGE / "bin"  # in a wheel


def _of_source_tree():
    """Returns build/bin of the source tree that the package lies in; nothing if it lies elsewhere, where a `build` may be anybody's."""
    if len(_PACKAGE.parents) < 3:
        return []
    root = _PACKAGE.parents[2]
    try:
        is_ours = "project(msda_replay" in (root / "CMakeLists.txt").read_text(errors="replace")
    except OSError:
        is_ours = False
    return [root / "build" / "bin"] if is_ours else []


def find_program(name):
    """Returns the path of msda-record or msda-replay, or None. Searched: MSDA_BUILD/bin, this package, PATH, and, in a source tree,
    build/bin."""
    folders = [_OWN, *os.get_exec_path(), *_of_source_tree()]
    if build := os.environ.get("MSDA_BUILD"):
        folders.insert(0, pathlib.Path(build) / "bin")
    return shutil.which(name, path=os.pathsep.join(map(str, folders)))


def name_in_shell(name):
    """Returns what a shell starts the same program by: its name if that is on PATH, or else its path."""
    program, on_path = find_program(name), shutil.which(name)
    # Beside a wheel's own programs there are those on PATH that start them.
    same = on_path and (not program or os.path.samefile(on_path, program) or pathlib.Path(program).parent == _OWN)
    return name if same or not program else program


def find_library(name, program):
    """Returns the path of a library that was built or installed with the program at this path, or None."""
    folder = pathlib.Path(program).resolve().parent
    for pattern in (f"lib/{name}", f"lib64/{name}", f"lib/*-linux-gnu*/{name}", f"{folder.name}/{name}"):
        for found in sorted(folder.parent.glob(pattern)):
            return str(found)
    return None
