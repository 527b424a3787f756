"""Packages made of this build: what they hold, and that they work where they are unpacked; man pages and completions."""

import os
import platform
import re
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, DATA, REPLAY, SOURCE
from support.recording import FLAKY, environment, pytestmark  # noqa: F401

from msda_replay import __version__ as VERSION

PACKAGE = SOURCE / "tools" / "package"
COMMANDS = re.findall(r"^  ([a-z]+) ", subprocess.run([REPLAY, "--help"], capture_output=True, text=True).stdout.split("Subcommands:")[1],
                      re.M)


def call(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def works(programs, folder, env=None):
    """The commands of an unpacked package: they replay a shipped failure, and record a program."""
    from msda_replay.importer import import_case

    env = {**environment(), "LD_LIBRARY_PATH": "", **(env or {})}
    assert call(programs / "msda-record", "--version", env=env).startswith(f"msda-record {VERSION}\n")
    import_case(DATA / "h200_border_noalign_0.npz", folder / "case.h5")
    replayed = subprocess.run([programs / "msda-replay", "run", "--quiet", folder / "case.h5"], capture_output=True, text=True, env=env)
    assert replayed.returncode == 1 and replayed.stdout.startswith("The reference is wrong"), replayed.stderr
    recorded = subprocess.run([programs / "msda-record", "-o", folder / "a.h5", "--", FLAKY, "--runs", "1", "--seed", "1"],
                              capture_output=True, text=True, env=env)
    assert "1 invocation\n" in recorded.stderr or "2 invocations\n" in recorded.stderr, recorded.stderr
    call(programs / "msda-replay", "verify", folder / "a.h5", env=env)


# Libraries of the machine that builds: its headers and its C++ library make calls of them; the wheel is built with others.
OF_THE_MACHINE = re.compile(r"__isoc23_.*|_dl_find_object|__libc_single_threaded|__libc_start_main|[fl]?stat(64)?|fstatat(64)?|mknod(at)?|pthread_(mutex|rwlock|cond)_clock\w+")


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
def test_what_is_built_needs_no_newer_libc():
    """The wheel is for glibc 2.28: a function that came later would be missing when the wheel is made."""
    libc = re.search(r"libc\.so\.6 => (\S+)", call("ldd", REPLAY))[1]
    versions = {}
    for name, version in re.findall(r" (\w+)@+GLIBC_([\d.]+)$", call("nm", "-D", "--defined-only", libc), re.M):
        versions.setdefault(name, []).append(tuple(map(int, version.split("."))))
    newer = {name for name, those in versions.items() if min(those) > (2, 28)}
    assert "posix_spawn_file_actions_addclosefrom_np" in newer and not {"printf", "pthread_create", "dlopen"} & newer
    built = [REPLAY, BUILD / "bin" / "msda-record", *(path for path in (BUILD / "lib").glob("*.so") if path.is_file())]
    for path in built:
        needed = set(re.findall(r" U (\w+)", call("nm", "-D", "--undefined-only", path)))
        assert needed and not {name for name in needed & newer if not OF_THE_MACHINE.fullmatch(name)}, path


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The folder with the .deb packages and the archive."""
    folder = tmp_path_factory.mktemp("packages")
    for generator in ("DEB", "TGZ"):
        if generator == "DEB" and not shutil.which("dpkg-shlibdeps"):
            continue
        call("cpack", "-G", generator, "-B", folder, "--config", BUILD / "CPackConfig.cmake", cwd=BUILD)
    return folder


@pytest.mark.long
def test_the_archive_works_anywhere(packed, tmp_path):
    (archive,) = packed.glob("*.tar.gz")
    assert archive.name == f"msda-replay-{VERSION}-Linux-{platform.machine()}.tar.gz"  # as docs/packages.md says
    call("tar", "xf", archive, "-C", tmp_path, "--strip-components", 1)
    works(tmp_path / "bin", tmp_path)
    assert (tmp_path / "share" / "doc" / "msda-replay" / "docs" / "recording.md").exists()


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("dpkg-shlibdeps"), reason="makes packages for Debian and Ubuntu only there")
def test_debian_packages(packed, tmp_path):
    names = {path.name.split("_")[0]: path for path in packed.glob("*.deb")}
    assert {"msda-replay", "msda-replay-dev"} <= set(names) <= {"msda-replay", "msda-replay-dev", "msda-replay-mpi"}
    depends = call("dpkg-deb", "-f", names["msda-replay"], "Depends")
    linked = subprocess.run(["ldd", REPLAY], capture_output=True, text=True).stdout
    for library in ("hdf5", "fmt"):
        assert (f"lib{library}" in depends) == (f"lib{library}" in linked)
    assert "libc6 (>=" in depends and "nvidia" not in depends and "cuda" not in depends
    assert re.search(r"\bmsda-replay\b", call("dpkg-deb", "-f", names["msda-replay-dev"], "Depends"))
    for name, path in names.items():
        call("dpkg-deb", "-x", path, tmp_path / name)
    held = {name: {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*") if not path.is_dir()} for name in names}
    assert not any(first & second for entry, first in held.items() for two, second in held.items() if entry < two)
    assert {"usr/bin/msda-replay", "usr/bin/msda-record", "usr/share/doc/msda-replay/README.md"} <= held["msda-replay"]
    pages = {name for name in held["msda-replay"] if "/man1/" in name}
    assert pages == {f"usr/share/man/man1/{page}.1" for page in ("msda-replay", "msda-record", *(f"msda-replay-{c}" for c in COMMANDS))}
    assert any(name.endswith("msda.h") for name in held["msda-replay-dev"]) and not any(name.endswith(".h") for name in held["msda-replay"])
    # Nobody else may write what root installs.
    listed = call("dpkg-deb", "-c", names["msda-replay"])
    assert all(re.match(r"[-dl]r[w-][x-]r-[x-]r-[x-] root/root", line) or line.startswith("l") for line in listed.splitlines()), listed
    works(tmp_path / "msda-replay" / "usr" / "bin", tmp_path)


CLEAN = {name: value for name, value in environment().items() if not name.startswith(("PYTHON", "MSDA_"))}
OFFLINE = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-build-isolation", "--no-deps")


def make_wheel(folder, **variables):
    """pip makes a wheel of the sources."""
    if subprocess.run([sys.executable, "-c", "import setuptools, venv, wheel, pip"], capture_output=True, text=True).returncode != 0:
        pytest.skip("needs setuptools, venv, wheel and pip")
    return subprocess.run([sys.executable, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", folder, SOURCE / "tools" / "python"],
                          env={**CLEAN, **variables}, capture_output=True, text=True)


@pytest.mark.long
def test_a_wheel(tmp_path):
    made = make_wheel(tmp_path, MSDA_BUILD=str(BUILD))
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"msda_replay-{VERSION}-py3-none-linux_x86_64.whl"
    venv, work = tmp_path / "venv", tmp_path / "work"
    work.mkdir()
    call(sys.executable, "-m", "venv", "--system-site-packages", venv)  # h5py and NumPy are the system's
    call(venv / "bin" / "pip", "install", *OFFLINE, wheel, env=CLEAN)
    in_venv = {"env": {**CLEAN, "PATH": f"{venv / 'bin'}:{CLEAN['PATH']}"}, "cwd": work}
    assert "test call was recorded" in call("python3", "-m", "msda_replay", "doctor", **in_venv)
    call("python3", "-m", "msda_replay", "import", DATA / "h200_border_noalign_0.npz", "-o", "b.h5", **in_venv)
    # Exit statuses and arguments pass through.
    done = subprocess.run(["msda-replay", "run", "--quiet", "b.h5"], capture_output=True, text=True, **in_venv)
    assert done.returncode == 1 and done.stdout.startswith("The reference is wrong"), done.stderr
    done = subprocess.run(["msda-replay", "rnu"], capture_output=True, text=True, **in_venv)
    assert done.returncode == 2 and "did you mean run?" in done.stderr
    works(venv / "bin", work, in_venv["env"])
    call("python3", "-c", "import pathlib, msda_replay.libmsda as m; from msda_replay.programs import find_program as f; m.library(); "
         "assert pathlib.Path(m.__file__).parent in pathlib.Path(f('msda-record')).parents", **in_venv)
    share = venv / "share"
    assert (share / "man" / "man1" / "msda-replay-run.1").exists() and (share / "doc" / "msda-replay" / "docs" / "packages.md").exists()
    (information,) = venv.glob("lib/*/site-packages/msda_replay-*.dist-info")
    assert "[pytest11]\nmsda_replay.pytest_plugin = msda_replay.pytest_plugin" in (information / "entry_points.txt").read_text()
    assert "Apache License" in next(information.rglob("LICENSE")).read_text()
    inside = [path.name for path in (information.parent / "msda_replay").rglob("*.so*")]
    for_torch = [path.name for path in (BUILD / "lib").glob("msda_torch_calls.abi3.so")]
    assert sorted(inside) == ["libmsda.so.0", "libmsda_record.so", *for_torch]


def test_a_machine_that_cannot_build_gets_no_wheel(tmp_path):
    made = make_wheel(tmp_path, MSDA_BUILD=str(tmp_path / "build"), PATH=str(tmp_path))
    assert made.returncode != 0 and "run tools/setup" in made.stderr and not list(tmp_path.glob("*.whl"))


@pytest.fixture(scope="module")
def shell_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shell")
    call(sys.executable, PACKAGE / "shell_files", folder, VERSION, REPLAY, BUILD / "bin" / "msda-record")
    return folder


def flags_of(*command):
    printed = subprocess.run([BUILD / "bin" / command[0], *command[1:], "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  (?:-\w,)?(--[\w-]+)", printed, re.M)


@pytest.mark.skipif(not shutil.which("man"), reason="needs man")
@pytest.mark.parametrize("command", [["msda-record"], ["msda-replay"], ["msda-replay", "run"], ["msda-replay", "doctor"]], ids=" ".join)
def test_man_pages(shell_files, command):
    page = shell_files / "man" / "man1" / f"{'-'.join(command)}.1"
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"})
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.sub(".\b", "", done.stdout)
    for flag in flags_of(*command):
        assert re.search(rf"^ +(-\w, )?{flag}( |$)", shown, re.M), flag
    assert all(f"msda-replay-{name}" in page.read_text().replace("\\-", "-") for name in (COMMANDS if command == ["msda-replay"] else []))


def completed(shell_files, *words):
    """What bash offers for the last word."""
    script = f"""
        source {shell_files}/bash-completion/completions/{words[0]}
        COMP_WORDS=({' '.join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
        _{words[0].replace('-', '_')}; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return set(call("bash", "-c", script).split())


def test_completions_of_bash(shell_files, tmp_path):
    assert set(COMMANDS) <= completed(shell_files, "msda-replay", "")
    assert completed(shell_files, "msda-replay", "grad") == {"gradcheck"}
    assert completed(shell_files, "msda-replay", "run", "--de") == {"--device", "--device-memory"}
    assert completed(shell_files, "msda-replay", "run", "--color", "") == {"auto", "always", "never"}
    assert completed(shell_files, "msda-record", "--hook", "") == {"auto", "cupti", "driver"}
    assert set(flags_of("msda-record")) <= completed(shell_files, "msda-record", "-")
    (tmp_path / "case.h5").touch()
    assert completed(shell_files, "msda-replay", "verify", f"{tmp_path}/c") == {f"{tmp_path}/case.h5"}
    assert "bash" in completed(shell_files, "msda-record", "-o", "a.h5", "--", "bas")


@pytest.mark.parametrize("shell, name", [("zsh", "zsh/site-functions/_{}"), ("fish", "fish/vendor_completions.d/{}.fish")])
def test_completions_of_other_shells(shell_files, shell, name):
    for command in ("msda-replay", "msda-record"):
        path = shell_files / name.format(command)
        text = path.read_text()
        assert all(flag.lstrip("-") in text for flag in flags_of(command))
        assert command == "msda-record" or all(sub in text for sub in COMMANDS)
        if shutil.which(shell):
            call(shell, "-n", path)


def test_the_scripts_are_scripts():
    for script in ("wheel", "deb", "try", "use"):
        call("bash", "-n", PACKAGE / script)
        assert os.access(PACKAGE / script, os.X_OK)
