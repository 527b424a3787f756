"""The tutorials, done as they say: their commands in their order, with the exit status that they state, and what they print."""

import json
import os
import re
import shutil

import pytest
from conftest import BUILD, SOURCE
from support.follow_tutorial import commands_of, differs, follow, lacks, paste

pytestmark = [pytest.mark.long, pytest.mark.pages("the page of docs/tutorial/ in the test's name (or docs/skill/SKILL.md)",
                                "copy what the command prints now into the page, and state its exit status")]

SKILL = (SOURCE / "docs" / "skill" / "SKILL.md").read_text()


TUTORIALS = sorted((SOURCE / "docs" / "tutorial").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_command_of_a_tutorial(page, tmp_path):
    if missing := lacks(page):
        pytest.skip(f"not installed here: {', '.join(missing)}")
    environment = {
        **os.environ,
        "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE / "tools" / "python"),
        "PYTEST_PLUGINS": "msda_replay.pytest_plugin",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    attempts = 3 if page.stem == "training" else 1  # two runs may be equal, as the page says
    for attempt in range(attempts):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        try:
            return follow(page, folder, environment)
        except AssertionError:
            if attempt == attempts - 1:
                raise


def test_tutorials_are_short_and_listed():
    index = (SOURCE / "docs" / "tutorial.md").read_text()
    assert {page.stem for page in TUTORIALS} == {"attention", "flaky_test", "own_kernel", "training"}
    for page in TUTORIALS:
        assert len(page.read_text().splitlines()) <= 160 and f"(tutorial/{page.name})" in index


def test_what_a_page_shows_wrongly_is_seen():
    """Not a test of nothing."""
    block = "    $ msda-replay a  # exit status 1, numbers vary\n    x 1.5\n    ...\n    z\n    $ python3 b\n"
    assert list(commands_of(block)) == [("msda-replay a", 1, True, ["x 1.5", "...", "z"]), ("python3 b", 0, False, [])]
    assert not differs(["x 1.5", "...", "z"], "x 2e-7\ny\nz\n", True) and not differs(["1 passed in 0.10s"], "1 passed in 2.34s\n", False)
    for shown, printed, vary in ((["x 1.5"], "x 2.5\n", False), (["x", "z"], "x\ny\nz\n", False), (["x"], "x\ny\n", True), (["y", "...", "x"], "x\ny\n", True)):
        assert differs(shown, printed, vary)


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
