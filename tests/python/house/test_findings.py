"""The pages of docs/findings: their commands, with the lines that the pages show of what they print."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, SOURCE

pytestmark = pytest.mark.pages("docs/findings/, the page in the test's name",
                                "run the command that the page shows, and copy what it prints now")

FINDINGS = SOURCE / "docs" / "findings"
PAGES = sorted(page for page in FINDINGS.glob("*.md") if page.name != "README.md")


def lacks_library(command):
    """Whether a page's script imports a library of PyTorch's that is not installed."""
    imported = re.findall(r"^(?:import|from) (torch\w*)", (SOURCE / command.split()[1]).read_text(), re.MULTILINE)
    return any(importlib.util.find_spec(name) is None for name in imported)


def steps_of(page):
    """(command, the lines shown below it)"""
    steps = []
    for line in page.read_text().splitlines():
        if line.startswith("    $ "):
            steps.append((line[6:], []))
        elif line.startswith("    ") and steps:
            steps[-1][1].append(line[4:])
    return steps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_shows_what_is_printed(page, tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copytree(FINDINGS, tmp_path / "docs" / "findings")
    (tmp_path / "tests").symlink_to(SOURCE / "tests")
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": str(SOURCE / "tools" / "python")}
    steps = steps_of(page)
    has_capture = any(FINDINGS.glob(f"{page.stem}*.h5"))  # attention has none, as no operator explains it
    assert any(command.startswith("msda-replay run" if has_capture else "") and shown for command, shown in steps)
    for command, shown in steps:
        is_script = command.startswith("python3 docs/findings/")
        if is_script and lacks_library(command):
            continue  # the capture that it left is in the folder
        command = command.replace("python3", sys.executable, 1)
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        if "grid_sample_on_a_cpu.py" in command:
            continue  # it writes outside of its memory, so that anything may follow
        if is_script and done.returncode == 77:
            continue  # there is no GPU
        assert done.returncode in (0, 1), done.stderr
        printed = [line.rstrip() for line in done.stdout.splitlines()]
        assert set(shown) <= set(printed), f"{command}: not printed: {set(shown) - set(printed)}"


def test_every_page_is_named():
    index = (FINDINGS / "README.md").read_text()
    assert re.findall(r"\]\((\w+\.md)\)", index) and set(re.findall(r"\]\((\w+\.md)\)", index)) == {page.name for page in PAGES}
