"""tests/campaign.py: its operator against closed forms, its bounds against its kernels, its faults, and its judge against programs
that answer wrongly."""

import functools
import json
import subprocess
import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest
from conftest import REPLAY, SOURCE
from support.campaign_answers import TESTS, answering, problem_of, run
from support.grid_sample_loop import gradients as loop_gradients
from support.problems import backward as other_backward
from support.problems import bfloat16, make_problem

from msda_replay.own import operator_from

sys.path.append(str(TESTS))
from campaign import answers, cases, captures, misses, rounding, steps, table  # noqa: E402
from campaign import judge as judging  # noqa: E402
from campaign import grid_sample, interpolate, own, real_calls, recorded, roi_align, scatter_add  # noqa: E402
from campaign.msda import operator, problems  # noqa: E402
from campaign.subjects import SUBJECTS  # noqa: E402

CONVENTIONS = list(dict.fromkeys(problems.CONVENTIONS))


def loss(problem, conventions):
    """sum(grad_output * output): grad_attention_weights is grad_output * sampled value."""
    return (operator.backward(problem, conventions)["grad_attention_weights"] * problem.attention).sum()


# The operator

@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("align", [False, True])
def test_exact_gradients_are_another_implementations(padding, align):
    inputs = make_problem(np.random.default_rng(3), dtype=np.float64)
    if align:  # this generator keeps away from the boundaries of align_corners=False
        inputs["sampling_locations"] = np.random.default_rng(4).uniform(0.01, 0.99, inputs["sampling_locations"].shape)
    problem = operator.Problem(tuple(map(tuple, inputs["spatial_shapes"])), inputs["value"], inputs["sampling_locations"],
                               inputs["attention_weights"], inputs["grad_output"], "float64")
    found = operator.backward(problem, operator.Conventions("msda_triton", padding, align))
    for name, expected in other_backward(inputs, padding, align).items():
        np.testing.assert_allclose(found[name].astype(float), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("conventions", CONVENTIONS, ids=str)
def test_exact_gradients_are_finite_differences(conventions):
    problem = problem_of(5, conventions)
    exact = operator.backward(problem, conventions)
    # The loss is linear in value and in attention_weights.
    assert float((exact["grad_value"] * problem.value).sum()) == pytest.approx(float(loss(problem, conventions)), rel=1e-12)
    step = 2.0**-26
    for place in np.random.default_rng(6).choice(problem.locations.size, 40, replace=False):
        sides = []
        for sign in (1, -1):
            moved = problem.locations.copy()
            moved.reshape(-1)[place] += sign * step
            sides.append(loss(replace(problem, locations=moved), conventions))
        slope = float((sides[0] - sides[1]) / (2 * step))
        assert float(exact["grad_sampling_locations"].reshape(-1)[place]) == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_a_nan_location_is_skipped():
    conventions = operator.Conventions("deformable_detr")
    problem = problem_of(7, conventions)
    problem.locations[0, 0, 0, 0, 0, 1] = np.nan
    exact = operator.backward(problem, conventions)
    assert all(np.isfinite(array).all() for array in exact.values())
    assert exact["grad_attention_weights"][0, 0, 0, 0, 0] == 0


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("conventions", dict.fromkeys(grid_sample.problems.CONVENTIONS), ids=str)
def test_exact_gradients_of_grid_sample_are_a_slow_loops(conventions, axes):
    if axes == 3 and conventions.interpolation == "bicubic":
        pytest.skip("PyTorch has none")
    rng = np.random.default_rng(axes)
    problem = grid_sample.problems.draw(rng, conventions, kind="float64", place=grid_sample.problems.outside, axes=axes)
    exact = grid_sample.operator.backward(problem, conventions)
    inputs = {"input": problem.input, "grid": problem.grid, "grad_output": problem.grad_output}
    for name, expected in loop_gradients(inputs, conventions.attributes()).items():
        largest = np.abs(expected).max(initial=1e-300)
        np.testing.assert_allclose(exact[name].astype(float), expected, rtol=1e-12, atol=1e-13 * largest)
        for _ in range(3):  # kernels in float64, whatever their order
            found = grid_sample.operator.backward(problem, conventions, grid_sample.problems.draw_arithmetic(rng, problem, {}))
            np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-10 * largest)


