"""Operators that an adapter file describes: docs/own-operators.md's example, recorded results and planted faults."""

import json
import re

import jsonschema
import numpy as np
import pytest
from conftest import SOURCE
from support.launches import CLIENT
from support.own_operators import CHANNELS, EXAMPLE, PAGE, ROWS, SEGMENTS, call, random_call, summed  # noqa: F401
from support.report_page import read as read_page
from support.recording import pytestmark, record  # noqa: F401

from msda_replay import Invocation, read_capture, write_capture
from msda_replay import run as run_from_python


def run(replay, capture, *arguments, expect=0):
    result = replay("run", capture, "--operator", capture.parent / "segment_sum.json", "--json", "-", *arguments, expect=expect)
    found = json.loads(result.out)
    jsonschema.validate(found, json.loads((SOURCE / "docs" / "run.schema.json").read_text()))
    return found["verdict"], found["invocations"][0]


def test_from_python(call):
    capture = call()
    file = capture.parent / "segment_sum.json"
    for given in (file, [file]):
        assert run_from_python(capture, operator=given).within_tolerance


def test_another_order_is_no_mistake(replay, call):
    verdict, result = run(replay, call())
    assert verdict["at_fault"] == "none" and result["operator"] == "segment_sum"
    verdict, result = run(replay, call(), "--atol", "0", "--rtol", "0", expect=1)
    assert verdict["at_fault"] == "tolerance" and set(verdict["causes"]) == {"accumulation_order"}
    source, segment, _ = random_call()
    exact = np.zeros((SEGMENTS, CHANNELS))
    np.add.at(exact, segment, source.astype(np.float64))
    for finding in result["findings"]:
        assert finding["float64"] == pytest.approx(exact[tuple(finding["index"])], rel=1e-12)


def test_a_wrong_formula_is_named(replay, call):
    source, segment, order = random_call()
    verdict, result = run(replay, call(summed(source, segment, order[order != 5])), expect=1)
    assert verdict["at_fault"] == "observed" and set(verdict["causes"]) == {"implementation_error"}
    worst = result["findings"][0]
    assert worst["index"][0] == segment[5] and "as if the addend of r 5 were missing" in json.dumps(worst)
    verdict, _ = run(replay, call(summed(source * np.float32(0.9), segment, order)), expect=1)
    assert verdict["at_fault"] == "observed" and set(verdict["causes"]) == {"implementation_error"}


def test_other_commands(replay, call, tmp_path):
    capture, adapter = call(), tmp_path / "segment_sum.json"
    given = ("--operator", adapter)
    assert "segment_sum" in replay("list", capture, expect=0).out
    assert "one order gives every recorded bit: 20 of 20" in replay("order", capture, *given, expect=0).out
    assert "of 8 simulated" in replay("stress", capture, *given, "--against", "float64", "--runs", "8", expect=0).out
    assert "has no intermediate tensors" in replay("stages", capture, *given, expect=3).err
    assert "has no forward pass" in replay("gradcheck", capture, *given, expect=3).err
    assert "give the adapter's file by --operator FILE" in replay("run", capture, expect=3).err
    source, segment, order = random_call()
    wrong = call(summed(source, segment, order[order != 5]))
    small = tmp_path / "small.h5"
    assert "c 1 (of 8), r" in replay("minimize", wrong, *given, "-o", small, expect=0).out
    (kept,) = read_capture(small).invocations
    assert kept.inputs["source"].shape[1] == 1 and kept.inputs["source"].shape[0] < ROWS
    assert "implementation_error" in replay("run", small, *given, expect=1).out
    page = tmp_path / "page.html"
    replay("report", wrong, *given, "-o", page, expect=1)
    assert "segment_sum" in read_page(page).text


SLOPE = {"name": "slope", "outputs": [{
    "tensor": "grad_x", "index": ["i"], "over": ["c"],
    "coordinates": [{"name": "px", "location": "x[i]", "size": "width", "value": "location * size - 0.5"}],
    "where": ["px.cell >= 0", "px.cell + 1 < width"],
    "addends": "grad[i, c] * v[px.cell + 1, c] * width - grad[i, c] * v[px.cell, c] * width"}]}


def test_the_neighbouring_cell_is_a_boundary(replay, tmp_path):
    assert " ".join(SLOPE["outputs"][0]["addends"].split()) in PAGE
    tensors = [("x", "input", ["n"]), ("v", "input", ["width", 4]), ("grad", "input", ["n", 4]), ("grad_x", "output", ["n"])]
    adapter = {"name": "slope", "kernel": "slope", "operator": SLOPE,
               "parameters": [{"name": "n", "type": "int32"}, {"name": "width", "type": "int32"}]
               + [{"name": name, "type": "pointer"} for name, _, _ in tensors],
               "tensors": [{"name": name, "role": role, "pointer": name, "type": "float32", "shape": shape} for name, role, shape in tensors]}
    (tmp_path / "segment_sum.json").write_text(json.dumps({**EXAMPLE, "adapters": [adapter]}))
    random, count, width = np.random.default_rng(2), 60, 37
    x = random.random(count).astype(np.float32)
    x[:10] = (np.arange(3, 13) + 0.5) / width  # whole coordinates, but for rounding
    v, grad = random.standard_normal((width, 4)).astype(np.float32), random.standard_normal((count, 4)).astype(np.float32)
    exact = np.floor(x.astype(np.float64) * width - 0.5).astype(int)
    in_float32 = np.floor(x * np.float32(width) - np.float32(0.5)).astype(int)
    assert np.any(exact != in_float32) and np.all((exact == in_float32)[10:])
    inside = (in_float32 >= 0) & (in_float32 + 1 < width)
    cell = np.where(inside, in_float32, 0)
    slope = ((v[cell + 1] - v[cell]) * grad * np.float32(width)).sum(1, dtype=np.float32) * inside
    write_capture(tmp_path / "a.h5", Invocation({"x": x, "v": v, "grad": grad}, {"grad_x": slope}, "", kernel="slope", facts={
        "adapter": "slope", "operator": "slope", "scalars": f"n={count} width={width}"}))
    verdict, result = run(replay, tmp_path / "a.h5", expect=1)
    assert verdict["causes"] == {"cell_boundary": int((exact != in_float32).sum())}
    assert {finding["index"][0] for finding in result["findings"]} == set(np.flatnonzero(exact != in_float32))


