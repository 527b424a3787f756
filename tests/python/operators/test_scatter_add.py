"""scatter_add: what the sum held, the order of the additions to it, many rows of one index, sums that overflow."""


import numpy as np
import pytest
from support.operators import OPERATORS, tensors_of
from support.run_results import judged as judged_calls  # noqa: F401
from support.run_results import judged_archive, path_of  # noqa: F401
from support.run_results import sides_of as causes_of

from msda_replay import write_capture

recorded = OPERATORS["scatter_add"].recorded


@pytest.fixture
def judged(judged_archive):  # noqa: F811
    return lambda *options, expect, **members: judged_archive({"operator": "scatter_add", **members}, *options, expect=expect)


# --- Lost rows.


def whys(call):
    return " ".join(finding["why"] for finding in call["findings"])


def test_a_lost_and_a_doubled_row_are_named(judged_calls):  # noqa: F811
    call = recorded("index_add-float32")
    row, source = call.inputs["index"][7], call.inputs["source"][7]
    call.outputs["sum"][row] -= source
    result = judged_calls(call)
    assert causes_of(result) == {("implementation_error", "observed"): 4}
    assert "the contribution of source row 7 were missing" in whys(result)
    call.outputs["sum"][row] += 2 * source
    assert "the contribution of source row 7 were added twice" in whys(judged_calls(call))


# --- What the sum held.


def test_what_the_sum_held_belongs_to_it(judged_calls):  # noqa: F811
    call = recorded("index_add-float32")
    held = call.outputs_before["sum"]
    call.outputs["sum"] -= held
    result = judged_calls(call)
    assert set(causes_of(result)) == {("implementation_error", "observed")}
    assert "what it held before were left out" in whys(result)
    call.outputs["sum"] = held
    assert "nothing were added to what it held before" in whys(judged_calls(call))


def test_a_buffer_that_was_not_zeroed_is_named_where_it_should_have_been(judged_calls):  # noqa: F811
    assert set(causes_of(judged_calls(recorded("index_add-float32", include_self=0)))) == {("uninitialized_output", "observed")}


@pytest.mark.parametrize("case, change", [
    ("index_add-float32", lambda tensors: {"self": tensors["before_sum"], "before_sum": None}),
    ("scatter_reduce_sum_1-float32", lambda tensors: {}),
    ("scatter_reduce_sum_0-float32", lambda tensors: {"before_sum": tensors["self"]}),
])
def test_orders_begin_with_what_the_sum_held(replay, tmp_path, case, change):
    call = recorded(case, **change(tensors_of(case)))
    write_capture(tmp_path / "a.h5", call)
    result = replay("order", tmp_path / "a.h5", "--json", "-", expect=0).json
    summary = result["invocations"][0]["summary"]
    assert summary["impossible"] == 0 and summary["explained"] == summary["elements"] > 0, summary
    replayed = replay("run", tmp_path / "a.h5", "--mode", "recorded_order", "--json", "-", expect=0).json
    sides = {comparison["observed"]: comparison for comparison in replayed["invocations"][0]["comparisons"]}
    assert sides["recorded_order"]["max_abs"] < 1e-5


def test_certificates_begin_with_it_too(judged):
    """Rows that cancel what the sum held, and a tolerance that only a fixed order meets."""
    rng = np.random.default_rng(2)
    held, source = rng.standard_normal((1, 8)).astype(np.float32), rng.standard_normal((9, 8)).astype(np.float32)
    source[8] = -source[:8].sum(0) - held[0] + np.float32(1e-3)
    total = held.copy()
    for row in rng.permutation(9):
        total[0] += source[row]
    result = judged("--atol", 1e-9, "--rtol", 0, expect=1, index=np.zeros(9, int), source=source, self=held, observed_sum=total)
    fits = {finding["evidence"]["order"]["fit"] for finding in result["findings"] if "order" in finding["evidence"]}
    assert fits == {"explained"}


