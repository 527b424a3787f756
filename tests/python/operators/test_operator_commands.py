"""Every command on calls of every operator."""

import json

import jsonschema
import numpy as np
import pytest
from conftest import SOURCE
from support.operators import OPERATORS, invocation, operator  # noqa: F401
from support.schemas import check

from msda_replay import read_capture, write_capture


@pytest.fixture
def written(tmp_path):
    def write(calls, name="a.h5"):
        write_capture(tmp_path / name, calls, overwrite=True)
        return tmp_path / name

    return write


def largest(array):
    return tuple(int(i) for i in np.unravel_index(np.abs(array).argmax(), array.shape))


def element_of(gradient, index):
    return f"{gradient}[{','.join(map(str, index))}]"


def test_gradcheck(operator, replay, written):
    """What a kernel computed passes; with a flipped sign, or a hundredth too large, no call does."""
    calls = operator.all_recorded()
    result = replay("gradcheck", written(calls), "--all", "--json", "-", expect=0).json
    check(result, "gradcheck")
    assert len(result["invocations"]) == len(calls)
    for factor, *types in ((-1,), (1.01, "float32")):
        wrong = operator.all_recorded(*types)
        for call in wrong:
            call.outputs[operator.summed] *= np.float32(factor)
        result = replay("gradcheck", written(wrong), "--samples", 30, "--json", "-", expect=1).json
        assert [invocation["id"] for invocation in result["invocations"] if invocation["passed"]] == []


def in_drawn_orders(operator, kind=None, seed=0):
    """Calls of kernels that added in an order that they drew, with a fault of this kind, if any."""
    for conventions, problem, arithmetic in operator.orderable():
        how = conventions, arithmetic
        if kind:
            how = operator.subject.kinds[kind].plant(*how, problem, np.random.default_rng(seed))
        yield invocation(problem, conventions, operator.subject.backward(problem, *how))


def orders(replay, path, expect, *options):
    result = replay("order", path, "--invocation", "all", "--list", 1000, *(options or ("--moves", 0)), "--json", "-", expect=expect).json
    check(result, "order")
    return result["invocations"]


def test_the_order_of_additions_is_read_back(operator, replay, written):
    """Every pixel with few additions has one; what remains is proved to have none, or was searched for in vain."""
    summaries = [call["summary"] for call in orders(replay, written(list(in_drawn_orders(operator))), 0)]
    for summary in summaries:
        assert summary["explained_to_15"] == summary["with_1_to_15"] and summary["impossible"] == 0, summary
        assert summary["explained"] + summary["not_found"] == summary["elements"]
    assert sum(summary["with_1_to_15"] for summary in summaries) > 100 and sum(summary["unique"] for summary in summaries) > 50


def test_what_pytorch_added_on_a_gpu_or_a_cpu(replay, written):
    """Every pixel: one order, or, where channels came in different orders, one for each."""
    grid, scatter, boxes = (OPERATORS[name] for name in ("grid_sample", "scatter_add", "roi_align"))
    for call in orders(replay, written(grid.all_recorded("float32", "float64")), 0, "--seed", 1):
        summary = call["summary"]
        assert summary["explained"] + summary["in_parts"] == summary["elements"] > 15
        assert summary["in_parts"] * 10 < summary["elements"] and summary["lost"] == summary["doubled"] == 0
    for row in (scatter, boxes):
        variants = [variant for variant in row.typed("float32") if variant != "embedding_freq-float32"]  # by a product with a rounded share
        for variant, call in zip(variants, orders(replay, written([row.recorded(variant) for variant in variants]), 0)):
            summary = call["summary"]
            assert summary["impossible"] == 0 and summary["explained_to_15"] == summary["with_1_to_15"], (variant, summary)
            assert summary["explained"] >= (1 if row is scatter else 0.8) * summary["elements"] > 0, (variant, summary)


@pytest.mark.parametrize("kind, words", [("addend_lost", "was lost"), ("addend_twice", "was added twice")])
def test_lost_and_doubled_addends_are_proved(operator, replay, written, kind, words):
    path = written([call for seed in (1, 2, 3) for call in in_drawn_orders(operator, kind, seed)])
    found = orders(replay, path, 1)
    name = {"addend_lost": "lost", "addend_twice": "doubled"}[kind]
    assert sum(call["summary"][name] for call in found) > 0
    assert all(call["summary"]["impossible"] <= 1 for call in found)  # all else is in order
    assert words in replay("order", path, "--invocation", "all", "--moves", 0, expect=1).out


def test_recorded_order_replays_the_recorded_bits(operator, replay, written):
    calls = list(in_drawn_orders(operator))
    few = [number for number, call in enumerate(orders(replay, written(calls), 0)) if call["summary"]["explained"] == call["summary"]["elements"] > 0]
    for call in [calls[number] for number in few][:4]:
        (result,) = replay("run", written([call]), "--mode", "recorded_order", "--json", "-", expect=0).json["invocations"]
        counts = result["recorded_order"][operator.summed]
        assert counts["pixels"] == counts["in_order"] > 0 and counts["equal"] == counts["total"] == call.outputs[operator.summed].size
    assert few


