"""msda-replay report: the numbers of `run --json`, whole markup, no request, nothing of a capture that runs."""

import html
import html.parser
import json
import lzma
import os
import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from conftest import DATA, REPLAY, SOURCE
from support import browser
from support.damage import peak_memory
from support.operators import OPERATORS
from support.problems import backward, make_problem
from support.report_page import drawn, read

from msda_replay import CommandError, Invocation, read_capture, write_capture
from msda_replay import report as report_from_python

JUDGED = sorted((DATA / "judged").glob("*.h5.xz"))
V01 = sorted((DATA / "v0.1").glob("*.h5"))
GRID = ["2d-float32-bilinear-zeros-0", "2d-float16-bicubic-border-1", "3d-float32-bilinear-reflection-0"]
EVIL = "</script><script>alert(1)</script><img src=http://example.com/x onerror=alert(2)> \x1b[31m\u202e&amp;\"'"


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """Every capture in tests/data, and calls of PyTorch's grid_sample: paths by name."""
    from msda_replay.importer import import_case

    folder = tmp_path_factory.mktemp("shipped")
    paths = {path.name: path for path in V01}
    for path in JUDGED:
        paths[path.stem] = folder / path.stem
        paths[path.stem].write_bytes(lzma.decompress(path.read_bytes()))
    paths["h200"] = folder / "h200.h5"
    import_case(DATA / "h200_border_noalign_0.npz", paths["h200"])
    return paths


@pytest.fixture
def report(replay, tmp_path):
    """Makes a page, and returns it with what `run --json` finds with the same flags."""

    def make(capture, *flags):
        page, result = tmp_path / "page.html", tmp_path / "run.json"
        done = replay("report", capture, "-o", page, "--force", *flags)
        run = replay("run", capture, "--json", result, *[flag for flag in flags if flag not in ("--order", "--no-stages")])
        assert (done.status, done.err) == (run.status, run.err)
        return page, json.loads(result.read_text())

    return make


@pytest.mark.parametrize("name", [path.stem if path.suffix == ".xz" else path.name for path in [*JUDGED, *V01]] + ["h200"])
def test_the_page_tells_what_run_tells(report, shipped, name):
    path, result = report(shipped[name])
    page = read(path)
    flat = page.text.replace(" ( ", " (")
    for sentence in re.split(r" \(|\)?\. ", result["verdict"]["summary"].rstrip(".")):
        assert sentence.strip("().") in flat
    for cause, count in result["verdict"]["causes"].items():
        assert f"{cause} {count:,}" in flat
    for invocation in result["invocations"]:
        for group in invocation["groups"]:
            worst = invocation["findings"][group["worst"]]
            element = f"{worst['tensor']}[{','.join(map(str, worst['index']))}]"
            assert element in flat
            if not group.get("advisory"):
                assert worst["why"].replace("\u202f", " ") in flat
        cells = re.findall(r"<tr(?: class=\"bad\")?><td>([\w ]+)</td><td>([\w ]+)</td><td class=\"number\">([\d,]+)</td><td class=\"number\">([\d,]+)</td>",
                           drawn(path))
        for comparison in invocation["comparisons"]:
            assert (comparison["observed"], comparison["expected"], f"{comparison['mismatched']:,}", f"{comparison['total']:,}") in cells


def test_histograms_count_every_element(report, shipped):
    """The bars of a comparison add up to its elements, those out of tolerance to what run counts."""
    path, result = report(shipped["h200"])
    found = re.findall(r"<strong>(\w+) from (\w+)</strong>: ([\d,]+) of ([\d,]+) elements", drawn(path))
    comparisons = {(comparison["tensor"], comparison["expected"]): comparison for comparison in result["invocations"][0]["comparisons"] if comparison["observed"] == "recorded"}
    assert len(found) == 5
    for tensor, against, outside, total in found:
        entry = comparisons[tensor, against]
        assert (int(outside.replace(",", "")), int(total.replace(",", ""))) == (entry["mismatched"], entry["total"])


def ulps(a, b):
    """float32 numbers between two."""
    def place(x):
        bits = x.astype(np.float32).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return np.abs(place(a) - place(b))


