"""Reproducers, run on their own, and what they report."""

import atexit
import functools
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from support.schemas import check


@pytest.fixture(scope="session")
def export(replay):
    """Exports a capture; returns the JSON and what `run` says of the finding."""

    def run(capture, to, output, *flags):
        result = replay("export", capture, "--to", to, "-o", output, "--json", "-", *flags, expect=0).json
        check(result, "export")
        return result

    return run


def finding_of(replay, capture, *flags):
    """What `run` prints first of the first invocation with a finding, else with advice."""
    calls = replay("run", capture, "--device", "cpu", "--json", "-", *flags).json["invocations"]
    with_groups = [call for call in calls if call["groups"]]
    call = next((with_group for with_group in with_groups if not with_group["groups"][0].get("advisory")), with_groups[0])
    return call, call["findings"][call["groups"][0]["worst"]]


ALONE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MSDA_BUILD", "MSDA_SOURCE")}
ALONE["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins, which others have installed, take as long as the rest of pytest

# A folder of this process, removed as it ends: what the functions below share.
FOLDER = tempfile.TemporaryDirectory()


@functools.cache
def pytest_server():
    server = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("pytest_server.py")], env=ALONE, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.communicate)  # it ends with its input
    return server


def run_pytest(path, expect):
    server, output = pytest_server(), pathlib.Path(FOLDER.name) / "output"
    print(json.dumps([str(path), str(output)]), file=server.stdin, flush=True)
    status, out = int(server.stdout.readline()), output.read_text()
    assert status == expect, out
    return re.sub(r"^E +", "", out, flags=re.M)


COMPILER = ("g++", "-std=c++20")
STRICT = ("-O0", "-Wall", "-Wextra", "-Werror")


@functools.cache
def precompiled(includes):
    """Flags with which a program that begins with these lines finds them compiled, which takes half of its time."""
    header = pathlib.Path(FOLDER.name) / f"{len(os.listdir(FOLDER.name))}.h"
    header.write_text(includes)
    subprocess.run([*COMPILER, *STRICT, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return "-Winvalid-pch", "-include", header


def includes_of(*paths):
    return "".join(sorted({line for path in paths for line in re.findall("^#include .*\n", path.read_text(), re.M)}))


def compile_cpp(path, flags):
    program = path.with_suffix("")
    built = subprocess.run([*COMPILER, *flags, path.name, "-o", program.name], cwd=path.parent, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


def run_cpp(path, expect, flags=None):
    return run_program(compile_cpp(path, flags or (*STRICT, *precompiled(includes_of(path)))), expect)


def compile_together(export, captures, folder):
    """The reproducers in C++ of captures by name, as one program, which takes little longer to compile than one of them. Returns a
    function that runs that of a name."""
    paths = [folder / f"{i}.cpp" for i in range(len(captures))]
    for i, (capture, path) in enumerate(zip(captures.values(), paths)):
        export(capture, "cpp", path)
        path.write_text(path.read_text().replace("(::", f"(program_{i}::"))  # names of the program's own
    spaces = "".join(f'namespace program_{i} {{\n#include "{path.name}"\n}}\n' for i, path in enumerate(paths))
    cases = "".join(f"    case {i}: return program_{i}::main(argc - 1, argv + 1);\n" for i in range(len(paths)))
    main = f"int main(int argc, char** argv) {{\n  switch (std::atoi(argv[1])) {{\n{cases}  }}\n}}\n"
    (folder / "together.cpp").write_text(includes_of(*paths) + spaces + main)
    program = compile_cpp(folder / "together.cpp", STRICT)
    return lambda name, expect: run_program(program, expect, str(list(captures).index(name)))


def run_program(program, expect, *arguments):
    done = subprocess.run([program, *arguments], cwd=program.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


RUN = {"pytest": run_pytest, "cpp": run_cpp}
SUFFIX = {"pytest": ".py", "cpp": ".cpp"}


def bits(value, stored):
    """By NumPy alone."""
    value = float(value) if value not in ("NaN", "Infinity", "-Infinity") else float(value.replace("Infinity", "inf"))
    if stored == "bfloat16":
        return f"0x{int(np.float32(value).view(np.uint32)) >> 16:04x}"
    size = np.dtype(stored).itemsize
    return f"0x{int(np.dtype(stored).type(value).view(f'u{size}')):0{2 * size}x}"


def check_report(out, finding, stored, expected_stored):
    """A reproducer's output names the element of the finding, its values and their bits, and its cause."""
    element = f"{finding['tensor']}[{','.join(map(str, finding['index']))}] is out of tolerance"
    assert element in out, out
    result = {side: (type_, hexadecimal) for side, type_, hexadecimal in re.findall(r"^ *(\w+): \S+ \((\w+) (0x\w+)\)$", out, re.M)}
    assert result["recorded"] == (stored, bits(finding["observed"], stored))
    assert result[finding["against"]] == (expected_stored, bits(finding["expected"], expected_stored))
    assert f"cause: {finding['cause']}, at fault: {finding['at_fault']}" in out
    assert finding["why"] in out


def same_result(replay, entry, another):
    results = [replay("run", path, "--device", "cpu", "--json", "-").json for path in (entry, another)]
    for result in results:
        del result["capture"]
    assert results[0] == results[1]
    return results[0]


def crc32c(data):
    """Castagnoli's polynomial, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def records(data):
    def masked(part):
        crc = crc32c(part)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    while data:
        (length, of_length) = struct.unpack("<QI", data[:12])
        assert of_length == masked(data[:8])
        record, (of_record,) = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])
        assert len(record) == length and of_record == masked(record)
        yield record
        data = data[16 + length:]
