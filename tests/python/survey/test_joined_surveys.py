"""msda-replay survey and report of several captures, on the stand-in CUDA driver: in which of them each kernel varies."""

import json
import re
import shutil

import h5py
import pytest
from conftest import BUILD
from support.ci_formats import cases_of, sarif_in
from support.recording import environment, pytestmark, record  # noqa: F401
from support.report_page import drawn
from support.report_page import read as read_page
from support.schemas import check

SURVEY_CLIENT = BUILD / "stand_in" / "stand_in_survey_client"
UNWRITTEN_CLIENT = BUILD / "stand_in" / "stand_in_unwritten_client"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Surveys of two programs with kernels in common, and of one that reads memory which nobody wrote."""
    folder = tmp_path_factory.mktemp("surveys")
    for name, client, words, flags in (("a", SURVEY_CLIENT, ("twice", "drawn"), ()), ("b", SURVEY_CLIENT, ("twice", "drawn", "locked"), ()),
                                       ("c", UNWRITTEN_CLIENT, ("partial",), ("--survey-poison",))):
        done = record(client, *words, options=["--survey", *flags, "--hook", "driver", "-o", folder / f"{name}.h5"])
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def surveys(recorded, tmp_path):
    """A copy that a test may change: in b.h5 the sum in a drawn order has not varied."""
    folder = shutil.copytree(recorded, tmp_path / "surveys")
    with h5py.File(folder / "b.h5", "r+") as file:
        kernel = next(entry for entry in file["survey"].values() if entry.attrs["kernel"] == "survey_drawn_sum")
        for name in ("varied", "first_varied", "extra_that_differ", "beside_that_differ"):
            kernel.attrs[name] = 0
    return folder


def truth(*captures):
    """What the captures themselves say: by kernel and capture the launches, those surveyed, those that varied, those that depend."""
    found = {}
    for capture in captures:
        with h5py.File(capture) as file:
            for entry in file["survey"].values():
                counts = tuple(int(entry.attrs.get(name, 0)) for name in ("launches", "surveyed", "varied", "unwritten_launches"))
                found.setdefault((entry.attrs["kernel"], entry.attrs["kernel_digest"]), {})[str(capture)] = counts
    return found


def joined(replay, *captures, expect):
    result = replay("survey", *captures, "--json", "-", expect=expect).json
    check(result, "survey-many")
    return result


def test_kernels_are_joined_by_name_and_code(replay, surveys):
    captures = [surveys / f"{name}.h5" for name in "abc"]
    result = joined(replay, *captures, expect=1)
    expected = truth(*captures)
    names = ("launches", "surveyed", "varied", "depend")
    assert {(kernel["mangled"], kernel["kernel_digest"]): {capture["capture"]: tuple(capture[name] for name in names) for capture in kernel["captures"]}
            for kernel in result["kernels"]} == expected
    for kernel in result["kernels"]:
        assert [kernel[name] for name in names] == [sum(capture[name] for capture in kernel["captures"]) for name in names]
    drawn = next(kernel for kernel in result["kernels"] if kernel["mangled"] == "survey_drawn_sum")
    assert [capture["verdict"] for capture in drawn["captures"]] == ["order_only", "may_vary"] and drawn["verdict"] == "order_only"
    assert [(capture["capture"], capture["status"]) for capture in result["captures"]] == [(str(capture), 1) for capture in captures]
    varying = [any(sum(counts[2:]) for counts in expected[kernel["mangled"], kernel["kernel_digest"]].values()) for kernel in result["kernels"]]
    assert varying == sorted(varying, reverse=True) and 0 < sum(varying) < len(varying)


def test_the_text(replay, surveys):
    captures = [surveys / f"{name}.h5" for name in "ab"]
    done = replay("survey", *captures, expect=1)
    lines = done.out.splitlines()
    counts = truth(*captures)
    (drawn,) = [found for (name, _), found in counts.items() if name == "survey_drawn_sum"]
    (locked,) = [found for (name, _), found in counts.items() if name == "survey_locked_sum"]
    assert lines[0] == f"2 of {len(counts)} kernels vary, in 2 of 2 surveys"
    assert "order_only  survey_drawn_sum" in lines and "arrival_order  survey_locked_sum" in lines
    assert f" survey_drawn_sum {captures[0]}: order_only, {drawn[str(captures[0])][2]} of 5 launches in 1 capture it did not vary " in done.words
    assert f" survey_locked_sum {captures[1]}: arrival_order, {locked[str(captures[1])][2]} of 5 launches in 1 capture it was not launched " in done.words
    assert "survey_twice" not in "\n".join(lines)
    everything = replay("survey", *captures, "--all", expect=1).words
    assert f"deterministic survey_twice {captures[0]}: deterministic, 0 of 3 launches {captures[1]}: deterministic, 0 of 3 launches " in everything


def test_other_code_is_another_kernel(replay, surveys):
    with h5py.File(surveys / "b.h5", "r+") as file:
        for entry in file["survey"].values():
            entry.attrs["kernel_digest"] = "xxh3-128:" + "0" * 32
    captures = [surveys / "a.h5", surveys / "b.h5"]
    result = joined(replay, *captures, expect=1)
    assert sorted(kernel["mangled"] for kernel in result["kernels"]).count("survey_twice") == 2
    text = replay("survey", *captures, "--all", expect=1).out
    assert len(set(re.findall(r"survey_twice  \(code (xxh3-128:[0-9a-f]{8})\)", text))) == 2


def test_only_kernels_that_the_baseline_lacks_fail(replay, surveys, tmp_path):
    baseline = tmp_path / "baseline.json"
    assert "survey_drawn_sum" in replay("survey", surveys / "a.h5", "--write-baseline", baseline, expect=1).out
    kept = json.loads(baseline.read_text())
    check(kept, "baseline")
    assert [(finding["test"], finding["kernel"]) for finding in kept["findings"]] == [("a.h5", "survey_drawn_sum")]
    text = replay("survey", surveys / "a.h5", "--baseline", baseline, expect=0).out
    assert text.startswith(replay("survey", surveys / "a.h5", expect=1).out) and text.endswith("\n1 finding is in the baseline, none is new.\n")
    done = replay("survey", surveys, "--baseline", baseline, "--json", tmp_path / "s.json", expect=1)
    result = json.loads((tmp_path / "s.json").read_text())
    check(result, "survey-many")
    new = {(finding["test"], finding["cause"]) for finding in result["baseline"]["new"]}
    assert result["baseline"]["known"] == 1 and ("c.h5", "reads_unwritten") in new and "  new:   c.h5: reads_unwritten, kernel" in done.out
    for flags, status in (["--write-baseline", baseline], 1), (["--baseline", baseline], 0):
        replay("survey", surveys, *flags, expect=status)
    assert "is a baseline of survey; write one: msda-replay run" in replay("run", surveys, "--baseline", baseline, expect=2).err


def test_formats_of_other_tools(replay, surveys, tmp_path):
    replay("survey", surveys, "--junit", tmp_path / "j.xml", "--sarif", tmp_path / "s.sarif", expect=1)
    cases = cases_of(tmp_path / "j.xml")
    assert list(cases) == ["a.h5", "b.h5", "c.h5"] and all("failure" in cases[name] for name in ("a.h5", "c.h5"))
    assert cases["c.h5"]["failure"].text.endswith(f"msda-replay survey {surveys}/c.h5\n")
    levels = {result["ruleId"]: result["level"] for result in sarif_in(tmp_path / "s.sarif")["results"]}
    assert levels["order_only"] == "warning" and levels["reads_unwritten"] == "error"


def test_a_folder_and_what_has_no_survey(replay, surveys, demo_capture):
    (surveys / "c.h5").unlink()
    assert joined(replay, surveys, expect=1) == joined(replay, surveys / "a.h5", surveys / "b.h5", expect=1)
    shutil.copy(demo_capture, surveys / "d.h5")
    printed = replay("survey", surveys, "--json", "-", expect=2)
    check(printed.json, "survey-many")
    assert f"{surveys / 'd.h5'}: has no survey" in printed.err and f"{surveys / 'd.h5'}: has no survey" in printed.json["captures"][-1]["error"]
    assert len(printed.json["kernels"]) == 3
    (surveys / "missing.h5").write_bytes(b"")
    assert "missing.h5" in replay("survey", surveys / "missing.h5", surveys / "a.h5", expect=2).err


def test_none_varies(replay, surveys, tmp_path):
    for name in "bc":
        (surveys / f"{name}.h5").unlink()
    record(SURVEY_CLIENT, "twice", options=["--survey", "--hook", "driver", "--force", "-o", surveys / "a.h5"])
    record(SURVEY_CLIENT, "twice", options=["--survey", "--hook", "driver", "-o", surveys / "b.h5"])
    assert replay("survey", surveys, expect=0).out == "none of 1 kernel varied, in 2 surveys\n"
    printed = replay("report", surveys, "-o", tmp_path / "pages", expect=0)
    assert printed.out.startswith("Kernels vary in 0 of 2 surveys.\n")
    index = drawn(tmp_path / "pages" / "index.html")
    assert "top good" in index and "No kernel varies in any survey." in index and index.count(">Steady<") == 2


def test_programs_are_run_as_before(replay, surveys, tmp_path):
    """A program whose arguments are captures, one of a folder's name, and one that is not there."""
    out = tmp_path / "s.h5"
    printed = replay("survey", "-o", out, "--", "/bin/true", surveys / "a.h5", surveys / "b.h5", expect=3)
    assert "nothing was surveyed" in printed.err
    (tmp_path / "true").mkdir()
    assert "msda-replay doctor -- true 'x y' says why" in replay("survey", "-o", out, "--", "true", "x y", expect=3, cwd=tmp_path).err
    assert "no_such_program" in replay("survey", "-o", out, "--", "no_such_program", "x", expect=3).err


