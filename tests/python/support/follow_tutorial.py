"""follow_tutorial.py PAGE...: does what pages of docs/tutorial/ say, each in an empty folder: their commands and changes in their order,
with the exit status that they state, and compares what is printed with what the page shows. Needs the commands, pytest and what the page's
programs import, and nothing of this repository: tools/package/try runs it where a package is installed."""

import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_SECONDS = 600  # of a command, also on a machine that does other work
# A block of Python, which quotes a program or replaces a line of it, or a block of commands with what they print.
STEP = re.compile(r"(?:^Replace `(.*)` in `(.*)` by\n\n)?^```python\n((?:.*\n)*?)```|^((?:    .*\n|\n(?=    ))+)", re.M)
NUMBER = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{16}\b|-?\d[\d,.]*(?:e-?\d+)?")


def commands_of(block):
    """(command, exit status, whether its numbers differ from run to run, the lines that it prints)"""
    for command, notes, shown in re.findall(r"^    \$ (.*?)(?: {2,}# (.*))?\n((?:(?!    \$ ).*\n)*)", block, re.M):
        status = re.search(r"exit status (\d)", notes)
        yield command, int(status[1]) if status else 0, "numbers vary" in notes, [line[4:] for line in shown.strip("\n").splitlines()]


def lacks(page):
    """The modules that the page's programs import and that are not installed."""
    programs = [(page.parent / name).read_text() for name in set(re.findall(r"\b\w+\.py\b", page.read_text())) if (page.parent / name).exists()]
    names = set(re.findall(r"^(?:import|from) (torch|triton)\b", "\n".join(programs), re.M))
    return sorted(name for name in names if importlib.util.find_spec(name) is None)


def plain(line, vary):
    """What of a line is compared: not the time that pytest took, and not how wide the columns of a table are."""
    return re.sub(r"(?<=\S) +", " ", re.sub(r"in \d+\.\d+s", "in #s", NUMBER.sub("#", line) if vary else line)).rstrip()


def differs(shown, printed, vary):
    """Whether the page shows other lines than were printed; "..." stands for any lines. Where lines end depends on their numbers."""
    any_lines, end = ("(?:.* )?", " ") if vary else ("(?:.*\n)*", "\n")
    text = [plain(line.strip() if vary else line, vary) + end for line in printed.strip("\n").splitlines()]
    pattern = "".join(any_lines if line == "..." else re.escape(plain(line.strip() if vary else line, vary) + end) for line in shown)
    return not re.fullmatch(pattern, "".join(text))


def follow(page, folder, environment, progress=lambda command, seconds: None):
    """Does what the page says in the folder. `progress` is called after each command."""
    listings = {path.name: shutil.copy(path, folder) and path.read_text() for path in page.parent.glob("*.py")}
    done = 0
    for code, file, python, block in STEP.findall(page.read_text()):
        if file:
            text = (folder / file).read_text()
            assert text.count(code) == 1, f"{file}: {code}"
            (folder / file).write_text(text.replace(code, python.strip()))
        elif python:
            assert any(python in listing for listing in listings.values()), f"not in a program of the page:\n{python}"
        for command, status, vary, shown in commands_of(block):
            begin = time.monotonic()
            ended = paste(command.replace("python3", sys.executable, 1), folder, environment)
            progress(command, time.monotonic() - begin)
            assert ended.returncode == status, f"{command}: {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
            assert not shown or not differs(shown, ended.stdout, vary), f"$ {command}\n{ended.stdout}"
            done += 1
    assert done >= 5, f"{page.name}: {done} commands"


def paste(command, folder, environment):
    """What a shell in the folder makes of the command. If that takes too long, what it has started ends, too."""
    with subprocess.Popen(command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=LIMIT_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def main(*pages):
    for page in map(pathlib.Path, pages):
        if missing := lacks(page):
            print(f"  left out  {page.stem}: not installed: {', '.join(missing)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            follow(page, pathlib.Path(folder), dict(os.environ), lambda command, seconds: print(f"{seconds:6.1f} s  {command}", flush=True))
            print(f"{time.monotonic() - begin:6.1f} s  {page.stem}")


if __name__ == "__main__":
    main(*sys.argv[1:])
