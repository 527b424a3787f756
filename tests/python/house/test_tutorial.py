"""The tutorial, done as it says: its commands in its order, with the exit status that it states."""

import json
import os
import re
import shutil

import pytest
from conftest import BUILD, SOURCE
from support.follow_tutorial import follow, paste

pytestmark = [pytest.mark.long, pytest.mark.pages("docs/tutorial.md (or docs/skill/SKILL.md)",
                                "copy what the command prints now into the page, and state its exit status")]

SKILL = (SOURCE / "docs" / "skill" / "SKILL.md").read_text()


def test_every_command_of_the_tutorial(tmp_path):
    environment = {
        **os.environ,
        "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE / "tools" / "python"),
        "PYTEST_PLUGINS": "msda_replay.pytest_plugin",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    follow(SOURCE / "docs" / "tutorial.md", tmp_path, environment)


def test_every_command_of_the_skill(tmp_path, demo_capture, replay):
    """In its order, on a small capture; as quick as its commands allow."""
    shutil.copy(demo_capture, tmp_path / "CASE.h5")
    (tmp_path / "FOLDER").mkdir()
    for name in ("OLD.h5", "NEW.h5", "FOLDER/night.h5"):
        shutil.copy(demo_capture, tmp_path / name)
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    commands = [command for command in re.findall(r"`(msda-replay \w+ [^`]*)`", SKILL) if "CMD" not in command]  # a survey needs a GPU
    assert {command.split()[1] for command in commands} >= {"run", "minimize", "order", "stages", "stress", "advise", "gradcheck", "diff", "export"}
    for command in commands:
        command = command.replace("TENSOR[i,j,...]", "grad_sampling_locations[0,948,0,0,2,0]")
        command += {"stress": " --runs 4 --curve-runs 0", "advise": " --runs 4 --atol 1e-3"}.get(command.split()[1], "")
        done = paste(command, tmp_path, environment)
        assert done.returncode in (0, 1), f"{command}: {done.returncode}\n{done.stderr}"
    result = json.loads((tmp_path / "RUN.json").read_text())
    assert result["verdict"]["at_fault"] == "reference"
    order = replay("order", tmp_path / "CASE.h5", "--json", "-").json
    assert {"impossible", "in_parts", "not_found"} <= set(order["invocations"][0]["summary"])
    assert re.search(r"`invocations\[i\].summary`: `impossible` - `in_parts`", SKILL)
