"""The commands that the pages name."""

import re
import subprocess

from conftest import REPLAY, SOURCE

PAGES = [SOURCE / "CHANGELOG.md", SOURCE / "CONTRIBUTING.md", SOURCE / "README.md",
         *(page for folder in ("docs", "tests", "tools") for page in sorted((SOURCE / folder).rglob("*.md")))]
SUBCOMMANDS = re.findall(r"^  ([a-z]+) ", subprocess.run([REPLAY, "--help"], capture_output=True, text=True).stdout.split("Subcommands:")[1],
                         re.M)


def code_of(text):
    """The lines of code blocks as (line, True), and inline code as (code, False)."""
    blocks = re.compile(r"^```[^\n]*\n(.*?)^```|((?:^    [^\n]*\n|^\n(?=    ))+)", re.S | re.M)
    for fenced, indented in blocks.findall(text + "\n"):
        for line in re.sub(r"\\\n", " ", fenced or indented).splitlines():
            yield re.sub(r"^\s*\$ ", "", line).strip(), True
    for part in re.split(r"\n\s*\n", blocks.sub("\n\n", text + "\n")):
        for row in part.split("\n|"):  # no code reaches over a row of a table
            for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", row):
                yield " ".join(code.replace("\\|", "|").split()), False