def test_histogram_and_maps_by_numpy(report, tmp_path, rng):
    """The bars and the bins of a small call, counted by NumPy from gradients of its own."""
    inputs = make_problem(rng, levels=((6, 5),), heads=2, points=1, queries=12, channels=4)
    exact = backward(inputs)
    outputs = {name: grad.astype(np.float32) for name, grad in exact.items()}
    outputs["grad_value"][0, 7, 1, 2] += 0.5  # row 1, column 2 of the level
    outputs["grad_attention_weights"][0, 5, 1, 0, 0] += 0.25
    write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "deformable_detr", atol=1e-3, rtol=1e-2))
    path, printed = report(tmp_path / "a.h5")
    text = drawn(path)
    assert re.search(r"largest 0\.5 at row 1, column 2; no difference where there is no colour<", text)  # the map of level 0
    assert re.search(r"largest 0\.25 at head 1, query 5<", text)
    for name, grad in outputs.items():
        figure = re.search(rf"Histogram of errors.*?<strong>{name} from float64</strong>.*?</figcaption>", text, re.S)[0].split("Histogram of errors")[-1]
        bars = {first: (int(within.replace(",", "")), int(outside.replace(",", "")))
                for first, within, outside in re.findall(r"<title>([^<]+) ULP: ([\d,]+) within tolerance, ([\d,]+) out", figure)}
        distance = ulps(grad, exact[name].astype(np.float32))
        # Our float64 replay may round elsewhere by one; the sum is certain, and so is what is far away.
        assert sum(map(sum, bars.values())) == grad.size
        assert sum(outside for _, outside in bars.values()) == sum(
            np.abs(grad - exact[name]).ravel() > 1e-3 + 1e-2 * np.abs(exact[name]).ravel())
        far = distance[distance > 1000].size
        assert far == (name != "grad_sampling_locations")


def test_drawing_marks_both_coordinates(report, shipped):
    """The known failure: 2.99999976 and 3, one unit apart, cells 2 and 3, gradients of both."""
    path, _ = report(shipped["h200"])
    figures = re.findall(r"<figure><svg class=\"drawing\".*?</figure>", drawn(path), re.S)
    cells, jump = figures[:2]
    at = {name: [float(x) for x in re.search(rf'class="{name}"[^>]*?cx="([\d.]+)" cy="([\d.]+)"', cells).groups()] for name in ("observed",)}
    boxes = {name: float(re.search(rf'class="cell {name}-cell" x="([-\d.]+)"', cells)[1]) for name in ("observed", "expected")}
    assert boxes["expected"] - boxes["observed"] == pytest.approx(76 + 3)  # a cell to the right, its frame 3 inside
    assert at["observed"][0] == pytest.approx(boxes["observed"] + 76, abs=0.01)  # on the line between them
    assert "boundary x = 3" in jump and "-128.0778" in jump and "131.8082" in jump
    observed = float(re.search(r'class="observed" cx="([\d.]+)"', jump)[1])
    expected = float(re.search(r'class="expected" d="M([\d.]+)', jump)[1])
    ticks = dict(re.findall(r'<text x="([\d.]+)" y="255" text-anchor="middle">([-+\d]+)<', jump))
    places = {int(label): float(x) for x, label in ticks.items()}
    assert observed == pytest.approx(places[-1], abs=0.01) and expected == pytest.approx(places[0], abs=0.01)


@pytest.mark.parametrize("variant", GRID)
def test_grid_sample(report, tmp_path, variant):
    call = OPERATORS["grid_sample"].recorded(variant)
    name = "grad_grid"
    call.outputs[name] = call.outputs[name].copy()
    call.outputs[name].flat[5] += 40
    write_capture(tmp_path / "g.h5", call)
    path, result = report(tmp_path / "g.h5")
    page = read(path)
    assert result["invocations"][0]["groups"] and "The sample in the pixel grid" in page.text


def test_without_a_script_the_page_says_what_run_prints(replay, shipped, tmp_path):
    capture, page = shipped["h200"], tmp_path / "page.html"
    replay("report", capture, "-o", page, "--no-stages", expect=1)
    (text,) = re.findall(r"<noscript><pre class=\"text\">(.*?)</pre></noscript>", page.read_text(), re.S)
    assert html.unescape(text) == replay("run", capture, expect=1).out


def test_within_tolerance_is_small(report, tmp_path, rng):
    inputs = make_problem(rng)
    outputs = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "deformable_detr"))
    path, _ = report(tmp_path / "a.h5")
    page = read(path)
    assert "Nothing is out of tolerance." in page.text and "Findings" not in page.text
    assert path.stat().st_size < 150_000


def wrong_call(rng, **sizes):
    inputs = make_problem(rng, **sizes)
    outputs = {name: (2 * grad + 1).astype(np.float32) for name, grad in backward(inputs).items()}
    return Invocation(inputs, outputs, "deformable_detr", atol=1e-3, rtol=1e-2)


def test_many_findings_are_limited(report, tmp_path, rng):
    write_capture(tmp_path / "a.h5", wrong_call(rng, queries=600, heads=4))
    path, result = report(tmp_path / "a.h5")
    text = drawn(path)
    assert text.count('<details class="finding"') == 1000
    assert sum(result["verdict"]["causes"].values()) > 15_000
    assert f"of {sum(group['count'] for group in result['invocations'][0]['groups']):,} elements out of tolerance" in text
    assert path.stat().st_size < 4_000_000


