"""msda-replay order, against a slow loop in NumPy: captures whose additions were made in orders that the test drew."""

import time

import numpy as np
import pytest
from conftest import DATA, SOURCE
from support.order_loop import fitting_orders, fold, grid_addends, msda_addends
from support.problems import make_problem
from support.schemas import check

from msda_replay import Invocation, write_capture

CONVENTIONS = [("msda_triton", "zeros", False), ("msda_triton", "zeros", True), ("msda_triton", "border", True),
               ("deformable_detr", "zeros", False)]


def printed(replay, path, *options, expect=0):
    result = replay("order", path, "--list", 100000, "--json", "-", *options, expect=expect).json
    check(result, "order")
    return result


def pixels_of(result):
    """The listed pixels by the first index of their elements, without the channel."""
    return {tuple(pixel["index"][:3]): pixel for pixel in result["invocations"][0]["pixels"]}


class Problem:
    """Additions to grad_value in orders that are drawn, and what comes of them."""

    def __init__(self, rng, dialect="msda_triton", padding_mode="zeros", align_corners=False, channels=16, queries=14, dtype=np.float32,
                 start=None, draw=None):
        self.inputs = make_problem(rng, channels=channels, queries=queries)
        self.inputs = {name: array if name == "spatial_shapes" else array.astype(dtype) for name, array in self.inputs.items()}
        self.conventions = dict(dialect=dialect, padding_mode=padding_mode, align_corners=align_corners)
        added = msda_addends(self.inputs, **self.conventions)
        self.names = {key: [(q, p, corner) for q, p, corner, _ in all_] for key, all_ in added.items()}
        self.addends = {key: [addend.astype(dtype) for *_, addend in all_] for key, all_ in added.items()}
        draw = draw or (lambda n: list(map(int, rng.permutation(n))))
        self.drawn = {key: draw(len(addends)) for key, addends in self.addends.items()}
        self.start = start
        shape = self.inputs["value"].shape
        self.grad_value = np.zeros(shape, dtype) if start is None else start.copy()
        for key, order in self.drawn.items():
            self.grad_value[key] = self.sum(key, order)

    def sum(self, key, order):
        return fold(self.addends[key], order, None if self.start is None else self.start[key])

    def write(self, path, **more):
        before = {} if self.start is None else {"outputs_before": {"grad_value": self.start}}
        write_capture(path, Invocation(self.inputs, {"grad_value": self.grad_value}, **self.conventions, **before, **more))
        return path

    def some(self, rng, fewest, most, count):
        keys = sorted(key for key, addends in self.addends.items() if fewest <= len(addends) <= most)
        return [keys[i] for i in rng.permutation(len(keys))[:count]]


def same_but_for_the_first_two(entry, another, commute=True):
    return entry == another or (commute and entry[2:] == another[2:] and sorted(entry[:2]) == sorted(another[:2]))


@pytest.mark.parametrize("dialect, padding_mode, align_corners", CONVENTIONS)
def test_every_order_that_was_drawn_is_read_back(replay, tmp_path, rng, dialect, padding_mode, align_corners):
    problem = Problem(rng, dialect, padding_mode, align_corners)
    result = printed(replay, problem.write(tmp_path / "a.h5"))
    summary, found = result["summary"], pixels_of(result)
    assert set(found) == set(problem.addends) and summary["elements"] == len(found)
    few = [key for key, addends in problem.addends.items() if len(addends) <= 15]
    assert summary["with_1_to_15"] == summary["explained_to_15"] == len(few)
    assert summary["impossible"] == 0 and summary["explained"] + summary["not_found"] == summary["elements"]
    assert summary["unique"] == sum(pixel["unique"] is True for pixel in found.values()) > 20
    for key, pixel in found.items():
        assert pixel["addends"] == len(problem.addends[key])
        if pixel["fit"] != "explained":
            continue
        assert sorted(pixel["order"]) == list(range(pixel["addends"]))
        assert problem.sum(key, pixel["order"]).tobytes() == problem.grad_value[key].tobytes()
        if pixel["unique"]:
            assert same_but_for_the_first_two(pixel["order"], problem.drawn[key])
    # Uniqueness, against all orders there are.
    for key in problem.some(rng, 2, 6, 30):
        assert found[key]["unique"] == (len(fitting_orders(problem.addends[key], problem.grad_value[key])) == 1)
    arithmetic = result["invocations"][0]["arithmetic"]
    assert arithmetic["fits"] == arithmetic["tried"] > 0 and arithmetic["sum_type"] == "float32"
    products = {"msda_triton": "((grad_output*attention)*wy)*wx", "deformable_detr": "(grad_output*attention)*(wy*wx)"}
    assert arithmetic["product"] == products[dialect]


