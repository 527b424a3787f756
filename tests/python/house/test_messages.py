"""A message of trouble that a program prints can be looked up: docs/ quotes a part of each, found here in the sources."""

import re

import pytest

from conftest import SOURCE

pytestmark = pytest.mark.pages("docs/troubleshooting.md, or the page of the command",
                                "quote the message there in backquotes, with what to do about it, or fix the quotation")

# What is thrown or called with a message, and where. A message that begins with a flag needs no page: --help has the flag.
FAMILIES = {
    "replay": ("BadInput", "Unavailable", "CannotRelaunch", "Failure", "refuse", "print_error"),
    "recorder/capture": ("Error", "fail"),
    "recorder/preload": ("warn", "refuse", "complain"),
    "recorder/writer": ("say", "refuse", "Error", "runtime_error", "NoStages"),
    "recorder/spool": ("Error",),
}
NOT_FOR_USERS = {
    # A mistake in the writer's own code, not of a user's.
    "a tensor was added before the first invocation began", "a stage was added before the first invocation began", "was not begun",
    "is no part of it", "absurd shape",
}


def balanced(text, start):
    """The end of the call or the initializer that opens at `start`, and the string literals in it."""
    depth, place, literals = 0, start, []
    while place < len(text):
        character = text[place]
        if character == '"':
            end = place + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            literals.append((place, end + 1))
            place = end
        elif character == "'" and re.match(r"'(\\.|[^\\'])'", text[place:]):
            place += len(re.match(r"'(\\.|[^\\'])'", text[place:])[0]) - 1
        elif character in "({":
            depth += 1
        elif character in ")}":
            depth -= 1
            if depth == 0:
                break
        elif character == ";":
            break
        place += 1
    return literals


def messages(folder, names):
    """The constant parts of each message, with its file: literals that follow each other are one."""
    for path in sorted((SOURCE / folder).rglob("*")):
        if path.suffix not in (".cpp", ".h") or "/export/python/" in str(path) or "/export/cpp/" in str(path) or "report/html" in str(path):
            continue
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for call in re.finditer(rf"\b(?:{'|'.join(names)})\s*(?=[({{])", text):
            whole, last = "", None
            for begin, end in balanced(text, call.end()):
                joined = last is not None and not text[last:begin].strip()
                whole += ("" if joined or not whole else "{}") + text[begin + 1:end - 1]
                last = end
            if whole:
                yield path.relative_to(SOURCE), whole.replace('\\"', '"').replace("\\n", " ")


def parts_of(message):
    """What is constant in a message and long enough to be looked for."""
    parts = [" ".join(part.split()).strip(" :;,.()") for part in re.split(r"\{[^{}]*\}|\"|[;:,] | \(", message)]
    return [part for part in parts if len(part.split()) >= 3 or len(part) >= 16]


def plain(text):
    return " ".join(re.sub(r"[`*|\\]", "", text).split()).lower()


def test_every_message_is_in_the_documents():
    documents = plain(" ".join(page.read_text() for page in (SOURCE / "docs").rglob("*.md")))
    missing, found = [], 0
    for folder, names in FAMILIES.items():
        for path, message in messages(folder, names):
            parts = parts_of(message)
            if not parts or re.match(r"\s*-|\{\} \{\}: ", message) or any(part in NOT_FOR_USERS for part in parts):
                continue
            found += 1
            if not any(plain(part) in documents for part in parts):
                missing.append(f"{path}: {message}")
    assert not missing, f"{len(missing)} of {found}:\n" + "\n".join(missing)
    assert found > 150