TORCH = np.load(SOURCE / "tests" / "data" / "scatter" / "torch_cpu.npz")
SCATTERING = sorted({key.split("/")[0] for key in TORCH if key.split("/")[0].endswith("-float64")})


def torch_case(name):
    """Conventions, problem and gradient of a call that PyTorch or torchvision computed in float64."""
    given = {key.split("/")[1]: TORCH[key] for key in TORCH if key.startswith(name + "/")}
    fact = {key: array.item() for key, array in given.items() if array.ndim == 0}
    if name.startswith("interpolate"):
        conventions = interpolate.problems.Conventions(fact["mode"], bool(fact["align_corners"]))
        scales = tuple(fact[f"scale_{axis}"] for axis in interpolate.problems.NAMES if f"scale_{axis}" in fact)
        return interpolate, conventions, interpolate.problems.Problem(given["grad_output"], given["grad_input"].shape[:1:-1], scales or None, "float64"), given["grad_input"]
    if name.startswith("roi_align"):
        conventions, shape = roi_align.problems.Conventions(fact["sampling_ratio"], bool(fact["aligned"])), given["grad_input"].shape
        return roi_align, conventions, roi_align.problems.Problem(given["boxes"], given["grad_output"], shape[0], shape[:1:-1], fact["spatial_scale"], "float64"), given["grad_input"]
    before = given.get("before_sum", given.get("self", np.zeros(given["sum"].shape)))
    held = "before_sum" in given or bool(fact.get("include_self", 0))
    conventions = scatter_add.problems.Conventions(fact.get("reduce", "sum"), held, bool(fact.get("scale_grad_by_freq", 0)), fact.get("padding_idx"),
                                                   bool(fact.get("wraps_negative", 0)), given["index"].ndim > 1)
    return scatter_add, conventions, scatter_add.problems.Problem(given["index"], given["source"], before, fact.get("dim", 0), conventions, "float64"), given["sum"]


@pytest.mark.parametrize("name", SCATTERING)
def test_exact_gradients_of_scattering_operators_are_pytorchs(name):
    room, conventions, problem, expected = torch_case(name)
    rng = np.random.default_rng(7)
    exact = room.operator.backward(problem, conventions)[problem.scattered].astype(float)
    largest = np.abs(expected).max()
    settled = np.ones(problem.target_count, bool)  # by which output pixels a pixel adds up
    if getattr(conventions, "nearest", False):  # PyTorch computes coordinates in float32, whatever the tensors are
        settled = problem.reach(conventions, rounding.TYPES["float64"])[1].sum(0) == 0

    def compare(found, **within):
        np.testing.assert_allclose(problem.places(found)[settled], problem.places(expected)[settled], **within)

    compare(exact, rtol=1e-12, atol=1e-13 * largest)
    for _ in range(3):
        found = room.operator.backward(problem, conventions, room.problems.draw_arithmetic(rng, problem, {}))
        compare(found[problem.scattered], rtol=1e-9, atol=1e-10 * largest)
    # The bounds hold for PyTorch's own results, too, and not for results a thousandth off.
    arithmetic = steps.Arithmetic(real="float64", stored="float64")
    assert (room.bounds.excess(problem, conventions, arithmetic, {problem.scattered: exact}, {problem.scattered: expected})[problem.scattered] == 0).all()
    wrong = room.bounds.excess(problem, conventions, arithmetic, {problem.scattered: exact}, {problem.scattered: expected * 1.001})[problem.scattered]
    assert (wrong > 0).any() or not settled.any()


def test_types_round_to_nearest_even():
    x = np.random.default_rng(8).standard_normal(20000) * 2.0 ** np.random.default_rng(9).integers(-150, 130, 20000)
    with np.errstate(all="ignore"):
        for name in ("float16", "float32"):
            np.testing.assert_array_equal(rounding.quantize(x, rounding.TYPES[name]), x.astype(name).astype(float))
    short = x[np.abs(x) < 2.0**127].astype(np.float32)
    np.testing.assert_array_equal(rounding.round_to("bfloat16", short), bfloat16(short).astype(float))


