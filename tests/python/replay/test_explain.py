"""`msda-replay explain` knows every word that the commands' JSON may use for a cause, a verdict or a kind, and says what its page says."""

import json
import os
import re
import subprocess

import jsonschema
import pytest
from conftest import REPLAY, SOURCE


def explain(*arguments, columns=80):
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run([REPLAY, "explain", *arguments], capture_output=True, text=True, env=environment)


def words(*arguments):
    done = explain(*arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((SOURCE / "docs" / "explain.schema.json").read_text()))
    return found["words"]


def test_another_result_may_take_the_place_of_its_json(tmp_path):
    for _ in range(2):
        done = explain("rounding", "--json", tmp_path / "a.json")
        assert done.returncode == 0, done.stderr


def enumerations(schema):
    """All lists of words that a schema admits."""
    if isinstance(schema, dict):
        yield from [schema["enum"]] if "enum" in schema else []
        for part in schema.values():
            yield from enumerations(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from enumerations(part)


def admitted(page, word):
    """The list of words in a command's schema that has this one."""
    lists = [names for names in enumerations(json.loads((SOURCE / "docs" / f"{page}.schema.json").read_text())) if word in names]
    assert lists, f"docs/{page}.schema.json lists no {word}"
    return max(lists, key=len)


@pytest.mark.parametrize(
    "meant_as, page, word",
    [
        ("cause of a finding", "run", "ill_conditioned"),
        ("verdict of a survey", "survey", "order_only"),
        ("kind of a divergence of trails", "diff", "other_input"),
        ("cause of a divergence of trails", "diff", "loss_scale"),
    ],
)
def test_every_word_of_a_schema_is_explained(meant_as, page, word):
    explained = {found["name"] for found in words() if found["meant_as"] == meant_as}
    assert explained == {name for name in admitted(page, word) if name}


def test_an_explanation_is_the_pages_section():
    """Compared without what is written in another way: links, tables, line breaks."""
    page = (SOURCE / "docs" / "causes.md").read_text()
    section = page.split("\n## cell_boundary\n")[1].split("\n## ")[0]
    section = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section)
    (found,) = words("cell_boundary")
    assert found["explanation"].split() == section.split()
    shown, _, typed = explain("cell_boundary").stdout.rpartition("\nnext: ")
    assert shown.split()[-30:] == section.split()[-30:] and typed == found["type"] + "\n"


def test_operators_and_the_words_of_diff_are_explained():
    """All operators, each with how to record it, and each section that the JSON of diff has."""
    named = {found["name"]: found for found in words() if found["meant_as"] == "operator"}
    assert set(named) == {path.parent.name for path in (SOURCE / "analysis" / "operators").glob("*/schema.json")}
    assert all(re.search(r"is recorded by: `(msda-record |with msda_replay\.record)", found["explanation"]) for found in named.values())
    sections = set(re.findall(r'"\^\(([a-z_|]+(?:/\.\*)?[a-z_|]*)\)\$"', (SOURCE / "docs" / "diff.schema.json").read_text()))
    names = {name for section in sections for name in section.split("|")} - {"results/.*"}
    assert {"inputs", "seeds"} < names and names == {found["name"] for found in words() if found["meant_as"] == "what diff names"}


@pytest.mark.parametrize("cause", admitted("run", "ill_conditioned"))
def test_a_cause_says_what_it_is_how_it_is_known_and_what_to_do(cause):
    shown = " ".join(explain(cause).stdout.split())
    known = re.search(r"This cause holds|The cause also holds", shown)
    assert known and known.start() < shown.index("What to do: ") and re.search("Evidence: |The evidence is", shown)


def test_lines_of_transcripts_are_wrapped_as_one():
    """Where the page's are longer than the terminal's."""
    shown = explain("stopped_sum").stdout
    (why,) = re.findall(r"^( +)why: +(.*\n(?:\1 +.*\n)+)", shown, re.M)
    lines = why[1].splitlines()
    assert len(lines) >= 4 and {len(line) - len(line.lstrip()) for line in lines[1:]} == {len(why[0]) + 6}
    assert all(len(line) + len(after.split()[0]) >= 80 for line, after in zip(lines[1:], lines[2:]))


def test_a_word_with_two_meanings_is_explained_as_both():
    assert [found["meant_as"] for found in words("arrival_order")] == ["verdict of a survey", "cause of a divergence of trails"]


def test_a_row_names_its_columns():
    (found,) = words("order_only")
    assert re.search(r"^is it a mistake\? no", found["explanation"], re.M)
    assert "decided by: " in found["explanation"]


def test_text_fits_a_terminal():
    for found in words():
        shown = explain(found["name"]).stdout
        assert found["name"] in shown
        assert not [line for line in shown.splitlines() if len(line) > 80], found["name"]
    assert not [line for line in explain().stdout.splitlines() if len(line) > 80]


def test_no_link_or_table_is_left():
    for found in words():
        assert not re.search(r"\]\(|^\|", found["explanation"], re.M), found


@pytest.mark.parametrize("word", ["Order-Only", "ORDER_ONLY", "C abi", "aten::avg_pool3d", "torch.nn.AvgPool3d", "put_"])
def test_a_word_may_be_typed_in_other_ways(word):
    assert explain(word).returncode == 0


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "torch.median", "ctc_loss"])
def test_what_pytorch_refuses_is_explained(name):
    (found,) = words(name)
    assert found["meant_as"] == "operator that PyTorch refuses" and "deterministic(): replaced" in found["explanation"]


def test_an_unknown_word_is_an_error_that_names_a_similar_one():
    done = explain("cell_bondary")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'no page explains "cell_bondary"; did you mean cell_boundary?' in done.stderr
    causes = [found["name"] for found in words() if found["meant_as"] == "cause of a finding"]
    assert f"; the causes of findings are {', '.join(causes)};" in done.stderr
    assert explain("\x1b[31m").stderr.count("\x1b") == 0


def test_all_words_are_listed():
    listed = explain().stdout
    assert "verdict of a survey:" in listed
    for found in words():
        assert found["name"] in " ".join(listed.split())
