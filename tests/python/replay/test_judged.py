"""Captures whose right judgement is known: faults planted, or results that are right, by a generator that shares nothing with the
project. tests/data/judged/README.md says what each holds."""

import lzma

import pytest
from conftest import DATA

# At fault, elements by cause (of all that are out of tolerance), and how many elements rounding explains where no tolerance was set.
ROUNDING = ("accumulation_order", "rounding", "ill_conditioned")
JUDGED = {
    "reference_wrong_observed_rounds": ("reference", {"implementation_error": 8, "cell_boundary": 1}),
    "corner_of_the_image": ("convention", {"border_clamp": 1}),
    "corner_of_the_image_grid_sample": ("convention", {"border_clamp": 1}),
    "nan_location": ("observed", {"implementation_error": 3}),
    "underflow": ("tolerance", {"rounding": 36}),
    "float16_atomics": ("tolerance", {"rounding": 11}),
    "bfloat16_atomics": ("tolerance", {"rounding": 11}),
    "bfloat16_ten_percent": ("observed", {"implementation_error": 640}),
    "repeated_values": ("observed", {"implementation_error": 250}),
    "flipped_signs_among_rounding": ("observed", {"implementation_error": 5}),
}


@pytest.fixture
def capture(tmp_path):
    def unpacked(name):
        path = tmp_path / f"{name}.h5"
        path.write_bytes(lzma.decompress((DATA / "judged" / f"{name}.h5.xz").read_bytes()))
        return path

    return unpacked


@pytest.mark.parametrize("name", JUDGED)
def test_judgement(replay, capture, name):
    at_fault, causes = JUDGED[name]
    result = replay("run", capture(name), "--json", "-", expect=1).json
    verdict = result["verdict"]
    found = {}
    for cause, count in verdict["causes"].items():
        kind = "rounding" if cause in ROUNDING else cause
        found[kind] = found.get(kind, 0) + count
    assert (verdict["at_fault"], found) == (at_fault, causes)
    for set_of in result["invocations"][0]["judged"]:
        listed = [part.split("-") for part in set_of["elements"].split(",")]
        assert sum(int(part[-1]) - int(part[0]) + 1 for part in listed) == set_of["count"]


def test_each_side_is_charged_with_its_own(replay, capture):
    sets = replay("run", capture("reference_wrong_observed_rounds"), "--json", "-").json["invocations"][0]["judged"]
    against_reference = {(entry["cause"], entry["at_fault"]): entry["count"] for entry in sets if entry["against"] == "reference"}
    assert against_reference == {("implementation_error", "reference"): 8, ("cell_boundary", "observed"): 1}
    text = replay("run", capture("reference_wrong_observed_rounds"), "--quiet").out
    assert "The recorded kernel misses 1 element of grad_sampling_locations" in text and " by rounding alone." in text


def test_no_coordinate_contradicts_its_cell(replay, capture):
    """The float64 reference lies in cell 4 with a coordinate of float64, not with float32's, which lies in cell 5."""
    findings = replay("run", capture("reference_wrong_observed_rounds"), "--json", "-").json["invocations"][0]["findings"]
    for finding in findings:
        for side in finding["evidence"].get("sides", []) if finding["cause"] == "cell_boundary" else []:
            assert "coordinate" not in side or int(side["coordinate"] // 1) == side["cell"], finding["why"]


def test_the_signs_are_the_ones_planted(replay, capture):
    result = replay("run", capture("flipped_signs_among_rounding"), "--json", "-").json["invocations"][0]
    (mistakes,) = [entry for entry in result["judged"] if entry["against"] == "float64"]
    assert mistakes["count"] == 5 and result["verdict"]["explained_by_rounding"] > 10000
    findings = [f for f in result["findings"] if f["against"] == "float64"]
    assert all(f["observed"] == pytest.approx(-f["float64"], rel=1e-2) for f in findings) and len(findings) == 5
    assert "Rounding explains" in result["verdict"]["summary"]
