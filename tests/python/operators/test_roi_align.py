"""roi_align beside torchvision's kernel written in NumPy: adaptive sampling, boxes of every size, the order of additions."""

from dataclasses import replace

import numpy as np
import pytest
from support.run_results import judged_archive as judged  # noqa: F401
from support.run_results import path_of  # noqa: F401
from support.run_results import sides_of as causes_of
from support.waiting import computing_at_most

from msda_replay import read_capture, write_capture

SIDE = 20  # of the image


def taps(at, size):
    """The pixels along an axis that a point reads, with their weights in the point's type."""
    real = type(at)
    if at < -1 or at > size:
        return []
    at = max(at, real(0))
    low = int(at)
    if low >= size - 1:
        return [(size - 1, real(1)), (size - 1, real(0))]
    fraction = real(at - real(low))
    return [(low, real(real(1) - fraction)), (low + 1, fraction)]


def roi_align(boxes, grad, shape, scale, ratio, aligned, real=np.float32, fused=False, longer=0):
    """roi_align_backward_kernel_impl, operation by operation: each is rounded to `real`; `fused`: an edge's two are one; `longer`: by so much of
    themselves bins are where their points are counted."""
    total = np.zeros(shape, real)
    rows, columns = grad.shape[2:]
    for box, (batch, *edges) in enumerate(boxes):
        at = [(float(edge) * float(real(scale)), real(0.5 * aligned)) for edge in edges]
        x1, y1, x2, y2 = (real(product - half) if fused else real(real(product) - half) for product, half in at)
        lengths = [real(x2 - x1), real(y2 - y1)]
        if not aligned:
            lengths = [max(length, real(1)) for length in lengths]
        bins = [real(lengths[0] / real(columns)), real(lengths[1] / real(rows))]
        counts = [ratio if ratio > 0 else int(np.ceil(float(size) * (1 + longer))) for size in bins]
        for row, column in np.ndindex(rows, columns):
            for i, j in np.ndindex(counts[1], counts[0]):
                y = real(real(y1 + real(real(row) * bins[1])) + real(real(real(i + 0.5) * bins[1]) / real(counts[1])))
                x = real(real(x1 + real(real(column) * bins[0])) + real(real(real(j + 0.5) * bins[0]) / real(counts[0])))
                for at_y, wy in taps(y, shape[2]):
                    for at_x, wx in taps(x, shape[3]):
                        part = (grad[box, :, row, column].astype(real) * real(wy * wx)).astype(real)
                        total[int(batch), :, at_y, at_x] += (part / real(counts[0] * counts[1])).astype(real)
    return total


def members(boxes, grad, observed, scale=0.25, ratio=0, aligned=1, channels=2):
    return {"operator": "roi_align", "boxes": np.float32(boxes), "grad_output": grad, "observed_grad_input": observed.astype(grad.dtype),
            "input_batch": 1, "input_height": SIDE, "input_width": SIDE, "spatial_scale": scale, "sampling_ratio": ratio, "aligned": aligned}