def test_a_wrong_recorded_gradient_drifts_in_itself(operator, replay, written):
    for gradient in operator.gradients:
        call = operator.recorded(operator.typed("float32")[0])
        index = largest(call.outputs[gradient])
        call.outputs[gradient][index] *= -1
        path, element = written([call]), element_of(gradient, index)
        (result,) = replay("stages", path, "--json", "-", expect=0).json["invocations"]
        (found,) = [found for found in result["elements"] if found["tensor"] == gradient]
        assert found["index"] == list(index) and found["first_drift"] == gradient
        (summary,) = [stage for stage in result["summary"] if stage["stage"] == gradient]
        assert summary["recorded"]["from_deterministic"]["max_abs"] == pytest.approx(2 * abs(call.outputs[gradient][index]), rel=1e-5)
        text = replay("stages", path, expect=0).out
        assert f"Invocation 0, {'dialect ' + call.dialect if call.dialect else operator.name}" in text and element in text and f"first drift: {gradient}" in text
        assert f"msda-replay stages {path} --element '{element}'" in replay("run", path, expect=1).out


def test_stages_of_elements(operator, replay, written):
    """All addends, and their sum."""
    for call in operator.all_recorded("float32"):
        element = element_of(operator.summed, largest(call.outputs[operator.summed]))
        (result,) = replay("stages", written([call]), "--element", element, "--json", "-", expect=0).json["invocations"]
        *addends, total = result["elements"][0]["stages"]
        assert total["stage"] == operator.summed and "contributions" in addends[0]["stage"]
        values = [value for side, value in total["values"].items() if side != "float64"]
        assert values and values == pytest.approx([total["values"]["float64"]] * len(values), rel=1e-4, abs=1e-5)
        if "self" not in call.inputs and not call.outputs_before:
            assert sum(row["values"]["float64"] for row in addends) == pytest.approx(total["values"]["float64"], rel=1e-11, abs=1e-13)
    for name, words in (("grad_nothing[0]", "there are "), (f"{operator.summed}[0]", "indices within [")):
        assert words in replay("stages", written([call]), "--element", name, expect=2).err


def test_minimize(operator, replay, written, tmp_path):
    for gradient in operator.gradients:
        call = [call for call in operator.all_recorded("float32") if np.any(call.outputs[gradient])][-1]
        call.outputs[gradient][largest(call.outputs[gradient])] *= 1.5
        small = tmp_path / "small.h5"
        result = replay("minimize", written([call]), "-o", small, "--force", "--from-scratch", "--json", "-", expect=0).json
        jsonschema.validate(result, json.loads((SOURCE / "docs" / "minimize.schema.json").read_text()))
        assert (result["operator"], result["cause"], result["at_fault"]) == (operator.name, "implementation_error", "observed")
        replay("verify", small, expect=0)
        before, after = (sum(array.size for array in entry.inputs.values()) for entry in (call, *read_capture(small).invocations))
        assert after < before
        again = replay("run", small, "--json", "-", expect=1).json["verdict"]
        assert again["at_fault"] == "observed" and again["causes"].get("implementation_error")


def test_stress_and_advise(operator, replay, written):
    path, tight = written([operator.recorded(operator.typed("float32")[0])]), ("--atol", 0, "--rtol", 0)
    result = replay("stress", path, "--runs", 20, *tight, "--json", "-", expect=1).json
    check(result, "stress")
    assert result["operator"] == operator.name and result["slices"] >= 1
    assert result["against"] == ("grid_sample" if operator.name == "msda" else "float64")
    assert all(result["by_tensor"][gradient]["failures"] > 0 for gradient in operator.gradients)
    why = {"scatter_add": "has no batches, heads or queries", "roi_align": "is simulated with its own boxes"}.get(operator.name, "has no heads")
    if operator.name != "msda":
        assert f"{operator.name} {why}" in replay("stress", path, "--heads", 2, expect=2).err
    assert result["failure_probability"]["estimate"] == 1 and result["elements_out_of_tolerance"] > 0
    replay("stress", path, "--runs", 20, expect=0)
    for flags, estimate in (((), 0), (tight, 1)):
        result = replay("advise", path, "--runs", 20, *flags, "--json", "-", expect=0).json
        check(result, "advise")
        assert result["as_it_is"]["failure_probability"]["estimate"] == estimate


def test_report_show_and_list(operator, replay, written, tmp_path):
    call = operator.recorded(operator.typed("float32")[0])
    index = largest(call.outputs[operator.summed])
    call.outputs[operator.summed][index] *= -1
    path = written([call])
    replay("report", path, "-o", tmp_path / "a.html", expect=1)
    page = (tmp_path / "a.html").read_text()
    assert element_of(operator.summed, index) in page and "its sign were flipped" in page
    assert operator.name in replay("list", path, expect=0).out and operator.summed in replay("show", path, expect=0).out
