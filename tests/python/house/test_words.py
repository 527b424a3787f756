"""How comments, messages and names read: a stranger reads a sentence once, who does what, in that order."""

import ast
import io
import re
import tokenize

import pytest

from conftest import SOURCE

SUFFIXES = (".cpp", ".h", ".cu", ".cuh", ".py", ".css")
# What is read of each room: all of it, or only its comments. The rule reaches one room after the other; the inner room comes first.
ALL, COMMENTS = "all", "comments"
ROOMS = {"analysis/": ALL, "replay/diff/": COMMENTS, "replay/": ALL, "recorder/": COMMENTS, "kernels/": COMMENTS, "tools/": COMMENTS}

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


def forms_in(line):
    line = KEYS.sub('""', line)
    return [form for form, pattern in FORMS.items() if pattern.search(code_of(line) if form in ONLY_IN_CODE else line)]


def docstring_lines(text):
    """Returns the numbers of the lines of all docstrings."""
    numbers = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            numbers.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return numbers


def comments_in_python(text):
    lines, docstrings = text.splitlines(), docstring_lines(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], "//" + token.string[1:]
    yield from ((number, lines[number - 1]) for number in sorted(docstrings))


def comments_in_cpp(text):
    is_inside = False  # a comment between /* and */
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', lambda literal: "x" * len(literal[0]), line)
        if is_inside:
            yield number, re.sub(r"^\s*\*?(?!/)", "//", line.split("*/")[0])
        elif found := re.search(r"//|/\*", bare):
            yield number, "//" + line[found.end():].split("*/")[0]
        is_inside = "*/" not in bare if is_inside else "/*" in bare.split("//")[0] and "*/" not in bare


def read_lines(name, text, what):
    """Yields the number and the text of each line that is read of a file, with // before comments."""
    if what == COMMENTS:
        yield from comments_in_python(text) if name.endswith(".py") else comments_in_cpp(text)
        return
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line.replace("#", "//", 1) if name.endswith(".py") else line


def forms_of_room(line, what):
    return [form for form in forms_in(line) if what == ALL or form not in ONLY_IN_CODE]


def files():
    """Yields the name, the text and what is read of each file."""
    for path in sorted(path for room in ("analysis", "replay", "kernels", "tools") for path in (SOURCE / room).rglob("*")):
        name = str(path.relative_to(SOURCE))
        if path.suffix in SUFFIXES:
            yield name, path.read_text(), next(what for room, what in ROOMS.items() if name.startswith(room))


def test_sentences_and_names_read_once():
    found = []
    for name, text, what in files():
        for number, line in read_lines(name, text, what):
            found += [f"{name}:{number}: {form}\n    {line.strip()}" for form in forms_of_room(line, what)]
    assert not found, "\n".join(found)


def test_the_rooms_are_read():
    read = {name: what for name, _, what in files()}
    assert len(read) > 700 and {what for name, what in read.items() if name.startswith(("analysis/", "replay/export/"))} == {ALL}
    for name in ("replay/diff/align.cpp", "kernels/own_operator.h", "kernels/cuda/msda/runs.cuh", "tools/python/msda_replay/memory.py"):
        assert read[name] == COMMENTS


@pytest.mark.parametrize("name, text, numbers", [
    ("a.h", "/* Of this header. */\nint of = 1;", [1]),
    ("a.h", "/* One line\n * Those of the other. */\nint told = 1;", [2]),
    ("a.h", "int a; /* Of one. */\nint b = 1;  // Of two.", [1, 2]),
    ("a.h", 'const char* text = "// Of one";\nconst bool tells = told;', []),
    ("a.py", 'def f(told):\n    """Of all."""\n    return told["told"]  # what it tells\n', [2, 3]),
    ("a.py", 'text = "# Of one"\ntext = """Of two"""\n', []),
])
def test_only_comments_are_read(name, text, numbers):
    lines = read_lines(name, text, COMMENTS)
    assert [number for number, line in sorted(lines) if forms_of_room(line, COMMENTS)] == numbers


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
