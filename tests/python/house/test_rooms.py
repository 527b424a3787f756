"""Which folder may include which: no file includes from a folder above its own, and docs/architecture.md says so."""

import ast
import re

import pytest

from conftest import SOURCE

pytestmark = pytest.mark.pages("docs/architecture.md",
                                "list the folder and what it may include, as MAY_INCLUDE in this file does")

PRELOAD = "recorder/preload/"
MAY_INCLUDE = {
    "recorder/spool": {"recorder/spool"},
    "recorder/capture": {"recorder/capture", "recorder/machine", "recorder/text"},
    "recorder/device": {"recorder/device"},
    "recorder/text": {"recorder/text"},
    "recorder/adapters": {"recorder/adapters", "kernels"},
    PRELOAD + "session": {PRELOAD + "session", "recorder/spool", "recorder/adapters", "recorder/device", "recorder/machine", "recorder/text"},
    PRELOAD + "driver": {PRELOAD + "driver", "recorder/spool", "recorder/adapters", "recorder/device", "kernels"},
    PRELOAD + "launch": {PRELOAD + "launch", PRELOAD + "driver", PRELOAD + "session", "recorder/spool", "recorder/adapters",
                         "recorder/device", "kernels"},
    PRELOAD + "survey": {PRELOAD + "survey", PRELOAD + "launch", PRELOAD + "driver", PRELOAD + "session", "recorder/spool", "recorder/adapters",
                         "recorder/device", "recorder/machine", "recorder/text"},
    PRELOAD + "trail": {PRELOAD + "trail", PRELOAD + "survey", PRELOAD + "launch", PRELOAD + "driver", PRELOAD + "session", "recorder/spool",
                        "recorder/adapters", "recorder/device"},
    PRELOAD + "hooks": {PRELOAD + "hooks", "recorder/device", PRELOAD + "trail", PRELOAD + "survey", PRELOAD + "launch", PRELOAD + "driver", PRELOAD + "session",
                        "kernels"},
    "recorder/writer": {"recorder/writer", "recorder/capture", "recorder/spool", "recorder/device", "recorder/adapters",
                        "recorder/text", "kernels"},
}


@pytest.mark.parametrize("room", MAY_INCLUDE)
def test_includes_no_room_above(room):
    files = [path for path in (SOURCE / room).iterdir() if path.suffix in (".h", ".cpp")]
    assert files
    for path in files:
        for header in re.findall(r'^#include "([^"]+)/[^/"]+"', path.read_text(), re.M):
            assert header in MAY_INCLUDE[room], f"{path.relative_to(SOURCE)} includes from {header}"


def test_every_room_is_here():
    rooms = {str(path.parent.relative_to(SOURCE)) for path in (SOURCE / "recorder").rglob("*.cpp")}
    assert rooms == set(MAY_INCLUDE)


ROW = re.compile(r"\| `([a-z_/]+)/` \| .* \|(.*)\|$")


def rooms_of_the_page():
    """The folders of docs/architecture.md that have a list of what they may include."""
    table = (SOURCE / "docs" / "architecture.md").read_text().split("## The way of a tensor")[0]
    rows = {row[1]: set(re.findall(r"`([a-z_/]+)/`", row[2])) for row in map(ROW.match, table.splitlines()) if row}
    return {folder: allowed for folder, allowed in rows.items() if folder not in ("tests", "tools")}, rows


def room_of(path, rooms):
    """The innermost folder of the page that a path lies in."""
    inside = [room for room in rooms if path == room or path.startswith(room + "/")]
    return max(inside, key=len) if inside else None


def test_the_page_lists_the_folders():
    _, rows = rooms_of_the_page()
    with_sources = {str(path.parent.relative_to(SOURCE)) for top in ("kernels", "recorder", "analysis", "replay")
                    for path in (SOURCE / top).rglob("*.cpp")}
    for folder in with_sources:
        assert room_of(folder, rows), f"docs/architecture.md does not say what {folder}/ holds"
    for folder in rows:
        assert (SOURCE / folder).is_dir(), f"docs/architecture.md: there is no {folder}/"


def test_includes_are_those_of_the_page():
    rooms, _ = rooms_of_the_page()
    for top in ("kernels", "recorder", "analysis", "replay"):
        for path in (SOURCE / top).rglob("*"):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            room = room_of(str(path.parent.relative_to(SOURCE)), rooms)
            for included in re.findall(r'#include "((?:kernels|recorder|analysis|replay)/[^"]+)"', path.read_text()):
                other = room_of(str((SOURCE / included).parent.relative_to(SOURCE)), rooms)
                allowed = {room, *rooms[room]} | ({"analysis/operators", "analysis/causes", "analysis/order"} if room.startswith("analysis") else set())
                allowed |= {"analysis/operators", "analysis/order"} if "analysis" in rooms[room] else set()
                assert other in allowed, f"{path.relative_to(SOURCE)} includes {included}"


def test_the_engine_knows_no_operator_by_name():
    for folder in ("analysis", "analysis/causes", "analysis/order"):
        for path in (SOURCE / folder).iterdir():
            if path.suffix in (".h", ".cpp"):
                known = set(re.findall(r'"analysis/operators/([^"]+)"', path.read_text()))
                assert known <= {"call.h"}, f"{path.relative_to(SOURCE)} includes {known}"


def test_no_operator_on_a_gpu_includes_another():
    folders = [path for path in (SOURCE / "kernels" / "cuda").iterdir() if path.is_dir() and path.name != "common"]
    assert folders
    for folder in folders:
        for path in folder.iterdir():
            included = set(re.findall(r'#include "kernels/cuda/([^/"]+)/', path.read_text()))
            assert included <= {folder.name, "common"}, f"{path.relative_to(SOURCE)} includes from {included}"


def test_no_folder_of_replay_includes_in_a_circle():
    rooms, _ = rooms_of_the_page()
    inside = {room: {other for other in allowed if other.startswith("replay/")} for room, allowed in rooms.items() if room.startswith("replay/")}
    while inside:
        free = [room for room, allowed in inside.items() if not allowed & set(inside)]
        assert free, f"docs/architecture.md: a circle among {sorted(inside)}"
        for room in free:
            del inside[room]


def test_cbor_is_read_in_one_place():
    """The wheel's C++ library cannot read CBOR as nlohmann/json does by itself, and nothing else is built with it."""
    readers = {str(path.relative_to(SOURCE)) for top in ("kernels", "recorder", "analysis", "replay") for path in (SOURCE / top).rglob("*")
               if path.suffix in (".h", ".cpp") and re.search(r"\bfrom_(cbor|msgpack|bson|ubjson)\(", path.read_text())}
    assert readers == {"recorder/capture/cbor.cpp"}


def imported_by(path):
    """The modules that a Python file imports, also in a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (name.name for name in node.names)


def test_no_test_imports_from_another():
    """What two of them use is in tests/python/support/, which knows none of them."""
    files = list((SOURCE / "tests" / "python").rglob("*.py"))
    tests = {path.stem for path in files if path.name.startswith("test_")}
    assert len(tests) > 100
    for path in files:
        assert not set(imported_by(path)) & tests, f"{path.relative_to(SOURCE)} imports from another test"


def test_headers_may_be_included_twice():
    headers = [path for folder in ("kernels", "recorder", "analysis", "replay", "tests") for path in (SOURCE / folder).rglob("*.h")]
    assert headers and [path for path in headers if "\n#pragma once\n" not in path.read_text()] == []
