"""The commands and flags that the documents name are those that the programs have, and the documents name all of them."""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, DATA, REPLAY, SOURCE
from support.documented import PAGES, SUBCOMMANDS, code_of

pytestmark = pytest.mark.pages("the page that the assertion names (docs/commands.md for flags, docs/troubleshooting.md for variables)",
                                "name the flag or command as the program's --help does, or take it out of the page")

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE / "tools" / "python"), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
IMPORT = (sys.executable, "-m", "msda_replay", "import")
PYTEST = (sys.executable, "-m", "pytest", "-p", "msda_replay.pytest_plugin")
RECORD = (BUILD / "bin" / "msda-record",)


@functools.cache
def flags_of(*program):
    """A program's flags by --help, each with the choices for its value if these are plain words."""
    done = subprocess.run([*map(str, program), "--help"], capture_output=True, text=True, timeout=120, env=ENVIRONMENT, cwd=SOURCE)
    assert done.returncode == 0, f"{program}: {done.stderr}"
    flags = {"--follow": None} if program == RECORD else {}  # which is how the recorder starts its writer
    for line in re.findall(r"^ +(-.*)$", done.stdout, re.M):
        named = line.split("  ")[0]
        plain = re.search(r" \{?([a-z]+(?:[|,][a-z]+)+)\}?$", named)
        for name in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", named):
            flags[name] = set(re.split("[|,]", plain[1])) if plain else None
    return flags


def words_of(command):
    """A command's words. What follows two spaces explains it; brackets are around what may be left out."""
    command = re.split(r"\s{2,}", command)[0]
    try:
        words = shlex.split(re.sub(r"(?<= )\[(.*?)\](?= |$)", r"\1", command), comments=True)
    except ValueError:
        words = command.split()
    while words and (re.fullmatch(r"\w+=.*", words[0]) or (words[0] == "export" and "=" in words[-1])):
        words.pop(0)
    return words


def program_of(words):
    """The program that is started, as flags_of takes it, and its arguments; None if it is not one of this project's."""
    name = words[0].rsplit("/", 1)[-1]
    if name == "msda-replay" and len(words) > 1 and re.fullmatch(r"[a-z]+|--[a-z]+", words[1]):
        if words[1].startswith("-"):
            return (REPLAY,), words[1:]
        assert words[1] in SUBCOMMANDS, f"no command {words[1]}"
        return (REPLAY, words[1]), words[2:]
    if name == "msda-record":
        return RECORD, words[1:]
    if re.fullmatch(r"python3?", name) and words[1:4] == ["-m", "msda_replay", "import"]:
        return IMPORT, words[4:]
    if name == "pytest" or (name == "python3" and words[1:3] == ["-m", "pytest"]):
        return PYTEST, words[1 if name == "pytest" else 3:]
    if re.fullmatch(r"python3?", name) and len(words) > 1 and words[1].startswith(("tools/", "tests/")):
        assert (SOURCE / words[1]).is_file(), words[1]
        return (sys.executable, words[1]), words[2:]
    if words[0].startswith("tools/") and (SOURCE / words[0]).is_file():
        assert os.access(SOURCE / words[0], os.X_OK) or words[0].endswith((".py", ".cpp", ".svg")), words[0]
        return None
    if name == "cmake":
        for preset in re.findall(r"--preset (\w\S*)", " ".join(words)):
            assert preset in {configure_preset["name"] for configure_preset in json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]}, preset
    return None


def check(words):
    """Fails unless a command of this project has the flags. Returns whether there was one."""
    program, arguments = program_of(words) or (None, [])
    if program is None:
        return False
    if "--" in arguments:
        check(arguments[arguments.index("--") + 1:] or ["COMMAND"])
        arguments = arguments[:arguments.index("--")]
    flags = flags_of(*program)
    if program == PYTEST:  # other plugins have flags, too
        arguments = [word for word in arguments if word.startswith("--msda")]
    for place, word in enumerate(arguments):
        if not re.match(r"--?[a-zA-Z]", word):
            continue
        flag, _, value = word.partition("=")
        assert flag in flags, f"{' '.join(map(str, program[-2:]))} has no {flag}"
        value = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
        if flags[flag] and re.fullmatch(r"[a-z]+(\|[a-z]+)*", value):
            assert set(value.split("|")) <= flags[flag], f"{flag} {value}: there are {sorted(flags[flag])}"
    return True