@pytest.mark.parametrize("change, why", [
    ({"name": "msda"}, "which is built in"),
    ({"more": 1}, 'unknown key "more"'),
    ({"outputs": [{"tensor": "sum", "index": ["s", "c"], "over": ["r"], "addends": "source[r, c + 1]"}]}, "reads source["),
    ({"outputs": [{"tensor": "sum", "index": ["s", "c"], "over": ["r"], "addends": "source[r, c] / s"}]}, "is 0"),
    ({"sizes": {"r": "rows * rows * rows * rows"}}, "2^26 can be examined at most"),
    ({"outputs": [{"tensor": "sum", "index": ["c", "s"], "over": ["r"], "addends": "source[r, c]"}]}, "has shape [20, 8], and its indices"),
])
def test_definitions_that_are_refused(replay, call, tmp_path, change, why):
    capture, mine = call(), json.loads(json.dumps(EXAMPLE))
    mine["adapters"][0]["operator"].update(change)
    (tmp_path / "segment_sum.json").write_text(json.dumps(mine))
    refused = replay("run", capture, "--operator", tmp_path / "segment_sum.json", expect=2)
    assert refused.err.count("\n") == 1 and why in refused.err and (".json" in refused.err or "a.h5" in refused.err)


def test_files_and_captures_that_are_refused(replay, call, tmp_path):
    capture, adapter = call(), tmp_path / "segment_sum.json"
    assert "No such file" in replay("run", capture, "--operator", tmp_path / "none.json", expect=2).err
    assert "a second adapter named" in replay("run", capture, "--operator", adapter, "--operator", adapter, expect=2).err
    bare = json.loads(json.dumps(EXAMPLE))
    del bare["adapters"][0]["operator"]
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    assert 'none of its adapters has an "operator"' in replay("run", capture, "--operator", tmp_path / "bare.json", expect=2).err
    for scalars, why in (("rows=1", "scalars has no segments"), ("rows=x segments=1 channels=1", "which is no number")):
        refused = replay("run", call(scalars=scalars), "--operator", adapter, expect=2).err
        assert refused.count("\n") == 1 and why in refused
    # The operator that a capture names is looked up by its adapter, in the files that were given.
    another = replay("run", call(adapter="other"), "--operator", adapter, expect=3).err
    assert "an operator of adapter other, and --operator has given segment_sum: give the file of that adapter" in another
    source, segment, order = random_call()
    write_capture(capture, Invocation({"source": source, "segment": segment}, {"sum": summed(source, segment, order)}, "",
                                      facts={"operator": "segment_sum"}, kernel="k"), overwrite=True)
    unnamed = replay("run", capture, "--operator", adapter, expect=3).err
    assert "and --operator has given segment_sum: its fact `adapter` is missing" in unnamed and "give the adapter's file" not in unnamed


def test_bytes_are_no_numbers(replay, tmp_path):
    """Also of a built-in operator: they were read as float32, beyond their end."""
    source, index = np.ones((4000, 64), np.uint8), np.zeros(4000, np.int64)
    write_capture(tmp_path / "a.h5", Invocation({"source": source, "index": index}, {"sum": np.zeros((2, 64), np.float32)}, "",
                                                facts={"dim": 0, "dim_size": 2, "reduce": "sum"}, kernel="k"))
    refused = replay("run", tmp_path / "a.h5", expect=2).err
    assert "inputs/source has type uint8, which no operator takes" in refused and refused.count("\n") == 1


def test_recorded_and_judged(replay, tmp_path):
    """The stand-in's kernel of docs/user-adapters.md: y += alpha * x."""
    text = (SOURCE / "docs" / "user-adapters.md").read_text()
    mine = json.loads(re.search(r"```json\n(.*?)```", text, re.S)[1])
    mine["adapters"][0]["operator"] = {"name": "scale_add", "outputs": [
        {"tensor": "y", "index": ["i", "j"], "start": "y[i, j]", "addends": "scale.alpha * x[i, j]"}]}
    adapter, capture = tmp_path / "segment_sum.json", tmp_path / "a.h5"
    adapter.write_text(json.dumps(mine))
    done = record(CLIENT, "--kernel", "scale_add", "--launches", "2", options=["-o", capture, "--adapter", adapter])
    assert done.returncode == 0, done.stderr
    assert {invocation.facts["operator"] for invocation in read_capture(capture).invocations} == {"scale_add"}
    verdict, result = run(replay, capture)
    assert verdict["at_fault"] == "none" and result["operator"] == "scale_add"
    wrong = mine["adapters"][0]["operator"]["outputs"][0]
    wrong["addends"] = "-scale.alpha * x[i, j]"
    adapter.write_text(json.dumps(mine))
    verdict, _ = run(replay, capture, expect=1)
    assert verdict["at_fault"] == "observed" and set(verdict["causes"]) == {"implementation_error"}