def test_a_product_that_no_known_kernel_has_is_found(replay, tmp_path, rng):
    """The sums of Deformable DETR's product, recorded as msda-triton's."""
    problem = Problem(rng, "deformable_detr")
    problem.conventions["dialect"] = "msda_triton"
    result = printed(replay, problem.write(tmp_path / "a.h5"))
    assert result["invocations"][0]["arithmetic"]["product"] == "(grad_output*attention)*(wy*wx)"
    assert result["summary"]["explained_to_15"] == result["summary"]["with_1_to_15"]


def test_what_no_arithmetic_gives_has_no_order(replay, tmp_path, rng):
    problem = Problem(rng)
    problem.grad_value *= np.float32(1.5)
    done = replay("order", problem.write(tmp_path / "a.h5"), expect=0)
    assert "arithmetic: unknown" in done.out
    summary = printed(replay, tmp_path / "a.h5")["summary"]
    assert summary["not_found"] == summary["elements"] and summary["impossible"] == 0


def test_too_many_additions_are_said_to_be(replay):
    text = replay("order", SOURCE / "docs" / "findings" / "embedding_on_a_cpu.h5", expect=0).words
    assert "at most 15 additions, and none has so few" in text and "Of the 0 pixels" not in text


def test_an_order_of_many_additions_is_named(replay, tmp_path, rng):
    """50 to an element: too many to try all orders, and yet it is seen that one thread may have added them."""
    index, source = np.repeat(np.arange(6), 50), rng.standard_normal((300, 8)).astype(np.float32)
    for name, rows in ("a", range(300)), ("b", rng.permutation(300)):
        sums = np.zeros((6, 8), np.float32)
        for row in rows:
            sums[index[row]] += source[row]
        write_capture(tmp_path / f"{name}.h5", Invocation({"index": index, "source": source}, {"sum": sums}, dialect="", kernel="aten::index_add",
                                                          facts={"reduce": "sum", "dim": 0, "dim_size": 6}))
    said = "it is that of the source row numbers, as one thread adds them"
    text = replay("order", tmp_path / "a.h5", expect=0).words
    assert f"one order gives every recorded bit: 6 of 6 {said}: 6 " in text and "no pixel has few enough additions to check it" in text
    assert said not in replay("order", tmp_path / "b.h5", expect=0).words


@pytest.mark.parametrize("kind", ["lost", "doubled"])
def test_lost_and_doubled_addends_are_named(replay, tmp_path, rng, kind):
    problem = Problem(rng)
    faulty = {}
    for key in problem.some(rng, 2, 9, 25):
        addend = int(rng.integers(len(problem.addends[key])))
        order = [i for i in problem.drawn[key] if i != addend]
        if kind == "doubled":
            order = problem.drawn[key] + [addend]
        problem.grad_value[key] = problem.sum(key, order)
        faulty[key] = addend
    result = printed(replay, problem.write(tmp_path / "a.h5"), expect=1)
    found = pixels_of(result)
    assert {key for key, pixel in found.items() if pixel["fit"] == "impossible"} == set(faulty)
    assert result["summary"]["impossible"] == result["summary"][kind] == len(faulty)
    for key, addend in faulty.items():
        query, point, corner = problem.names[key][addend]
        name = f"query {query}, point {point}, corner y{corner // 2},x{corner % 2}"
        assert {"kind": kind, "number": addend, "addend": name} in found[key]["faults"]
    text = replay("order", tmp_path / "a.h5", expect=1).out
    assert "no order of its" in text and ("was lost" if kind == "lost" else "was added twice") in text


