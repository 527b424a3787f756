"""--tally of run and stress, and the page that report --trend draws of them: how often tests fail, night by night."""

import html
import json
import re

import h5py
import numpy as np
import pytest
from support.many import make_capture
from support.problems import make_problem
from support.report_page import drawn, read
from support.schemas import check

from msda_replay import Invocation, write_capture


def record(path, seed, day, wrong=(), label="test_a.py::test_a", gpu=None):
    make_capture(path, seed, wrong=wrong, label=label)
    with h5py.File(path, "r+") as file:
        file.attrs["created"] = f"2026-11-{day:02}T03:00:00Z"
        if gpu:
            file["run"].attrs["gpu"] = gpu


@pytest.fixture(scope="module")
def nights(replay, tmp_path_factory):
    """test_a fails in 1 of 2 captures, then in 0 of 2, then is not run; test_b never fails. The second night has another GPU, and the third
    a capture that cannot be read."""
    folder = tmp_path_factory.mktemp("trend")
    for day, wrong, gpu in ((1, [3], "NVIDIA H100"), (2, [], "NVIDIA H200"), (3, None, "NVIDIA H200")):
        night = folder / f"night {day}"
        night.mkdir()
        record(night / "b.h5", 7, day, label="test_b.py::test_b", gpu=gpu)
        if wrong is None:
            (night / "c.h5").write_bytes(b"no capture")
        else:
            record(night / "a.h5", 1, day, wrong, gpu=gpu)
            record(night / "a again.h5", 2, day, gpu=gpu)
        # Names in another order than the nights.
        replay("run", night, "--tally", folder / "tallies" / f"{9 - day}.json", "--quiet", expect=2 if wrong is None else int(bool(wrong)))
    return folder


def page_of(replay, folder, *words):
    done = replay("report", "--trend", *words, "-o", folder / "trend.html", "--force", expect=0)
    text = (folder / "trend.html").read_text()
    return done.out, json.loads(html.unescape(re.search(r'id="data">(.*?)</script>', text, re.S)[1])), text


def test_what_a_tally_holds(nights):
    first, second, third = (json.loads((nights / "tallies" / f"{9 - day}.json").read_text()) for day in (1, 2, 3))
    for tally in first, second, third:
        check(tally, "tally")
    assert (first["command"], first["recorded"], first["gpus"], first["unread"]) == ("run", "2026-11-01T03:00:00Z", ["NVIDIA H100"], 0)
    assert first["tests"] == second["tests"] == {"test_a.py::test_a": 2, "test_b.py::test_b": 1}
    [finding] = first["findings"]
    assert (finding["test"], finding["cause"], finding["failures"]) == ("test_a.py::test_a", "implementation_error", 1)
    assert second["findings"] == third["findings"] == []
    assert third["tests"] == {"test_b.py::test_b": 1} and third["unread"] == 1


def test_rates(replay, nights, tmp_path):
    """Clopper and Pearson's intervals in closed form, as quantiles of the beta distribution: of 1 in 2, 0 in 2, and 1 in 4."""
    said, data, text = page_of(replay, tmp_path, nights / "tallies")
    assert said == f"1 finding in 1 of 2 tests, in 3 nights.\n --> {tmp_path}/trend.html\n"
    assert [(night["file"], night["gpus"]) for night in data["nights"]] == [
        ("8.json", ["NVIDIA H100"]), ("7.json", ["NVIDIA H200"]), ("6.json", ["NVIDIA H200"])]
    [row] = data["rows"]
    first, second, third = row["rates"]
    assert [(rate["failures"], rate["trials"], rate["estimate"]) for rate in (first, second, row["all"])] == [(1, 2, 0.5), (0, 2, 0), (1, 4, 0.25)]
    assert third is None
    assert (first["low"], first["high"]) == pytest.approx((1 - 0.975**0.5, 0.975**0.5), abs=1e-6)
    assert (second["low"], second["high"]) == pytest.approx((0, 1 - 0.025**0.5), abs=1e-6)
    assert row["all"]["low"] == pytest.approx(1 - 0.975**0.25, abs=1e-6)
    high = row["all"]["high"]
    assert (1 - high) ** 4 + 4 * high * (1 - high) ** 3 == pytest.approx(0.025, abs=1e-6)
    without_script = re.search("<noscript>(.*?)</noscript>", text, re.S)[1]
    assert "  run: 1 of 4, 25.00 % (0.63 to 80.59)\n" in without_script and "    2026-11-03T03:00:00Z  not run\n" in without_script


