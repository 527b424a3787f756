"""What a survey measures of additions, on the stand-in CUDA driver: against the client's own numbers, added up exactly."""

import collections
import json
import math
import struct
import subprocess
import sys
from fractions import Fraction

import h5py
import pytest
from conftest import BUILD, REPLAY
from support.launches import CLIENT
from support.lined_cubins import NVCC, PROGRAM, cubins, needs_nvcc  # noqa: F401
from support.recording import pytestmark, record  # noqa: F401
from support.report_page import read as read_page
from support.surveys import PROGRAM as LAUNCHES
from support.surveys import surveyed

UNIT = Fraction(1, 1 << 24)


def float32(value):
    return Fraction(struct.unpack("<f", struct.pack("<f", value))[0])


def scattered(sign=1):
    """For stand_in_survey_client's scatter(), what each sum begins with and what is added to it, in the first launch."""
    addends = collections.defaultdict(list)
    for i in range(2000):
        addends[i * i % 23].append(float32(float(sign * (i * 37 % 101 - 60)) / 7.0))
    return {at: (Fraction(8 * at) if at % 2 else Fraction(0), some) for at, some in addends.items()}


def bound_of(initial, addends):
    """The bound of a sum of float32: docs/survey.md."""
    n, rounds = len(addends), len(addends) - (initial == 0)
    return 2 * (0 if rounds == 1 else rounds) * UNIT * (abs(initial) + n * max(map(abs, addends))) + (n + 1) * Fraction(16 * 2.0**-126)


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_additions_and_what_order_can_change(tmp_path, asynchronous):
    """The first launch varies: what is measured is of its memory."""
    kernel = surveyed(tmp_path / "a.h5", "scattered", MSDA_STAND_IN_ASYNC=asynchronous)["survey_scattered_sums"]
    sums, evidence = scattered(), kernel["evidence"]
    assert kernel["varied"] == 5 and evidence["type"] == "float32" and kernel["evidence_missing"] == ""
    counts = [len(addends) for _, addends in sums.values()]
    assert (evidence["addresses"], evidence["additions"], evidence["most_additions"]) == (len(sums), 2000, max(counts))
    assert evidence["greatest_addend"] == -min(addend for _, addends in sums.values() for addend in addends)
    assert evidence["launches"] == 4 and 4 <= evidence["differing"] <= 4 * len(sums)
    assert evidence["exceeding"] == evidence["unbounded"] == evidence["elsewhere"] == evidence["other_words"] == 0
    bounds = [float(bound_of(*entry)) for entry in sums.values()]
    assert min(abs(evidence["bound"] - bound) / bound for bound in bounds) < 1e-5
    assert 0 < evidence["difference"] <= evidence["bound"] and evidence["difference"] / max(bounds) <= evidence["share"] < 1


def test_one_sum_of_positive_numbers(tmp_path):
    evidence = surveyed(tmp_path / "a.h5", "twice", "drawn")["survey_drawn_sum"]["evidence"]
    assert (evidence["addresses"], evidence["additions"], evidence["greatest_addend"]) == (1, 1000, 8)  # after three launches of survey_twice


def test_what_no_order_explains_is_told(tmp_path, replay):
    """Its additions are off by a percent, now and then: the twin of integers cannot show that."""
    evidence = surveyed(tmp_path / "a.h5", "wrong")["survey_wrong_sums"]["evidence"]
    assert evidence["greatest_addend"] == max(addend for _, addends in scattered(-1).values() for addend in addends)
    assert 0 < evidence["exceeding"] <= evidence["differing"] and evidence["share"] > 1 and evidence["difference"] > evidence["bound"]
    printed = " ".join(replay("survey", tmp_path / "a.h5", expect=1).out.split())
    assert f"{evidence['exceeding']} numbers differed by more than any order of these additions can change" in printed


