"""How comments of the C++ rooms read, and messages and names of some: a stranger reads a sentence once, who does what, in that order."""

import re

import pytest

from conftest import SOURCE

# The rule reaches one room after the other, comments first: whether it already reaches the room's messages and names.
ROOMS = {"analysis": True, "replay": True, "recorder": False}
# This one comes last.
NOT_YET = ("replay/diff/",)

# Names of members in JSON, which stay as they are.
KEYS = re.compile(r'"(?:told|tells)"')

FORMS = {
    "a comment or a sentence in it that begins with Of, Those or So that: say who does what, in that order":
        re.compile(r'(?://|"""|//.*[a-z)]\. )\s*(?:Of|Those|So that)\b'),
    "hangs on: say depends on":
        re.compile(r"\b(?:hangs?|hanging) on\b", re.IGNORECASE),
    "tells, told: say shows, reports, prints, distinguishes":
        re.compile(r"(?<![\w.])(?:tells?|told|telling)\b", re.IGNORECASE),
    "mends: say fixes, avoids":
        re.compile(r"\bmend(?:s|ed|ing)?\b", re.IGNORECASE),
    "of no account, to be had, of its own making: say ignored, available, by itself":
        re.compile(r"\b(?:of no account|to be had|of its own making|no one order)\b", re.IGNORECASE),
    "a variable or parameter named of, one, other, told, is_: say what it is":
        re.compile(r"(?:\w[ \t]+|[>&*][ \t]*)(?<!return )(?<!operator )(?:of|one|other|told|is_)(?:[ \t]*[=:;)\]]|\{|, )"),
    "a name in a binding, or a parameter, that is of, one, other, told: say what it is":
        re.compile(r"auto&{0,2} \[[^\]]*\b(?:of|one|other|told)\b"),
}
ONLY_IN_CODE = tuple(form for form in FORMS if form.startswith("a variable") or form.startswith("a name"))


def code_of(line):
    """A line without its literals and its comment."""
    return re.sub(r"//.*", "", re.sub(r'"(?:[^"\\]|\\.)*"', '""', line))


def comment_of(line):
    """A line's comment, without literals."""
    return "".join(re.findall(r"//.*", re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)))


def forms_in(line, whole=True):
    """The forms in a line or, unless it is read as a whole, in its comment."""
    line = KEYS.sub('""', line) if whole else comment_of(line)
    return [form for form, pattern in FORMS.items() if pattern.search(code_of(line) if form in ONLY_IN_CODE else line)]


def files():
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*")):
            name = str(path.relative_to(SOURCE))
            if path.suffix in (".cpp", ".h", ".py", ".css") and not name.startswith(NOT_YET):
                yield name, path.read_text()


def test_sentences_and_names_read_once():
    found = []
    for name, text in files():
        for number, line in enumerate(text.splitlines(), 1):
            if name.endswith(".py"):
                line = line.replace("#", "//", 1)
            whole = ROOMS[name.split("/")[0]]
            found += [f"{name}:{number}: {form}\n    {line.strip()}" for form in forms_in(line, whole)]
    assert not found, "\n".join(found)


def test_the_rooms_are_read():
    names = [name for name, _ in files()]
    assert len(names) > 750
    for name in ("analysis/analyze.cpp", "replay/export/python/check.py", "recorder/preload/trail/trail.cpp"):
        assert name in names


@pytest.mark.parametrize("line, forms", [
    ("// Of mode nearest: the first pixel.", 1),
    ("  int64_t fits = 0;  // Those that fit.", 1),
    ('"""Of one channel: the sum of all."""', 1),
    ("// Returns the pixels of mode nearest.", 0),
    ("// A result that hangs on rounding.", 1),
    ("// A kernel that faults or hangs only there.", 0),
    ('throw BadInput("show tells what was recorded");', 1),
    ('  json["told"] = description;', 0),
    ("const bool is_told_otherwise = false;", 0),
    ("// What mends it.", 1),
    ("// `threads` is of no account.", 1),
    ("for (const Finding& one : findings) add(one);", 1),
    ("bool fit(const Call& other) const;", 1),
    ("  std::shared_ptr<const Definition> is_;", 1),
    ("for (const auto& [index, of] : pairs) add(index);", 1),
    ("std::vector<double> numbers_of(const Intermediate& of, int count);", 1),
    ("// Takes one of the two: the other, or one.", 0),
    ("const Tensor& of(Gradient gradient) const;", 0),
])
def test_the_forms_are_found(line, forms):
    assert len(forms_in(line)) == forms, forms_in(line)


@pytest.mark.parametrize("line, forms", [
    ("  // Of a launch in this row: what it writes.", 1),
    ("  // What the driver tells about a launch.", 1),
    ("  int64_t left = 0;  // What mends it.", 1),
    ('  return Refusal{"not the 17 that its name tells"};', 0),
    ('  open("http://tells");', 0),
    ("  evidence->tell(message.texts);  // a list of texts", 0),
    ("for (const Finding& one : findings) add(one);", 0),
])
def test_the_forms_are_found_in_comments_alone(line, forms):
    assert len(forms_in(line, whole=False)) == forms, forms_in(line, whole=False)