def test_of_many_calls_alike_some_are_told_in_full(replay, tmp_path, rng):
    """A page of 20,000 calls had 747 MB."""
    wrong = wrong_call(rng, queries=2, heads=1, channels=1, points=1)
    right = Invocation(wrong.inputs, {name: grad.astype(np.float32) for name, grad in backward(wrong.inputs).items()}, "deformable_detr",
                       atol=1e-3, rtol=1e-2)
    nan = Invocation(wrong.inputs, {name: grad * np.float32(np.nan) for name, grad in right.outputs.items()}, "deformable_detr", atol=1e-3, rtol=1e-2)
    write_capture(tmp_path / "a.h5", [*[wrong] * 27, *[right] * 26, nan, nan])
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["contents"], file.attrs["contents"]
        for i in range(55, 1100):
            file.create_group(f"invocations/{i:06}").attrs["kernel"] = "another"
    replay("report", tmp_path / "a.h5", "-o", tmp_path / "a.html", "--no-stages", "--mode", "deterministic", "--threads", 1, expect=1)
    page = read(tmp_path / "a.html")
    assert [f"i{i}" for i in (*range(25), *range(27, 52), 53)] == [name for name in page.ids if re.fullmatch(r"i\d+", name)]
    assert "In brief" in page.text
    assert [i for i in range(55) if f"Invocation {i} The recorded" in page.text] == [25, 26, 52, 54]
    assert page.text.count(" is not replayed: ") == 1000 and "And 45 more." in page.text


def test_calls_in_brief_take_no_memory(tmp_path, rng):
    """2,000 small ones that were wrong everywhere took 900 MB."""
    def peak(count):
        write_capture(tmp_path / f"{count}.h5", [wrong_call(rng)] * count)
        return peak_memory(REPLAY, "report", tmp_path / f"{count}.h5", "-o", tmp_path / f"{count}.html", "--quiet", "--no-stages", "--mode", "deterministic")

    assert peak(45) - peak(25) < 200 * 20  # it was 1100


def test_nan_is_drawn_nowhere(report, tmp_path, rng):
    inputs = make_problem(rng)
    outputs = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    inputs["sampling_locations"][0, 3, 1, 1, 0] = np.nan, np.inf
    inputs["value"][0, 7, 0, 2] = np.nan
    outputs["grad_value"][0, 9, 1, 3] = -np.inf
    write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "deformable_detr", atol=1e-3, rtol=1e-2))
    path, _ = report(tmp_path / "a.h5")
    assert "non_finite" in read(path).text


def evil_capture(path, rng):
    call = wrong_call(rng)
    call.kernel = call.label = EVIL
    write_capture(path, call, {"argv": ["pytest", EVIL], "environment": {"PYTHONPATH": EVIL}, "facts": {"gpu": EVIL}, "libraries": {EVIL: EVIL}})


def test_texts_of_a_capture_stay_texts(report, tmp_path, rng):
    capture = tmp_path / "<b>&'.h5"
    evil_capture(capture, rng)
    path, _ = report(capture, "--no-stages")
    page = read(path)
    text = drawn(path)
    assert "<script>alert" not in text and "<img" not in text and "\x1b" not in text and "\u202e" not in text and "<b>&" not in text
    shown = EVIL.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert page.text.count(shown) >= 4


def test_code_is_that_of_the_launched_function(report, tmp_path, rng):
    write_capture(tmp_path / "a.h5", wrong_call(rng))
    digest = "xxh3-128:0123"
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["contents"]
        file["invocations/000000"].attrs.update(kernel="second", kernel_digest=digest)
        for name, group, registers in (("first", digest, 10711), ("second", f"{digest} second", 10722), ("third", f"{digest} third", 10733)):
            file.create_group(f"kernels/{group}").attrs.update(name=name, architecture="sm_90", registers=registers)
    path, _ = report(tmp_path / "a.h5", "--no-stages")
    text = read(path).text.replace(",", "")
    assert "10722" in text and "10711" not in text and "10733" not in text