def test_the_page(replay, nights, tmp_path):
    first = page_of(replay, tmp_path, nights / "tallies")[2]
    assert first == page_of(replay, tmp_path, *reversed(sorted((nights / "tallies").iterdir())))[2]  # in the order of the recordings
    page = read(tmp_path / "trend.html")
    assert "1 finding in 1 of 2 tests, in 3 nights." in page.text and "test_a.py::test_a" in page.text
    assert "1 of 4: 25 % (0.631 % to 80.6 %)" in page.text
    assert "2026-11-01T03:00:00Z: 1 of 2, 50 % (1.26 % to 98.7 %); msda-replay" in page.text
    assert re.search(r"from here on msda-replay [\d.]+, NVIDIA H200", page.text)
    drawing = drawn(tmp_path / "trend.html")
    assert drawing.count('class="limit"') == 1  # between the first night and the second
    heights = [float(height) for height in re.findall(r'class="beyond" d="M[\d.]+ [\d.]+h[\d.]+v-([\d.]+)h', drawing)]
    assert heights == [45, 0]  # of 90


def test_simulated_runs(replay, tmp_path):
    """stress counts runs, of one call and of several with one label."""
    rng = np.random.default_rng(1)
    inputs = make_problem(rng, heads=1, channels=4, queries=25, levels=((32, 30), (9, 8)))
    inputs["sampling_locations"] = rng.random(inputs["sampling_locations"].shape).astype(np.float32)
    call = Invocation(inputs, {}, "msda_triton", kernel="k", facts={"label": "test_a"}, atol=5e-7, rtol=3e-4)
    second = Invocation({**inputs, "grad_output": inputs["grad_output"] + 1}, {}, "msda_triton", kernel="k", facts={"label": "test_a"}, atol=5e-7, rtol=3e-4)
    write_capture(tmp_path / "a.h5", [call, second, call])  # the third has the first's simulation
    first = replay("stress", tmp_path / "a.h5", "--invocation", 0, "--runs", "300", "--tally", tmp_path / "1.json", "--json", "-", expect=1).json
    both = replay("stress", tmp_path / "a.h5", "--invocation", "all", "--runs", "300", "--tally", tmp_path / "2.json", "--json", "-", expect=1).json
    for path, results in ("1.json", [first]), ("2.json", both["calls"]):
        tally = json.loads((tmp_path / path).read_text())
        check(tally, "tally")
        assert tally["tests"] == {"test_a": sum(result["failure_probability"]["runs"] for result in results)}
        failures = {}
        for result in results:
            for cause, part in result["by_cause"].items():
                failures[cause] = failures.get(cause, 0) + part["failures"]
        assert {finding["cause"]: finding["failures"] for finding in tally["findings"]} == failures


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"schema": "tally.schema.json"}', None])
def test_files_that_are_no_tallies(replay, nights, tmp_path, content):
    text = (nights / "tallies" / "8.json").read_text()
    (tmp_path / "a.json").write_text(text.replace('"failures": 1', '"failures": 3') if content is None else content)  # of 2 captures
    said = replay("report", "--trend", tmp_path, "-o", tmp_path / "t.html", expect=2).err
    assert said == f"msda-replay: {tmp_path}/a.json: is damaged, or no tally; write one: msda-replay run ... --tally FILE\n"
    assert not (tmp_path / "t.html").exists()


def test_bad_usage(replay, nights, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no tallies (*.json)" in replay("report", "--trend", tmp_path / "empty", "-o", tmp_path / "t.html", expect=2).err
    assert "no such file" in replay("report", "--trend", tmp_path / "none.json", "-o", tmp_path / "t.html", expect=2).err
    assert "--trend has none" in replay("report", "--trend", nights / "tallies", "-o", tmp_path / "t.html", "--json", "-", expect=2).err