def test_what_is_not_finite_in_self_is_an_input(judged):
    rng = np.random.default_rng(3)
    source, held = rng.standard_normal((6, 4)).astype(np.float32), np.zeros((3, 4), np.float32)
    held[1, 1] = np.nan
    index = np.array([0, 0, 1, 1, 2, 2])
    total = held.copy()
    np.add.at(total, index, source)
    result = judged(expect=1, index=index, source=source, self=held, observed_sum=total)
    finding, = result["findings"]
    assert finding["evidence"]["first"] == "inputs/self" and finding["evidence"]["first_index"] == [1, 1]


@pytest.mark.parametrize("kernel, impossible", [("indexing_backward_kernel", True), ("indexing_backward_kernel_stride_1", False),
                                                ("indexing_backward_kernel_small_stride", False)])
def test_kernels_that_sum_before_they_add_lose_no_addend(replay, path_of, kernel, impossible):
    """A warp sums 32 rows of one index in pairs: no order of single additions gives that."""
    rng = np.random.default_rng(9)
    source = rng.standard_normal((32 * 24, 1)).astype(np.float32)
    held = 100 * rng.standard_normal((24, 1)).astype(np.float32)
    sums = source.reshape(24, 32)
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        sums = sums[:, :half] + sums[:, half:]
    path = path_of({"operator": "scatter_add", "index": np.repeat(np.arange(24), 32), "source": source, "self": held, "observed_sum": held + sums, "kernel": kernel})
    printed = replay("order", path, "--json", "-", expect=None)
    assert printed.json["invocations"][0]["one_at_a_time"] == impossible
    assert ("lost" in replay("order", path).out) <= impossible


@pytest.mark.parametrize("dtype, addend", [(np.float16, 30000), (np.float32, np.inf)])
@pytest.mark.parametrize("wrong", [-np.inf, np.nan, 7])
def test_only_an_infinity_of_the_sums_sign_is_excused(judged, dtype, addend, wrong):
    """Three addends of 30000 overflow to +infinity in float16, in every order."""
    source = np.ones((6, 2), dtype)
    source[:3] = addend
    total = np.array([[np.inf, wrong], [3, 3]], dtype)
    result = judged(expect=1, index=np.array([0, 0, 0, 1, 1, 1]), source=source, observed_sum=total)
    at_fault = {tuple(finding["index"]): (finding["cause"], finding["at_fault"]) for finding in result["findings"]}
    assert at_fault[0, 1][1] == "observed"
    assert at_fault.get((0, 0), ("non_finite", "none"))[1] in ("none", "tolerance")


# --- Many rows of one index.


def many_rows(rows, channels, off):
    source = np.random.default_rng(5).standard_normal((rows, channels)).astype(np.float32)
    total = np.zeros((2, channels), np.float32)
    total[0] = source.astype(float).sum(0)
    total[0, off] += np.float32(0.37)
    return {"index": np.zeros(rows, int), "source": source, "dim_size": 2, "observed_sum": total}


def test_of_many_rows_none_is_named_by_chance(judged):
    result = judged("--atol", 0.1, "--rtol", 0, expect=1, **many_rows(20_000, 4, 1))
    assert causes_of(result) == {("implementation_error", "observed"): 1}
    assert "source row" not in result["findings"][0]["why"]


def test_of_few_rows_the_one_is(judged):
    members = many_rows(20, 4, 1)
    members["observed_sum"][0] = members["source"][1:].astype(float).sum(0)
    result = judged(expect=1, **members)
    assert all("the contribution of source row 0 were missing" in finding["why"] for finding in result["findings"])


def test_many_rows_are_judged(judged):
    printed = judged("--atol", 0.1, "--rtol", 0, expect=1, **many_rows(200_000, 16, slice(None)))
    assert causes_of(printed) == {("implementation_error", "observed"): 16}


# --- 16 bits.