def test_orders_reach_different_sums_of_the_same_addends():
    conventions = operator.Conventions("msda_triton", "border")
    problem = problem_of(10, conventions, kind="float32", place=problems.clustered, shape=(1, 200, 1, 1, 3, ((5, 5),)))
    exact = operator.backward(problem, conventions)["grad_value"].astype(float)
    results = [operator.backward(problem, conventions, steps.Arithmetic(order=order, blocks=blocks))["grad_value"]
               for order in ("forward", "backward", "random") for blocks in (1, 3)]
    assert len({result.tobytes() for result in results}) == len(results)
    for result in results:
        np.testing.assert_allclose(result, exact, rtol=1e-4, atol=1e-4)


def test_definitions_say_what_the_campaign_computes():
    """NumPy tries every point of the definition that the captures hold."""
    for index, conventions in enumerate(SUBJECTS["own"].conventions * 3):
        problem = own.problems.draw(np.random.default_rng(index), conventions, kind="float64", shape=(9, 2, 5))
        given = {name: array for name, array, _ in problem.inputs()}
        stated = operator_from(json.loads(conventions.attributes()["definition"])).float64({"out": problem.shape_of("out")}, **given)
        np.testing.assert_allclose(stated["out"], own.operator.backward(problem, conventions)["out"].astype(float), rtol=1e-11, atol=1e-11)


# The bounds

@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_no_clean_kernel_passes_the_bounds_and_faults_do(subject):
    clean = [name for name, kind in subject.kinds.items() if kind.room == "clean" and kind.alter is None]
    reached = 0.0
    for index in range(2 * len(clean)):
        case = cases.draw(11, index, clean, subject)
        for side in (case.observed, case.reference):
            for name, excess in side.excess.items() if side else ():
                assert (excess == 0).all(), f"{case.name} {name}"
        wrong = {name: array * (1 + 1e-2) for name, array in case.observed.values.items()}
        found = subject.excess(case.problem, case.observed.conventions, case.observed.arithmetic, case.exact, wrong)
        reached += any((excess > 0).any() for excess in found.values())
    assert reached > 0.75 * len(clean), "bounds that nothing passes decide nothing"


# The faults

@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
@pytest.mark.long
def test_every_fault_plants_one_in_its_side_alone(subject):
    faults = [name for name, kind in subject.kinds.items() if kind.room != "clean"]
    assert len(faults) >= 45
    planted = dict.fromkeys(faults, 0)
    for index in range(4 * len(faults)):
        case = cases.draw(12, index, faults, subject)
        for name, side in (("observed", case.observed), ("reference", case.reference)):
            touched = sum(int(side.touched(gradient).sum()) for gradient in case.problem.gradients) if side else 0
            if case.side not in (name, "both"):
                assert touched == 0, case.name
            planted[case.kind] += touched
    assert all(planted.values()), [name for name, count in planted.items() if not count]


# The judge


@pytest.fixture(scope="module", params=SUBJECTS)
def flipped(request):
    """A case in which one sign of the recorded side is flipped, visibly."""
    for index in range(200):
        case = cases.draw(13, index, ["sign_of_elements"], SUBJECTS[request.param])
        case = replace(case, tolerance=(1e-3, 1e-2))
        seen = any((case.observed.excess[name] > 0.5).any() for name in case.problem.gradients)
        if case.side == "observed" and case.reference and case.problem.type == "float32" and seen and case.observed.values[case.problem.scattered].size > 100:
            return case
    pytest.fail("no such case")


def test_the_right_answer_passes(tmp_path, flipped):
    outcome = judging.judge(answering(tmp_path, ""), flipped)
    assert outcome.failures == [] and outcome.counts["visible"] > 0 and outcome.counts["named"] == outcome.counts["visible"]


@pytest.mark.parametrize("change, word", [
    ("for one in call['judged']: one['at_fault'] = 'reference'", "wrong side"),
    ("for one in call['judged']: one['cause'] = 'accumulation_order'\nfor one in call['findings']: one['cause'] = 'accumulation_order'", "missed"),
    ("call['judged'] = []\ncall['findings'] = []", "missed"),
    ("call['verdict']['at_fault'] = 'reference'", "verdict"),
    ("call['judged'].append({'tensor': call['comparisons'][0]['tensor'], 'against': 'float64', 'cause': 'implementation_error', 'at_fault': 'observed', "
     "'count': 100, 'elements': '0-99'})", "accused"),
    ("sys.exit(3)", "exit status 3"),
])
def test_a_wrong_answer_is_noticed(tmp_path, flipped, change, word):
    outcome = judging.judge(answering(tmp_path, change), flipped, tmp_path / "kept")
    assert any(word in failure for failure in outcome.failures), outcome.failures
    assert (tmp_path / "kept" / f"{flipped.name}.h5").is_file() and word in (tmp_path / "kept" / f"{flipped.name}.txt").read_text()