@pytest.mark.long
def test_stages_order_and_probability(report, replay, shipped, tmp_path):
    replay("stress", shipped["h200"], "--runs", 60, "--curve-runs", 4, "--json", tmp_path / "stress.json", "--quiet")
    stress = json.loads((tmp_path / "stress.json").read_text())
    page = tmp_path / "full.html"
    replay("report", shipped["h200"], "-o", page, "--order", "--quiet", "--stress-json", tmp_path / "stress.json", expect=1)
    text = read(page).text
    assert f"{100 * stress['failure_probability']['estimate']:.2f} %" in text
    assert f"{stress['failure_probability']['failures']} of {stress['failure_probability']['runs']} simulated" in text
    stages = replay("stages", shipped["h200"], "--json", "-", expect=0).json["invocations"][0]
    for stage in stages["summary"]:
        assert stage["stage"] in text
    assert "drifts from cell on" in text
    assert "one order gives every recorded bit" in text
    for wrong in ("{}", "[1]", "no JSON"):
        (tmp_path / "wrong.json").write_text(wrong)
        done = replay("report", shipped["h200"], "-o", page, "--force", "--stress-json", tmp_path / "wrong.json", expect=2)
        assert "not what msda-replay stress --json writes" in done.err


def test_files_are_not_lost(replay, shipped, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert "give --force" in replay("report", shipped["h200"], "-o", page, expect=2).err
    assert page.read_text() == "mine"
    capture = tmp_path / "a.h5"
    capture.write_bytes(shipped["h200"].read_bytes())
    before = capture.read_bytes()
    (tmp_path / "link").symlink_to(capture)
    for name in (capture, tmp_path / "link"):
        assert " itself; give another name" in replay("report", capture, "-o", name, "--force", expect=2).err
    assert capture.read_bytes() == before
    assert "it is a folder" in replay("report", capture, "-o", tmp_path, expect=2).err
    assert "cannot write it" in replay("report", capture, "-o", tmp_path / "none" / "page.html", expect=2).err
    page.write_text("")  # --force replaces pages by pages (test_new_files.py), and empty files
    replay("report", capture, "-o", page, "--force", expect=1)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert not list(tmp_path.glob("page.html.*"))


def test_many_captures(replay, shipped, tmp_path):
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(300))
    names = ["h200", "nan_location.h5", "underflow.h5"]
    captures = [shipped[name] for name in names]
    result = replay("run", *captures, damaged, "--json", tmp_path / "run.json", "--quiet", expect=2)
    run = json.loads((tmp_path / "run.json").read_text())
    done = replay("report", *captures, damaged, "-o", tmp_path / "pages", "--json", tmp_path / "report.json", expect=2)
    assert json.loads((tmp_path / "report.json").read_text()) == run
    assert done.err == result.err
    index = read(tmp_path / "pages" / "index.html")
    pages = {link for link in index.links if link.endswith(".html")}
    assert len(pages) == 3 and run["verdict"]["summary"] in index.text and "Not read" in index.text
    for page in pages:
        read(tmp_path / "pages" / page)
    assert "give --force" in replay("report", *captures, "-o", tmp_path / "pages", expect=2).err


# What a page, an index and their commands must not say.


def stress_of(capture, **more):
    whole = {"estimate": 0.5, "low": 0.4, "high": 0.6, "failures": 5, "runs": 10}
    return {"capture": str(capture), "invocation": 0, "failure_probability": whole, "confidence": 0.95, "observed": "msda_triton",
            "against": "grid_sample", "interrupted": False, "by_cause": {}, "by_tensor": {}, "criterion": {"atol": 1.0, "rtol": 1.0}, **more}


def test_a_probability_from_no_file_of_ours(replay, shipped, tmp_path):
    """Copying the JSON took a call of a function for each bracket; a FIFO was waited for."""
    text = json.dumps(stress_of(shipped["h200"], deep="HERE")).replace('"HERE"', "[" * 200_000 + "]" * 200_000)
    (tmp_path / "deep").write_text(text)
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("deep", "not what msda-replay stress --json writes"), ("fifo", "not what"), ("absent", "cannot read it")):
        done = replay("report", shipped["h200"], "-o", tmp_path / "a.html", "--no-stages", "--stress-json", tmp_path / name, expect=2)
        assert why in done.err and str(tmp_path / name) in done.err


@pytest.mark.parametrize("wrong", [
    {"by_cause": {"x": {}}}, {"by_tensor": {"x": 3}}, {"by_cause": {"x": {"estimate": 1}}}, {"curve": {"atol": [{}, {}], "rtol": []}},
    {"curve": {"atol": [{"atol": 1}, {"atol": 2}], "rtol": []}}, {"curve": {"atol": [], "rtol": [{"rtol": "1"}]}}, {"curve": []},
])
def test_a_malformed_probability(replay, shipped, tmp_path, wrong):
    (tmp_path / "stress.json").write_text(json.dumps(stress_of(shipped["h200"], **wrong)))
    done = replay("report", shipped["h200"], "-o", tmp_path / "a.html", "--no-stages", "--stress-json", tmp_path / "stress.json", expect=2)
    assert "not what msda-replay stress --json writes" in done.err


