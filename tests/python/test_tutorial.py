"""The tutorial, done as it says: its commands in its order, with the exit status that it states."""

import os
import re
import shutil
import subprocess
import sys

from conftest import BUILD, SOURCE

TUTORIAL = (SOURCE / "docs" / "tutorial.md").read_text()
LISTING = SOURCE / "docs" / "tutorial" / "test_attention.py"


def test_every_command_of_the_tutorial(tmp_path):
    shutil.copy(LISTING, tmp_path)
    quoted, mended = (block for block in re.findall(r"```python\n(.*?)```", TUTORIAL, re.S))
    assert quoted in LISTING.read_text()
    environment = {
        **os.environ,
        "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE / "tools" / "python"),
        "PYTEST_PLUGINS": "msda_replay.pytest_plugin",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    outputs = {}
    steps = re.findall(r"^    \$ (.*?)(?:     # exit status (\d))?$|^(Change) the reference's line", TUTORIAL, re.M)
    assert len(steps) == 10
    for command, status, change in ((command, int(status or 0), change) for command, status, change in steps):
        if change:
            mend(tmp_path / "test_attention.py", mended)
            continue
        command = command.replace("python3", sys.executable, 1)
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        outputs[command] = done.stdout
    told = "".join(outputs.values())
    # What the text says of the outputs, in their words.
    for words in ("1 failed, 99 passed", "test_backward[18]", "error[cell_boundary]: the reference is wrong in 1 element",
                  "recorded 40.77108, reference -52.1815758, float64 40.7710792", "first drift: cell",
                  "The test fails in 2.00 % (0.24 to 7.04) of runs: 2 of 100 simulated", "Q 1 (of 1000)",
                  "The test fails in 0.00 % (0.00 to 3.62) of runs: 0 of 100 simulated",
                  "Of 27 kinds of planted faults it then finds 27 (100.0 %)", "100 passed"):  # fmt: skip
        assert words in told, words
        assert words in re.sub(r"\n      ", " ", TUTORIAL) or words in TUTORIAL, words


def mend(test, line):
    text = test.read_text()
    old = next(old for old in text.splitlines(keepends=True) if old.strip().startswith("reference = "))
    test.write_text(text.replace(old, line))