@pytest.mark.parametrize("stored", ["float32", "float64"])
def test_what_only_float64_shows_is_counted_apart(tmp_path, stored):
    """Two units in the last place of float32 are rounding in it, and a fault of a kernel that computes in float64."""
    conventions, arithmetic = operator.Conventions("msda_triton", "border"), steps.Arithmetic(real="float64", stored=stored)
    problem = problem_of(16, conventions, kind="float32", shape=(1, 8, 1, 2, 16, ((6, 6),)), place=problems.uniform)
    exact, clean = (operator.backward(problem, conventions, entry) for entry in (steps.EXACT, arithmetic))
    clean = cases.rounded(stored, clean)
    values = {name: array.copy() for name, array in clean.items()}
    for array in values.values():
        array.reshape(-1)[1::3] *= 1 + 2.0**-22
    values["grad_value"].reshape(-1)[0] += 1
    side = cases.Side(conventions, arithmetic, clean, cases.rounded(stored, values))
    side.excess = SUBJECTS["msda"].excess(problem, conventions, arithmetic, exact, side.values)
    counts = judging.judge(answering(tmp_path, ""), cases.Case("a", "offset", "observed", problem, exact, side, None, {}, (0, 2.0**-24))).counts
    assert counts["named"] >= 1 and counts["visible"] > 100
    assert counts["in float64"] == counts["missed"] and (counts["missed"] > 100 if stored == "float32" else counts["missed"] == 0)


def test_conventions_that_explain_all_gradients_are_no_failure():
    """With equal numbers at pixel centres: only where a level is one pixel high is any gradient of locations not 0, and there the fault makes it 0."""
    judge = judging.Judge("", cases.draw(6007, 99, ["align_corners_of_one"]), None)
    assert judge.explains("padding border in place of zeros")
    for fit in ("align_corners true in place of false", "spatial_shapes as (width, height) in place of (height, width)",
                "padding border in place of zeros and align_corners true in place of false"):
        assert not judge.explains(fit)


def test_a_miss_is_explained_by_a_larger_bound_alone():
    finding = {"observed": 1.0, "expected": 1.5, "cause": "ill_conditioned", "evidence": {"rounding_bound": 0.6}}
    assert misses.explains(finding)[1]
    assert not misses.explains({**finding, "evidence": {"rounding_bound": 0.4}})[1]
    assert not misses.explains({**finding, "evidence": {}})[1]


def test_a_miss_inside_of_a_run_is_asked_for(tmp_path):
    """A thousand neighbours, all missed: the program prints the bound of the first, and of each of the others when it is asked again."""
    conventions = operator.Conventions("msda_triton", "border")
    problem = problem_of(16, conventions, kind="float32", shape=(1, 50, 1, 1, 32, ((6, 6),)), place=problems.uniform)
    exact, clean = operator.backward(problem, conventions), operator.backward(problem, conventions, steps.Arithmetic())
    values = {name: array.copy() for name, array in clean.items()}
    values["grad_value"] += 1
    side = cases.Side(conventions, steps.Arithmetic(), clean, values, {name: np.zeros(x.shape) for name, x in values.items()})
    case = cases.Case("a", "offset", "observed", problem, exact, side, None, {}, (1e-3, 1e-3))
    path = tmp_path / "a.h5"
    captures.write(path, case)
    result, _ = answers.run(REPLAY, path)
    places = np.flatnonzero(clean["grad_value"].reshape(-1))
    answer = [finding for finding in result["invocations"][0]["findings"] if finding["against"] == "float64" and finding["tensor"] == "grad_value"]
    assert len(places) > 500 and len(answer) < 20
    bounds_of = misses.PrintedBounds(REPLAY, case, path, "float64", "grad_value")
    printed = bounds_of.read(result, places, values["grad_value"].reshape(-1), exact["grad_value"].reshape(-1).astype(float),
                              np.full(values["grad_value"].size, "implementation_error"))
    assert set(printed) == set(map(int, places))
    assert not any(explained for _, explained in printed.values())  # a difference of 1 is no rounding


