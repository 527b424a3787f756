"""How comments, messages and names read: a stranger reads a sentence once, who does what, in that order."""

import ast
import io
import re
import tokenize

import pytest

from conftest import SOURCE

SUFFIXES = (".cpp", ".h", ".cu", ".cuh", ".py", ".css")
ROOMS = ("analysis", "replay", "recorder", "kernels", "tools", "tests")
CODE, COMMENTS = "code", "comments"

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
    "a name in a binding, a loop or an assignment that is of, one, other, told: say what it is":
        re.compile(r"auto&{0,2} \[[^\]]*\b(?:of|one|other|told)\b|\bfor (?:\w+, )*(?:of|one|other|told)(?:, \w+)* in\b|"
                   r"^\s*(?:one|(?:\w+, )*(?:of|other|told)(?:, \w+)*) = "),  # "one, half = ..." are numbers
}
ONLY_IN_CODE = tuple(form for form in FORMS if form.startswith("a variable") or form.startswith("a name"))


def code_of(line):
    """A line without its literals and its comment."""
    return re.sub(r"//.*", "", re.sub(r'"(?:[^"\\]|\\.)*"|(?<!\w)\'(?:[^\'\\]|\\.)*\'', '""', line))


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


def parts_of_python(text):
    """Yields the number, the code and the comment of each line. Lines of docstrings are comments."""
    docstrings = docstring_lines(text)
    comments = {token.start[0]: token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT}
    for number, line in enumerate(text.splitlines(), 1):
        if number in docstrings:
            yield number, "", line
        elif number in comments:
            yield number, line[:comments[number].start[1]], "//" + comments[number].string[1:]
        else:
            yield number, line, ""


def parts_of_cpp(text):
    is_inside = False  # a comment between /* and */
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', lambda literal: "x" * len(literal[0]), line)
        if is_inside:
            yield number, "", re.sub(r"^\s*\*?(?!/)", "//", line.split("*/")[0])
        elif found := re.search(r"//|/\*", bare):
            yield number, line[:found.start()], "//" + line[found.end():].split("*/")[0]
        else:
            yield number, line, ""
        is_inside = "*/" not in bare if is_inside else "/*" in bare.split("//")[0] and "*/" not in bare


def read_lines(name, text):
    """Yields the number and the text of each comment, with // before it, and of each line's code; and which it is."""
    for number, code, comment in parts_of_python(text) if name.endswith(".py") else parts_of_cpp(text):
        yield number, comment, COMMENTS
        yield number, code, CODE


def forms_in_part(line, part):
    return [form for form in forms_in(line) if part == CODE or form not in ONLY_IN_CODE]


def files():
    """Yields the name and the text of each file."""
    for path in sorted(path for room in ROOMS for path in (SOURCE / room).rglob("*")):
        name = str(path.relative_to(SOURCE))
        if path.suffix in SUFFIXES and path.name != "test_words.py":
            yield name, path.read_text()


def test_sentences_and_names_read_once():
    found = []
    for name, text in files():
        for number, line, part in read_lines(name, text):
            found += [f"{name}:{number}: {form}\n    {line.strip()}" for form in forms_in_part(line, part)]
    assert not found, "\n".join(found)


def test_the_rooms_are_read():
    read = {name for name, _ in files()}
    assert len(read) > 1300
    for name in ("recorder/preload/survey/survey.cpp", "kernels/cuda/msda/runs.cuh", "tools/python/msda_replay/memory.py", "replay/diff/align.cpp"):
        assert name in read


@pytest.mark.parametrize("name, text, numbers", [
    ("a.h", "/* Of this header. */\nint of = 1;", [1]),
    ("a.h", "/* One line\n * Those of the other. */\nint told = 1;", [2]),
    ("a.h", "int a; /* Of one. */\nint b = 1;  // Of two.", [1, 2]),
    ("a.h", 'const char* text = "// Of one";\nconst bool tells = told;', []),
    ("a.py", 'def f(told):\n    """Of all."""\n    return told["told"]  # what it tells\n', [2, 3]),
    ("a.py", 'text = "# Of one"\ntext = """Of two"""\n', []),
])
def test_only_comments_are_read(name, text, numbers):
    assert [number for number, line, part in read_lines(name, text) if part == COMMENTS and forms_in_part(line, part)] == numbers


@pytest.mark.parametrize("name, text, numbers", [
    ("a.h", "/* A list of one, of two. */\nint of = 1;", [2]),
    ("a.cu", "/* It has one,\n * other, */\n__shared__ int other;  // no other", [3]),
    ("a.h", 'fail("the driver does not tell it");', [1]),
    ("a.py", 'def f(told):\n    """The tensor of another one; each other."""\n    return told["told"]\n', [1, 3]),
    ("a.py", "for one in some:\n    use(one)  # the other, one\n", [1]),
    ("a.py", "first, other = read(), [one for one in some]", [1]),
    ("a.py", "def f():\n    other = find(one=True)", [2]),
    ("a.py", "f(lambda other: other.x)", [1]),
])
def test_comments_and_code_are_read(name, text, numbers):
    assert [number for number, line, part in read_lines(name, text) if forms_in_part(line, part)] == numbers


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