def test_a_word_that_is_one_unit_off_is_proved_impossible(replay, tmp_path, rng):
    """And said to be impossible exactly where trying all orders finds none."""
    problem = Problem(rng, channels=8)
    keys = problem.some(rng, 2, 6, 25)
    for key in keys:
        problem.grad_value[key][3] = np.nextafter(problem.grad_value[key][3], np.float32(np.inf))
    unnamed = problem.write(tmp_path / "a.h5")
    # Whether a kernel without a name adds one addend at a time nobody knows: it is not accused.
    found = pixels_of(printed(replay, unnamed, expect=0))
    text = replay("order", unnamed, expect=0).out
    assert "error:" not in text and "kernel: not named" in text and "no single order does, by proof" in text
    assert found == pixels_of(printed(replay, problem.write(tmp_path / "b.h5", kernel="msda_triton_bwd"), expect=1))
    fits = {key: bool(fitting_orders(problem.addends[key], problem.grad_value[key])) for key in keys}
    assert sum(not fit for fit in fits.values()) > 15
    for key in keys:
        assert found[key]["fit"] == ("explained" if fits[key] else "impossible")


def test_additions_to_what_the_buffer_held(replay, tmp_path, rng):
    shape = make_problem(rng, channels=16, queries=14)["value"].shape
    problem = Problem(rng, start=rng.standard_normal(shape).astype(np.float32))
    result = printed(replay, problem.write(tmp_path / "a.h5"))
    assert result["summary"]["explained_to_15"] == result["summary"]["with_1_to_15"]
    unique = [(key, pixel) for key, pixel in pixels_of(result).items() if pixel["unique"]]
    assert len(unique) > 20
    for key, pixel in unique:
        assert pixel["order"] == problem.drawn[key]  # the first two do not commute


def test_sums_of_16_bits(replay, tmp_path, rng):
    problem = Problem(rng, dtype=np.float16, channels=32)
    result = printed(replay, problem.write(tmp_path / "a.h5"))
    assert result["invocations"][0]["arithmetic"]["sum_type"] == "float16"
    assert result["summary"]["explained_to_15"] == result["summary"]["with_1_to_15"]
    for key, pixel in pixels_of(result).items():
        if pixel["fit"] == "explained":
            assert problem.sum(key, pixel["order"]).tobytes() == problem.grad_value[key].tobytes()


def test_sums_in_float32_that_are_rounded_to_16_bits_at_the_end(replay, tmp_path, rng):
    problem = Problem(rng, channels=32)
    halves = {name: array if name == "spatial_shapes" else array.astype(np.float16) for name, array in problem.inputs.items()}
    added = msda_addends(halves, **problem.conventions)
    grad_value = np.zeros(problem.grad_value.shape, np.float16)
    for key, all_ in added.items():
        grad_value[key] = fold([addend for *_, addend in all_], rng.permutation(len(all_))).astype(np.float16)
    write_capture(tmp_path / "a.h5", Invocation(halves, {"grad_value": grad_value}, **problem.conventions))
    result = printed(replay, tmp_path / "a.h5")
    assert result["invocations"][0]["arithmetic"]["sum_type"] == "float32"
    assert result["summary"]["explained_to_15"] == result["summary"]["with_1_to_15"]


def grid_problem(rng, channels=12):
    image, grid = rng.standard_normal((2, channels, 5, 6)).astype(np.float32), rng.uniform(-1.1, 1.1, (2, 4, 7, 2)).astype(np.float32)
    grad_output = rng.standard_normal((2, channels, 4, 7)).astype(np.float32)
    return {"input": image, "grid": grid, "grad_output": grad_output}


def write_grid_sample(path, inputs, grad_input):
    facts = {"interpolation": "bilinear", "padding_mode": "zeros", "align_corners": 0}
    write_capture(path, Invocation(inputs, {"grad_input": grad_input}, "", facts=facts))
    return path