def test_captures_hold_the_cases_numbers(tmp_path, replay):
    draw = functools.cache(lambda i: cases.draw(14, i, ["any_kernel"]))
    for kind in ("float32", "float64", "float16", "bfloat16"):
        case = next(case for case in map(draw, range(500)) if case.problem.type == kind and case.reference)
        path = tmp_path / f"{kind}.h5"
        captures.write(path, case)
        shown = replay("show", path, "--json", "-", expect=0).json
        assert kind in json.dumps(shown)
        from msda_replay import read_capture
        call = read_capture(path).invocations[0]
        for name, array in case.observed.values.items():
            np.testing.assert_array_equal(call.outputs[name].astype(float), array)
        np.testing.assert_array_equal(call.inputs["sampling_locations"].astype(float), case.problem.locations)


@pytest.mark.parametrize("operator_of", SUBJECTS)
def test_every_kind_is_listed_and_counted(operator_of):
    kinds = SUBJECTS[operator_of].kinds.values()
    assert run("--operator", operator_of, "--list-kinds").stdout.splitlines() == [f"{kind.room}: {kind.name}: {kind.text}" for kind in kinds]
    clean = sum(kind.room == "clean" for kind in kinds)
    assert f"| `{operator_of}` | {len(kinds) - clean} | {clean} |\n" in (SOURCE / "docs" / "measured" / "campaign.md").read_text()


# The whole tool

def run_alone(*arguments):
    """The same as a process of its own, which may have more of them."""
    command = [sys.executable, TESTS / "campaign.py", *arguments]
    return subprocess.run([str(entry) for entry in command], capture_output=True, text=True, timeout=500)


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.long
def test_nothing_is_judged_wrong(tmp_path, name):
    count = len(SUBJECTS[name].kinds)  # one of each
    done = run_alone("--operator", name, "--captures", count, "--seed", 15, "--jobs", 2, "--replay", REPLAY, "--json", tmp_path / "a.json", "--assert")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["summary"]["captures"] == count == len(found["outcomes"])
    assert found["summary"]["precision"] == found["summary"]["side"] == "1.0" and found["summary"]["visible"] > 1000


LATER = ("percent_off", "narrow_beside_wrong", "infinity_ignored", "infinity_negated", "overflow_negated", "sum_stopped", "count_stopped", "flushed",
         "edges_lost", "align_corners_of_one")  # kinds that have no turn in the numbers below


def judged_once(operator_of, seed, number):
    kinds = ",".join(name for name in SUBJECTS[operator_of].kinds if name not in LATER)
    return run("--operator", operator_of, "--captures", 1, "--first", number, "--seed", seed, "--kinds", kinds, "--jobs", 1, "--replay", REPLAY, "--assert")


@pytest.mark.parametrize("seed, number, why", [
    (1, 1436, "reduced_precision was named where addends of 100 cancel: float32 leaves as few bits there as float16 has"),
    (1, 2247, "the same, with two channels"),
    (1, 2891, "reduced_precision was named by results of nearly 0, which many mistakes have"),
    (1, 155, "cell_boundary was named where rounded locations reach another cell, and no rounding of the coordinate does"),
    (1, 1998, "bounds were asked for that msda-replay prints for some elements only"),
    (2, 1742, "an infinity was called a mistake where the gradient of the next cell does not fit into float16"),
    (3, 1631, "an element that nobody wrote was called an implementation error, because a jump and rounding together might explain it"),
    (4, 1467, "a NaN was called a mistake where rounding lands in the cell that has it"),
    (4, 1649, "channels with the same addends counted as so many witnesses of the arithmetic"),
    (13, 1464, "sums that lean to one side, because many have the same addends, were called a mistake"),
    (13, 2333, "a sum that overflows in every order explained all that is finite"),
    (13, 2490, "a factor was called a rounding of attention weights that are all equal"),
])
def test_what_was_judged_wrong_once(seed, number, why):
    done = judged_once("msda", seed, number)
    assert done.returncode == 0, f"{why}: {done.stderr}"


