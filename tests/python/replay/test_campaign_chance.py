"""tests/campaign/chance.py: the campaign's judge accepts that `run` does not name a buffer in 16 bits only where chance explains what fits it."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import REPLAY
from support.campaign_answers import TESTS, answering, problem_of, run

sys.path.append(str(TESTS))
from campaign import cases, chance, rounding, steps  # noqa: E402
from campaign import judge as judging  # noqa: E402
from campaign.msda import operator, problems  # noqa: E402
from campaign.subjects import SUBJECTS  # noqa: E402

UNNAMED = "for one in call['judged']: one['cause'] = one['cause'].replace('uninitialized_output', 'implementation_error')"


def buffer_case(kind, count, type_of="float16"):
    """So many elements of grad_sampling_locations hold what the fault of the buffer leaves there; nothing else is wrong."""
    conventions, arithmetic = operator.Conventions("deformable_detr"), steps.Arithmetic(stored=type_of)
    problem = problem_of(23, conventions, kind=type_of, place=problems.uniform)
    exact, clean = (operator.backward(problem, conventions, entry) for entry in (steps.EXACT, arithmetic))
    rng = np.random.default_rng(24)
    before = {name: rounding.round_to(type_of, 16 * rng.standard_normal(array.shape)) for name, array in clean.items()}
    values = {name: array.copy() for name, array in clean.items()}
    faulty = {"unwritten": before, "not_zeroed": {name: clean[name] + before[name] for name in clean}}[kind]
    name = "grad_sampling_locations"
    far = np.abs(faulty[name] - exact[name]) > 4  # so far off that sums in 16 bits explain none
    places = np.flatnonzero(far.reshape(-1))[:count]
    values[name].reshape(-1)[places] = faulty[name].reshape(-1)[places]
    clean, values = cases.rounded(type_of, clean), cases.rounded(type_of, values)
    side = cases.Side(conventions, arithmetic, clean, values)
    side.excess = SUBJECTS["msda"].excess(problem, conventions, arithmetic, exact, values)
    return cases.Case("a", kind, "observed", problem, exact, side, None, before, (0.1, 0.01))


@pytest.mark.parametrize("kind", ["unwritten", "not_zeroed"])
@pytest.mark.parametrize("type_of", ["float16", "bfloat16"])
def test_a_buffer_is_to_be_named_beyond_chance(tmp_path, kind, type_of):
    shy = answering(tmp_path, UNNAMED)
    weak, strong = (judging.judge(shy, buffer_case(kind, count, type_of)) for count in (1, 20))
    assert weak.failures == [] and weak.counts["by chance"] == 1 and weak.counts["beyond chance"] == 0
    assert strong.counts["beyond chance"] == 20 and strong.counts["by chance"] == 0
    assert any("beyond chance by" in failure for failure in strong.failures)
    named = judging.judge(answering(tmp_path, ""), buffer_case(kind, 20, type_of))
    assert named.failures == [] and named.counts["named"] == 20


def test_near_the_limit_either_answer_is_right(tmp_path, monkeypatch):
    for bits, failed in ((chance.PROMISED + 1.9, False), (chance.PROMISED + 2.1, True)):
        monkeypatch.setattr(chance, "evidence", lambda case, gradient, wrong, bits=bits: bits)
        outcome = judging.judge(answering(tmp_path, UNNAMED), buffer_case("unwritten", 2))
        assert bool(outcome.failures) == failed, bits


@pytest.mark.parametrize("type_of, each", [("float16", 11), ("bfloat16", 8)])
def test_evidence_is_what_few_numbers_fit(type_of, each):
    """An element that was not written is one of 2^11 or 2^8 numbers of its size; among others that are wrong and do not fit, more of them may fit."""
    case = buffer_case("unwritten", 5, type_of)
    wrong = case.observed.touched("grad_sampling_locations").reshape(-1)
    assert chance.evidence(case, "grad_sampling_locations", wrong) == pytest.approx(5 * each, abs=5)
    values = case.observed.values["grad_sampling_locations"].reshape(-1)
    values[np.flatnonzero(wrong)[:3]] *= -3
    assert chance.evidence(case, "grad_sampling_locations", wrong) == pytest.approx(2 * each - np.log2(10), abs=2)


def test_evidence_of_sums_is_that_of_the_arithmetic_that_they_may_have():
    """In sums of the type itself a window is wide, so that the same values exceed chance by less."""
    case = buffer_case("not_zeroed", 5)
    wrong = case.observed.touched("grad_sampling_locations").reshape(-1)
    narrow = replace(case.observed, arithmetic=replace(case.observed.arithmetic, scatter="float16"))
    assert chance.evidence(replace(case, observed=narrow), "grad_sampling_locations", wrong) < chance.evidence(case, "grad_sampling_locations", wrong) - 5


@pytest.mark.long
def test_a_program_that_never_names_a_buffer_is_noticed(tmp_path):
    shy = answering(tmp_path, UNNAMED)
    done = run("--captures", 12, "--kinds", "not_zeroed,unwritten", "--jobs", 1, "--replay", shy, "--json", tmp_path / "a.json", "--assert")
    assert done.returncode == 1 and "beyond chance by" in done.stderr
    outcomes = json.loads((tmp_path / "a.json").read_text())["outcomes"]
    types = {outcome["type"] for outcome in outcomes if outcome["counts"].get("by chance") or outcome["counts"].get("beyond chance")}
    assert types and types <= {"float16", "bfloat16"}


@pytest.mark.parametrize("seed, number", [(31, 12), (1, 46)])
def test_a_buffer_that_a_float32_kernel_adds_to_is_named_in_16_bits(tmp_path, seed, number):
    """A few of its values fit sums in 16 bits, which are so wide that chance would explain the others."""
    done = run("--operator", "msda", "--seed", seed, "--first", number, "--captures", 1, "--kinds", "not_zeroed,unwritten", "--jobs", 1,
               "--replay", REPLAY, "--json", tmp_path / "a.json", "--assert")
    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads((tmp_path / "a.json").read_text())["outcomes"]
    assert outcome["type"] in ("float16", "bfloat16") and outcome["counts"].get("by chance", 0) == 0 and outcome["counts"]["named"] > 600