def test_the_program_goes_on_with_its_own_result(tmp_path, replay):
    """It has the number of its launch, as without a survey; those of the launches that are compared differ elsewhere than in sums."""
    row = surveyed(tmp_path / "a.h5", "numbered")["survey_numbered_sums"]
    assert row["varied"] == 1 and row["kept"] == 0 and row["evidence"]["elsewhere"] == 4 and row["evidence"]["exceeding"] == 0
    assert "4 words differed where no addition was counted." in " ".join(replay("survey", tmp_path / "a.h5", expect=1).out.split())


@pytest.mark.parametrize("kernel, reason", [("survey_vector_sums", "vectors"), ("survey_used_sums", "results_used"),
                                             ("survey_ticket_sums", "communicates")])
def test_why_additions_are_not_measured(tmp_path, replay, kernel, reason):
    row = surveyed(tmp_path / "a.h5", kernel)[kernel]
    assert (row["verdict"], row["evidence"], row["evidence_missing"]) == ("order_only", None, reason)
    assert "What its additions can change is not known" in " ".join(replay("survey", tmp_path / "a.h5", expect=1).out.split())


def test_without_room_additions_are_not_measured(tmp_path):
    """There is room for two copies of what the launch reaches, and not for three of what it changes."""
    row = surveyed(tmp_path / "a.h5", "scattered", options=["--survey-memory", 100], MSDA_STAND_IN_MEMORY=7_000_000)["survey_scattered_sums"]
    assert (row["verdict"], row["surveyed"], row["evidence"], row["evidence_missing"]) == ("order_only", 5, None, "no_room")


def test_the_text_and_the_page(tmp_path, replay):
    capture, page = tmp_path / "a.h5", tmp_path / "a.html"
    surveyed(capture, "sums")
    text = replay("survey", capture, expect=1).out
    assert all(len(line) <= 80 for line in text.splitlines()[1:] if str(tmp_path) not in line)
    assert "It added 2000 numbers in float32 to 12 addresses, at most 174 to one, none greater in size than 8.57." in " ".join(text.split())
    replay("report", capture, "-o", page, expect=1)
    printed = read_page(page).text
    assert "2,000 of float32 to 12 addresses, at most 174 to one; greatest addend 8.57" in printed
    assert "vectors" in printed and "results_used" in printed and "not explained" in printed


def surveyed_poison(capture, kernel, image):
    done = record(CLIENT, "--kernel", f"poison_{kernel}", "--image", image, "--launches", "3", options=["--survey", "-o", capture])
    assert done.returncode == 0, done.stderr
    printed = subprocess.run([REPLAY, "survey", capture, "--json", "-"], capture_output=True, text=True, timeout=60)
    return json.loads(printed.stdout)["kernels"][0]


@needs_nvcc
def test_the_lines_of_additions(tmp_path, replay, cubins):  # noqa: F811
    capture = tmp_path / "a.h5"
    line = next(i for i, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "atomicAdd(" in text)
    kernel = surveyed_poison(capture, "order_only", cubins("sm_90", True))
    (place,) = kernel["source_lines"]["additions"]
    assert place["instruction"] == "RED" and place["count"] == 1 and place["lines"][-1] == {"file": str(PROGRAM), "line": line}
    assert kernel["varied"] > 0 and kernel["source_lines"]["communication"] == [] and kernel["source_lines"]["left_out"] == 0
    assert f"Its additions stand at {PROGRAM.name}:{line}." in " ".join(replay("survey", capture, expect=1).out.split())
    replay("report", capture, "-o", tmp_path / "a.html", expect=1)
    assert f"RED at {PROGRAM}:{line}, through" in read_page(tmp_path / "a.html").text
    without = surveyed_poison(tmp_path / "b.h5", "order_only", cubins("sm_90", False))
    assert without["source_lines"] == {"additions": [], "communication": [], "left_out": 0}


