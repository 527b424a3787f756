"""Operators that Python functions state: what the functions become, and captures that hold them."""

import json
import re

import h5py
import numpy as np
import pytest
from support.own_operators import CHANNELS, EXAMPLE, PAGE, ROWS, SEGMENTS, random_call, summed

import msda_replay
from msda_replay import CaptureError, operator, save_call

FROM_PYTHON = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]


def judged(replay, capture, *arguments, expect):
    return json.loads(replay("run", capture, "--json", "-", *arguments, expect=expect).out)


def outputs_of(stated):
    return stated.adapter["operator"]["outputs"]


def test_the_page_finds_the_wrong_element_in_15_lines(replay, tmp_path, monkeypatch, capsys):
    assert len([line for line in FROM_PYTHON.splitlines() if line]) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(FROM_PYTHON, _written(tmp_path, FROM_PYTHON), "exec"), {})
    assert "out[3,4]" in capsys.readouterr().out
    found = judged(replay, tmp_path / "segments.h5", expect=1)
    assert found["verdict"]["causes"] == {"implementation_error": 1} and found["invocations"][0]["findings"][0]["index"] == [3, 4]


def _written(folder, text):
    path = folder / "stated.py"
    path.write_text(text)
    return str(path)


def test_a_file_for_a_kernel_is_a_definition_too(replay, tmp_path):
    """Sizes are read off the tensors; the capture needs no flag, and a file that is named replaces what it holds."""
    source, segment, order = random_call()
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(EXAMPLE))
    for given in (str(file), file, EXAMPLE, EXAMPLE["adapters"][0]):
        save_call(tmp_path / "a.h5", operator=given, source=source, segment=segment, observed_sum=summed(source, segment, order), overwrite=True)
    call = msda_replay.read_capture(tmp_path / "a.h5").invocations[0]
    assert call.facts["scalars"] == f"rows={ROWS} segments={SEGMENTS} channels={CHANNELS}"
    assert judged(replay, tmp_path / "a.h5", expect=0)["invocations"][0]["operator"] == "segment_sum"
    assert "segment_sum" in replay("list", tmp_path / "a.h5", expect=0).out
    file.write_text(json.dumps(EXAMPLE).replace('"addends": "source[r, c]"', '"addends": "2 * source[r, c]"'))
    assert judged(replay, tmp_path / "a.h5", "--operator", file, expect=1)["verdict"]["at_fault"] == "observed"


def test_what_a_function_becomes(replay, tmp_path):
    @operator(adds_to="y", channels=["column"])
    def mine(y, x, index, weight, row, column, alpha, first: int):
        if index[row] >= first and row % 2 != 1:
            for tap in range(2):
                y[index[row], column] += alpha * x[row + tap, column] * weight[tap]
            # a statement after another condition, which is not one of the sum's
        if weight[0] > 0.5:
            pass

    (output,) = outputs_of(mine)
    assert output == {
        "tensor": "y", "index": ["y_0", "column"], "over": ["row"], "where": ["index[row] == y_0", "index[row] >= first", "row % 2 != 1"],
        "channels": ["column"], "start": "y[y_0, column]",
        "addends": "alpha * x[row + 0, column] * weight[0] + alpha * x[row + 1, column] * weight[1]"}
    assert mine.adapter["parameters"] == [{"name": "alpha", "type": "float64"}, {"name": "first", "type": "int64"}]
    assert {tensor["name"]: (tensor["role"], tensor["type"]) for tensor in mine.adapter["tensors"]} == {
        "y": ("inout", "float32"), "x": ("input", "float32"), "index": ("input", "int64"), "weight": ("input", "float32")}
    random = np.random.default_rng(3)
    x, index = random.standard_normal((31, 5)).astype(np.float32), random.integers(-1, 6, 30)
    y, weight = random.standard_normal((6, 5)).astype(np.float32), np.array([0.75, -0.5], np.float32)
    exact = y.astype(np.float64)
    for row in range(0, 30, 2):
        if index[row] >= 1:
            exact[index[row]] += 0.5 * (x[row].astype(float) * weight[0] + x[row + 1].astype(float) * weight[1])
    call = {"operator": mine, "x": x, "index": index, "weight": weight, "y": y, "alpha": 0.5, "first": 1, "overwrite": True}
    save_call(tmp_path / "a.h5", observed_y=exact.astype(np.float32), **call)
    assert judged(replay, tmp_path / "a.h5", expect=0)["verdict"]["at_fault"] == "none"
    wrong = exact.astype(np.float32)
    wrong[index[row := next(row for row in range(0, 30, 2) if index[row] >= 1)]] -= np.float32(0.5) * x[row] * weight[0]
    save_call(tmp_path / "a.h5", observed_y=wrong, **call)
    assert judged(replay, tmp_path / "a.h5", expect=1)["verdict"]["causes"] == {"implementation_error": 5}


