"""The documents describe what the programs do."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import REPLAY, SOURCE

pytestmark = pytest.mark.pages("the page in the assertion or in the test's name",
                                "copy what the program prints now into the transcript; name a new flag in docs/commands.md, a new cause in docs/causes.md; mend the link")

DOCUMENTS = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").rglob("*.md"))]


def test_transcript_in_readme(replay, demo_capture, tmp_path):
    block = re.search(r"```\n\$ build/bin/msda-replay run (\S+)\n(.*?)\n```", (SOURCE / "README.md").read_text(), re.S)
    copy = tmp_path / block[1]
    copy.parent.mkdir(parents=True)
    shutil.copy(demo_capture, copy)
    assert replay("run", block[1], expect=1, cwd=tmp_path).out.rstrip("\n") == block[2]


def anchors(document):
    """The anchors that Markdown makes of a document's headings."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target
    for path in re.findall(r"`((?:tests|tools|docs|recorder|kernels|analysis)/[\w./-]+)`", text):
        assert (SOURCE / path.rstrip("/")).exists(), path


def test_every_flag_is_documented():
    text = (SOURCE / "docs" / "commands.md").read_text()
    help_of = lambda *command: subprocess.run([REPLAY, *command, "--help"], capture_output=True, text=True).stdout  # noqa: E731
    commands = re.findall(r"^  ([a-z]+) ", help_of().split("Subcommands:")[1], re.M)
    assert {"run", "list", "show", "stages", "verify"} <= set(commands)
    for command in commands:
        assert f"msda-replay {command} " in text, command
        for flag in re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_of(command), re.M):
            assert f"`{flag}" in text, f"{command} {flag}"


def test_every_cause_and_evidence_is_documented(replay, demo_capture):
    schema = json.loads((SOURCE / "docs" / "run.schema.json").read_text())
    text = (SOURCE / "docs" / "causes.md").read_text()
    sections = {title: body for title, body in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.S | re.M)}
    assert set(schema["definitions"]["cause"]["enum"]) <= set(sections)
    result = replay("run", demo_capture, "--atol", 0, "--rtol", "1e-6", "--json", "-", expect=1).json
    seen = {}
    for finding in result["invocations"][0]["findings"]:
        seen.setdefault(finding["cause"], set()).update(finding["evidence"])
    assert {"cell_boundary", "accumulation_order", "ill_conditioned"} <= set(seen)
    for cause, fields in seen.items():
        for field in fields:
            plain = field.removesuffix("_hex")
            assert f"`{plain}`" in sections[cause], f"{cause}: {field}"