@functools.cache
def known_flags():
    """Flags of any program: inline code often names a flag alone."""
    scripts = ["tests/campaign.py", "tests/damaged_files.py", "tests/trails/campaign.py", *(f"tools/bench/{name}.py" for name in (
        "against_torch", "gpu_bench", "grid_bench", "record_cost", "recording_cost", "replaced_bench", "scatter_bench", "separable_bench", "trail_cost"))]
    programs = [(REPLAY,), RECORD, IMPORT, PYTEST, *((REPLAY, name) for name in SUBCOMMANDS), *((sys.executable, path) for path in scripts)]
    of_scripts = re.findall(r"== (--[a-z]+)", (SOURCE / "tools" / "package" / "try").read_text())
    return set(of_scripts).union(*(flags_of(*program) for program in programs))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_commands_and_flags_exist(page):
    wrong = []
    for code, is_line in code_of(page.read_text()):
        for command in [] if code.startswith("|") else re.split(r" && |; | \| ", code):
            words = words_of(command)
            try:
                if not words or check(words) or is_line:
                    continue
                if words[0] in SUBCOMMANDS and any(word.startswith("-") for word in words):
                    check(["msda-replay", *words])
                elif re.match(r"--[a-z]", words[0]):
                    unknown = {word.split("=")[0] for word in words if re.match(r"--[a-z]", word)} - known_flags()
                    assert not unknown, f"no program has {unknown}"
            except AssertionError as error:
                wrong.append(f"{code}: {error}")
    assert not wrong, "\n".join(wrong)


def test_commands_are_found():
    """Not a test of nothing."""
    names = ("README.md", *(f"docs/{name}.md" for name in ("benchmarks", "campaign", "commands", "measured/benchmarks", "pytest", "recording")))
    counts = {name: sum(bool(words_of(code) and check(words_of(code))) for code, _ in code_of((SOURCE / name).read_text())) for name in names}
    assert counts["docs/commands.md"] >= 25 and min(counts.values()) >= 2, counts


def test_the_other_programs_flags_are_documented():
    """test_documents.py tests those of msda-replay."""
    for program, page, prefix in ((RECORD, "recording.md", "--"), (IMPORT, "python.md", "--"), (PYTEST, "pytest.md", "--msda")):
        text = (SOURCE / "docs" / page).read_text()
        short = {"--help", "--version", "--follow", *(["--output"] if "-o CASE.h5" in text else [])}
        flags = [flag for flag in flags_of(*program) if flag.startswith(prefix) and flag not in short]
        assert flags and not [flag for flag in flags if not re.search(rf"{flag}(?![\w-])", text)], page


def test_commands_on_the_shipped_capture(demo_capture, tmp_path):
    """Commands of transcripts that name it, in their order: they end as drift or as right, and print what stands below them."""
    ran = 0
    shutil.copy(demo_capture, tmp_path / "h200_border_noalign_0.h5")
    shutil.copy(DATA / "h200_border_noalign_0.npz", tmp_path)
    for page in PAGES:
        for transcript in re.findall(r"((?:^    (?! *\n).*\n)+)", page.read_text(), re.M):
            if not transcript.startswith("    $ msda-replay") or "h200_border_noalign_0" not in transcript:
                continue
            for command, output in re.findall(r"^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", transcript, re.M):
                made = re.search(r" -o (\S+)", command)
                if made and (tmp_path / made[1]).exists():
                    (tmp_path / made[1]).unlink()
                done = subprocess.run([REPLAY, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=300)
                assert done.returncode in (0, 1), command + done.stderr
                for line in output.splitlines():
                    shown = re.sub(r", [\d.]+ s$", "", line[4:].rstrip())  # a time
                    assert shown.strip() == "..." or shown in done.stdout, f"{page.name}: {command}: {shown}\n{done.stdout}"
                ran += 1
    assert ran >= 3


def test_every_variable_and_setting_is_documented():
    """Environment variables that the programs and the package read, and pytest's ini keys."""
    text = "".join(page.read_text() for page in (SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))))
    sources = [path for folder in ("analysis", "kernels", "recorder", "replay", "tools/python")
               for path in (SOURCE / folder).rglob("*") if path.suffix in (".cpp", ".h", ".py")]
    read = {name for path in sources for name in re.findall(r"""["'](MSDA_[A-Z_]*[A-Z])["'=]""", path.read_text())}
    assert {"MSDA_BUILD", "MSDA_CPU_ISA", "MSDA_RECORD_KEEP", "MSDA_REPLAY"} <= read
    assert not {name for name in read if not re.search(rf"`\$?{name}[`=/]|\b{name}=", text)}
    settings = (SOURCE / "tools" / "python" / "msda_replay" / "pytest_plugin" / "settings.py").read_text()
    keys = re.findall(r'addini\("(\w+)"', settings)
    assert "msda_dir" in keys
    assert not [key for key in keys if not re.search(rf"\b{key}\b", (SOURCE / "docs" / "pytest.md").read_text())]