@pytest.mark.parametrize("body, line, why", [
    ("out[i] = x[i]", 2, r"out\[i\] is set; say what is added to it, by \+="),
    ("pass", 1, "adds nothing to any tensor"),
    ("if x[i] > 0 or i > 3:\n        out[i] += x[i]", 3, "joined by `or` or `else`"),
    ("if x[i]:\n        out[i] += x[i]", 2, r"x\[i\] is no comparison"),
    ("out[i] += np.sin(x[i])", 2, "np.sin cannot be said; sums"),
    ("out[i] += float(x[i])", 2, "used as a number of Python"),
    ("for j in range(i): out[i] += x[j]", 2, "used as a whole number of Python"),
    ("for j in x: out[i] += j", 2, "not iterable"),
    ("out[i] += x[i, 0] + x[i]", 2, "x has 2 indices elsewhere, and 1 in"),
    ("out[i] += x[i // 2] // 3", 2, "stands between real numbers; use /"),
    ("out[i] += x[i / 2]", 2, "stands between integers; use //"),
    ("out[i] += x[i]\n    out[i + 1] += x[i]", 3, "adds to out at another place, or under other conditions, than line 2"),
    ("out[i] += 'a'", 2, "'a' is no number"),
    ("out[i] += (2 * x)[i]", 2, "is no tensor: only arguments have elements"),
])
def test_functions_that_cannot_be_said(tmp_path, body, line, why):
    path = _written(tmp_path, f"def stated(out, x, i):\n    {body}\n")
    names = {"np": np}
    exec(compile((tmp_path / "stated.py").read_text(), path, "exec"), names)
    with pytest.raises((ValueError, TypeError), match=why) as raised:
        operator(names["stated"])
    if raised.type is ValueError:
        assert f"{path}:{line}: " in str(raised.value)


@pytest.mark.parametrize("change, why", [
    ({"observed_sum": None}, "observed_sum is None"),
    ({"segment": np.zeros(ROWS, np.float32)}, "segment has type float32, and the operator takes integers"),
    ({"source": np.zeros(ROWS, np.float32)}, "source has 1 dimensions, and the operator takes 2"),
    ({"more": 1}, "has no argument more"),
    ({"operator": {}}, 'has 0 adapters with an "operator"'),
    ({"operator": "none.json"}, "No such file"),
])
def test_calls_that_are_refused(tmp_path, change, why):
    source, segment, order = random_call()
    call = {"operator": EXAMPLE, "source": source, "segment": segment, "observed_sum": summed(source, segment, order), **change}
    with pytest.raises(CaptureError, match=why) as raised:
        save_call(tmp_path / "a.h5", **call)
    assert str(raised.value).startswith(f"{tmp_path / 'a.h5'}: ") and not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize("definition, why", [
    ("{", "is not JSON"),
    pytest.param(" " * (1 << 20) + "{}", "is larger than a megabyte", id="large"),
    (json.dumps({**EXAMPLE, "version": 2}), "/version is not 1"),
    (json.dumps({**EXAMPLE, "adapters": EXAMPLE["adapters"] * 2}), "is not one adapter with an operator"),
    (json.dumps({**EXAMPLE, "adapters": [{**EXAMPLE["adapters"][0], "operator": {"name": "mine", "library": "libmine.so"}}]}),
     "none is run because a capture says so"),
])
def test_stored_definitions_that_are_refused(replay, tmp_path, definition, why):
    source, segment, order = random_call()
    save_call(tmp_path / "a.h5", operator=EXAMPLE, source=source, segment=segment, observed_sum=summed(source, segment, order))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["invocations/000000"].attrs["definition"] = definition
    refused = replay("run", tmp_path / "a.h5", expect=2).err
    assert refused.count("\n") == 1 and "definition" in refused and why in refused
