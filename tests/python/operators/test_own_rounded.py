"""Own operators whose weights are computed of floating-point tensors: a softmax that is scattered, a deformable convolution's gradient."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from support.own_operators import PAGE

import msda_replay
from msda_replay import operator, save_call

EXAMPLES = {"np": np, "msda_replay": msda_replay}
for number, example in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.S)[1:]):
    path = f"own-operators.md, example {number}"
    if "@msda_replay.operator" in example:
        exec(compile(example, path, "exec"), EXAMPLES)


def judged(replay, capture, *arguments, expect):
    return json.loads(replay("run", capture, "--json", "-", *arguments, expect=expect).out)


def softmax_call(seed=0, rows=300, scores=7, channels=5, targets=11):
    random = np.random.default_rng(seed)
    call = {"score": (random.standard_normal((rows, scores)) * 2).astype(np.float32), "target": random.integers(0, targets, rows),
            "source": random.standard_normal((rows, scores, channels)).astype(np.float32)}
    exact = np.exp(call["score"].astype(np.float64))
    exact = (exact / exact.sum(1, keepdims=True))[:, :, None] * call["source"]
    truth = np.zeros((targets, channels))
    np.add.at(truth, call["target"], exact.sum(1))
    # As a kernel computes it, in float32.
    weights = np.exp(call["score"])
    weights /= weights.sum(1, keepdims=True, dtype=np.float32)
    observed = np.zeros((targets, channels), np.float32)
    np.add.at(observed, call["target"], (weights[:, :, None] * call["source"]).sum(1, dtype=np.float32))
    return call, truth, observed


def deformable_call(seed=0, batch=2, channels=3, height=9, width=8, taps=3, pad=1, stride=1, dilation=1):
    """Returns a call, its result by torchvision's loops in float32 coordinates and float64 sums, and float64 all through."""
    random = np.random.default_rng(seed)
    rows, columns = ((side + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for side in (height, width))
    call = {"columns": random.standard_normal((batch, channels, taps, taps, rows, columns)).astype(np.float32),
            "offset": random.standard_normal((batch, 2 * taps * taps, rows, columns)).astype(np.float32),
            "mask": random.random((batch, taps * taps, rows, columns)).astype(np.float32)}
    call["offset"][:, :4] = 0  # coordinates on pixels, as a layer begins with
    results = []
    for kind in (np.float32, np.float64):
        grad = np.zeros((batch, channels, height, width))
        for n, i, j, h, w in np.ndindex(batch, taps, taps, rows, columns):
            y = kind(h * stride - pad + i * dilation) + kind(call["offset"][n, 2 * (taps * i + j), h, w])
            x = kind(w * stride - pad + j * dilation) + kind(call["offset"][n, 2 * (taps * i + j) + 1, h, w])
            for row, column in ((int(y) + dy, int(x) + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)):
                if 0 <= row < height and 0 <= column < width and abs(y - row) < 1 and abs(x - column) < 1:
                    weight = float(kind(1) - abs(y - kind(row))) * float(kind(1) - abs(x - kind(column)))
                    grad[n, :, row, column] += weight * call["mask"][n, taps * i + j, h, w] * call["columns"][n, :, i, j, h, w].astype(float)
        results.append(grad)
    return {**call, "pad": pad, "stride": stride, "dilation": dilation, "taps": taps}, results[0].astype(np.float32), results[1]


def test_a_softmax_that_is_scattered(replay, tmp_path):
    stated, capture = EXAMPLES["softmax_scatter"], tmp_path / "a.h5"
    call, truth, observed = softmax_call()
    assert stated.adapter["operator"]["stages"] == [{"name": "z", "index": ["r"], "over": ["k"], "value": "exp(score[r, k])"}]
    np.testing.assert_allclose(stated.float64(shapes={"out": truth.shape}, **call)["out"], truth, rtol=1e-12, atol=1e-14)
    save_call(capture, operator=stated, observed_out=observed, **call)
    within = judged(replay, capture, "--atol", "0", "--rtol", "0", expect=1)
    assert set(within["verdict"]["causes"]) <= {"accumulation_order", "ill_conditioned", "rounding"} and within["verdict"]["at_fault"] != "observed"
    for finding in within["invocations"][0]["findings"]:
        assert finding["float64"] == pytest.approx(truth[tuple(finding["index"])], rel=1e-12)
    faults = {  # of a row's denominator, of its numerator, of the sum over rows
        "one score is left out of the sum": (slice(1, None), 1), "the scores are not divided": (slice(None), 0)}
    for which, divided in faults.values():
        weights = np.exp(call["score"])
        weights /= weights[:, which].sum(1, keepdims=True) if divided else 1
        wrong = np.zeros_like(observed)
        np.add.at(wrong, call["target"], (weights[:, :, None] * call["source"]).sum(1))
        save_call(capture, operator=stated, observed_out=wrong, overwrite=True, **call)
        verdict = judged(replay, capture, expect=1)["verdict"]
        assert verdict["at_fault"] == "observed" and verdict["causes"]["implementation_error"] > wrong.size / 2
    scaled = observed.copy()
    scaled[4, 2] *= np.float32(1.0001)
    save_call(capture, operator=stated, observed_out=scaled, overwrite=True, **call)
    found = judged(replay, capture, expect=1)
    assert found["verdict"]["causes"] == {"implementation_error": 1} and found["invocations"][0]["findings"][0]["index"] == [4, 2]


@pytest.mark.parametrize("shape", [{}, {"stride": 2, "height": 12, "pad": 0}, {"taps": 2, "dilation": 2, "pad": 2, "channels": 1}])
def test_a_deformable_convolution(replay, tmp_path, shape):
    stated, capture = EXAMPLES["deformable_col2im"], tmp_path / "a.h5"
    call, observed, truth = deformable_call(**shape)
    np.testing.assert_allclose(stated.float64(shapes={"grad_im": truth.shape}, **call)["grad_im"], truth, rtol=1e-11, atol=1e-13)
    save_call(capture, operator=stated, observed_grad_im=observed, **call)
    assert judged(replay, capture, expect=0)["verdict"]["at_fault"] == "none"
    largest = np.unravel_index(np.argmax(np.abs(observed)), observed.shape)
    for fault in (lambda: observed[largest] * np.float32(1.0001), lambda: 0):
        wrong = observed.copy()
        wrong[largest] = fault()
        save_call(capture, operator=stated, observed_grad_im=wrong, overwrite=True, **call)
        found = judged(replay, capture, expect=1)
        assert found["verdict"]["causes"] == {"implementation_error": 1}
        assert found["invocations"][0]["findings"][0]["index"] == [int(at) for at in largest]
    # The batch's samples are swapped in the offsets.
    swapped = deformable_call(**shape)[0] | {"offset": call["offset"][::-1].copy()}
    save_call(capture, operator=stated, observed_grad_im=observed, overwrite=True, **swapped)
    assert judged(replay, capture, expect=1)["verdict"]["at_fault"] == "observed"


def test_what_rounding_decides_is_allowed_for(replay, tmp_path):
    """A point whose condition is within rounding of its limit may be added or not; one that is clearly on a side may not."""
    @operator
    def counted(out, x, weight, limit, i, r):
        if x[r] * limit[0] < 0.3:
            out[i] += weight[i, r]

    x = np.array([0.1, 0.1, 0.05, 0.2], np.float32)
    limit = np.array([3], np.float32)
    x[0] = np.float32(0.3) / np.float32(3)  # its product with 3 is 0.3, but for rounding
    weight = np.array([[1, 2, 4, 8], [16, 32, 64, 128]], np.float32)
    surely = weight[:, 2]
    exactly = counted.float64(x=x, weight=weight, limit=limit)["out"]
    for picked, is_right in ((exactly, True), (surely, True), (surely + weight[:, 3], False), (0 * surely, False)):
        save_call(tmp_path / "a.h5", operator=counted, x=x, weight=weight, limit=limit, observed_out=picked.astype(np.float32), overwrite=True)
        found = json.loads(replay("run", tmp_path / "a.h5", "--json", "-").out)
        assert (found["verdict"]["at_fault"] != "observed") == is_right, (picked, found["verdict"])


def test_numbers_that_are_not_finite(replay, tmp_path):
    stated = EXAMPLES["softmax_scatter"]
    call, truth, observed = softmax_call()
    call["score"][5, 3] = np.nan
    observed[call["target"][5]] = np.nan
    save_call(tmp_path / "a.h5", operator=stated, observed_out=observed, **call)
    found = judged(replay, tmp_path / "a.h5", expect=1)
    assert set(found["verdict"]["causes"]) == {"non_finite"}
    assert "score" in json.dumps(found["invocations"][0]["findings"][0]["evidence"])


@pytest.mark.parametrize("operator_change, why", [
    ({"stages": [{"name": "out", "index": ["r"], "value": "score[r, 0]"}]}, "another meaning"),
    ({"stages": [{"name": "z", "index": ["r"], "value": "z[r]"}]}, 'no tensor "z"'),
    ({"stages": [{"name": "z", "index": ["r"], "value": "log(score[r, 0])"}]}, "has the function log; there are exp, sqrt, abs, min, max"),
    ({"stages": [{"name": "z", "index": ["r"], "value": "max(score[r, 0])"}]}, 'where "," is expected'),
    ({"stages": [{"name": "z", "index": ["r"], "value": "score[r, 9]"}]}, "z: reads score["),
    ({"stages": [{"name": "z", "index": ["r", "many"], "value": "score[r, 0]"}], "sizes": {"many": 1 << 20}, "outputs": [
        {"tensor": "out", "index": ["t", "c"], "over": ["r"], "where": ["target[r] == t"], "addends": "z[r, 0] * source[r, 0, c]"}]},
     "2^24 can be computed at most"),
    ({"stages": [{"name": "z", "index": ["r"], "value": "source[target[score[r, 0]], 0, 0]"}]}, "where integers are wanted"),
])
def test_stages_that_are_refused(replay, tmp_path, operator_change, why):
    call, _, observed = softmax_call()
    changed = json.loads(json.dumps(EXAMPLES["softmax_scatter"].adapter))
    changed["operator"].update(operator_change)
    save_call(tmp_path / "a.h5", operator=changed, observed_out=observed, **call)
    refused = replay("run", tmp_path / "a.h5", expect=2).err
    assert refused.count("\n") == 1 and why in refused and "a.h5" in refused


def test_stages_of_the_definition(replay, tmp_path):
    call, _, observed = softmax_call()
    save_call(tmp_path / "a.h5", operator=EXAMPLES["softmax_scatter"], observed_out=observed, **call)
    shown = json.loads(replay("stages", tmp_path / "a.h5", "--element", "out[4,2]", "--json", "-", expect=0).out)
    (element,) = shown["invocations"][0]["elements"]
    rows = np.flatnonzero(call["target"] == 4)
    assert [row["component"] for row in element["stages"]] == [f"r {row}" for row in rows]
    exact = np.exp(call["score"].astype(np.float64)).sum(1)
    for row, number in zip(element["stages"], rows):
        assert row["stage"] == "z" and row["values"]["float64"] == pytest.approx(exact[number], rel=1e-13)
        assert row["values"]["deterministic"] == np.float32(row["values"]["deterministic"]) and not row["drifts"]
        assert row["values"]["deterministic"] == pytest.approx(exact[number], rel=1e-6)
    assert "r 0" not in replay("stages", tmp_path / "a.h5", "--element", "out[4,2]", expect=0).out or 0 in rows


@operator
def gathered(grad_source, grad_out, segment, loss, source, row, column, scale):
    grad_source[row, column] += scale * grad_out[segment[row], column]
    loss[...] += scale * grad_out[segment[row], column] * source[row, column]


def test_gradcheck_of_a_loss(replay, tmp_path):
    random, capture = np.random.default_rng(0), tmp_path / "a.h5"
    call = {"source": random.standard_normal((50, 4)).astype(np.float32), "segment": random.integers(0, 7, 50),
            "grad_out": random.standard_normal((7, 4)).astype(np.float32), "scale": 0.75}
    right = np.float32(0.75) * call["grad_out"][call["segment"]]
    save_call(capture, operator=gathered, observed_grad_source=right, **call)
    checked = json.loads(replay("gradcheck", capture, "--json", "-", expect=0).out)
    (gradient,) = checked["invocations"][0]["gradients"]
    assert checked["passed"] and gradient["sampled"] == 200 and all(side["checked"] == 200 for side in gradient["sides"])
    right[7, 1] *= np.float32(1.001)
    save_call(capture, operator=gathered, observed_grad_source=right, overwrite=True, **call)
    checked = json.loads(replay("gradcheck", capture, "--json", "-", expect=1).out)
    sides = {side["side"]: side for side in checked["invocations"][0]["gradients"][0]["sides"]}
    assert sides["float64"]["failed"] == 0 and sides["recorded"]["failed"] == 1 and sides["recorded"]["worst"][0]["index"] == [7, 1]
    # A backward that is stated wrong is found, too.
    stated = json.loads(json.dumps(gathered.adapter))
    stated["operator"]["outputs"][0]["addends"] = "grad_out[segment[row], column]"
    save_call(capture, operator=stated, observed_grad_source=call["grad_out"][call["segment"]], overwrite=True, **call)
    assert json.loads(replay("gradcheck", capture, "--json", "-", expect=1).out)["invocations"][0]["gradients"][0]["sides"][0]["failed"] == 200


@pytest.mark.parametrize("addends, why", [
    ("source[row, column] * source[row, column]", "is not linear in source"),
    ("exp(source[row, column])", "is not linear in source"),
    ("z[row] * grad_out[row, column]", "is not linear in source"),
])
def test_losses_that_differences_do_not_check(replay, tmp_path, addends, why):
    stated = json.loads(json.dumps(gathered.adapter))
    stated["operator"]["stages"] = [{"name": "z", "index": ["row"], "over": ["column"], "value": "source[row, column]"}]
    stated["operator"]["loss"]["addends"] = addends
    zeros = np.zeros((3, 4), np.float32)
    save_call(tmp_path / "a.h5", operator=stated, source=zeros, grad_out=zeros, segment=np.zeros(3, int), scale=1.0, observed_grad_source=zeros)
    assert why in replay("gradcheck", tmp_path / "a.h5", expect=2).err


def test_minimize_keeps_what_stages_are_computed_of(replay, tmp_path):
    stated = EXAMPLES["softmax_scatter"]
    call, _, observed = softmax_call()
    observed[4, 2] *= np.float32(1.01)
    save_call(tmp_path / "a.h5", operator=stated, observed_out=observed, **call)
    replay("minimize", tmp_path / "a.h5", "-o", tmp_path / "small.h5", expect=0)
    (small,) = msda_replay.read_capture(tmp_path / "small.h5").invocations
    assert small.inputs["score"].shape[0] < 300 and small.inputs["score"].shape[0] == small.inputs["target"].shape[0]
    assert json.loads(replay("run", tmp_path / "small.h5", "--json", "-", expect=1).out)["verdict"]["causes"] == {"implementation_error": 1}


def test_a_reproducer_stands_alone(replay, tmp_path):
    stated, capture = EXAMPLES["softmax_scatter"], tmp_path / "a.h5"
    call, truth, observed = softmax_call(rows=60)
    observed[4, 2] *= np.float32(1.01)
    save_call(capture, operator=stated, observed_out=observed, atol=1e-6, rtol=1e-4, **call)
    reproducer = tmp_path / "test_softmax.py"
    replay("export", capture, "--to", "pytest", "-o", reproducer, expect=0)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    failed = subprocess.run([sys.executable, "-I", reproducer], cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=120)
    assert failed.returncode == 1 and "out[4,2] is out of tolerance" in failed.stderr, failed.stderr
    expected = re.search(r"float64: (\S+)", failed.stderr)[1]
    assert float(expected) == pytest.approx(truth[4, 2], rel=1e-12)
    # With the element as it should be, it passes.
    text = reproducer.read_text()
    reproducer.write_text(text.replace("def recorded():", f"def recorded():\n    return {{INDEX: np.float32({truth[4, 2]!r})}}\n", 1))
    fixed = subprocess.run([sys.executable, "-I", reproducer], cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=120)
    assert fixed.returncode == 0 and "within tolerance" in fixed.stdout, fixed.stderr
    assert "for which there is no --to cpp" in replay("export", capture, "--to", "cpp", "-o", tmp_path / "a.cpp", expect=2).err
    assert "for which there is no --to npz" in replay("export", capture, "--to", "npz", "-o", tmp_path / "a.npz", expect=2).err
