"""interpolate beside PyTorch's formulas written in NumPy: where rounding lands output pixels in mode nearest, and scale factors
that some of its kernels do not heed."""


import numpy as np
import pytest
from support.operators import OPERATORS
from support.run_results import judged_archive as judged  # noqa: F401
from support.run_results import path_of  # noqa: F401
from support.waiting import computing_at_most

AXES = ("width", "height", "depth")


def forward_pixels(inside, outside):
    """nearest_neighbor_compute_source_index, as kernels for CPUs: in float32."""
    at = np.arange(outside, dtype=np.float32) * np.float32(np.float32(inside) / np.float32(outside))
    return np.minimum(np.floor(at), inside - 1).astype(int)


def inverse_pixels(inside, outside, scale=None):
    """nearest_neighbor_bw_compute_source_index, as kernels for GPUs; -1 for output pixels that none of them adds."""
    inverse = np.float32(scale or np.float32(outside) / np.float32(inside))
    ends = np.minimum(np.ceil(np.arange(inside + 1, dtype=np.float32) * inverse), outside).astype(int)
    pixels = np.full(outside, -1)
    for pixel in range(inside):
        pixels[ends[pixel]:ends[pixel + 1]] = pixel
    return pixels


def summed(grad, pixels, inside):
    total = np.zeros((*grad.shape[:-1], inside), grad.dtype)
    for output, pixel in enumerate(pixels):
        if pixel >= 0:
            total[..., pixel] += grad[..., output]
    return total


