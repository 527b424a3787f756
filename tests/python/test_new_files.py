"""Files that commands write, on file systems that cannot do all that Linux can, and through symbolic links."""

import json
import os
import subprocess

import pytest
from conftest import REPLAY

# A file system that can rename but not exchange names, and without LINKS has no hard links, as FUSE may be. Nothing can be put at
# FAIL_AT, and what was set aside (the third temporary file) not be put back at BROKEN.
SHIM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) { errno = EINVAL; return -1; }
int link(const char* from, const char* to) {
  if (!getenv("LINKS")) { errno = EPERM; return -1; }
  return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int rename(const char* from, const char* to) {
  const char* fail = getenv("FAIL_AT");
  const char* broken = getenv("BROKEN");
  if ((fail && strstr(to, fail)) || (broken && strstr(from, "/3") && strstr(to, broken))) { errno = EIO; return -1; }
  return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c"], check=True)
    return folder / "shim.so"


@pytest.fixture
def export(demo_capture, tmp_path, shim):
    def run(*options, **variables):
        return subprocess.run([REPLAY, "export", demo_capture, "--to", "pytest", "-o", tmp_path / "a.py", "--quiet", *options],
                              capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(shim), **variables})

    return run


@pytest.mark.parametrize("variables", [{}, {"LINKS": "1"}])
def test_a_file_system_that_can_do_little(export, tmp_path, variables):
    for options in ([], ["--force"]):
        done = export(*options, **variables)
        assert done.returncode == 0, done.stderr
        assert sorted(os.listdir(tmp_path)) == ["a.npz", "a.py"]
    done = export(**variables)
    assert done.returncode == 2 and "give --force to replace it" in done.stderr
    for name in os.listdir(tmp_path):
        os.remove(tmp_path / name)
    done = export("--force", **variables)  # nothing is there to replace
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("variables", [{}, {"LINKS": "1"}])
@pytest.mark.parametrize("fails", ["a.py", "a.npz"])
def test_all_files_are_replaced_or_none(export, tmp_path, fails, variables):
    for name in ("a.npz", "a.py"):
        (tmp_path / name).write_text(f"my {name}")
    done = export("--force", FAIL_AT=f"/{fails}", **variables)
    assert done.returncode == 2 and "Input/output error" in done.stderr and "--force" not in done.stderr
    assert {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)} == {"a.npz": "my a.npz", "a.py": "my a.py"}


def test_what_cannot_be_restored_is_kept(export, tmp_path):
    for name in ("a.npz", "a.py"):
        (tmp_path / name).write_text(f"my {name}")
    done = export("--force", FAIL_AT="/a.py", BROKEN="/a.npz")
    assert done.returncode == 2 and "cannot restore" in done.stderr
    kept = done.stderr.strip().rsplit(" is now ", 1)[1]
    assert open(kept).read() == "my a.npz"


def test_a_link_to_nothing_gets_its_target(replay, demo_capture, tmp_path):
    (tmp_path / "link.json").symlink_to("there.json")
    replay("show", demo_capture, "--json", tmp_path / "link.json", expect=0)
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "there.json").read_text())
    assert sorted(os.listdir(tmp_path)) == ["link.json", "there.json"]
