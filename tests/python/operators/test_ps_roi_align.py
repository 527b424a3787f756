"""ps_roi_align: an operator that consists of data, analysis/operators/ps_roi_align/. Calls made by hand, and torchvision's gradients."""

import itertools
import json

import numpy as np
import pytest

from msda_replay import Invocation, write_capture

SCALES, PLACES = (1.0, 0.5, 0.25), ("inside", "pixels", "outside")


def drawn(seed, kind=np.float32):
    """A gradient, boxes and conventions; the image is [2, channels, 7, 6]."""
    random = np.random.default_rng(seed)
    rows, columns, ratio = (int(n) for n in random.integers(1, 4, 3))
    scale, boxes = SCALES[seed % 3], int(random.integers(1, 5))
    corners = np.sort(random.random((boxes, 2, 2)), axis=1) * [6, 7]  # x, y
    if PLACES[seed // 3 % 3] != "inside":
        corners = np.round(corners) if PLACES[seed // 3 % 3] == "pixels" else corners * 2 - 4
    boxes = np.concatenate([random.integers(0, 2, (boxes, 1)), corners.reshape(-1, 4) / scale], 1).astype(kind)
    grad_output = random.standard_normal((len(boxes), 2, rows, columns)).astype(kind)
    return grad_output, boxes, {"spatial_scale": scale, "sampling_ratio": ratio, "pooled_height": rows, "pooled_width": columns}


def weights_along(low, high, scale, bins, ratio, side, kind):
    """By bin and sample: what each pixel of a side gets."""
    start, end = (kind(edge) * kind(scale) - kind(0.5) for edge in (low, high))
    bin_size = kind(end - start) / kind(bins)
    found = np.zeros((bins, ratio, side), kind)
    for b, s in itertools.product(range(bins), range(ratio)):
        at = kind(b) * bin_size + start + kind(s + 0.5) * bin_size / kind(ratio)
        if not -1 <= at <= side:
            continue
        at = max(at, kind(0))
        first = min(int(at), side - 1)
        fraction = at - kind(first) if first < side - 1 else kind(0)
        found[b, s, first] = kind(1) - fraction
        if first < side - 1:
            found[b, s, first + 1] = fraction
    return found


def gradient(grad_output, boxes, numbers, kind, random=None):
    channels, rows, columns = grad_output.shape[1:]
    ratio, scale = numbers["sampling_ratio"], numbers["spatial_scale"]
    result = np.zeros((2, channels * rows * columns, 7, 6), kind)
    for k in random.permutation(len(boxes)) if random else range(len(boxes)):
        image, x0, y0, x1, y1 = boxes[k]
        along_y, along_x = weights_along(y0, y1, scale, rows, ratio, 7, kind), weights_along(x0, x1, scale, columns, ratio, 6, kind)
        for c, i, j, s, t in itertools.product(range(channels), range(rows), range(columns), range(ratio), range(ratio)):
            weights = np.outer(along_y[i, s], along_x[j, t])
            result[int(image), (c * rows + i) * columns + j] += grad_output[k, c, i, j].astype(kind) * weights / kind(ratio * ratio)
    return result


def call(grad_output, boxes, numbers, values):
    return Invocation({"grad_output": grad_output, "boxes": boxes}, {"grad_input": values.astype(boxes.dtype)}, "", facts=dict(numbers))


def judged(replay, capture, *arguments):
    return json.loads(replay("run", capture, "--invocation", "all", "--json", "-", *arguments).out)["invocations"]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_is_computed_is_explained(replay, tmp_path, kind):
    """With a tolerance of 0, in any order of boxes; and float64 is what NumPy computes."""
    problems = [drawn(seed, kind) for seed in range(36)]
    write_capture(tmp_path / "a.h5", [call(*problem, gradient(*problem, kind, np.random.default_rng(3))) for problem in problems])
    differences = 0
    for problem, found in zip(problems, judged(replay, tmp_path / "a.h5", "--atol", "0", "--rtol", "0")):
        verdict, exact = found["verdict"], gradient(*problem, np.float64)
        assert found["operator"] == "ps_roi_align" and verdict["at_fault"] != "observed", (problem, verdict)
        assert "implementation_error" not in verdict["causes"], verdict
        for finding in found["findings"]:
            differences += 1
            assert finding["float64"] == pytest.approx(exact[tuple(finding["index"])], rel=1e-11, abs=1e-12)
    assert differences > 100


def test_planted_faults_are_named(replay, tmp_path):
    faults = (lambda x: x * 1.001, lambda x: 0 * x, lambda x: 2 * x, lambda x: -x)
    written, places = [], []
    for seed in range(12):
        problem = drawn(seed, np.float64)
        values = gradient(*problem, np.float64)
        at = np.unravel_index(np.argmax(np.abs(values)), values.shape)
        if abs(values[at]) > 0.05 and PLACES[seed // 3 % 3] == "inside":  # on a boundary, rounding decides
            values[at] = faults[seed % 4](values[at])
            written.append(call(*problem, values))
            places.append(list(map(int, at)))
    write_capture(tmp_path / "a.h5", written)
    assert len(places) > 4
    for at, found in zip(places, judged(replay, tmp_path / "a.h5", "--atol", "1e-6", "--rtol", "1e-6")):
        assert found["verdict"]["causes"] == {"implementation_error": 1} and found["verdict"]["at_fault"] == "observed"
        assert [finding["index"] for finding in found["findings"]] == [at]


def test_gradients_are_torchvisions(replay, tmp_path):
    torch = pytest.importorskip("torch")
    ops = pytest.importorskip("torchvision.ops")
    written = []
    for seed in range(100):
        grad_output, boxes, numbers = drawn(seed, np.float64)
        rows, columns = numbers["pooled_height"], numbers["pooled_width"]
        image = torch.zeros(2, 2 * rows * columns, 7, 6, dtype=torch.float64, requires_grad=True)
        result = ops.ps_roi_align(image, torch.from_numpy(boxes), (rows, columns), numbers["spatial_scale"], numbers["sampling_ratio"])
        real = torch.autograd.grad(result, image, torch.from_numpy(grad_output))[0].numpy()
        np.testing.assert_allclose(gradient(grad_output, boxes, numbers, np.float64), real, rtol=1e-12, atol=1e-14)
        written.append(call(grad_output, boxes, numbers, real))
    write_capture(tmp_path / "a.h5", written)
    assert not any(found["findings"] for found in judged(replay, tmp_path / "a.h5", "--atol", "1e-12", "--rtol", "1e-12"))