def test_the_probability_is_of_this_capture(replay, shipped, tmp_path):
    def made(stress, expect):
        (tmp_path / "stress.json").write_text(json.dumps(stress))
        return replay("report", shipped["h200"], "-o", tmp_path / "a.html", "--force", "--no-stages", "--stress-json",
                      tmp_path / "stress.json", expect=expect).err

    (tmp_path / "link.h5").symlink_to(shipped["h200"])
    for same in (shipped["h200"], tmp_path / "link.h5", "link.h5"):  # a relative name is seen from the JSON's folder, too
        assert "note:" not in made(stress_of(same), 1)
    # Older simulations say only where the capture was.
    for another in (shipped["underflow.h5"], tmp_path / "missing.h5"):
        assert f"note: --stress-json {tmp_path / 'stress.json'}: it is of {another}, not of {shipped['h200']}" in made(stress_of(another), 1)
    replay("stress", shipped["h200"], "--runs", 20, "--curve-runs", 2, "--json", tmp_path / "real.json", "--quiet")
    real = json.loads((tmp_path / "real.json").read_text())
    assert "note:" not in made({**real, "capture": "moved.h5"}, 1)
    assert f"it is of {shipped['underflow.h5']}, not of" in made({**real, "capture": str(shipped["underflow.h5"]), "content": "xxh3-128:0"}, 2)


def test_infinities_out_of_tolerance_are_counted(report, tmp_path, rng):
    """Both sides infinite, from an infinite input: the pictures agree with the table."""
    inputs = make_problem(rng)
    inputs["grad_output"][0, 3, 1, 2] = np.inf
    outputs = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "deformable_detr", atol=1e-3, rtol=1e-2))
    path, result = report(tmp_path / "a.h5", "--no-stages")
    found = re.findall(r"<strong>(\w+) from (\w+)</strong>: ([\d,]+) of ([\d,]+) elements", drawn(path))
    comparisons = {(comparison["tensor"], comparison["expected"]): comparison for comparison in result["invocations"][0]["comparisons"] if comparison["observed"] == "recorded"}
    assert len(found) == 3 and any(comparison["mismatched"] for comparison in comparisons.values())
    for tensor, against, outside, _ in found:
        assert int(outside.replace(",", "")) == comparisons[tensor, against]["mismatched"], tensor
        title = re.search(rf"<summary>{tensor} from {against}(.*?)</summary>", drawn(path))
        assert (title is not None and "out of tolerance" in title[1]) == (int(outside.replace(",", "")) > 0), tensor


def test_an_index_without_a_verdict_is_not_green(replay, shipped, tmp_path):
    unreadable = tmp_path / "unreadable.h5"
    unreadable.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(300))
    (tmp_path / "other.h5").write_bytes(unreadable.read_bytes())
    replay("report", unreadable, tmp_path / "other.h5", "-o", tmp_path / "pages", expect=2)
    text = drawn(tmp_path / "pages" / "index.html")
    assert "Nothing is out of tolerance." not in text and "note good" not in text and "top good" not in text


def right_capture(path, rng):
    inputs = make_problem(rng)
    outputs = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    write_capture(path, Invocation(inputs, outputs, "deformable_detr", atol=1e-3, rtol=1e-2))
    return inputs


def test_the_index_begins_with_what_was_found(replay, shipped, tmp_path, rng):
    """Findings come before the captures, and captures without a finding last, whatever their names."""
    right_capture(tmp_path / "a.h5", rng)
    shutil.copy(shipped["h200"], tmp_path / "z.h5")
    replay("report", tmp_path / "a.h5", tmp_path / "z.h5", "-o", tmp_path / "pages", expect=1)
    text = drawn(tmp_path / "pages" / "index.html")
    captures = text.split('id="captures"')[1]
    assert text.index('id="findings"') < text.index('id="captures"') and captures.index("z.h5<") < captures.index("a.h5<")