def gradient(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def members(mode, grad, observed, **scales):
    sizes = {f"input_{axis}": size for axis, size in zip(AXES, observed.shape[:1:-1])}
    return {"operator": "interpolate", "mode": mode, "grad_output": grad, "observed_grad_input": observed, **sizes, **scales}


def causes_of(call):
    return {cause["cause"] for cause in call["judged"]}


# --- Coordinates of mode nearest.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_replays_of_nearest_are_those_of_the_recorded_kernels(judged, dtype):
    """3 to 123 pixels: by the ratio 3/123, rounded, output pixel 41 lands before pixel 1, by the ratio 41 it does not."""
    forward, inverse = forward_pixels(3, 123), inverse_pixels(3, 123)
    assert (forward != inverse).any() and (inverse == np.arange(123) // 41).all()
    grad = gradient(1, 2, 123, dtype=dtype)
    result = judged(members("nearest", grad, summed(grad, inverse, 3)), expect=0)
    assert all(comparison["mismatched"] == 0 for comparison in result["comparisons"])


def test_stress_of_nearest_fails_nowhere(replay, path_of):
    grad = gradient(1, 2, 123)
    path = path_of(members("nearest", grad, summed(grad, inverse_pixels(3, 123), 3)))
    result = replay("stress", path, "--runs", 10, "--json", "-", expect=0).json
    assert "cell_boundary" not in str(result)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pixels_that_float32_moves_are_on_a_boundary(judged, dtype):
    """Tensors of float64 have coordinates of float32, too."""
    forward = forward_pixels(3, 123)
    grad = gradient(1, 2, 123, dtype=dtype)
    result = judged(members("nearest", grad, summed(grad, forward, 3)), expect=1)
    assert causes_of(result) == {"cell_boundary"}
    sides = {side["side"]: side for finding in result["findings"] for side in finding["evidence"]["sides"]}
    assert sides["recorded"]["evaluation"] == "as written"


def test_each_cell_is_told_with_the_number_that_decides_it(replay, path_of):
    """14 to 46 pixels: 23 * 14 / 46 is 7, and 6.9999995 in float32; kernels for GPUs compute that pixel 7 begins at output pixel 23."""
    grad = np.ones((1, 1, 46), np.float32)
    given = members("nearest", grad, summed(grad, inverse_pixels(14, 46), 14), reference_grad_input=summed(grad, forward_pixels(14, 46), 14))
    text = " ".join(replay("run", path_of(given), "--atol", 1e-3, "--rtol", 1e-2, expect=1).out.split())
    assert "the reference is wrong in 2 elements" in text
    assert ("x = output pixel 23, while cell 7 begins at 23 (0x41b80000) by the inverse ratio, in recorded arithmetic, cell 7; "
            "6.99999952 (0x40dfffff) in reference, cell 6; exact 7, ") in text


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("inside, outside", [(64, 64), (64, 128), (32, 128), (128, 64)])
def test_where_nothing_is_rounded_an_output_pixel_too_far_is_a_mistake(judged, mode, inside, outside):
    grad = gradient(1, 2, outside)
    right = inverse_pixels(inside, outside)
    if (mode, outside) == ("nearest-exact", inside // 2):
        right = 2 * np.arange(outside) + 1
    judged(members(mode, grad, summed(grad, right, inside)), expect=0)
    for shifted in (np.append(right[1:], -1), np.append(-1, right[:-1])):
        result = judged(members(mode, grad, summed(grad, shifted, inside)), expect=1)
        assert causes_of(result) == {"implementation_error"}


def test_nearest_pixels_that_no_formula_moves_are_mistakes(judged):
    """7 to 21 pixels: coordinates i / 3 are whole numbers at every third, and so they are after the rounding of 1/3."""
    grad = OPERATORS["interpolate"].recorded("interpolate_nearest_0_1d_0-float32").inputs["grad_output"]
    moved = summed(grad, [1 if output == 6 else output // 3 for output in range(21)], 7)  # output pixel 6 landed one pixel early
    result = judged(members("nearest", grad, moved), expect=1)
    assert {(entry["cause"], entry["at_fault"]) for entry in result["judged"]} == {("implementation_error", "observed")}
    assert sorted(tuple(finding["index"]) for finding in result["findings"]) == [(0, c, x) for c in range(2) for x in (1, 2)]


def test_orders_do_not_begin_with_what_nearest_kernels_overwrite(replay, path_of):
    grad = gradient(1, 2, 40)
    observed = summed(grad, inverse_pixels(10, 40), 10)
    path = path_of(members("nearest", grad, observed) | {"before_grad_input": np.full_like(observed, 1e3)})
    summary = replay("order", path, "--json", "-", expect=0).json["invocations"][0]["summary"]
    assert summary["impossible"] == 0 and summary["explained"] == summary["elements"] == 10, summary


# --- Scale factors.


def test_gpu_kernels_leave_out_what_the_factor_does_not_reach(judged):
    """min(ceil(5 * 1.1), 8) is 6: nobody adds the output pixels 6 and 7."""
    grad = gradient(1, 2, 8)
    left_out = inverse_pixels(5, 8, 1.1)
    assert list(left_out[-3:]) == [4, -1, -1]
    for kernel in ({}, {"kernel": "upsample_nearest1d_backward_out_frame"}):
        judged(members("nearest", grad, summed(grad, left_out, 5), scale_width=1.1, **kernel), expect=0)
    every = np.where(left_out < 0, 4, left_out)
    judged(members("nearest", grad, summed(grad, every, 5), scale_width=1.1), expect=0)


@pytest.mark.parametrize("scale", [1e300, 1e9, 1e-300, 5e-324])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_factors_of_any_size_take_no_time(judged, mode, scale):
    """All output pixels belong to the first pixel, or nearly all to the last one."""
    size = 1 << 14
    grad, right = gradient(1, 1, size), np.zeros((1, 1, size), np.float32)
    right[0, 0, 0 if scale > 1 else -1] = grad.astype(float).sum()
    for kernel in ({}, {"kernel": "upsample_nearest1d_backward_out_frame"}):
        with computing_at_most(4):
            judged(members(mode, grad, right, scale_width=scale, **kernel), expect=None)


def test_an_operators_name_is_no_gpus(judged):
    """PyTorch's operators have one name for both devices."""
    grad = gradient(1, 2, 10)
    right = grad.reshape(1, 2, 5, 2).sum(3)
    judged(members("nearest", grad, right, scale_width=2.1, kernel="aten::upsample_nearest1d_backward"), expect=0)


@pytest.mark.parametrize("mode, inside, outside, scale", [
    ("linear", 5, 5, 1.1), ("nearest", 5, 5, 1.1), ("nearest", 5, 10, 2.1), ("nearest", 40, 80, 2.02)])
def test_cpu_kernels_heed_no_scale_where_sizes_are_equal_or_doubled(judged, mode, inside, outside, scale):
    grad = gradient(1, 2, outside)
    right = grad.reshape(1, 2, inside, outside // inside).sum(3)
    judged(members(mode, grad, right, scale_width=scale), expect=0)
    result = judged(members(mode, grad, -right, scale_width=scale), expect=1)
    assert "implementation_error" in causes_of(result)


@pytest.mark.parametrize("kernel", [{}, {"kernel": "upsample_nearest1d_backward_out_frame"}])
@pytest.mark.parametrize("inside, outside, scale", [(5, 5, 1.1), (5, 10, 2.1), (40, 80, 2.02)])
def test_gpu_kernels_heed_it(judged, inside, outside, scale, kernel):
    grad = gradient(1, 2, outside)
    right = summed(grad, inverse_pixels(inside, outside, scale), inside)
    assert (inverse_pixels(inside, outside, scale) != np.arange(outside) * inside // outside).any()
    judged(members("nearest", grad, right, scale_width=scale, **kernel), expect=0)
    printed = judged(members("nearest", grad, -right, scale_width=scale, **kernel), expect=1)
    assert "implementation_error" in causes_of(printed)


@pytest.mark.parametrize("heeds", [False, True])
@pytest.mark.parametrize("inside, outside, scale", [(2, 2, 1.3), (5, 5, 1.1), (40, 80, 2.02)])
def test_which_factor_was_heeded_is_seen_beside_what_the_buffer_held(judged, inside, outside, scale, heeds):
    """A kernel without a name, which added to a buffer that was not zeroed."""
    grad = gradient(1, 2, outside)
    right = summed(grad, inverse_pixels(inside, outside, scale) if heeds else np.arange(outside) * inside // outside, inside)
    before = np.random.default_rng(7).normal(size=right.shape).astype(np.float32)
    printed = judged(members("nearest", grad, right + before, scale_width=scale) | {"before_grad_input": before}, expect=1)
    assert causes_of(printed) == {"uninitialized_output"}


@pytest.mark.parametrize("size", [1, 1e-4, 1e-12])
def test_which_factor_was_heeded_is_seen_in_small_gradients(judged, size):
    grad = gradient(1, 2, 5) * np.float32(size)
    judged(members("nearest", grad, summed(grad, inverse_pixels(5, 5, 1.1), 5), scale_width=1.1), expect=0)


def test_which_factor_was_to_be_heeded_is_seen_in_the_reference(judged):
    """A kernel that ignores all factors, beside a reference that is right: not the one for CPUs, which ignores that of equal sizes."""
    grad = gradient(1, 2, 5, 13)
    right = summed(summed(grad, inverse_pixels(5, 13, 2.7), 5).swapaxes(-1, -2).copy(), inverse_pixels(5, 5, 1.1), 5).swapaxes(-1, -2)
    wrong = summed(grad, inverse_pixels(5, 13), 5)
    assert (right != wrong).any()
    result = judged(members("nearest", grad, wrong, scale_width=2.7, scale_height=1.1) | {"reference_grad_input": np.ascontiguousarray(right)}, expect=1)
    assert {cause["at_fault"] for cause in result["judged"]} == {"observed"}


def linear(grad, inside, ratio):
    """Mode linear along the last axis, by the coordinates' ratio."""
    total = np.zeros((*grad.shape[:-1], inside))
    for output in range(grad.shape[-1]):
        at = max((output + 0.5) * ratio - 0.5, 0)
        low, fraction = int(at), at - int(at)
        total[..., low] += (1 - fraction) * grad[..., output]
        total[..., min(low + 1, inside - 1)] += fraction * grad[..., output]
    return total


@pytest.mark.parametrize("mistake", [False, True])
def test_a_kernel_of_its_own_may_heed_every_factor(judged, mistake):
    """PyTorch's copy what is not resized. Of three channels one lacks its first pixel, which a copy does not explain either."""
    grad = gradient(1, 3, 3)
    right = linear(grad, 3, 1 / 1.3).astype(np.float32)
    right[0, 1, 0] *= 1 - mistake
    result = judged(members("linear", grad, right, scale_width=1.3), expect=int(mistake))
    assert [entry["elements"] for entry in result["judged"]] == ["3"] * mistake
    result = judged(members("linear", grad, right, scale_width=1.3, kernel="aten::upsample_linear1d_backward"), expect=1)
    assert sum(entry["count"] for entry in result["judged"]) == 9


@pytest.mark.parametrize("kernel, at_fault", [("mine", "observed"), ("aten::upsample_linear1d_backward", "reference")])
def test_of_two_the_one_that_heeds_the_captures_factor_is_right(judged, kernel, at_fault):
    """A kernel that copies, beside a reference that does not: PyTorch's are to copy, others are not."""
    grad = gradient(1, 3, 3)
    reference = linear(grad, 3, 1 / 1.3).astype(np.float32)
    result = judged(members("linear", grad, grad.copy(), scale_width=1.3, kernel=kernel) | {"reference_grad_input": reference}, expect=1)
    assert {entry["at_fault"] for entry in result["judged"]} == {at_fault}


def test_a_scale_along_one_axis(judged):
    """Kernels for CPUs copy along the axis of equal sizes, those for GPUs only where both are."""
    grad = gradient(1, 2, 6, 5)
    rows = linear(grad.swapaxes(-1, -2), 4, 4 / 6).swapaxes(-1, -2)  # 4 to 6 pixels, by the ratio of the sizes
    both = linear(rows, 5, 1 / 1.1)
    for right in (rows, both):
        judged(members("bilinear", grad, np.ascontiguousarray(right, np.float32), scale_width=1.1), expect=0)
    judged(members("bilinear", grad, both.astype(np.float32), scale_width=1.1, kernel="upsample_bilinear2d_backward_out_frame"), expect=0)
    judged(members("bilinear", grad, np.ascontiguousarray(rows, np.float32), scale_width=1.1, kernel="upsample_bilinear2d_backward_out_frame"), expect=1)