@pytest.mark.parametrize("operator_of, seed, number, why", [
    ("scatter_add", 2, 59, "partial sums overflow float16, in a sum of whose elements too few are finite to show that it was added up in it"),
    ("own", 1, 1136, "the same, of an operator that the capture's definition states"),
    ("scatter_add", 3, 25, "the campaign itself put the only element right before it asked for its bound"),
    ("interpolate", 1, 1015, "10.5 / 2.1 is 5, and was less to the campaign, as no float64 is 2.1"),
])
def test_what_was_judged_wrong_of_scattering_operators_once(operator_of, seed, number, why):
    done = judged_once(operator_of, seed, number)
    assert done.returncode == 0, f"{why}: {done.stderr}"


@pytest.mark.parametrize("seed, number, why", [
    (2, 144, "coordinates in bfloat16, which take samples to other pixels, all lie to one side of sums of float32 products"),
    (2, 300, "a buffer that was not zeroed hides that the kernel adds in 16 bits"),
    (2, 363, "the pixels that ties in float16 reach hold nothing in exact arithmetic"),
    (2, 481, "a gradient that does not show its arithmetic was taken for one in float32"),
    (2, 646, "the same, of a point of reflection"),
    (2, 663, "samples that read the same counted as so many witnesses of the arithmetic"),
    (2, 875, "partial sums overflow float16, and a clipped gradient is 0 * infinity"),
    (2, 911, "bfloat16 moves the pixels that bicubic interpolation reflects"),
    (1, 11, "the sum of samples that only rounding brings has a rounding as well"),
])
def test_what_was_judged_wrong_of_grid_sample_once(seed, number, why):
    done = judged_once("grid_sample", seed, number)
    assert done.returncode == 0, f"{why}: {done.stderr}"


@pytest.mark.parametrize("kind, change, text", [
    ("flushed", "call['biases'].append({'tensor': 'sum', 'count': 64, 'total': 64})", "errors are said to lean"),
    ("percent_off", "call['judged'] = call['findings'] = []", "missed: "),
    ("infinity_negated", "call['judged'] = call['findings'] = []", "missed: "),
])
def test_answers_that_were_once_given_are_noticed(tmp_path, kind, change, text):
    """The kinds of what was excused, and a program that excuses it."""
    arguments = ("--operator", "scatter_add", "--captures", 3, "--kinds", kind, "--seed", 4, "--jobs", 1, "--assert")
    done = run(*arguments, "--replay", answering(tmp_path, change))
    assert done.returncode == 1 and text in done.stderr, done.stderr
    assert run(*arguments, "--replay", REPLAY).returncode == 0


@pytest.mark.parametrize("operator_of, kind, seed, number, why", [
    ("grid_sample", "infinity_negated", 7, 3, "an infinity of the other sign was the inputs': its share in partial sums counted as one of either sign"),
    ("interpolate", "infinity_negated", 7, 0, "the same"),
    ("roi_align", "infinity_negated", 7, 2, "the same"),
    ("roi_align", "infinity_negated", 9, 47, "a weight of nearly 0, whose sign no rounding changes"),
    ("grid_sample", "nan_grad_output", 5, 13, "rounding gives a bicubic weight of nearly 0 the other sign, and so the infinity that it multiplies"),
    ("grid_sample", "infinity_negated", 9, 7, "the product of two small bicubic weights is smaller than its rounding, but each has its sign"),
    ("grid_sample", "infinity_negated", 9, 79, "the same"),
    ("grid_sample", "infinity_negated", 3113, 303, "by the campaign: an infinity times a bicubic weight whose sign rounding decides"),
    ("grid_sample", "infinity_negated", 3111, 90, "by the campaign: an infinity times a sum whose sign rounding decides"),
    ("grid_sample", "other_channel", 5005, 2190, "by the campaign: on ties in float64 a miss was asked for with a tolerance that it meets"),
    ("interpolate", "offset", 2027, 933, "a right kernel heeds a scale factor where PyTorch's copy"),
    ("interpolate", "weight_missing", 2027, 2806, "the same of a wrong one, half of whose values are by chance those of a copy"),
    ("interpolate", "next_target", 2027, 109, "a number that bfloat16 does not have was taken for a sum in it"),
    ("interpolate", "last_slices_missing", 2027, 1109, "the bound that was printed was that of one side alone"),
])
def test_what_was_judged_wrong_of_a_kind_once(operator_of, kind, seed, number, why):
    done = run("--operator", operator_of, "--captures", 1, "--first", number, "--seed", seed, "--kinds", kind, "--jobs", 1, "--replay", REPLAY, "--assert")
    assert done.returncode == 0, f"{why}: {done.stderr}"


