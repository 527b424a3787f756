"""Programs built with a sanitizer are recorded like others, and the sanitizer still finds faults. Programs built with the
memory sanitizer cannot be recorded, and msda-record says so."""

import os
import shutil
import subprocess

import h5py
import pytest
from conftest import BUILD, SOURCE, said
from support.recording import RECORD, environment, pytestmark  # noqa: F401

GCC = shutil.which("g++")
CLANG = next(filter(None, map(shutil.which, ("clang++", "clang++-18", "clang++-17", "clang++-16"))), None)
SANITIZERS = [(GCC, "address"), (GCC, "thread"), (GCC, "undefined"), (CLANG, "address"), (CLANG, "thread")]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Makes tests/sanitizers/program.cpp with a compiler and a sanitizer, once."""
    folder, made = tmp_path_factory.mktemp("programs"), {}

    def make(compiler, sanitizer, program="program"):
        if compiler is None:
            pytest.skip("no such compiler here")
        path = folder / f"{os.path.basename(compiler)}-{sanitizer}-{program}"
        if path not in made:
            libraries = ["-L", BUILD / "lib", f"-Wl,-rpath,{BUILD / 'lib'}", "-lmsda"] if program == "program" else []
            done = subprocess.run([compiler, "-std=c++20", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-pthread", "-I",
                                   SOURCE, SOURCE / "tests" / "sanitizers" / f"{program}.cpp", "-o", path, *libraries],
                                  capture_output=True, text=True)
            if "cannot find" in done.stderr and "san" in done.stderr:
                pytest.skip(f"{compiler} has no {sanitizer} sanitizer here")
            assert done.returncode == 0, done.stderr
            made[path] = path
        return path

    return make


def run(*command, **variables):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, env=environment(**variables))


@pytest.mark.parametrize("compiler, sanitizer", SANITIZERS)
class TestRecorded:
    def test_calls_are_recorded(self, tmp_path, build, compiler, sanitizer):
        program = build(compiler, sanitizer)
        plain = run(program)
        assert (plain.returncode, plain.stdout) == (0, "4 8\n"), plain.stderr
        recorded = run(RECORD, "-o", tmp_path / "a.h5", "--", program)
        assert (recorded.returncode, recorded.stdout) == (0, plain.stdout), recorded.stderr
        assert said(recorded.stderr) == f"msda-record: {tmp_path / 'a.h5'}: 2 invocations\n"
        with h5py.File(tmp_path / "a.h5") as file:
            assert len(file["invocations"]) == 2

    def test_below_a_shell(self, tmp_path, build, compiler, sanitizer):
        recorded = run(RECORD, "-o", tmp_path / "a.h5", "--", "sh", "-c", f"{build(compiler, sanitizer)}; true")
        assert recorded.returncode == 0 and "2 invocations" in recorded.stderr

    def test_faults_are_found(self, tmp_path, build, compiler, sanitizer):
        program = build(compiler, sanitizer)
        plain = run(program, "fault")
        recorded = run(RECORD, "-o", tmp_path / "a.h5", "--", program, "fault")
        assert plain.returncode == recorded.returncode != 0
        report = {"address": "heap-buffer-overflow", "thread": "data race", "undefined": "signed integer overflow"}[sanitizer]
        for done in (plain, recorded):
            assert done.stderr.count(report) >= 1
        assert "msda::record" not in recorded.stderr

    def test_the_users_own_options_count(self, tmp_path, build, compiler, sanitizer):
        name = {"address": "ASAN", "thread": "TSAN", "undefined": "UBSAN"}[sanitizer] + "_OPTIONS"
        recorded = run(RECORD, "-o", tmp_path / "a.h5", "--", build(compiler, sanitizer), "fault", **{name: "exitcode=77"})
        assert recorded.returncode == 77, recorded.stderr


def test_the_memory_sanitizer(tmp_path, build):
    """It reports everything that an uninstrumented library writes as uninitialized: refused before the program starts."""
    program = build(CLANG, "memory", "memory")
    done = run(RECORD, "-o", tmp_path / "a.h5", "--", program)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"{program} is built with the memory sanitizer" in done.stderr
    by_path = run(RECORD, "-o", tmp_path / "a.h5", "--", program.name, PATH=f"/nowhere:{program.parent}")
    assert (by_path.returncode, by_path.stdout) == (2, "") and "memory sanitizer" in by_path.stderr


@pytest.mark.parametrize("contents", [b"", b"\x7fELF", b"\x7fELF\x02" + b"\xff" * 500, b"#!/bin/sh\nexit 3\n"],
                         ids=["empty", "short", "damaged", "script"])
def test_other_files(tmp_path, contents):
    """They end as under env, which also calls execvp."""
    (tmp_path / "program").write_bytes(contents)
    (tmp_path / "program").chmod(0o755)
    plain = subprocess.run(["env", tmp_path / "program"], capture_output=True)
    done = subprocess.run([RECORD, "-o", tmp_path / "a.h5", "--", tmp_path / "program"], capture_output=True, env=environment())
    assert done.returncode == plain.returncode
