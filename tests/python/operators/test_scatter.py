"""Operators that scatter, scatter_add, interpolate and roi_align: what PyTorch and torchvision computed on a CPU
(tests/data/scatter/torch_cpu.npz) is explained to the last bit, and mistakes planted in it are named."""

import json

import numpy as np
import pytest
from support.run_results import check_schema
from support.scatter_calls import CASES, RECORDED, gradient_of, imported, operator_of, tensors_of  # noqa: F401

from msda_replay import read_capture, write_capture

ROUNDING = {"rounding", "ill_conditioned", "accumulation_order", "cell_boundary"}


@pytest.fixture
def judged(replay, tmp_path):
    def run(calls, *options, expect=1):
        path = tmp_path / "a.h5"
        write_capture(path, calls, overwrite=True)
        result = replay("run", path, "--json", "-", *options, expect=expect).json
        check_schema(result)
        return result["invocations"]

    return run


def causes_of(call):
    return {(entry["cause"], entry["at_fault"]): entry["count"] for entry in call["judged"]}


def whys(call):
    return " ".join(finding["why"] for finding in call["findings"])


def test_there_are_all_modes():
    assert sum(operator_of(case) == "scatter_add" for case in CASES) == 3 * 12
    assert {case.split("_")[1] for case in CASES if operator_of(case) == "interpolate"} == {
        "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"}
    assert sum(operator_of(case) == "roi_align" for case in CASES) == 2 * 6


def test_what_pytorch_computed_is_within_tolerance(imported, judged):
    for case, call in zip(CASES, judged([imported(case) for case in CASES], expect=0)):
        assert call["operator"] == operator_of(case)
        assert causes_of(call) == {}, case


def test_replays_are_within_tolerance(imported, judged):
    """Every mode computes what PyTorch did."""
    for case, call in zip(CASES, judged([imported(case) for case in CASES], expect=0)):
        sides = {comparison["observed"]: comparison for comparison in call["comparisons"]}
        assert {"recorded", "deterministic", "atomic"} <= set(sides)
        assert all(comparison["mismatched"] == 0 for comparison in call["comparisons"]), case


def test_rounding_explains_it_to_the_last_bit(imported, judged):
    for case, call in zip(CASES, judged([imported(case) for case in CASES], "--atol", 0, "--rtol", 0)):
        assert {cause for cause, _ in causes_of(call)} <= ROUNDING, case
        # A tolerance of 0 asks for more than a type has.
        assert call["verdict"]["at_fault"] == ("tolerance" if causes_of(call) else "none"), case


# --- The truth: scatter by loops of NumPy's own.


def scattered(tensors, reduce="sum", include_self=True):
    """index_add and its like in float64, one element after the other."""
    source, dim = tensors["source"].astype(float), tensors.get("dim", 0)
    index = np.broadcast_to(np.expand_dims(tensors["index"], tuple(i for i in range(source.ndim) if i != dim)) if tensors["index"].ndim == 1
                            else tensors["index"], source.shape)
    total = np.zeros(tensors["sum"].shape)
    count = np.zeros(total.shape)
    for place in np.ndindex(*source.shape):
        row = index[place]
        if row == tensors.get("padding_idx"):
            continue
        at = (*place[:dim], row % total.shape[dim], *place[dim + 1:])
        total[at] += source[place]
        count[at] += 1
    if tensors.get("scale_grad_by_freq"):
        total /= np.maximum(count, 1)
    before = tensors.get("before_sum", tensors.get("self", np.zeros(total.shape))).astype(float)
    kept = np.ones(total.shape, bool) if include_self else count == 0
    total += np.where(kept, before, 0)
    return total / np.maximum(1, count + (1 if include_self else 0)) if reduce == "mean" else total


@pytest.mark.parametrize("case", [case for case in CASES if operator_of(case) == "scatter_add" and "float32" in case])
def test_float64_is_the_sum(imported, replay, tmp_path, case):
    tensors = tensors_of(case)
    call = imported(case)
    truth = scattered(tensors, tensors.get("reduce", "sum"), bool(tensors.get("include_self", 1)))
    call.outputs = {"sum": truth}
    write_capture(tmp_path / "a.h5", call)
    replay("run", tmp_path / "a.h5", "--atol", 1e-13, "--rtol", 1e-13, expect=0)
    call.outputs = {"sum": truth + 1e-6}
    write_capture(tmp_path / "a.h5", call, overwrite=True)
    replay("run", tmp_path / "a.h5", "--atol", 1e-13, "--rtol", 1e-13, expect=1)


# --- Mistakes.


def faulty(call, change):
    name = next(iter(call.outputs))
    call.outputs[name] = change(call.outputs[name].copy())
    return call