@pytest.mark.parametrize("apart", [False, True])
def test_grid_sample(replay, tmp_path, rng, apart):
    """One order for all channels of a pixel, or, `apart`, another one for each."""
    inputs = grid_problem(rng)
    added = grid_addends(*inputs.values())
    grad_input = np.zeros_like(inputs["input"])
    drawn = {}
    for key, all_ in added.items():
        addends = [addend for *_, addend in all_]
        drawn[key] = list(map(int, rng.permutation(len(addends))))
        n, y, x = key
        sums = fold(addends, drawn[key])
        for c in range(len(sums)):
            grad_input[n, c, y, x] = fold(addends, rng.permutation(len(addends)))[c] if apart else sums[c]
    result = printed(replay, write_grid_sample(tmp_path / "a.h5", inputs, grad_input))
    summary = result["summary"]
    assert summary["elements"] == len(added) and summary["with_1_to_15"] == len(added)
    assert summary["explained"] + summary["in_parts"] == summary["elements"] and summary["impossible"] == summary["in_parts"]
    assert (summary["in_parts"] > 10) == apart
    for pixel in result["invocations"][0]["pixels"]:
        n, _, y, x = pixel["index"]
        addends = [addend for *_, addend in added[n, y, x]]
        parts = pixel["parts"] or [{"channels": list(range(12)), "order": pixel["order"]}]
        assert sorted(c for part in parts for c in part["channels"]) == list(range(12))
        for part in parts:
            sums = fold(addends, part["order"])
            assert all(sums[c] == grad_input[n, c, y, x] for c in part["channels"])
        if pixel["unique"] and not apart:
            assert same_but_for_the_first_two(pixel["order"], drawn[n, y, x])


@pytest.mark.parametrize("backwards", [False, True])
def test_inversions(replay, tmp_path, rng, backwards):
    problem = Problem(rng, draw=lambda n: list(range(n))[:: -1 if backwards else 1])
    inversions = printed(replay, problem.write(tmp_path / "a.h5"))["invocations"][0]["inversions"]
    assert inversions["index"] == "query" and inversions["pixels"] > 10
    pairs, inverted = (sum(entry[name] for entry in inversions["bins"]) for name in ("pairs", "inverted"))
    assert pairs > 50 and inverted == (pairs if backwards else 0)


def test_the_result_does_not_depend_on_threads(replay, tmp_path, rng):
    path = Problem(rng, queries=40).write(tmp_path / "a.h5")
    options = ("--seconds-each", 1000, "--limit", 1000, "--moves", 2000, "--exhaustive", 8)
    assert printed(replay, path, "--threads", 1, *options) == printed(replay, path, "--threads", 3, *options)


def test_annealing_finds_what_is_too_long_to_search_through(replay, tmp_path, rng):
    problem = Problem(rng, queries=24, channels=32, draw=lambda n: list(range(n)))
    found = pixels_of(printed(replay, problem.write(tmp_path / "a.h5"), "--exhaustive", 4))
    long = {key: pixel for key, pixel in found.items() if pixel["addends"] > 8 and pixel["fit"] == "explained"}
    assert len(long) > 5
    for key, pixel in long.items():
        assert pixel["unique"] is None and problem.sum(key, pixel["order"]).tobytes() == problem.grad_value[key].tobytes()


def test_a_single_addition_needs_no_search(replay, tmp_path, rng):
    """--exhaustive 0 is the annealing alone: what it does not find proves nothing, and not for want of time or of memory."""
    path = Problem(rng, queries=3).write(tmp_path / "a.h5")
    few, none = (pixels_of(printed(replay, path, "--exhaustive", number, "--moves", 0)) for number in (1, 0))
    single = {key for key, pixel in few.items() if pixel["addends"] == 1}
    assert few == none and 3 < len(single) < len(none)
    assert {key for key, pixel in none.items() if (pixel["fit"], pixel["unique"]) == ("explained", True)} == single
    assert "which proves nothing: not all of their orders were tried" in replay("order", path, "--exhaustive", 0, "--moves", 0, expect=0).out


def test_mode_recorded_order_replays_the_recorded_bits(replay, tmp_path, rng):
    problem = Problem(rng, queries=8)
    assert max(map(len, problem.addends.values())) <= 15
    path = problem.write(tmp_path / "a.h5")
    result = replay("run", path, "--mode", "recorded_order", "--json", "-", expect=0).json
    check(result, "run")
    entry = result["invocations"][0]
    counts = entry["recorded_order"]["grad_value"]
    assert counts == {"pixels": len(problem.addends), "in_order": len(problem.addends), "equal": problem.grad_value.size,
                      "total": problem.grad_value.size}
    compared = [c for c in entry["comparisons"] if (c["observed"], c["expected"]) == ("recorded", "recorded_order")]
    assert [c["max_ulp"] for c in compared] == [0]
    assert "an exact replay" in replay("run", path, "--mode", "recorded_order", expect=0).out
    # Without the recorded gradient there is no order.
    write_capture(tmp_path / "b.h5", Invocation(problem.inputs, {}, **problem.conventions))
    assert "recorded_order" in replay("run", tmp_path / "b.h5", "--mode", "recorded_order", expect=3).err
    assert "no orders" in replay("order", tmp_path / "b.h5", expect=3).err