@pytest.mark.parametrize("name, value, words", [
    ("evidence_difference", -1.0, "evidence_difference is -1"), ("evidence_bound", math.nan, "evidence_bound is nan"),
    ("evidence_share", math.inf, "evidence_share is inf"), ("evidence_additions", -5, "evidence_additions is -5"),
    *(("lines_of_additions", text, "lines_of_additions is no list of lines") for text in (
        "RED\t1\ta.cu:5", "RED\t1\n", "RED\t0\ta.cu:5\n", "RED\tx\ta.cu:5\n", "RED\t1\ta.cu\n", "RED\t1\ta.cu:\n", "RED\t1\t:5\n", "\t1\ta.cu:5\n",
        "RED\t1\ta.cu:99999999999999999999\n", "RED\t1\ta.cu:5\n\n", "RED\t1\ta.cu:-5\n")),
    ("lines_of_communication", "\t\t\t", "lines_of_communication is no list of lines")])
def test_what_no_survey_measures(tmp_path, replay, name, value, words):
    surveyed(tmp_path / "a.h5", "twice", "drawn")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["survey/000001"].attrs[name] = value
    printed = replay("survey", tmp_path / "a.h5", expect=2).err
    assert printed == f"msda-replay: {tmp_path / 'a.h5'}: the survey says of survey_drawn_sum that {words}: the file is damaged; record again\n"


def test_many_lines_and_names_that_are_none(tmp_path, replay):
    """Texts of others: what is long is printed in part, and what is no name makes no page."""
    surveyed(tmp_path / "a.h5", "drawn")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        rows = [f"RED\t1\t/in/a.cuh:7\t/out/b.cu:{i + 1}\n" for i in range(500)] + ["RED\t2\t<script>x</script>:3\n"]
        file["survey/000000"].attrs["lines_of_additions"] = "".join(rows)
    text = replay("survey", tmp_path / "a.h5", expect=1).out
    assert "Its additions stand at b.cu:1, b.cu:2, b.cu:3, and 498 more lines (--json)." in " ".join(text.split())
    places = replay("survey", tmp_path / "a.h5", "--json", "-", expect=1).json["kernels"][0]["source_lines"]["additions"]
    assert len(places) == 501 and places[0]["lines"] == [{"file": "/in/a.cuh", "line": 7}, {"file": "/out/b.cu", "line": 1}]
    replay("report", tmp_path / "a.h5", "-o", tmp_path / "a.html", expect=1)
    assert "RED at /out/b.cu:1, through /in/a.cuh:7 (1)" in read_page(tmp_path / "a.html").text


COMMUNICATING = """
extern "C" __global__ void survey_number(int* p) {
  const int ticket = atomicAdd(p, 1);
  p[1 + ticket] = atomicExch(
      p + 20, 7);
}
"""


@needs_nvcc
def test_the_lines_of_what_hands_results_on(tmp_path, replay):
    """In the code of a kernel whose launches differ (the stand-in counts them)."""
    source, image, program, capture = (tmp_path / name for name in ("k.cu", "k.cubin", "train.py", "a.h5"))
    source.write_text(COMMUNICATING)
    program.write_text(LAUNCHES)
    subprocess.run([NVCC, "-arch=sm_90", "-lineinfo", "-cubin", "-o", image, source], check=True, timeout=300)
    done = record(sys.executable, program, "CDLL", BUILD / "stand_in" / "libcuda.so.1", image, options=["--survey", "--hook", "driver", "-o", capture])
    assert done.returncode == 0, done.stderr
    kernel = replay("survey", capture, "--json", "-", expect=1).json["kernels"][0]
    found = {(place["instruction"], place["lines"][-1]["file"], place["lines"][-1]["line"]) for place in kernel["source_lines"]["communication"]}
    lines = COMMUNICATING.splitlines()
    ticket, exchange = (next(i for i, text in enumerate(lines, 1) if word in text) for word in ("atomicAdd", "atomicExch"))
    assert kernel["verdict"] == "arrival_order" and kernel["source_lines"]["additions"] == []
    assert found == {("used_integer_atomics", str(source), ticket), ("exchanges", str(source), exchange)}
    printed = " ".join(replay("survey", capture, expect=1).out.split())
    assert f"Its blocks hand results on at k.cu:{ticket}, k.cu:{exchange}." in printed
