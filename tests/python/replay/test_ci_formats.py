"""--junit, --sarif and --github of run, survey and stress: findings in the formats of other tools."""

import re
import urllib.parse

import h5py
import pytest
from support.ci_formats import cases_of, sarif_in
from support.many import make_capture

TEST = 'tests/test_a.py::test_a[1-"<x>&50%,\x01]'


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A wrong call of a test whose name has every special character, a wrong one without a label, a right one, and no capture."""
    folder = tmp_path_factory.mktemp("nights") / "a night"
    folder.mkdir()
    make_capture(folder / "a.h5", 1, wrong=[3], label=TEST)
    make_capture(folder / "b%é.h5", 2, wrong=[5])
    make_capture(folder / "c.h5", 3, label="test_c")
    (folder / "d.h5").write_bytes(b"no capture")
    return folder


@pytest.fixture(scope="module")
def written(replay, night, tmp_path_factory):
    """The output of --github, and the files, without a baseline and with one that has the labelled finding."""
    folder = tmp_path_factory.mktemp("written")
    done = [replay("run", "a night", "--junit", folder / "0.xml", "--sarif", folder / "0.sarif", "--github", expect=2, cwd=night.parent)]
    replay("run", night / "a.h5", "--write-baseline", folder / "b.json", expect=1)
    done.append(replay("run", "a night", "--baseline", folder / "b.json", "--junit", folder / "1.xml", "--sarif", folder / "1.sarif",
                       "--github", expect=2, cwd=night.parent))
    return folder, done


def test_junit(written):
    folder, _ = written
    shown = TEST.replace("\x01", "\\x01")  # XML has no control characters
    cases = cases_of(folder / "0.xml")
    assert {name: list(case) for name, case in cases.items()} == {shown: ["failure"], "b%é.h5": ["failure"], "test_c": [], "d.h5": ["error"]}
    failure = cases[shown]["failure"]
    assert failure.get("type") == "implementation_error"
    assert failure.get("message") == "implementation_error in grad_sampling_locations, kernel ms_deform_attn"
    assert failure.text.startswith("the recorded kernel is wrong in ") and failure.text.endswith("\nmsda-replay run 'a night/a.h5' --invocation 0\n")
    assert "cannot read it as HDF5" in cases["d.h5"]["error"].get("message")
    known = cases_of(folder / "1.xml")
    assert {name: list(case) for name, case in known.items()} == {shown: ["system-out"], "b%é.h5": ["failure"], "test_c": [], "d.h5": ["error"]}
    assert known[shown]["system-out"].text == "In the baseline: " + failure.get("message")


def test_sarif(written):
    folder, _ = written
    run = sarif_in(folder / "0.sarif")
    assert run["automationDetails"]["id"] == "msda-replay/run/"
    assert [urllib.parse.unquote(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) for result in run["results"]] == [
        "tests/test_a.py", "a night/b%é.h5"]
    assert [result["locations"][0]["logicalLocations"] for result in run["results"]] == [[{"fullyQualifiedName": name}] for name in (TEST, "b%é.h5")]
    assert all("baselineState" not in result for result in run["results"])
    [invocation] = run["invocations"]
    assert not invocation["executionSuccessful"] and "d.h5" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    known = sarif_in(folder / "1.sarif")
    assert [result["baselineState"] for result in known["results"]] == ["unchanged", "new"]
    assert [result["partialFingerprints"] for result in known["results"]] == [result["partialFingerprints"] for result in run["results"]]


@pytest.mark.parametrize("command", ["run", "stress", "survey"])
def test_one_capture_that_cannot_be_read(replay, night, tmp_path, command):
    """The files have the error, as they have it of one among many."""
    done = replay(command, night / "d.h5", "--junit", tmp_path / "j.xml", "--sarif", tmp_path / "s.sarif", "--github", expect=2)
    assert {name: list(case) for name, case in cases_of(tmp_path / "j.xml").items()} == {"d.h5": ["error"]}
    [invocation] = sarif_in(tmp_path / "s.sarif")["invocations"]
    assert not invocation["executionSuccessful"] and "d.h5" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    [annotation] = annotations_in(done.out)
    assert annotation[0] == "error" and "cannot read it as HDF5" in annotation[2]


def test_a_capture_with_nothing_to_compare_is_an_error(replay, night, tmp_path):
    """Its call is read, and cannot be judged: the case of its label says so."""
    capture = tmp_path / "e.h5"
    make_capture(capture, 1, label="test_e")
    with h5py.File(capture, "r+") as file:
        del file["invocations/000000/outputs"]
    replay("run", capture, "--damaged", "--junit", tmp_path / "j.xml", expect=2)
    assert {name: list(case) for name, case in cases_of(tmp_path / "j.xml").items()} == {"test_e": ["error"]}


def test_sarif_of_nothing(replay, night, tmp_path):
    replay("run", night / "c.h5", "--sarif", tmp_path / "s.sarif", "--junit", tmp_path / "j.xml", expect=0)
    run = sarif_in(tmp_path / "s.sarif")
    assert run["results"] == run["tool"]["driver"]["rules"] == [] and run["invocations"][0]["executionSuccessful"]
    assert {name: list(case) for name, case in cases_of(tmp_path / "j.xml").items()} == {"test_c": []}


def test_stress(replay, night, tmp_path):
    """Its findings are the causes for which a test fails."""
    replay("stress", night / "c.h5", "--atol", "1e-9", "--rtol", "1e-9", "--runs", "3", "--junit", tmp_path / "j.xml", "--sarif", tmp_path / "s.sarif", expect=1)
    [case] = cases_of(tmp_path / "j.xml").items()
    assert case[0] == "test_c" and "msda-replay stress " in case[1]["failure"].text
    results = sarif_in(tmp_path / "s.sarif")["results"]
    assert results and {result["level"] for result in results} == {"warning"}
    assert all("the test fails in 100.00 % " in result["message"]["text"] for result in results)


def annotations_in(text):
    """The commands that GitHub's runner sees, decoded as it does."""

    def decoded(value, characters):
        for character in characters:
            value = value.replace(f"%{ord(character):02X}", character)
        return value.replace("%25", "%")

    for level, properties, message in re.findall(r"^::(\w+) (.*?)::(.*)$", text, re.M):
        fields = dict(field.split("=", 1) for field in properties.split(","))
        yield level, {name: decoded(value, "\r\n:,") for name, value in fields.items()}, decoded(message, "\r\n")