def test_the_index_grades_as_the_pages_do(replay, tmp_path, rng):
    """Data that do not match their digests, and so little that the gradients do."""
    right_capture(tmp_path / "right.h5", rng)
    inputs = right_capture(tmp_path / "damaged.h5", rng)
    data = bytearray((tmp_path / "damaged.h5").read_bytes())
    data[data.index(inputs["value"].tobytes())] ^= 1
    (tmp_path / "damaged.h5").write_bytes(data)
    for names, good in ((["right.h5"] * 2 + ["again.h5"], True), (["right.h5", "damaged.h5"], False)):
        (tmp_path / "again.h5").write_bytes((tmp_path / "right.h5").read_bytes())
        folder = tmp_path / f"pages{good}"
        done = replay("report", *[tmp_path / name for name in names], "-o", folder, "--damaged", "--no-stages", "--json", "-", expect=0)
        assert done.json["verdict"]["grade"] == ("good" if good else "undecided")
        index = drawn(folder / "index.html")
        assert ("top good" in index) == ("Nothing is out of tolerance." in index) == good
        pages = re.findall(r'<a class="mono" href="([\w-]+\.html)"', index)
        rows = re.findall(r"<tr>.*?</tr>", index, re.S)
        assert len(pages) == len(rows) == 2
        for page, row in zip(pages, rows):
            word = re.search(r'<header class="top \w+">.*?<p class="chips"><span class="(chip \w+)">([^<]*)<', drawn(folder / page), re.S)
            assert f'<span class="{word[1]}">{word[2]}<' in row


def test_equal_captures_are_one(replay, shipped, tmp_path):
    capture = shipped["h200"]
    done = replay("report", capture, capture.parent / "." / capture.name, "-o", tmp_path / "pages", "--no-stages", "--json", "-", expect=1)
    assert [capture["capture"] for capture in done.json["captures"]] == [str(capture)]


@pytest.mark.parametrize("json_name", ["page.html", "./page.html", "there/page.html"])
def test_json_does_not_replace_the_page(replay, shipped, tmp_path, json_name):
    (tmp_path / "there").symlink_to(tmp_path)
    done = replay("report", shipped["h200"], "-o", tmp_path / "page.html", "--json", tmp_path / json_name, expect=2)
    assert "give another name" in done.err and sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_json_does_not_replace_the_index(replay, shipped, tmp_path):
    captures = shipped["h200"], shipped["underflow.h5"]
    done = replay("report", *captures, "-o", tmp_path / "pages", "--json", tmp_path / "pages" / "index.html", expect=2)
    assert "give another name" in done.err and not list((tmp_path / "pages").iterdir())


def test_the_page_in_python(shipped, tmp_path):
    page = report_from_python(shipped["h200"], stages=False)
    page.save(tmp_path / "a.html")
    with pytest.raises(FileExistsError):
        page.save(tmp_path / "a.html")
    assert "cell_boundary" in read(tmp_path / "a.html").text
    (frame,) = re.findall(r'<iframe srcdoc="([^"]*)"', page._repr_html_())
    assert html.unescape(frame) == page.html == (tmp_path / "a.html").read_text()
    with pytest.raises(CommandError, match="missing.h5"):
        report_from_python(tmp_path / "missing.h5")


@pytest.mark.pages("docs/boundary.svg", "It shows the first two drawings of the page of tests/data/h200_border_noalign_0.npz")
def test_the_picture_in_the_readme(report, shipped):
    drawings = re.findall(r"<svg class=\"drawing\".*?</svg>", drawn(report(shipped["h200"], "--no-stages")[0]), re.S)[:2]
    words = [re.findall(r"<text[^>]*>([^<]*)</text>", text) for text in ("".join(drawings), (SOURCE / "docs" / "boundary.svg").read_text())]
    assert set(words[0]) < set(words[1]) and "-128.0778" in words[0]


# Commands that are printed, done as printed.