SOME = [case for case in CASES if "float32" in case and "nearest" not in case]


@pytest.mark.parametrize("name, change", [("sign", lambda x: -x), ("twice", lambda x: 2 * x), ("fourth digit", lambda x: x * 1.001)])
def test_a_mistake_everywhere_is_named(imported, judged, name, change):
    options = ("--atol", 0, "--rtol", 1e-5)
    for case, call in zip(SOME, judged([faulty(imported(case), change) for case in SOME], *options)):
        assert ("implementation_error", "observed") in causes_of(call), (case, name)
        assert call["verdict"]["at_fault"] == "observed"
    text = whys(call)
    if name == "sign":
        assert "its sign were flipped" in text


def index_add(imported, **more):
    return imported("index_add-float32", **more), tensors_of("index_add-float32")


def test_a_lost_and_a_doubled_row_are_named(imported, judged):
    call, tensors = index_add(imported)
    row, source = tensors["index"][7], tensors["source"][7]
    call.outputs["sum"][row] -= source
    result = judged(call)[0]
    assert causes_of(result) == {("implementation_error", "observed"): 4}
    assert "the contribution of source row 7 were missing" in whys(result)
    call.outputs["sum"][row] += 2 * source
    assert "the contribution of source row 7 were added twice" in whys(judged(call)[0])


def test_what_the_sum_held_belongs_to_it(imported, judged):
    call, tensors = index_add(imported)
    call.outputs["sum"] = call.outputs["sum"] - tensors["before_sum"]
    result = judged(call)[0]
    assert set(causes_of(result)) == {("implementation_error", "observed")}
    assert "what it held before were left out" in whys(result)
    call.outputs["sum"] = tensors["before_sum"]
    assert "nothing were added to what it held before" in whys(judged(call)[0])


def test_a_buffer_that_was_not_zeroed_is_named_where_it_should_have_been(imported, judged):
    call, tensors = index_add(imported, include_self=0)
    result = judged(call)[0]
    assert set(causes_of(result)) == {("uninitialized_output", "observed")}


def test_a_wrong_convention_is_named(imported, judged):
    result = judged(imported("scatter_reduce_mean_0-float32", reduce="sum"))[0]
    assert "reduce mean in place of sum" in result["verdict"]["summary"]
    result = judged(imported("interpolate_bilinear_1_2d_0-float32", align_corners=0))[0]
    assert "align_corners true in place of false" in result["verdict"]["summary"]
    result = judged(imported("interpolate_bicubic_0_2d_0-float32", mode="bilinear"))[0]
    assert "mode bicubic in place of bilinear" in result["verdict"]["summary"]
    result = judged(imported("roi_align_1_2-float32", aligned=0))[0]
    assert "aligned true in place of false" in result["verdict"]["summary"]
    result = judged(imported("roi_align_0_3-float32", sampling_ratio=2))[0]
    assert set(causes_of(result)) == {("implementation_error", "observed")}
    assert "sampling_ratio 3 in place of 2" in result["verdict"]["summary"]


