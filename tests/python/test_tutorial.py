"""The tutorial, done as it says: its commands in its order, with the exit status that it states."""

import json
import os
import re
import shutil
import subprocess
import sys

from conftest import BUILD, SOURCE

TUTORIAL = (SOURCE / "docs" / "tutorial.md").read_text()
SKILL = (SOURCE / "docs" / "skill" / "SKILL.md").read_text()
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
    assert len(steps) == 11 and [change for *_, change in steps].count("Change") == 1
    for command, status, change in ((command, int(status or 0), change) for command, status, change in steps):
        if change:
            mend(tmp_path / "test_attention.py", mended)
            continue
        command = command.replace("python3", sys.executable, 1)
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        outputs[command] = done.stdout
    for command in re.findall(r"`(msda-replay [^`]*)`", TUTORIAL):
        assert paste(command, tmp_path, environment).returncode == 0, command
    assert (tmp_path / "test_reproducer.py").exists()
    told = "".join(outputs.values())
    # What the text says of the outputs, in their words.
    for words in ("1 failed, 99 passed", "test_backward[18]", "error[cell_boundary]: the reference is wrong in 1 element",
                  "recorded 40.77108, reference -52.1815758, float64 40.7710792", "first drift: cell",
                  "The test fails in 3.00 % (0.62 to 8.52) of runs: 3 of 100 simulated", "Q 1 (of 1000)",
                  "The test fails in 0.00 % (0.00 to 3.62) of runs: 0 of 100 simulated",
                  "Of 27 kinds of planted faults it then finds 27 (100.0 %)", "100 passed"):  # fmt: skip
        assert words in told, words
        assert words in re.sub(r"\n      ", " ", TUTORIAL) or words in TUTORIAL, words


def test_every_command_of_the_skill(tmp_path, demo_capture, replay):
    """In its order, on a small capture; as quick as its commands allow."""
    shutil.copy(demo_capture, tmp_path / "CASE.h5")
    (tmp_path / "FOLDER").mkdir()
    for name in ("OLD.h5", "NEW.h5", "FOLDER/night.h5"):
        shutil.copy(demo_capture, tmp_path / name)
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    commands = re.findall(r"`(msda-replay \w+ [^`]*)`", SKILL)
    assert {command.split()[1] for command in commands} >= {"run", "minimize", "order", "stages", "stress", "advise", "gradcheck", "diff", "export"}
    for command in commands:
        command = command.replace("TENSOR[i,j,...]", "grad_sampling_locations[0,948,0,0,2,0]")
        command += {"stress": " --runs 4 --curve-runs 0", "advise": " --runs 4 --atol 1e-3"}.get(command.split()[1], "")
        done = paste(command, tmp_path, environment)
        assert done.returncode in (0, 1), f"{command}: {done.returncode}\n{done.stderr}"
    told = json.loads((tmp_path / "RUN.json").read_text())
    assert told["verdict"]["at_fault"] == "reference"
    order = replay("order", tmp_path / "CASE.h5", "--json", "-").json
    assert {"impossible", "in_parts", "not_found"} <= set(order["invocations"][0]["summary"])
    assert re.search(r"`invocations\[i\].summary`: `impossible` - `in_parts`", SKILL)


def paste(command, folder, environment):
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def mend(test, line):
    text = test.read_text()
    old = next(old for old in text.splitlines(keepends=True) if old.strip().startswith("reference = "))
    test.write_text(text.replace(old, line))
