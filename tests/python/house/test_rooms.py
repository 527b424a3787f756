"""Which folder may include which: no file includes from a folder above its own, and docs/architecture.md says so."""

import ast
import functools
import json
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


OPERATORS = {path.parent.name: json.loads(path.read_text()) for path in (SOURCE / "analysis" / "operators").glob("*/schema.json")}
PROJECT = "msda"  # is an operator's name, too
# Where an operator may be named in files of any name: its kernels, and what calls their C ABI in Python.
KERNELS = re.compile(r"kernels/|tools/python/native/|tools/python/msda_replay/libmsda\.py$")


def names_of(row):
    """Finds the operator's name, also in a longer one or in camel case, but not a function of this name; and that of its dialects."""
    name, camel = row["name"], row["name"].title().replace("_", "")
    spaced = name.replace("_", "_?")
    found = [rf"(?i:(?<![a-z]){spaced}(?![a-z(]))", rf"{camel}(?![a-z])"]
    if name == PROJECT:
        found = [rf"\b{camel}[A-Z]", f"operators/{name}", f'[!=]= "{name}"', f'\\["{name}"\\]']
    dialects = [value for convention in row["conventions"] if convention["name"] == "dialect" for value in convention["values"]]
    others = [re.escape(text) for text in (*dialects, row.get("title", ""), row.get("title", "").title()) if text and text not in OPERATORS]
    return re.compile("|".join([*found, *others]))


def operators_of(path):
    """The operators that the path is named after, those whose names are in theirs, and those that are values of their conventions: dialects."""
    stems = [part.split(".")[0] for part in path.parts]
    named = {name for name in OPERATORS for stem in stems if stem == name or (name != PROJECT and stem.startswith(f"{name}_"))}
    named |= {name for name in OPERATORS if any(name in longer for longer in named if longer != PROJECT)}
    return named | {value for name in named for convention in OPERATORS[name]["conventions"] for value in convention.get("values", ())}


@functools.lru_cache(maxsize=1)
def product():
    """What a user runs, and how it is built, by path; examples and benchmarks may name operators, as pages and tests may."""
    folders = [SOURCE / folder for folder in ("analysis", "recorder", "replay", "tools/python", "tools/cmake")]
    kinds = (".h", ".cpp", ".py", ".cmake", ".txt", ".in", ".js", ".json", ".ptx")
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    return {path.relative_to(SOURCE): path.read_text() for path in [SOURCE / "CMakeLists.txt", *files] if "egg-info" not in str(path)}


@pytest.mark.parametrize("name", OPERATORS)
def test_only_files_of_its_name_name_an_operator(name):
    """A new operator edits no file of another one, and no shared one: lists are made from folders and rows."""
    pattern = names_of(OPERATORS[name])
    assert len(product()) > 500
    for path, text in product().items():
        if name in operators_of(path) or KERNELS.match(str(path)):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            assert not pattern.search(line), f"{path}:{number} names {name}: ask the operator, or make a file of its name"


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