def test_nearest_pixels_that_no_formula_moves_are_mistakes(imported, judged):
    """7 to 21 pixels: coordinates i / 3 are whole numbers at every third, and so they are after the rounding of 1/3."""
    call = imported("interpolate_nearest_0_1d_0-float32")
    moved = np.zeros((1, 2, 7), np.float32)
    for output in range(21):  # output pixel 6 landed one pixel early
        moved[0, :, 1 if output == 6 else output // 3] += call.inputs["grad_output"][0, :, output]
    call.outputs["grad_input"] = moved
    result = judged(call)[0]
    assert set(causes_of(result)) == {("implementation_error", "observed")}
    assert sorted(tuple(finding["index"]) for finding in result["findings"]) == [(0, c, x) for c in range(2) for x in (1, 2)]


# --- Other commands.


@pytest.mark.parametrize("case", ["index_add_dim1-float32", "scatter_add-float32", "scatter_reduce_mean_1-float32", "embedding_freq-float32",
                                  "interpolate_bilinear_0_2d_0-float32", "interpolate_nearest_0_2d_0-float32", "roi_align_1_0-float32"])
def test_gradcheck(imported, replay, tmp_path, case):
    call = imported(case)
    write_capture(tmp_path / "a.h5", call)
    assert replay("gradcheck", tmp_path / "a.h5", "--json", "-", expect=0).json
    name = gradient_of(case)
    call.outputs[name] = call.outputs[name] * np.float32(1.01)
    write_capture(tmp_path / "b.h5", call)
    replay("gradcheck", tmp_path / "b.h5", expect=1)


@pytest.mark.parametrize("case", ["index_add-float32", "index_put-float32", "scatter_add-float32", "embedding-float32", "gather_backward-float32",
                                  "roi_align_1_2-float32"])
def test_the_order_of_additions_is_read_back(imported, replay, tmp_path, case):
    """A CPU adds them one after the other, to what the sum held."""
    write_capture(tmp_path / "a.h5", imported(case))
    result = replay("order", tmp_path / "a.h5", "--json", "-", expect=0).json
    summary = result["invocations"][0]["summary"]
    assert summary["impossible"] == 0 and summary["explained"] == summary["elements"] > 0, summary


@pytest.mark.parametrize("case", ["index_add-float32", "scatter_add-float32", "interpolate_bilinear_0_2d_0-float32", "roi_align_1_2-float32"])
def test_minimize(imported, replay, tmp_path, case):
    call = imported(case)
    name = gradient_of(case)
    at = np.unravel_index(np.abs(call.outputs[name]).argmax(), call.outputs[name].shape)
    call.outputs[name][at] *= 1.5
    write_capture(tmp_path / "a.h5", call)
    replay("minimize", tmp_path / "a.h5", "-o", tmp_path / "small.h5", expect=0)
    small = read_capture(tmp_path / "small.h5").invocations[0]
    before, after = (sum(x.size for x in entry.inputs.values()) for entry in (call, small))
    assert after < before
    result = replay("run", tmp_path / "small.h5", "--json", "-", expect=1).json
    assert result["verdict"]["at_fault"] == "observed"


@pytest.mark.parametrize("case", ["index_add-float32", "scatter_add-float32", "embedding_freq-float32", "interpolate_bilinear_0_2d_0-float32",
                                  "roi_align_1_2-float32"])
def test_stages(imported, replay, tmp_path, case):
    write_capture(tmp_path / "a.h5", imported(case))
    result = replay("stages", tmp_path / "a.h5", "--json", "-", expect=0).json
    assert "contributions" in json.dumps(result)
    name = gradient_of(case)
    index = ",".join("0" for _ in RECORDED[f"{case}/{name}"].shape)
    replay("stages", tmp_path / "a.h5", "--element", f"{name}[{index}]", expect=0)


@pytest.mark.parametrize("case", ["index_add-float32", "interpolate_bilinear_0_2d_0-float32", "roi_align_1_2-float32"])
def test_stress_and_advise(imported, replay, tmp_path, case):
    write_capture(tmp_path / "a.h5", imported(case))
    result = replay("stress", tmp_path / "a.h5", "--runs", 20, "--atol", 0, "--rtol", 0, "--json", "-", expect=1).json
    assert result["operator"] == operator_of(case)
    assert result["failure_probability"]["estimate"] == 1 and result["elements_out_of_tolerance"] > 0
    replay("stress", tmp_path / "a.h5", "--runs", 20, expect=0)
    result = replay("advise", tmp_path / "a.h5", "--runs", 20, "--json", "-", expect=0).json
    assert result["as_it_is"]["failure_probability"]["estimate"] == 0
    result = replay("advise", tmp_path / "a.h5", "--runs", 20, "--atol", 0, "--rtol", 0, "--json", "-").json
    assert result["as_it_is"]["failure_probability"]["estimate"] == 1


# --- Bad input.


@pytest.mark.parametrize("change, words", [
    ({"index": np.full(60, 12)}, "index[0] is 12, and dimension 0 of sum has 12 rows"),
    ({"index": np.full(60, -3)}, "wraps_negative 1"),
    ({"index": np.full(60, -13), "wraps_negative": 1}, "index[0] is -13"),
    ({"dim_size": 2**39, "before_sum": None, "observed_sum": None}, "too large for this machine's memory"),
])
def test_bad_indices_are_refused(imported, replay, tmp_path, change, words):
    write_capture(tmp_path / "a.h5", imported("index_add-float32", **change))
    assert words in replay("run", tmp_path / "a.h5", expect=2).err


@pytest.mark.parametrize("case, change, words", [
    ("roi_align_1_2-float32", {"boxes": np.full((6, 5), np.nan, np.float32)}, "boxes[0,0] is nan"),
    ("roi_align_1_2-float32", {"boxes": np.full((6, 5), 7, np.float32)}, "input has batches 0 to 1"),
    ("interpolate_nearest_0_1d_0-float32", {"align_corners": 1}, "align_corners with mode nearest"),
    ("interpolate_bilinear_0_2d_0-float32", {"mode": "trilinear"}, "unknown mode"),
])
def test_bad_calls_are_refused(imported, replay, tmp_path, case, change, words):
    write_capture(tmp_path / "a.h5", imported(case, **change))
    assert words in replay("run", tmp_path / "a.h5", expect=2).err