def test_annotations(written):
    _, (plain, compared) = written
    first, second, unread = annotations_in(plain.out)
    shown = TEST.replace("\x01", "\\x01")
    title = "implementation_error in grad_sampling_locations, kernel ms_deform_attn"
    assert first[:2] == ("error", {"title": f"{shown}: {title}", "file": "tests/test_a.py"})
    assert first[2].startswith("the recorded kernel is wrong in ") and first[2].endswith("\nmsda-replay run 'a night/a.h5' --invocation 0")
    assert second[:2] == ("error", {"title": f"b%é.h5: {title}"})
    assert unread[:2] == ("error", {"title": "a night/d.h5"}) and "cannot read it as HDF5" in unread[2]
    assert list(annotations_in(compared.out)) == [second, unread]
    assert compared.out.index("in the baseline, 1 is new") < compared.out.index("::error ")


def test_standard_output_is_one_of_both(replay, night):
    assert "--github prints, as --json - does" in replay("run", night, "--github", "--json", "-", expect=2).err


@pytest.mark.parametrize("flag", ["--junit", "--sarif"])
def test_files_of_others_are_not_replaced(replay, night, tmp_path, flag):
    theirs = tmp_path / "theirs"
    for content in ('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="pytest tests">', '{"$schema": "x", "runs": [{"tool": {"driver": {"name": "other"}}}]}'):
        theirs.write_text(content)
        assert "cannot replace it" in replay("run", night / "c.h5", flag, theirs, expect=2).err
        assert theirs.read_text() == content
    ours = tmp_path / "ours"
    assert "would replace" in replay("run", night / "c.h5", flag, ours, "--json", ours, expect=2).err
    for _ in range(2):
        replay("run", night / "c.h5", flag, ours, expect=0)
