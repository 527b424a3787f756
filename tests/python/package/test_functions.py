"""Every command as a function of the package: it takes the command's flags, and answers with the command's JSON, text and page."""

import html
import inspect
import json
import re
import subprocess
from typing import get_type_hints

import numpy as np
import pytest
from conftest import REPLAY
from support.problems import backward, make_problem
from support.schemas import SCHEMAS

import msda_replay
from msda_replay import CommandError, Invocation, answers, results, surveys, write_capture
from msda_replay.flags import words_of

# The package decides how results are printed, and where; it takes `output` and `to` by place.
OWN = {"help", "json", "quiet", "color", "output"}
SCHEMAS_OF = {"diff": ("diff", "diff-survey")}
ANSWERS = {"run": results.RunResult, "survey": surveys.Survey, **{name.removesuffix("Result").lower(): thing for name, thing in vars(answers).items()
                                                                  if name.endswith("Result")}}


@pytest.fixture
def capture(tmp_path, rng):
    """A call that is wrong in one element."""
    inputs = make_problem(rng)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    outputs["grad_sampling_locations"][0, 3, 1, 0, 1, 0] += 5
    write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "msda_triton", atol=1e-3, rtol=1e-2))
    return tmp_path / "a.h5"


@pytest.mark.parametrize("command", [*ANSWERS, "report"])
def test_the_arguments_are_the_commands_flags(command):
    help_text = subprocess.run([REPLAY, command, "--help"], capture_output=True, text=True, check=True).stdout
    flags = {flag.replace("-", "_") for flag in re.findall(r"^  (?:-\w,)?--([a-z][a-z0-9-]+)", help_text, re.M)}
    named = {parameter.name.rstrip("_") for parameter in inspect.signature(getattr(msda_replay, command)).parameters.values()
             if parameter.kind is not parameter.VAR_POSITIONAL} - {"capture", "a", "b", "word", "what", "timeout", "output"}
    if command == "report":
        named = named - {"stages"} | {"no_stages"}
    assert named == flags - OWN - ({"force"} if command in ("survey", "report") else set())


@pytest.mark.parametrize("command", ANSWERS)
def test_the_attributes_are_the_keys_of_the_json(command):
    def properties(schema):
        kinds = [schema["definitions"][entry["$ref"].rsplit("/")[-1]] for entry in schema.get("oneOf", ())] or [schema]
        return [set(kind["properties"]) for kind in kinds]

    kinds = [keys for name in SCHEMAS_OF.get(command, (command,)) for keys in properties(SCHEMAS[f"{name}.schema.json"])]
    stated = set(get_type_hints(ANSWERS[command])) | ({"capture"} if command in ("run", "survey") else set())
    assert stated == set.intersection(*kinds) - {"tells"}  # a word that test_words.py does not let be a name


@pytest.mark.parametrize("command, flags, has_page", [
    ("run", {"invocation": 0}, True), ("run", {"atol": 1e9, "rtol": 0, "mode": ["float64", "atomic"], "verbose": True}, True),
    ("stages", {"element": ["grad_value[0,1,0,2]", "grad_value[0,2,0,2]"]}, True),
    ("stress", {"runs": 20, "draw": {"value": "normal(0,2)", "grad_output": "uniform(0,1)"}}, True),
    ("order", {"list": 3}, False), ("gradcheck", {"samples": 20, "all": False}, False),
    ("advise", {"runs": 500, "against": "float64", "patch": True}, False),
])  # fmt: skip
def test_what_a_command_says(capture, replay, command, flags, has_page):
    found = getattr(msda_replay, command)(capture, **flags)
    done = replay(command, capture, *words_of(flags))
    assert str(found) == done.out.rstrip("\n") and str(found)
    assert found.json == replay(command, capture, *words_of(flags), "--json", "-").json
    for key, value in found.json.items():
        assert getattr(found, key) == value
    shown = found._repr_html_()
    assert shown.startswith("<iframe" if has_page else "<table><tr><th>capture</th>")
    if command == "stress":
        assert json.dumps(found.failure_probability, separators=(",", ":")) in html.unescape(shown)


