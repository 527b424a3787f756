"""Text of every command fits 80 columns. Only a word that cannot be divided may be longer: a path, a kernel's name, or a line to type."""

import lzma
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, DATA, REPLAY, SOURCE
from support.documented import SUBCOMMANDS

from msda_replay.importer import import_case

TOOLS = ("run", "run --verbose", "list", "show", "verify", "stages", "gradcheck", "order --limit 1 --seconds-each 1", "advise --runs 2",
         "stress --runs 2 --curve-runs 2", "diff OTHER", "report --force -o OUT.html", "minimize --force --from-scratch -o OUT.h5",
         *(f"export --force --to {form} -o OUT{end}" for form, end in (
             ("pytest", ".py"), ("cpp", ".cpp"), ("npz", ".npz"), ("zip", ".zip"), ("tensorboard", ""))))


def long_lines(text):
    """Lines that are too long, but for lines to type and lines of a single word. A template's arguments belong to its name."""
    def may_be_long(line):
        line = re.sub(r"(?<=\w)<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>", "<>", line.strip())
        return re.match(r"(next +)?([A-Z_]+=\S+ )?(msda-replay|msda-record|pytest|python3|c\+\+|tensorboard) ", line) or " " not in re.sub(r"^(\w+:|-->) +", "", line)

    return [line for line in text.splitlines() if len(line) > 80 and not may_be_long(line)]


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """All captures of tests/data and docs/findings, one of them under a long name."""
    folder = tmp_path_factory.mktemp("captures")
    for path in [*DATA.rglob("*.h5"), *(SOURCE / "docs" / "findings").glob("*.h5")]:
        shutil.copy(path, folder)
    for path in DATA.rglob("*.h5.xz"):
        (folder / path.stem).write_bytes(lzma.open(path).read())
    import_case(DATA / "h200_border_noalign_0.npz", folder / ("a_long_name_" * 8 + ".h5"))
    return sorted(folder.iterdir())


@pytest.mark.parametrize("command", TOOLS)
def test_text_of_a_command(captures, tmp_path, command):
    shown = 0
    for capture in captures if "minimize" not in command else [path for path in captures if path.stat().st_size < 25_000]:
        name, *flags = command.replace("OUT", str(tmp_path / "out")).replace("OTHER", str(captures[0])).split()
        done = subprocess.run([REPLAY, name, capture.name, *flags], cwd=capture.parent, capture_output=True, text=True, timeout=120,
                              env={"PATH": "/usr/bin:/bin"})
        assert not long_lines(done.stdout), f"{capture.name}:\n" + "\n".join(long_lines(done.stdout))
        shown += bool(done.stdout)
    assert shown > 5


@pytest.mark.parametrize("program", [["msda-replay"], ["msda-record"], *(["msda-replay", name] for name in SUBCOMMANDS)], ids=" ".join)
def test_help(program):
    done = subprocess.run([BUILD / "bin" / program[0], *program[1:], "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") > 5 and max(map(len, done.stdout.splitlines())) <= 80


def test_of_doctor_and_explain(replay):
    for command in (["doctor"], ["explain"], *(["explain", word] for word in ("cell_boundary", "order_only", "bound", "other_output"))):
        done = replay(*command)
        assert done.out and not long_lines(done.out), command


def test_lines_to_type_and_names_may_be_long():
    """Not a test of nothing."""
    name = "at::native::reduce_kernel<" + ", ".join(["float"] * 20) + ">"
    for line in ("msda-replay run " + "a" * 80, "  where: " + "a" * 80, "    " + name):
        assert not long_lines(line)
    for line in ("a b " * 30, name + " varies"):
        assert long_lines(line)