def test_a_mean_whose_sum_overflows(judged):
    """100 times 1000 is beyond float16, in which PyTorch adds before it divides."""
    rng = np.random.default_rng(6)
    index = np.concatenate([np.zeros(100, int), rng.integers(1, 20, 300)])
    source = (rng.random((400, 8)) * 2000 + 500).astype(np.float16)
    total, count = np.zeros((20, 8), np.float16), np.bincount(index, minlength=20)
    with np.errstate(over="ignore"):
        for row, into in enumerate(index):
            total[into] += source[row]
    total = (total / np.maximum(count, 1)[:, None].astype(np.float16)).astype(np.float16)
    assert np.isinf(total[0]).all() and np.isfinite(total[1:]).all()
    for rows in (slice(None), slice(0, 100)):  # beside finite sums, and without any
        result = judged(expect=1, index=index[rows], source=source[rows], self=np.zeros_like(total), reduce="mean", include_self=0,
                      observed_sum=total if rows.stop is None else np.where(np.arange(20)[:, None] == 0, total, np.float16(0)))
        assert causes_of(result) == {("non_finite", "tolerance"): 8}
        assert all("partial sums may reach" in finding["why"] for finding in result["findings"])


def mean_of(source, observed):
    rows = len(source)
    return {"index": np.zeros(rows, int), "source": source, "dim_size": 2, "reduce": "mean", "include_self": 0,
            "observed_sum": np.array([[observed], [0]], source.dtype)}


@pytest.mark.parametrize("period, observed", [(2, 2048 / 2048), (3, 1365 / 2048)])
def test_a_count_stops_where_its_type_has_no_next_number(judged, period, observed):
    """PyTorch's kernels for GPUs count by adding 1 in the tensor's type: 2048 + 1 is 2048 in float16."""
    ones = np.arange(4096) % period == 1
    source = ones[:, None].astype(np.float16)
    tolerance = ("--atol", 1e-3, "--rtol", 1e-2)
    for flags in ((), tolerance):
        result = judged(*flags, expect=1, **mean_of(source, observed))
        assert causes_of(result) == {("stopped_sum", "observed"): 1}
    assert "divided by 2048, at which a count of its 4096 addends stops in float16" in result["findings"][0]["why"]
    judged(*tolerance, expect=0, **mean_of(source, ones.mean()))
    result = judged(expect=1, **mean_of(source, 1.7 * observed))
    assert causes_of(result) == {("implementation_error", "observed"): 1}


def test_a_count_in_float32_does_not_stop_there(judged):
    source = (np.arange(4096) % 2)[:, None].astype(np.float32)
    assert causes_of(judged(expect=1, **mean_of(source, 1))) == {("implementation_error", "observed"): 1}


def in_turn(source, dtype):
    total = dtype(0)
    for row in source:
        total = dtype(total + row)
    return total


@pytest.mark.parametrize("rows, largest, stops", [(8192, 1, True), (5000, 0.5, True), (200, 1, False)])
def test_a_sum_stops_where_its_type_has_no_next_number(judged, rows, largest, stops):
    """Uniform addends below 1 in float16, added in turn: from 2048 on, none of them changes the sum."""
    source = (np.random.default_rng(8).random((rows, 1)) * largest).astype(np.float16)
    members = {"index": np.zeros(rows, int), "source": source, "dim_size": 1}
    total = in_turn(source, np.float16).reshape(1, 1)
    exact = source.astype(float).sum()
    assert (abs(total[0, 0] - exact) > 0.1 * exact) == stops
    result = judged(expect=int(stops), observed_sum=total, **members)
    assert causes_of(result) == ({("stopped_sum", "observed"): 1} if stops else {})
    # Less than the sum that has stopped is no stopped sum.
    result = judged(expect=1, observed_sum=(total * np.float16(0.5)).astype(np.float16), **members)
    assert causes_of(result) == {("implementation_error", "observed"): 1}


def test_a_sum_that_grows_too_fast_is_no_other_order(judged):
    """From 1,024 on, adding 0.6 in float16 adds 1, in every order: no tolerance fixes that, and the kernel is not right."""
    source = np.full((2800, 1), 0.6, np.float16)
    total = in_turn(source, np.float16).reshape(1, 1)
    assert total[0, 0] > 1.1 * source.sum(dtype=float)
    result = judged("--atol", 1e-2, "--rtol", 1e-2, expect=1, index=np.zeros(2800, int), source=source, dim_size=1, observed_sum=total)
    assert causes_of(result) == {("stopped_sum", "observed"): 1}
    assert "are rounded to a sum's last place" in result["findings"][0]["why"]