@pytest.mark.parametrize("operator_of, seed, number, why", [
    ("msda", 2027, 1761, "beside a boundary where nothing jumps, products in TF32 were the boundary's"),
    ("grid_sample", 2027, 2317, "of a gradient in fewer bits, what rounding explains as well was rounding's"),
    ("grid_sample", 2027, 664, "a sample on a tie might be added in part"),
])
def test_what_was_missed_once(operator_of, seed, number, why):
    done = run("--operator", operator_of, "--captures", 1, "--first", number, "--seed", seed, "--jobs", 1, "--replay", REPLAY, "--assert")
    assert done.returncode == 0 and " missed 0," in done.stdout, f"{why}: {done.stdout[-300:]}"


def test_a_strided_input_is_recorded_as_one(tmp_path, replay):
    case = next(case for case in (cases.draw(17, i, ["strided"], SUBJECTS["grid_sample"]) for i in range(50)) if case.problem.type == "float32")
    captures.write(tmp_path / "a.h5", case)
    with h5py.File(tmp_path / "a.h5") as file:
        image = file["invocations/000000/inputs/input"]
        n, c, *sides = image.shape
        assert list(image.attrs["strides"])[:2] == [c * np.prod(sides), 1] and image.attrs["strides"][-1] == c
        np.testing.assert_array_equal(image[...], case.problem.input)
    replay("show", tmp_path / "a.h5", expect=0)


# Recorded captures

RECORDED = SOURCE / "tests" / "data" / "scatter" / "h200_orders.h5"


def equal_problems(entry, another):
    for name, value in vars(entry).items():
        np.testing.assert_array_equal(value, getattr(another, name), name)


@pytest.mark.parametrize("name", [name for name, subject in SUBJECTS.items() if subject.read])
def test_a_capture_is_read_as_it_was_written(tmp_path, name):
    """For every set of conventions, the call that was drawn comes back from the file."""
    subject = SUBJECTS[name]
    for index, conventions in enumerate(dict.fromkeys(subject.conventions)):
        case = cases.draw(20, index, ["any_kernel"], replace(subject, conventions=(conventions,)))
        captures.write(tmp_path / "a.h5", replace(case, kernel="a_kernel"))
        call, = recorded.read_calls(tmp_path / "a.h5")
        assert call.operator == name and call.facts["kernel"] == "a_kernel"
        found, problem = subject.read(call)
        if name == "scatter_add" and case.problem.index.ndim == 1:  # an index for each row is one for each element
            found, problem = (replace(found, per_element=conventions.per_element), replace(problem, conventions=conventions))
        assert found == conventions
        equal_problems(problem, case.problem)
        for gradient, values in case.observed.values.items():
            np.testing.assert_array_equal(call.outputs[gradient], values)
            assert call.types[gradient] == case.observed.arithmetic.stored


def test_a_sorted_index_is_read_in_the_order_of_the_source():
    call = recorded.RecordedCall("000000", {"dim_size": 4, "dim": 0, "reduce": "sum", "include_self": 0}, {
        "index": np.array([0, 1, 3]), "source_row": np.array([2, 0, 1]), "source": np.array([[1.0], [2.0], [4.0]])}, types={"source": "float32"})
    conventions, problem = scatter_add.recorded.read(call)
    exact = scatter_add.operator.backward(problem, conventions)["sum"]
    np.testing.assert_array_equal(exact.astype(float), [[4], [1], [0], [2]])


@pytest.mark.parametrize("facts, why", [({"scale_width": "2.0"}, "some axes have scale factors"), ({"input_width": None}, "no attribute input_width")])
def test_what_the_campaign_cannot_read_is_told(facts, why):
    facts = {"mode": "bilinear", "input_width": 4, "input_height": 4, **facts}
    call = recorded.RecordedCall("000000", {name: value for name, value in facts.items() if value is not None}, {"grad_output": np.ones((1, 1, 8, 8))},
                                 types={"grad_output": "float32"})
    assert why in real_calls.RealCall(call, "interpolate").why_not