def test_the_pages(replay, surveys, demo_capture, tmp_path):
    captures = [surveys / "a.h5", surveys / "b.h5", surveys / "c.h5", demo_capture]
    alone = replay("run", demo_capture, "--json", "-", expect=1).json
    done = replay("report", *captures, "-o", tmp_path / "pages", "--no-stages", "--json", tmp_path / "report.json", expect=1)
    result = json.loads((tmp_path / "report.json").read_text())
    check(result, "run-many")
    assert "survey" not in result["captures"][3] and result["captures"][3]["verdict"] == alone["verdict"]
    assert result["verdict"]["summary"] in done.out and "Kernels vary in 3 of 3 surveys." in result["verdict"]["summary"]
    assert result["verdict"]["grade"] == "wrong"  # c.h5 reads what nobody wrote
    for capture, entry in zip(captures[:3], result["captures"]):
        found = truth(capture)
        assert (entry["survey"]["kernels"], entry["survey"]["launches"]) == (len(found), sum(counts[str(capture)][0] for counts in found.values()))
        assert entry["survey"]["varying"] == sum(sum(counts[str(capture)][2:]) > 0 for counts in found.values())
    text = drawn(tmp_path / "pages" / "index.html")
    index = read_page(tmp_path / "pages" / "index.html")
    pages = [link for link in dict.fromkeys(index.links) if link.endswith(".html")]
    assert len(pages) == 4 and text.count(">Varies<") == 3
    for page, kernel in zip(sorted(pages), ("survey_drawn_sum", "survey_locked_sum", "reads_unwritten_rest")):
        assert kernel in read_page(tmp_path / "pages" / page).text
    table = text[text.index('id="surveys"'):text.index('id="captures"')]
    (row,) = [row for row in re.findall(r"<tr.*?</tr>", table, re.S) if "survey_drawn_sum" in row]
    assert str(captures[0]) in row and str(captures[1]) not in row and "not in 1 other" in row
    assert "survey_twice" not in table and 'id="findings"' in text


def test_the_launches_that_surveys_kept(replay, surveys, tmp_path):
    """--invocation asks for them, as in a report on one capture."""
    printed = replay("report", surveys / "a.h5", surveys / "b.h5", "-o", tmp_path / "pages", "--invocation", 0, expect=3)
    assert printed.err.count("known only by its machine code") == 2