def gradient(boxes, rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((len(boxes), 2, rows, columns)).astype(np.float32)


# --- The number of points of a bin.


@pytest.mark.parametrize("change", [lambda x: -x, lambda x: 0 * x, lambda x: 1.3 * x], ids=["sign", "zeros", "1.3"])
@pytest.mark.parametrize("boxes, rows, columns, aligned", [
    ([[0, 0, 0, 56, 56]], 7, 7, 1),  # bins of 2 pixels, of exact numbers
    ([[0, 8, 4, 64, 74]], 5, 7, 0),
    ([[0, 10, 10, 11, 11], [0, 4, 4, 5, 5]], 1, 1, 0),  # below a pixel, and so one pixel
])
def test_bins_of_whole_pixels_hide_no_mistake(judged, boxes, rows, columns, aligned, change):
    grad = gradient(boxes, rows, columns)
    right = roi_align(boxes, grad, (1, 2, SIDE, SIDE), 0.25, 0, aligned, np.float64)
    judged(members(boxes, grad, right, aligned=aligned), expect=0)
    wrong = change(right)
    far = int((np.abs(wrong - right) > 2e-3 + 2e-2 * np.abs(right)).sum())
    result = judged(members(boxes, grad, wrong, aligned=aligned), expect=1)
    causes = causes_of(result)
    accused = sum(causes.get((cause, "observed"), 0) for cause in ("implementation_error", "uninitialized_output"))
    assert accused >= far > 0, causes


WHOLE = [[0, 10, 14, 108, 112], [0, 0, 0, 84, 126]]  # the bins of the first are one pixel high and wide, as 98 / 14 / 7 is 1


def test_a_number_of_points_that_rounding_decides_is_a_boundary(judged):
    """As torchvision's kernels for a CPU and for a GPU compute it."""
    grad = gradient(WHOLE, 7, 7)
    written, fused = (roi_align(WHOLE, grad, (1, 2, SIDE, SIDE), 1 / 14, 0, 1, fused=way) for way in (False, True))
    exact = roi_align(WHOLE, grad, (1, 2, SIDE, SIDE), 1 / 14, 0, 1, np.float64)
    right, another = sorted((written, fused), key=lambda given: np.abs(given - exact).max())
    far = np.abs(another - exact) > 1e-3 + 1e-2 * np.abs(exact)
    assert np.abs(right - exact).max() < 1e-5 and far.sum() > 20
    result = judged({**members(WHOLE, grad, another, scale=1 / 14), "reference_grad_input": right}, expect=1)
    assert causes_of(result) == {("cell_boundary", "observed"): far.sum()}
    assert "(cell_boundary, a rounded length makes another number of points)" in result["verdict"]["summary"]
    why, help_ = result["findings"][0]["why"], result["groups"][0]["help"]
    assert "a bin of box 0 is 1 pixels" in why and "of points" in why and "with fused multiply-adds" in why and "as written" in why
    assert all(side["description"] in why for side in result["findings"][0]["evidence"]["sides"])
    assert "sampling_ratio" in help_
    judged({**members(WHOLE, grad, right, scale=1 / 14), "reference_grad_input": exact}, expect=0)


@pytest.mark.parametrize("way", [False, True])
def test_mistakes_are_found_where_rounding_decides_the_number_of_points(judged, way):
    grad = gradient(WHOLE, 7, 7)
    right = roi_align(WHOLE, grad, (1, 2, SIDE, SIDE), 1 / 14, 0, 1, fused=way)
    wrong = right * np.float32(1.05)
    printed = judged(members(WHOLE, grad, wrong, scale=1 / 14), "--atol", 1e-4, "--rtol", 1e-4, expect=1)
    found = causes_of(printed).get(("implementation_error", "observed"), 0)
    assert found >= 0.95 * (np.abs(right) > 1e-3).sum(), causes_of(printed)


def test_a_count_of_a_fast_division_is_rounding(judged):
    """60 * 0.3 / 3 is 6 as written in float32 and in float64; a product with one over 3 may be above it, and have 7 points."""
    boxes = [[0, 0, 0, 60, 60]]
    grad = gradient(boxes, 3, 3)
    seven = roi_align(boxes, grad, (1, 2, SIDE, SIDE), 0.3, 0, 1, np.float64, longer=2.0**-23)
    exact = roi_align(boxes, grad, (1, 2, SIDE, SIDE), 0.3, 0, 1, np.float64)
    assert np.abs(seven - exact).max() > 4e-3
    for observed in (exact, seven):
        printed = judged(members(boxes, grad, observed, scale=0.3), "--atol", 1e-3, "--rtol", 1e-3, expect=None)
        assert "implementation_error" not in {cause for cause, _ in causes_of(printed)}


@pytest.mark.parametrize("scale", [0.3, 1 / 7, 1 / 16])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roundings_of_far_edges_are_within_the_bound(judged, scale, ratio):
    """Edges much larger than the box, by scales that have roundings of their own."""
    rng = np.random.default_rng(4)
    corners = (rng.random((30, 2)) * 6 + SIDE - 8) / scale
    boxes = np.float32(np.concatenate([np.zeros((30, 1)), corners, corners + rng.random((30, 2)) * 2 / scale], 1))
    grad = gradient(boxes, 3, 3)
    right = roi_align(boxes, grad, (1, 2, SIDE, SIDE), np.float32(scale), ratio, 1)
    printed = judged(members(boxes, grad, right, scale=scale, ratio=ratio), "--atol", 0, "--rtol", 0, expect=1)
    assert {cause for cause, _ in causes_of(printed)} <= {"rounding", "ill_conditioned", "accumulation_order"}


# --- Boxes so large that other conventions have more points than any kernel could sample.


@pytest.mark.parametrize("edge", [1e6, 1e10])
def test_other_conventions_of_huge_boxes_are_not_tried(judged, edge):
    boxes = [[0, 2, 2, 30, 30], [0, 0, 0, edge, edge]]
    grad = gradient(boxes, 3, 4)
    right = roi_align(boxes, grad, (1, 2, SIDE, SIDE), 0.25, 2, 1, np.float64)
    with computing_at_most(5):
        result = judged(members(boxes, grad, -right, ratio=2), expect=1)
    assert ("implementation_error", "observed") in causes_of(result)


def test_too_many_points_are_not_replayed(replay, tmp_path, path_of):
    boxes = [[0, 0, 0, 16, 16]]
    path = path_of(members(boxes, gradient(boxes, 1, 1), np.zeros((1, 2, SIDE, SIDE)), ratio=8192))
    for command in ("run", "order", "stages", "stress", "minimize"):
        output = ["-o", tmp_path / "small.h5"] if command == "minimize" else []
        with computing_at_most(2):
            err = replay(command, path, *output, expect=3).err
        assert "the bins of the boxes have 6.71e+07 points; 2^22 can be examined at most" in err


def test_other_calls_beside_one_of_too_many_points_are_judged(replay, tmp_path, path_of):
    boxes = [[0, 0, 0, 16, 16]]
    grad = gradient(boxes, 1, 1)
    right = roi_align(boxes, grad, (1, 2, SIDE, SIDE), 0.25, 2, 1)
    path = path_of(members(boxes, grad, right, ratio=2))
    call, = read_capture(path).invocations
    write_capture(tmp_path / "both.h5", [replace(call, facts={**call.facts, "sampling_ratio": 8192}), call])
    result = replay("run", tmp_path / "both.h5", "--invocation", "all", "--json", "-", expect=0).json
    assert [entry["id"] for entry in result["not_replayed"]] == [0] and "points" in result["not_replayed"][0]["why"]
    assert [invocation["id"] for invocation in result["invocations"]] == [1]


@pytest.mark.parametrize("boxes, stored, scale, ratio", [
    ([[0, 0, 0, 60000, 1]] * 4, np.float16, 4.0, 0),  # in float16 beyond its largest number, and so as many points as an int holds
    ([[0, 0, 0, 1e30, 1e30]], np.float32, 1e30, 2),  # an edge beyond float32, and its length is NaN
    ([[0, 1e30, 0, 1e30, 1]], np.float32, 1e30, 0),
])
@pytest.mark.long
def test_sides_that_are_not_finite_take_no_time(replay, path_of, boxes, stored, scale, ratio):
    grad = gradient(boxes, 1, 1).astype(stored)
    given = members(boxes, grad, np.zeros((1, 2, SIDE, SIDE)), scale=scale, ratio=ratio, aligned=0) | {"boxes": np.array(boxes, stored)}
    with computing_at_most(40):
        assert replay("run", path_of(given)).status in (0, 1, 3)


def test_a_scale_beyond_the_kernels_type_is_refused(replay, tmp_path, path_of):
    boxes = [[0, 0, 5, 1, -5]]
    path = path_of(members(boxes, gradient(boxes, 1, 1), np.zeros((1, 2, SIDE, SIDE)), scale=1e39))
    assert "beyond float32's largest number" in replay("run", path, expect=2).err


# --- Other conventions.


def test_zeros_name_no_convention(judged):
    """Elements are chosen at random: every eighth of an image 20 pixels wide has columns in common."""
    boxes = [[0, 0, 0, 56, 56]]
    grad = gradient(boxes, 7, 7)
    result = judged(members(boxes, grad, np.zeros((1, 2, SIDE, SIDE)), ratio=2), expect=1)
    assert "in place of" not in result["verdict"]["summary"]


# --- The order of additions.


@pytest.mark.parametrize("ratio", [2, 3, 5])
def test_the_order_of_divided_addends_is_read_back(replay, path_of, ratio):
    """The kernel divides by the number of points, which rounds otherwise than the product with one over it."""
    rng = np.random.default_rng(7)
    corners = rng.random((12, 2)) * 50
    boxes = np.float32(np.concatenate([np.zeros((12, 1)), corners, corners + 4 + rng.random((12, 2)) * 20], 1))
    grad = gradient(boxes, 2, 2)
    observed = roi_align(boxes, grad, (1, 2, SIDE, SIDE), 0.25, ratio, 1)
    result = replay("order", path_of(members(boxes, grad, observed, ratio=ratio)), "--json", "-").json
    summary = result["invocations"][0]["summary"]
    assert summary["impossible"] == 0 and summary["explained_to_15"] == summary["with_1_to_15"] > 0, summary