@pytest.mark.parametrize("options", [(), ("--atol", 1e-2, "--rtol", 1e-2)])
@pytest.mark.parametrize("adds_in", [np.float16, np.float32])
def test_what_only_16_bits_explain_is_counted_apart(judged, adds_in, options):
    """Sums of 300 addends each; the first row of the sums in float16 is off by what float16 may lose."""
    rng = np.random.default_rng(4)
    source, index = rng.standard_normal((6000, 4)).astype(np.float16), np.arange(6000) % 20
    total, exact, magnitude = (np.zeros((20, 4), dtype) for dtype in (adds_in, float, float))
    for row, into in zip(source, index):
        total[into] = (total[into] + row.astype(adds_in)).astype(adds_in)
    np.add.at(exact, index, source.astype(float))
    np.add.at(magnitude, index, abs(source.astype(float)))
    total[0] += 0.125 * (adds_in == np.float16)
    result = judged(*options, expect=None, index=index, source=source, observed_sum=total.astype(np.float16))
    off = abs(total.astype(np.float16) - exact)
    beyond = (off > 1e-2 + 1e-2 * abs(exact)) & (off > 300 * 2.0**-24 * magnitude + 2.0**-11 * abs(exact))
    assert result["verdict"]["explained_by_16_bits"] == beyond.sum()
    text = f"Rounding explains {beyond.sum()} elements only as arithmetic in 16 bits"
    assert (text in result["verdict"]["summary"]) == (beyond.sum() > 10) == (adds_in == np.float16), result["verdict"]["summary"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("units, found", [(60, False), (68, True), (-60, False), (-68, True)])
def test_what_is_far_below_the_mean_is_not_looked_at_without_a_tolerance(judged, dtype, units, found):
    """Within 64 units of roundoff of the gradient's mean magnitude, here 1."""
    source = np.random.default_rng(3).choice([-1, 1], (999, 1)).astype(dtype)
    source[500] = 0
    total = source.copy()
    total[500] = units * np.finfo(dtype).eps / 2
    members = {"index": np.arange(999), "source": source, "observed_sum": total}
    result = judged(expect=int(found), **members)
    assert causes_of(result) == ({("implementation_error", "observed"): 1} if found else {})
    assert causes_of(judged("--atol", 0, "--rtol", 0, expect=1, **members)) == {("implementation_error", "observed"): 1}


# --- Errors that lean one way.


def summed(source, index, rows, dtype=float):
    total = np.zeros((rows, source.shape[1]), dtype)
    np.add.at(total, index, source.astype(dtype))
    return total


@pytest.mark.parametrize("stored, off", [(np.float32, 1e-7), (np.float32, -1e-7), (np.float64, 1e-15)])
@pytest.mark.parametrize("options", [(), ("--atol", 0, "--rtol", 1e-8), ("--atol", 0, "--rtol", 1e-16)])
def test_errors_of_one_sign_are_told(judged, stored, off, options):
    source, index = np.random.default_rng(6).standard_normal((64, 8)).astype(stored), np.arange(64) % 8
    source[24:] = 0
    exact = summed(source, index, 8, np.longdouble)
    result = judged(*options, expect=None, index=index, source=source, observed_sum=(exact * (1 + np.longdouble(off))).astype(stored))
    (bias,) = result["biases"]
    assert bias["direction"] == ("away_from_zero" if off > 0 else "towards_zero") and bias["count"] == bias["total"] > 50
    assert bias["chance_bits"] == pytest.approx(bias["total"] - 2) and 1.1 < bias["mean_units"] < 12
    summary = result["verdict"]["summary"]
    assert f"The errors of sum lean: all of {bias['total']} independent ones are {bias['direction'].replace('_', ' ').replace('zero', '0')}" in summary
    assert "no kernel is wrong" not in summary and result["verdict"]["grade"] != "good"
    result = judged(*options, expect=None, index=index, source=source, observed_sum=exact.astype(stored))
    assert result["biases"] == [] and "lean" not in result["verdict"]["summary"]


def test_an_offset_leans_upwards(judged):
    source, index = np.random.default_rng(6).standard_normal((100, 2)).astype(np.float32), np.arange(100)
    result = judged(expect=None, index=index, source=source, observed_sum=(source.astype(float) + 2e-7).astype(np.float32))
    assert [bias["direction"] for bias in result["biases"]] == ["upwards"]


def counted(rows):
    """An index of which row r has r + 1 sources."""
    return np.repeat(np.arange(rows), np.arange(1, rows + 1))


@pytest.mark.parametrize("name, index, draw", [
    ("a tenth, often", counted(100), lambda rng, n: np.full((n, 1), 0.1)),
    ("positive numbers", np.arange(20000) % 50, lambda rng, n: rng.random((n, 4))),
    ("means of 41", np.arange(4100) % 100, lambda rng, n: rng.random((n, 4))),
    ("a few numbers", counted(80), lambda rng, n: rng.choice([0.1, 0.2, 0.7], (n, 2))),
    ("single numbers", np.arange(500), lambda rng, n: rng.standard_normal((n, 4))),
])
def test_right_kernels_lean_to_no_side(judged, name, index, draw):
    """Also those whose rounding repeats itself, or that multiply with one over a count."""
    rng = np.random.default_rng(9)
    drawn, order = draw(rng, len(index)), rng.permutation(len(index))
    mean = {"reduce": "mean", "include_self": 0} if "mean" in name else {}
    for stored in (np.float32, np.float16):
        source, total = drawn.astype(stored), np.zeros((index.max() + 1, drawn.shape[1]), np.float32)
        for row in order:
            total[index[row]] += source[row]
        total *= np.float32(1 / 41 if mean else 1)
        result = judged("--atol", 1e-9, "--rtol", 0, expect=None, index=index, source=source, observed_sum=total.astype(stored), **mean)
        assert result["biases"] == [], result["biases"]


@pytest.mark.parametrize("scale", [1, 1e-3, 1e-6])
def test_a_small_mistake_everywhere_is_none_of_rounding(judged, scale):
    source = (np.random.default_rng(8).standard_normal((40, 50)) * scale).astype(np.float32)
    index = np.arange(40) % 20
    total = np.zeros((20, 50), np.float32)
    np.add.at(total, index, source)
    judged(expect=0, index=index, source=source, observed_sum=total)
    off = (total * np.float32(1.001)).astype(np.float32)
    result = judged(expect=1, index=index, source=source, observed_sum=off)
    ((cause, count),) = causes_of(result).items()  # all but those that are next to nothing beside the others
    assert cause == ("implementation_error", "observed") and count > 990
    assert result["verdict"]["within_customary"] == count
    judged("--customary", expect=0, index=index, source=source, observed_sum=off)


def test_a_kernel_is_not_right_beside_a_wrong_reference(judged):
    """Sums in float16 of numbers in float32, beside a reference that is 1.4 times too large."""
    rng = np.random.default_rng(12)
    source, index = rng.standard_normal((48, 2)).astype(np.float32), rng.permutation(np.arange(48) % 6)
    exact = np.zeros((6, 2))
    np.add.at(exact, index, source.astype(float))
    total = np.zeros((6, 2), np.float16)
    for row, into in zip(source, index):
        total[into] += row.astype(np.float16)
    result = judged("--atol", 1e-6, "--rtol", 1e-5, expect=1, index=index, source=source, observed_sum=total.astype(np.float32),
                  reference_sum=(1.4 * exact).astype(np.float32))
    causes = causes_of(result)
    assert causes["implementation_error", "reference"] == 12 and causes["reduced_precision", "observed"] > 6
    assert result["verdict"]["at_fault"] == "observed" and "The reference is wrong, too, in 12 elements" in result["verdict"]["summary"]
    assert "right" not in result["verdict"]["summary"]
    assert {(group["cause"], group["at_fault"]) for group in result["groups"]} == set(causes)


# --- Sizes.


def test_a_sum_of_no_channels_may_be_too_large(replay, path_of):
    path = path_of({"operator": "scatter_add", "index": np.zeros(3, int), "source": np.zeros((3, 0), np.float32), "dim_size": 2**36})
    assert "too large for this machine's memory" in replay("run", path, expect=2).err
