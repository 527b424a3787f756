"""Which folder may include which: no file includes from a folder above its own, and docs/architecture.md says so."""

import ast
import re

import pytest

from conftest import SOURCE

pytestmark = pytest.mark.pages("docs/architecture.md", "list the folder and what it may include")

TOPS = ("kernels", "recorder", "analysis", "replay")
ROW = re.compile(r"\| `([a-z_/]+)/` \| .* \|(.*)\|$")
INCLUDE = re.compile(rf'#include "((?:{"|".join(TOPS)})/[^"]+)"')


def rooms_of_the_page():
    """The folders of docs/architecture.md, each with the rooms that it may include."""
    table = (SOURCE / "docs" / "architecture.md").read_text().split("## The way of a tensor")[0]
    rows = {row[1]: re.findall(r"`([a-z_/]+)/`", row[2]) for row in map(ROW.match, table.splitlines()) if row}
    rooms = [room for room in rows if room.startswith(TOPS)]

    def meant(folder):
        """A folder without a row stands for all rooms in it."""
        return {folder} if folder in rows else {room for room in rooms if room.startswith(folder + "/")}

    for room in rooms:
        for folder in rows[room]:
            assert meant(folder), f"docs/architecture.md: {room}/ may include {folder}/, which is no room"
    return {room: set().union(*map(meant, rows[room])) - {room} for room in rooms}


def room_of(path, rooms):
    """The innermost folder of the page that a path lies in."""
    inside = [room for room in rooms if path == room or path.startswith(room + "/")]
    return max(inside, key=len) if inside else None


def sources():
    return [path for top in TOPS for path in (SOURCE / top).rglob("*") if path.suffix in (".h", ".cpp", ".cu", ".cuh")]


def folder_of(path):
    return str(path.parent.relative_to(SOURCE))


def test_the_page_lists_the_folders():
    rooms = rooms_of_the_page()
    for path in sources():
        assert room_of(folder_of(path), rooms), f"docs/architecture.md does not say what {folder_of(path)}/ holds"
    for room in rooms:
        assert (SOURCE / room).is_dir(), f"docs/architecture.md: there is no {room}/"


def test_includes_are_those_of_the_page():
    rooms = rooms_of_the_page()
    for path in sources():
        room = room_of(folder_of(path), rooms)
        for included in INCLUDE.findall(path.read_text()):
            another = room_of(folder_of(SOURCE / included), rooms)
            assert another in {room, *rooms[room]}, f"{path.relative_to(SOURCE)} includes {included}"


def test_no_operator_on_a_gpu_includes_another():
    folders = [path for path in (SOURCE / "kernels" / "cuda").iterdir() if path.is_dir() and path.name != "common"]
    assert folders
    for folder in folders:
        for path in folder.iterdir():
            included = set(re.findall(r'#include "kernels/cuda/([^/"]+)/', path.read_text()))
            assert included <= {folder.name, "common"}, f"{path.relative_to(SOURCE)} includes from {included}"


def test_no_rooms_include_in_a_circle():
    left = rooms_of_the_page()
    while left:
        free = [room for room, allowed in left.items() if not allowed & set(left)]
        assert free, f"docs/architecture.md: a circle among {sorted(left)}"
        for room in free:
            del left[room]


def test_headers_include_few():
    """A header of more is several ideas in one, and every file that needs one of them compiles them all."""
    headers = [path for path in sources() if path.suffix == ".h" and folder_of(path).startswith(("analysis/", "replay/"))]
    assert headers
    for path in headers:
        included = len(re.findall(r"^#include", path.read_text(), re.M))
        assert included <= 20, f"{path.relative_to(SOURCE)} includes {included} headers: divide it"


def test_headers_ask_little_of_an_implementation():
    for path in sources():
        if path.suffix != ".h":
            continue
        functions = len(re.findall(r"\bvirtual\b", re.sub("//.*", "", path.read_text())))
        assert functions <= 15, f"{path.relative_to(SOURCE)} has {functions} virtual functions: divide it"


def test_the_engine_knows_no_operator_by_name():
    operators = {path.name for path in (SOURCE / "analysis" / "operators").iterdir() if path.is_dir()}
    assert "grid_sample" in operators
    names = {f"MSDA_{name.upper()}" for name in operators} | {name if "_" in name else f'"{name}"' for name in operators}
    engine = [path for path in sources() if re.match("analysis/(?!operators)", folder_of(path))]
    for path in engine:
        code = re.sub("//.*", "", path.read_text())
        named = [name for name in names if re.search(rf"(?<!\w){name}(?!\w)", code)]
        assert not named, f"{path.relative_to(SOURCE)} names {named}: ask the operator"


def test_cbor_is_read_in_one_place():
    """The wheel's C++ library cannot read CBOR as nlohmann/json does by itself, and nothing else is built with it."""
    readers = {str(path.relative_to(SOURCE)) for path in sources() if re.search(r"\bfrom_(cbor|msgpack|bson|ubjson)\(", path.read_text())}
    assert readers == {"recorder/process/cbor.h"}


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
