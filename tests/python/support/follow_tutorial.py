"""follow_tutorial.py PAGE: does what docs/tutorial.md says, in an empty folder: its commands in their order, with the exit status that
it states, and compares what they print with what the page quotes. Needs the commands and pytest, and nothing of this repository:
tools/package/try runs it where a package is installed."""

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
# What the page says of the outputs, in their words.
QUOTED = ("1 failed, 99 passed", "test_backward[18]", "error[cell_boundary]: the reference is wrong in 1 element",
          "recorded 40.77108, reference -52.1815758, float64 40.7710792", "first drift: cell",
          "The test fails in 3.00 % (0.62 to 8.52) of runs: 3 of 100 simulated", "Q 1 (of 1000)",
          "The test fails in 0.00 % (0.00 to 3.62) of runs: 0 of 100 simulated",
          "It then finds 27 of 27 kinds of planted faults (100.0 %)", "100 passed")  # fmt: skip


def follow(page, folder, environment, progress=lambda command, seconds: None):
    """Does what the page says in the folder. `progress` is called after each command."""
    text = page.read_text()
    listing = page.parent / "tutorial" / "test_attention.py"
    shutil.copy(listing, folder)
    quoted, fixed = (block for block in re.findall(r"```python\n(.*?)```", text, re.S))
    assert quoted in listing.read_text()
    steps = re.findall(r"^    \$ (.*?)(?:     # exit status (\d))?$|^(Change) the reference's line", text, re.M)
    assert len(steps) == 11 and [change for *_, change in steps].count("Change") == 1
    result = ""
    for command, status, change in steps:
        if change:
            _fix(folder / "test_attention.py", fixed)
            continue
        begin = time.monotonic()
        done = paste(command.replace("python3", sys.executable, 1), folder, environment)
        progress(command, time.monotonic() - begin)
        assert done.returncode == int(status or 0), f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        result += done.stdout
    for command in re.findall(r"`(msda-replay [^`]*)`", text):
        done = paste(command, folder, environment)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr}"
    assert (folder / "test_reproducer.py").exists()
    for words in QUOTED:
        assert words in result, words
        assert words in re.sub(r"\n      ", " ", text) or words in text, words


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


def _fix(test, line):
    text = test.read_text()
    old = next(old for old in text.splitlines(keepends=True) if old.strip().startswith("reference = "))
    test.write_text(text.replace(old, line))


def main(page):
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        follow(pathlib.Path(page), pathlib.Path(folder), dict(os.environ),
               lambda command, seconds: print(f"{seconds:6.1f} s  {command}", flush=True))
        print(f"{time.monotonic() - begin:6.1f} s  the tutorial")


if __name__ == "__main__":
    main(*sys.argv[1:])
