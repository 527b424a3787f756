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

# Begin and end as what export writes: --force replaces nothing else.
EXPORTED = {"a.npz": "PK\3\4 mine, written by msda-replay", "a.py": "# Reproducer by msda-replay of mine"}


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
    for name, text in EXPORTED.items():
        (tmp_path / name).write_text(text)
    done = export("--force", FAIL_AT=f"/{fails}", **variables)
    assert done.returncode == 2 and "Input/output error" in done.stderr and "--force" not in done.stderr
    assert {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)} == EXPORTED


def test_what_cannot_be_restored_is_kept(export, tmp_path):
    for name, text in EXPORTED.items():
        (tmp_path / name).write_text(text)
    done = export("--force", FAIL_AT="/a.py", BROKEN="/a.npz")
    assert done.returncode == 2 and "cannot restore" in done.stderr
    kept = done.stderr.strip().rsplit(" is now ", 1)[1]
    assert open(kept).read() == EXPORTED["a.npz"]


FOREIGN = ["mine", '{"name": "mine"}', "<!DOCTYPE html>\n<html><body>mine</body></html>\n", "import capture  # mine\n"]


@pytest.fixture(scope="module")
def small_capture(demo_capture, tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.h5"
    subprocess.run([REPLAY, "minimize", demo_capture, "-o", path, "--quiet"], check=True, capture_output=True)
    return path


def assert_kept(replay, path, *command):
    """Whatever stands at the path, and whatever a link there leads to, stays, and no other file is left."""
    beside = sorted(os.listdir(path.parent))
    for mine in FOREIGN:
        path.write_text(mine)
        result = replay(*command, expect=2)
        assert f"{path}: cannot replace it: it is no" in result.err and not result.out and path.read_text() == mine, result
    path.unlink()
    target = path.with_name("target")
    for exists in (True, False):
        path.symlink_to(target)
        if exists:
            target.write_text("")
        assert f"{path}: cannot replace it: it is a symbolic link" in replay(*command, expect=2).err
        assert path.is_symlink() and target.exists() == exists and (not exists or target.read_text() == "")
        path.unlink()
        target.unlink(missing_ok=True)
    assert sorted(os.listdir(path.parent)) == [name for name in beside if name != path.name]


def test_json_replaces_json_of_ours_alone(replay, demo_capture, tmp_path):
    path = tmp_path / "a.json"
    commands = [["show", demo_capture], ["list", demo_capture], ["verify", demo_capture], ["diff", demo_capture, demo_capture],
                ["verify", demo_capture, demo_capture], ["stages", demo_capture, "--element", "grad_value[0]"]]
    for command in commands[:-1]:
        replay(*command, "--json", path)
        assert json.loads(path.read_text())
        replay("show", demo_capture, "--json", path, expect=0)
    path.write_text("")
    replay("show", demo_capture, "--json", path, expect=0)
    for command in (commands[0], commands[-1]):
        assert_kept(replay, path, *command, "--json", path)
    with open(tmp_path / "out", "w") as out:  # where the name of a descriptor leads is no file by that name
        assert subprocess.run([REPLAY, "show", demo_capture, "--json", "/dev/stdout"], stdout=out).returncode == 0
    assert '"capture"' in (tmp_path / "out").read_text()


def test_force_replaces_pages_by_pages(replay, small_capture, tmp_path):
    page, folder = tmp_path / "a.html", tmp_path / "pages"
    report = ["report", small_capture, "--no-stages"]
    replay(*report, "-o", page)
    replay(*report, "-o", page, "--force")
    replay(*report, small_capture, "-o", folder)
    of_one = next(folder.glob("*-*.html"))
    of_one.write_text("mine")
    assert f"{of_one}: cannot replace it" in replay(*report, small_capture, "-o", folder, "--force", expect=2).err
    assert of_one.read_text() == "mine"
    assert_kept(replay, page, *report, "-o", page, "--force")
    assert_kept(replay, folder / "index.html", *report, small_capture, "-o", folder, "--force")


@pytest.mark.parametrize("to, name", [("pytest", "a.py"), ("cpp", "a.cpp"), ("npz", "a.npz"), ("zip", "a.zip")])
def test_force_replaces_exports_by_exports(replay, demo_capture, tmp_path, to, name):
    export = ["export", demo_capture, "--to", to, "-o", tmp_path / name]
    replay(*export, expect=0)
    replay(*export, "--force", expect=0)
    for written in sorted(os.listdir(tmp_path)):
        assert_kept(replay, tmp_path / written, *export, "--force")
        replay(*export, "--force", expect=0)
