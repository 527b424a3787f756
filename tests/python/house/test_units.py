"""The files of a folder are compiled as one (MSDA_UNITY in tools/cmake/Common.cmake). A name that two of them have in their unnamed
namespaces, or that hides a header's, could so mean something else than in a file that is compiled alone, without a word from
the compiler."""

import collections
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, SOURCE

FOLDERS = ("analysis", "kernels", "recorder", "replay", "tests")
OVERLOADED = {"to_json"}  # one for each type, which no other type converts to


def units():
    """The files that are compiled as one, by the file that includes them. CMake leaves units that it no longer needs."""
    compiled = {pathlib.Path(command["file"]) for command in json.loads((BUILD / "compile_commands.json").read_text())}
    for unit in sorted(compiled.intersection(BUILD.rglob("Unity/unity_*_cxx.cxx"))):
        files = [pathlib.Path(path) for path in re.findall(r'^#include "(.*)"$', unit.read_text(), re.MULTILINE)]
        if files and all(path.is_relative_to(SOURCE) for path in files):
            yield unit.relative_to(BUILD), [str(path.relative_to(SOURCE)) for path in files]


def declared(paths):
    """What ctags finds at the level of a namespace: path, name, namespace, whether it is unnamed, kind and what a type is of."""
    found = subprocess.run(
        ["ctags", "--languages=C++", "--langmap=C++:+.cu.cuh.h", "--kinds-C++=defgstuv", "--fields=+sKSZt", "--output-format=json", "-f", "-",
         "-L", "-"], cwd=SOURCE, input="\n".join(paths), capture_output=True, text=True, check=True).stdout  # fmt: skip
    for line in found.splitlines():
        tag = json.loads(line)
        scope = tag.get("scope", "")
        unnamed = re.fullmatch(r"(.*?)(::)?__anon\w+", scope)
        if tag["kind"] == "macro" or tag["name"].startswith(("TEST", "INSTANTIATE_", "__")):
            continue
        if tag.get("scopeKind") == "namespace" or (tag["kind"] == "enumerator" and unnamed):
            is_type = tag["kind"] == "typedef"
            yield tag["path"], tag["name"], unnamed[1] if unnamed else scope, bool(unnamed), tag.get("typeref") if is_type else None


def constants(path):
    """Names that begin a line: ctags loses what follows a number in braces."""
    text = (SOURCE / path).read_text()
    for statement in re.findall(r"^(?:inline )?constexpr [^;]*;", text, re.MULTILINE):
        yield from re.findall(r"\b(k[A-Z]\w*)(?:\[\w*\])?\s*(?:=|\{)", statement)


@pytest.fixture(scope="module")
def names():
    if shutil.which("ctags") is None:
        pytest.skip("needs ctags (Debian: universal-ctags)")
    headers = [str(path.relative_to(SOURCE)) for folder in FOLDERS for path in (SOURCE / folder).rglob("*.h")]
    of_units = {path for _, files in units() for path in files}
    if not of_units:
        pytest.skip("each file is compiled alone here (MSDA_UNITY is off)")
    unnamed, in_headers = collections.defaultdict(set), collections.defaultdict(set)
    for path, name, namespace, is_unnamed, given in declared(sorted(of_units) + headers):
        if name in OVERLOADED:
            continue
        if is_unnamed:
            unnamed[path].add((name, namespace, given))
        elif path.endswith(".h"):
            in_headers[name].add((namespace, path, given))
    for path in of_units:
        namespaces = {namespace for _, namespace, _ in unnamed[path]}
        unnamed[path] |= {(name, namespace, None) for name in constants(path) for namespace in namespaces}
    return unnamed, in_headers


def test_the_names_of_a_unit_are_unique(names):
    unnamed, _ = names
    twice = []
    for unit, files in units():
        by_name = collections.defaultdict(dict)
        for path in files:
            for name, namespace, given in unnamed[path]:
                by_name[namespace, name][path] = given
        for (namespace, name), places in by_name.items():
            same_type = None not in places.values() and len(set(places.values())) == 1
            if len(places) > 1 and not same_type:
                twice.append(f"{unit} has {namespace}::(unnamed)::{name} of {' and of '.join(places)}: give each a name of its own")
    assert not twice, "\n".join(twice)


def test_no_name_of_a_unit_hides_one_of_a_header(names):
    unnamed, in_headers = names
    hiding = []
    for unit, files in units():
        for path in files:
            for name, namespace, given in unnamed[path]:
                for outer, header, of_header in in_headers[name]:
                    hides = outer != "msda" and (namespace == outer or namespace.startswith(outer + "::"))
                    if hides and (given is None or given != of_header):
                        hiding.append(f"{path}: {name} hides that of {header} in {unit}: give it another name")
    assert not hiding, "\n".join(hiding)