def test_a_finding_of_accumulation_order_has_the_order(replay, tmp_path, rng):
    problem = Problem(rng)
    path = problem.write(tmp_path / "a.h5", atol=0, rtol=0)
    result = replay("run", path, "--json", "-", expect=1).json
    check(result, "run")
    certified = 0
    for finding in result["invocations"][0]["findings"]:
        order = finding["evidence"].get("order", {})
        assert not order or finding["cause"] == "accumulation_order"
        if order.get("fit") == "explained":
            key = tuple(finding["index"][:3])
            assert problem.sum(key, order["addends"]).tobytes() == problem.grad_value[key].tobytes()
            certified += 1
    assert certified > 20


@pytest.mark.long
def test_the_real_case(replay, demo_capture):
    """What an H200 recorded: every sum in the order that is found, added by NumPy."""
    result = printed(replay, demo_capture, "--moves", 0)
    summary = result["summary"]
    assert summary["explained_to_15"] == summary["with_1_to_15"] == 4758 and summary["impossible"] == 0
    case = np.load(DATA / "h200_border_noalign_0.npz")
    inputs = {name: case[name] for name in ("value", "spatial_shapes", "sampling_locations", "attention_weights", "grad_output")}
    added = msda_addends(inputs, "msda_triton", "border")
    for key, pixel in pixels_of(result).items():
        if pixel["fit"] == "explained":
            sums = fold([addend for *_, addend in added[key]], pixel["order"])
            assert sums.tobytes() == case["observed_grad_value"][key].tobytes()


@pytest.mark.parametrize("options", [("--limit", "0"), ("--limit", "nan"), ("--seconds-each", "-1"), ("--exhaustive", "19"),
                                     ("--exhaustive", "x"), ("--threads", "-1"), ("--moves", "-1")])
def test_bad_options(replay, demo_capture, options):
    done = replay("order", demo_capture, *options, expect=2)
    assert done.err.count("\n") == 1


def test_orders_of_an_h200(replay):
    """index_add in float16, trilinear in float16 where each pixel has more than 7 additions, and roi_align in float32: the kernels' arithmetic
    is explained, and every pixel with few additions has an order, of all channels or of each."""
    result = printed(replay, DATA / "scatter" / "h200_orders.h5", "--moves", "0")
    rows, volume, boxes = result["invocations"]
    assert all(entry["arithmetic"]["fits"] == entry["arithmetic"]["tried"] > 0 for entry in (rows, volume, boxes))
    assert boxes["arithmetic"]["factors"] == "coordinates with fused multiply-adds"
    found = [[entry["summary"][name] for name in ("with_1_to_15", "explained_to_15", "in_parts_to_15")] for entry in (rows, volume, boxes)]
    assert found == [[7, 1, 6], [112, 110, 2], [116, 116, 0]]


def test_the_limit_of_time_is_for_all_invocations(replay, tmp_path, rng):
    """Each has a row with more additions than are searched through, of which nobody finds an order."""
    index, source = np.zeros(400, np.int64), rng.standard_normal((400, 64)).astype(np.float32)
    beside = np.nextafter(source.sum(0, dtype=np.float64).astype(np.float32), np.float32(np.inf))
    call = Invocation({"index": index, "source": source}, {"sum": beside[None]}, "", kernel="indexFuncLargeIndex",
                      facts={"dim": 0, "dim_size": 1, "reduce": "sum"})  # fmt: skip
    few = Invocation({"index": index[:1], "source": source[:1]}, {"sum": source[:1].copy()}, "", kernel="indexFuncLargeIndex", facts=call.facts)
    path = tmp_path / "calls.h5"
    write_capture(path, [*[call] * 9, few])
    begin = time.monotonic()
    summaries = [invocation["summary"] for invocation in printed(replay, path, "--moves", "1000000000", "--limit", "2")["invocations"]]
    assert time.monotonic() - begin < 2 * 9 / 2
    assert [summary["out_of_time"] for summary in summaries] == [1] * 9 + [0] and summaries[-1]["explained"] == 1
