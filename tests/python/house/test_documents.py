"""The documents describe what the programs do."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import REPLAY, SOURCE

from msda_replay import __version__

pytestmark = pytest.mark.pages("the page in the assertion or in the test's name",
                                "copy what the program prints now into the transcript; name a new flag in docs/commands.md, a new cause in docs/causes.md; fix the link")

DOCUMENTS = [*sorted(SOURCE.glob("*.md")), *(page for folder in ("docs", "tests", "tools") for page in sorted((SOURCE / folder).rglob("*.md")))]
FOLDERS = (".ci", "analysis", "docs", "kernels", "recorder", "replay", "tests", "tools")


def test_transcript_in_readme(replay, demo_capture, tmp_path):
    block = re.search(r"```\n\$ build/bin/msda-replay run (\S+)\n(.*?)\n```", (SOURCE / "README.md").read_text(), re.S)
    copy = tmp_path / block[1]
    copy.parent.mkdir(parents=True)
    shutil.copy(demo_capture, copy)
    assert replay("run", block[1], expect=1, cwd=tmp_path).out.rstrip("\n") == block[2]


def test_what_the_readme_shows_is_in_a_tutorial():
    """test_tutorial.py runs it there, and test_survey_in_pages.py the survey."""
    readme = (SOURCE / "README.md").read_text()
    tutorials = "".join(page.read_text() for page in sorted((SOURCE / "docs" / "tutorial").glob("*.md")))
    shown = re.findall(r"^    \$ (.*)\n((?:    .*\n)+)", readme, re.M)
    assert [command.split()[0] for command, _ in shown] == ["msda-replay", "python3"]
    for command, lines in shown:
        (printed,) = re.findall(rf"^    \$ {re.escape(command)}  # .*\n((?:    .*\n)+)", tutorials, re.M)
        assert set(lines.splitlines()) <= set(printed.splitlines()), command
    assert re.findall(r"```python\n(.*?)```", readme, re.S)[1] in (SOURCE / "docs" / "tutorial" / "record.py").read_text()


def test_the_index_names_every_page():
    named = {path for path in re.findall(r"\]\(([\w./-]+?\.md)(?:#[\w-]+)?\)", (SOURCE / "docs" / "README.md").read_text())}
    pages = {str(page.relative_to(SOURCE / "docs")) for page in (SOURCE / "docs").rglob("*.md") if page.parent.name not in ("findings", "tutorial")}
    assert pages - {"README.md"} <= named, "name the page in docs/README.md"


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$|(?<=\n\n)(?: {4}[^\n]*\n)+", "", text, flags=re.S | re.M)


def titles(document):
    return re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.S | re.M), re.M)


def anchors(document):
    """The anchors that Markdown makes of a document's headings."""
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles(document)}


def dead_links(document, text):
    for target in re.findall(r"\]\(([^)]+)\)", prose(text)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            yield target
    for path in re.findall(r"`((?:tests|tools|docs|recorder|replay|kernels|analysis)/[\w./-]+)`", text):
        if not (SOURCE / path.rstrip("/")).exists():
            yield path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_links_lead_somewhere(document):
    assert not list(dead_links(document, document.read_text()))


@pytest.mark.parametrize("notebook", sorted((SOURCE / "docs").rglob("*.ipynb")), ids=lambda path: path.name)
def test_links_of_notebooks_lead_somewhere(notebook):
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "markdown"]
    assert cells
    assert not [target for cell in cells for target in dead_links(notebook, "".join(cell["source"]))]


def dead_mentions(text):
    """Pages of docs/ that a message, a comment or a schema names and that are not there, and sections that they do not have."""
    for page, section in re.findall(r"""(?<![\w/.-])(docs/[\w./-]+\.(?:md|json|ipynb|svg))(?:(?: \(|, \\?")([A-Z][\w ?]+)(?:\)|\\?"))?""", text):
        if not (SOURCE / page).is_file():
            yield page
        elif section and section not in titles(SOURCE / page):
            yield f"{page}, {section}"


def test_pages_that_the_sources_name_are_there():
    named, missing = 0, []
    for path in sorted([*SOURCE.glob("*"), *(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*"))]):
        if path.suffix in (".h5", ".npz", ".pyc", ".gz") or not path.is_file() or "__pycache__" in path.parts:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        named += len(re.findall(r"docs/[\w./-]+\.md", text))
        missing += [f"{path.relative_to(SOURCE)}: {page}" for page in dead_mentions(text) if path.name != "test_documents.py"]
    assert not missing, "\n".join(missing)
    assert named > 100


COLUMNS = 120


def long_lines(text):
    """Lines of prose that can be wrapped: rows of tables and links that stand alone cannot."""
    text = re.sub(r"\A---\n.*?^---$", "", text, flags=re.S | re.M)  # of a skill: what it is for, in one line
    kept = r" *\||(?: *- )?!?\[[^\]]*\]\([^)]*\)[.,:;]?$"
    return [line for line in prose(text).splitlines() if len(line) > COLUMNS and not re.match(kept, line)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_lines_fit_a_terminal(document):
    assert not long_lines(document.read_text()), f"wrap these lines at {COLUMNS} columns"


def long_cells(text):
    """Cells of tables that are paragraphs, code and the targets of links aside."""
    rows = [line for line in re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M).splitlines() if line.lstrip().startswith("|")]
    return [cell for row in rows for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "x", re.sub(r"\]\([^)]*\)", "]", row))) if len(cell) > 320]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_cells_of_tables_are_no_paragraphs(document):
    assert not long_cells(document.read_text()), "say it below the table, and link to it from the cell"


@pytest.mark.parametrize("name", ["benchmarks", "campaign"])
def test_what_was_measured_is_one_page(name):
    """The newest result of each; the tables are in docs/measured/."""
    assert len((SOURCE / "docs" / f"{name}.md").read_text().split()) <= 1500, "move what is no newest result to docs/measured/"


def test_what_is_missing_is_seen():
    """Not a test of nothing."""
    page = SOURCE / "docs" / "causes.md"
    text = "[a](causes.md) [b](nothing.md) [c](causes.md#how-a-finding-is-judged) [d](#no-such-title) `tools/nothing` `tools/lint`"
    assert list(dead_links(page, text)) == ["nothing.md", "#no-such-title", "tools/nothing"]
    mentions = 'docs/causes.md, "How a finding is judged"; docs/causes.md (No such title); docs/nothing.md; a/docs/nothing.md'
    assert list(dead_mentions(mentions)) == ["docs/causes.md, No such title", "docs/nothing.md"]
    wide = "word " * 30
    assert long_lines(f"---\n{wide}\n---\n{wide}\n\n    {wide}\n\n```\n{wide}\n```\n| {wide} |\n- {wide}\n![{wide}](a.svg)\n") == [wide, f"- {wide}"]
    assert long_cells(f"| {wide * 3} |\n| `{wide * 3}` |\n| [a]({wide * 3}) |\n") and not long_cells(f"| `{wide * 3}` |\n| [a]({wide * 3}) |\n")


def test_pages_name_this_version():
    """In the names of packages, in what --version prints, and the newest in the list of changes."""
    assert re.search(r"^## (\d\S*)", (SOURCE / "CHANGELOG.md").read_text(), re.M)[1] == __version__
    named = [(page.name, version) for page in DOCUMENTS if page.name != "CHANGELOG.md"
             for version in re.findall(r"\bmsda[-_]replay[-_ ](\d+\.\d+\.\d+)", page.read_text())]
    assert {page for page, _ in named} >= {"commands.md", "packages.md", "tutorial.md"}
    assert not [(page, version) for page, version in named if version != __version__]


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