def test_what_writes_files(capture, tmp_path):
    small = msda_replay.minimize(capture, tmp_path / "small.h5", element="grad_sampling_locations[0,3,1,0,1,0]")
    assert small.output == str(tmp_path / "small.h5") and small.sizes["Q"] == 1 and msda_replay.open_capture(small.output)[0].operator == "msda"
    assert small._repr_html_().startswith("<iframe")
    written = msda_replay.export(small.output, "npz", tmp_path / "a.npz")
    assert written.files == [str(tmp_path / "a.npz")] and "grad_output" in np.load(written.files[0])
    with pytest.raises(CommandError, match="exists"):
        msda_replay.export(small.output, "npz", tmp_path / "a.npz")
    assert msda_replay.export(small.output, "npz", tmp_path / "a.npz", force=True).to == "npz"
    different = msda_replay.diff(capture, small.output)
    assert not different.equal and different.first and "<th>equal</th><td>False</td>" in different._repr_html_()
    assert msda_replay.diff(f"{capture}:0", f"{capture}:0").equal


def test_what_a_word_means():
    (word,) = msda_replay.explain("cell_boundary").words
    assert word["meant_as"] == "cause of a finding" and str(msda_replay.explain("cell_boundary")).startswith("cell_boundary: cause of a finding")
    assert len(msda_replay.explain().words) > 50
    with pytest.raises(CommandError, match="did you mean cell_boundary") as raised:
        msda_replay.explain("cell_boundry")
    assert raised.value.status == 2


def test_a_capture_that_is_gone_has_no_page(capture):
    found = msda_replay.run(capture)
    capture.unlink()
    assert found._repr_html_().startswith(f"<table><tr><th>page</th><td>{capture}: no such file")


def test_tables_are_small_and_escape_what_files_say():
    shown = msda_replay.page.table({"<b>": "<i>", "n": {"k": None}, "many": [{"i": i, "deep": {"x": 1}} for i in range(30)], "some": [1, "a\nb"], "none": []})
    assert shown.startswith("<table><tr><th>&lt;b&gt;</th><td>&lt;i&gt;</td></tr>") and "<td><table><tr><th>k</th><td>None</td></tr></table>" in shown
    assert "<tr><th>i</th></tr><tr><td>0</td></tr>" in shown and "<p>10 more</p>" in shown and "deep" not in shown
    assert "1, <pre>a\nb</pre>" in shown and shown.endswith("<tr><th>none</th><td></td></tr></table>")


@pytest.mark.parametrize("wrong, message", [
    (lambda path: msda_replay.run(path, atoll=1), r"run\(\) has no argument atoll; did you mean atol\? It has atol, .*block, "),
    (lambda path: msda_replay.survey(print, knel=1), r"survey\(\) has no argument knel; did you mean kernel\? It has "),
    (lambda path: msda_replay.report(path, something=1), r"report\(\) has no argument something\. It has .*, stress_json, "),
    (lambda path: msda_replay.run(path).findings().where(caus="x"), "a finding has no field caus; did you mean cause"),
])  # fmt: skip
def test_a_wrong_name_is_answered_with_the_right_ones(capture, wrong, message):
    with pytest.raises(TypeError, match=message):
        wrong(capture)


@pytest.mark.parametrize("ask, status", [
    (lambda path: msda_replay.stress(path, invocation=7), 2), (lambda path: msda_replay.gradcheck("none.h5"), 2),
    (lambda path: msda_replay.stages(path, mode="original"), 3), (lambda path: msda_replay.export(path, "text", "a"), 2),
])  # fmt: skip
def test_the_commands_message_and_status(capture, ask, status):
    with pytest.raises(CommandError) as raised:
        ask(capture)
    done = subprocess.run(raised.value.command, capture_output=True, text=True)
    assert raised.value.status == done.returncode == status
    assert str(raised.value) == "\n".join(line.removeprefix("msda-replay: ") for line in done.stderr.splitlines())


def test_flags_as_words(tmp_path):
    flags = {"from_": 3, "draw": {"value": "resample"}, "operator": [tmp_path, "b"], "mode": ("float64", "atomic"), "element": "a[0]", "block": [8, 8],
             "atol": None, "all": False, "no_neighbour": True, "state": tmp_path}
    assert " ".join(words_of(flags)) == (f"--from 3 --draw value=resample --operator {tmp_path} --operator b --mode float64,atomic --element a[0] "
                                         f"--block 8,8 --no-neighbour --state {tmp_path}")


def test_help_shows_the_flags():
    assert "samples: Optional[int] = None" in str(inspect.signature(msda_replay.gradcheck)).replace("typing.", "")