def test_the_recorded_arithmetic_is_told_by_the_results():
    scatter, resize, boxes = real_calls.calls_of(RECORDED).calls
    assert (scatter.arithmetic.real, scatter.arithmetic.scatter) == ("float32", "float16")  # index_add adds float16 with atomics of float16
    assert boxes.arithmetic.real == "float32" and not boxes.arithmetic.scatter
    narrow = real_calls.RealCall(replace(resize.recorded, outputs={"grad_input": rounding.round_to("float16", resize.exact["grad_input"])}), "interpolate")
    assert narrow.arithmetic.scatter == ""  # of results that are rounded once
    wrong = real_calls.RealCall(replace(boxes.recorded, outputs={"grad_input": boxes.outputs["grad_input"] * 1.001}), "roi_align")
    assert "outside of all that rounding gives" in wrong.why_not


def test_faults_of_recorded_calls_move_what_they_say_alone():
    calls = real_calls.calls_of(RECORDED)
    planted = {}
    for index in range(calls.count()):
        case = calls.case(19, index)
        if case is None:
            continue
        call = calls.calls[index % len(calls.calls)]
        touched = {name: case.observed.touched(name) for name in case.problem.gradients}
        assert any(mask.any() for mask in touched.values()) == (case.kind != "untouched"), case.name
        for name, mask in touched.items():
            np.testing.assert_array_equal(case.observed.values[name][~mask], call.recorded.outputs[name][~mask])
        planted.setdefault(case.problem.operator, []).append(case.kind)
    for operator_of, kinds in planted.items():
        assert kinds[0] == "untouched" and len(set(kinds)) == len(kinds), "each kind has one turn"
        assert len(kinds) > 31, operator_of


def test_nothing_of_a_recorded_capture_is_judged_wrong(tmp_path):
    done = run_alone("--capture", RECORDED, "--jobs", 2, "--replay", REPLAY, "--json", tmp_path / "a.json", "--assert")
    assert done.returncode == 0, done.stderr
    outcomes = json.loads((tmp_path / "a.json").read_text())["outcomes"]
    assert {"untouched", "sign_of_elements", "source_lost", "not_zeroed"} <= {outcome["kind"] for outcome in outcomes}
    assert sum(outcome["counts"].get("named", 0) for outcome in outcomes) > 1000
    assert "kinds of faults planted: interpolate, float16: " in done.stdout


def test_an_accused_recorded_call_is_noticed(tmp_path):
    accusing = "call['judged'].append({'tensor': call['comparisons'][0]['tensor'], 'against': 'float64', 'cause': 'implementation_error', " \
               "'at_fault': 'observed', 'count': 1, 'elements': '0'})"
    done = run("--capture", RECORDED, "--captures", 3, "--jobs", 1, "--replay", answering(tmp_path, accusing), "--assert")
    assert done.returncode == 1 and done.stderr.count("untouched: accused") == 3


def test_wrong_answers_end_with_1(tmp_path):
    program = answering(tmp_path, "for one in call['judged']: one['at_fault'] = 'tolerance'")
    done = run_alone("--captures", 6, "--kinds", "sign_of_tensor,garbage", "--jobs", 1, "--replay", program, "--assert")
    assert done.returncode == 1 and "wrong side" in done.stderr
    assert run("--captures", 1, "--kinds", "sign_of_tensor,garbage", "--jobs", 1, "--replay", program).returncode == 0


@pytest.mark.parametrize("arguments, text", [
    (("--kinds", "sign"), "'sign' is none of"), (("--captures", "0"), "a number from 1"), (("--replay", "/nowhere"), "there is no such program"),
    (("--capture", "/nowhere.h5"), "there is no such file"),
])
def test_bad_usage(arguments, text):
    done = run("--replay", REPLAY, *arguments)
    assert done.returncode == 2 and text in done.stderr


def test_tables_add_up():
    outcomes = [judging.Outcome(f"{i}", "garbage", "observed", "msda", kind) for i, kind in enumerate(("float32", "float16", "float32"))]
    for outcome in outcomes:
        outcome.counts.update({"visible": 5, "named": 4, "missed": 1, "accused": 4})
    lines = table.markdown(outcomes, "operator, type").splitlines()
    assert lines[2].startswith("| msda, float16 | 1 |") and lines[3].startswith("| msda, float32 | 2 |") and "| 15 | 12 | 3 |" in lines[4]
    assert table.summary(outcomes)["recall"] == "0.8" and table.summary(outcomes)["precision"] == "1.0"
    assert table.kinds_planted(outcomes) == ["msda, float16: 1", "msda, float32: 1"]