@pytest.fixture
def pasted(replay, tmp_path):
    """Runs a command with the msda-replay under test; it must find something or nothing, not fail."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "msda-replay").symlink_to(REPLAY)

    def run(command, folder):
        quick = command.replace("msda-replay stress", "msda-replay stress --runs 2 --curve-runs 0")
        done = subprocess.run(quick, shell=True, cwd=folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}"
        return done

    return run


def printed_commands(text):
    return re.findall(r"^ *(msda-replay (?:run|stages|stress|minimize|order|advise) .*)$", text, re.M)


def page_commands(page):
    return [html.unescape(entry) for entry in re.findall(r"<code>(msda-replay [^<]*)</code>", drawn(page))]


def several_calls(rng, folder):
    """A right call, a wrong one with other inputs, its reference of the same inputs, and a kernel of no operator."""
    call = wrong_call(rng, queries=6, channels=4)
    call.kernel = "tested"
    right = {name: grad.astype(np.float32) for name, grad in backward(call.inputs).items()}
    another = make_problem(rng, queries=5, channels=4)
    calls = [Invocation(another, {name: grad.astype(np.float32) for name, grad in backward(another).items()}, "deformable_detr", atol=1e-3, rtol=1e-2),
             call, Invocation(call.inputs, right, "deformable_detr", kernel="reference", atol=1e-3, rtol=1e-2)]
    path = folder / "it's a capture.h5"
    write_capture(path, calls, {"argv": ["pytest", "it's; echo $HOME", "-k", "a b"]})
    return path


@pytest.mark.parametrize("flags", [[], ["--invocation", 1], ["--reference", 2], ["--invocation", 1, "--reference", 2], ["--atol", 0.5, "--rtol", 1e-7]],
                         ids=lambda flags: " ".join(map(str, flags)))
@pytest.mark.parametrize("damaged", [False, True])
def test_every_printed_command_does_what_it_says(replay, pasted, tmp_path, rng, flags, damaged):
    path = several_calls(rng, tmp_path)
    if damaged:
        data = bytearray(path.read_bytes())
        values = read_capture(path).invocations[1].inputs["value"].tobytes()
        data[data.index(values)] ^= 1
        path.write_bytes(data)
        flags = [*flags, "--damaged"]
    result = replay("run", path.name, "--device", "cpu", "--json", "-", *flags, cwd=tmp_path, expect=1).json
    run = replay("run", path.name, "--device", "cpu", *flags, cwd=tmp_path, expect=1)
    replay("report", path.name, "-o", "page.html", "--no-stages", "--device", "cpu", *flags, cwd=tmp_path, expect=1)
    commands = printed_commands(run.out), page_commands(tmp_path / "page.html")
    assert all(commands) and {word.split()[1] for word in commands[1]} >= {"run", "stress", "minimize"}
    for command in dict.fromkeys([*commands[0], *commands[1]]):
        done = pasted(command + (" --json -" if " run " in command else ""), tmp_path)
        if " run " in command:
            assert json.loads(done.stdout)["verdict"] == result["verdict"], command
    text = html.unescape(drawn(tmp_path / "page.html"))
    assert "pytest 'it'\\''s; echo $HOME' '-k' 'a b'" in text


def test_printed_commands_of_many_captures(replay, pasted, tmp_path, rng):
    path = several_calls(rng, tmp_path)
    (tmp_path / "b.h5").write_bytes(path.read_bytes())
    run = replay("run", path.name, "b.h5", "--reference", 2, "--atol", 0.5, "--device", "cpu", cwd=tmp_path, expect=1)
    commands = printed_commands(run.out.replace("msda-replay run CAPTURE", ""))
    assert all("--reference 2 --atol 0.5" in command for command in commands)
    for command in commands:
        pasted(command, tmp_path)


@pytest.mark.parametrize("to, comment", [("pytest", "#"), ("cpp", "//")])
def test_printed_commands_of_reproducers(replay, pasted, tmp_path, rng, to, comment):
    path = several_calls(rng, tmp_path)
    output = tmp_path / f"a.{'py' if to == 'pytest' else 'cpp'}"
    replay("export", path, "--to", to, "-o", output, "--reference", 2, expect=0)
    for command in printed_commands(re.sub(rf"^{comment} *", "", output.read_text(), flags=re.M)):
        pasted(command, tmp_path)


# With a browser.


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.PROGRAM is None:
        pytest.skip("no headless Chromium is installed (Debian: chromium-headless-shell)")
    entry = browser.Browser(tmp_path_factory.mktemp("chromium"))
    yield entry
    entry.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["h200", "bfloat16_ten_percent.h5", "nan_location.h5", "recorded.h5"])
def test_no_error_no_request_no_overflow(chromium, replay, shipped, tmp_path, name, dark):
    page = tmp_path / "page.html"
    replay("report", shipped[name], "-o", page)
    for width in (400, 900, 1600):
        complaints, asked = chromium.open(page, width, dark=dark)
        assert complaints == [] and asked == [page.resolve().as_uri()]
        assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    ground = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark


def test_attacks_do_not_run(chromium, replay, tmp_path, rng):
    evil_capture(tmp_path / "evil.h5", rng)
    page = tmp_path / "page.html"
    replay("report", tmp_path / "evil.h5", "-o", page, "--no-stages", expect=1)
    complaints, asked = chromium.open(page)
    assert complaints == [] and len(asked) == 1
    # Even a script that got into the page would not run.
    page.write_text(page.read_text().replace("</body>", "<script>document.title = 'run'</script><img src=http://127.0.0.1:1/x></body>"))
    complaints, asked = chromium.open(page)
    assert any("Content Security Policy" in json.dumps(complaint) for complaint in complaints)
    assert chromium.evaluate("document.title") != "run"


def test_keys_and_filter(chromium, replay, tmp_path, rng):
    write_capture(tmp_path / "a.h5", wrong_call(rng, queries=300))
    page = tmp_path / "page.html"
    replay("report", tmp_path / "a.h5", "-o", page, "--no-stages", expect=1)
    assert chromium.open(page)[0] == []
    ids = chromium.evaluate("[...document.querySelectorAll('.finding')].map(one => one.id)")
    assert len(ids) == 1000
    focused = "document.activeElement.parentElement.id"
    seen = []
    for key in "jjjk":
        chromium.press(key)
        seen.append(chromium.evaluate(focused))
    assert seen == [ids[0], ids[1], ids[2], ids[1]]
    chromium.evaluate("document.activeElement.click()")
    assert chromium.evaluate(f"document.getElementById('{ids[1]}').open")
    shown = "[...document.querySelectorAll('.finding:not([hidden])')].map(one => one.dataset.tensor)"
    chromium.evaluate("document.querySelector('[data-value=grad_attention_weights]').click()")
    assert set(chromium.evaluate(shown)) == {"grad_attention_weights"}
    chromium.press("/")
    assert chromium.evaluate("document.activeElement.tagName") == "INPUT"
    chromium.evaluate("{const i = document.activeElement; i.value = 'weights[0,7,'; i.dispatchEvent(new Event('input'))}")
    assert 0 < len(chromium.evaluate(shown)) < 30
    # A thousand are filtered within a frame or two, also on a slow machine.
    assert chromium.evaluate("{const begun = performance.now(); document.querySelector('input').dispatchEvent(new Event('input')); performance.now() - begun}") < 500


def test_on_paper(chromium, replay, shipped, tmp_path):
    page = tmp_path / "page.html"
    replay("report", shipped["h200"], "-o", page)
    assert chromium.open(page, dark=True, media="print")[0] == []
    assert chromium.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert chromium.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')").strip() == "#ffffff"


# What is cut off, or too small to read. In SVG a text has the size that its drawing is shown in.
CUT_OFF = "[...document.querySelectorAll('pre.command')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
SMALLEST_TEXT = """Math.min(...[...document.querySelectorAll('svg.drawing text')].map(text => {
  const drawing = text.ownerSVGElement
  return parseFloat(getComputedStyle(text).fontSize) * drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width}))"""
OVERLAPS = """[...document.querySelectorAll('.chart svg.drawing')].flatMap(drawing => {
  const boxes = [...drawing.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()])
  return boxes.flatMap(([name, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom).map(([other]) => name + ' over ' + other))})"""
BROKEN_SCALES = "[...document.querySelectorAll('.scale span')].filter(one => one.getClientRects().length > 1 || one.offsetHeight > 30).length"


@pytest.mark.parametrize("name", ["h200", "bfloat16_ten_percent.h5", "flipped_signs_among_rounding.h5", "nan_location.h5"])
def test_nothing_is_cut_off_or_too_small(chromium, replay, shipped, tmp_path, name):
    page = tmp_path / "page.html"
    replay("report", shipped[name], "-o", page, "--no-stages", expect=1)
    for width in (400, 1000, 1600):
        chromium.open(page, width)
        chromium.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert chromium.evaluate(CUT_OFF) == 0, width
        assert chromium.evaluate(SMALLEST_TEXT) > 9, width
        assert chromium.evaluate(OVERLAPS) == [], width
        assert chromium.evaluate(BROKEN_SCALES) == 0, width
        assert chromium.evaluate("document.documentElement.scrollWidth") <= width


def test_the_index_shows_verdicts_on_a_small_screen(chromium, replay, shipped, tmp_path):
    (tmp_path / "many").mkdir()
    for number, name in enumerate(("h200", "nan_location.h5")):
        shutil.copy(shipped[name], tmp_path / "many" / f"test_of_a_long_module.py-test_backward_of_attention-{number}.h5")
    replay("report", tmp_path / "many", "-o", tmp_path / "site", "--no-stages", expect=1)
    beyond = "[...document.querySelectorAll('table.captures td, table.captures .chip')].filter(one => one.getBoundingClientRect().right > %d).length"
    for width in (400, 560, 1000):
        chromium.open(tmp_path / "site" / "index.html", width)
        assert chromium.evaluate(beyond % width) == 0 and chromium.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_shows_whole_tables_and_commands(chromium, replay, shipped, tmp_path):
    """On paper nothing can be scrolled. A4 with the page's margins is 182 mm wide, 688 pixels."""
    page = tmp_path / "page.html"
    replay("report", shipped["h200"], "-o", page)
    chromium.open(page, 688, media="print")
    assert chromium.evaluate(CUT_OFF) == 0
    broken = """[...document.querySelectorAll('td.number')].filter(one => {
      const range = document.createRange()
      range.selectNodeContents(one)
      return range.getClientRects().length > 1}).map(one => one.textContent)"""
    assert chromium.evaluate(broken) == []
    assert chromium.evaluate("[...document.querySelectorAll('table')].filter(one => one.getBoundingClientRect().right > 688).length") == 0
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 688
