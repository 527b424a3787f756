"""The rows of the operators, analysis/operators/*/schema.json, by themselves and against the kernels' names."""

import json
import re
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from conftest import SOURCE

from msda_replay import Invocation, libmsda, read_capture, run, write_capture
from msda_replay.operator_rows import ROWS

OPERATORS = SOURCE / "analysis" / "operators"
SHAPE = json.loads((OPERATORS / "row.schema.json").read_text())
FILES = {path.parent.name: json.loads(path.read_text()) for path in OPERATORS.glob("*/schema.json")}


def dimensions_in(row):
    """All names of dimensions, with two axes."""
    axes = row.axes_of(row.axes.get("tensor"), None)[-2:] or ("dimension 0", "dimension 1")
    chosen = 1 if "chosen_by" in row.axes else None
    return {name: row.dimensions(name, axes, chosen) for name in row.tensors}


@pytest.mark.parametrize("folder", FILES)
def test_a_row_has_the_shape_of_rows(folder):
    jsonschema.validate(FILES[folder], SHAPE, jsonschema.Draft7Validator)
    assert FILES[folder]["name"] == folder


def test_every_object_of_the_shape_is_strict():
    assert len(FILES) >= 5
    assert [row["place"] for row in sorted(FILES.values(), key=lambda row: row["place"])] == list(range(1, len(FILES) + 1))
    assert list(ROWS) == sorted(FILES, key=lambda name: FILES[name]["place"])


@pytest.mark.parametrize("name", FILES)
def test_a_row_names_only_what_it_has(name):
    row, file = ROWS[name], FILES[name]
    for key in ("tensors", "conventions", "stages"):
        names = [entry["name"] for entry in file.get(key, ())]
        assert len(names) == len(set(names))
    dimensions = dimensions_in(row)
    known = set().union(*dimensions.values())
    assert set(row.marks["conventions"]) <= set(row.conventions) and set(row.marks["inputs"]) <= set(row.named("input"))
    assert row.marks["conventions"]
    assert set(file.get("extents", {})) <= known and set(row.letters) <= known
    assert not row.axes or {row.axes["tensor"], *filter(None, [row.axes.get("chosen_by")])} <= {*row.tensors, *row.conventions}
    for convention in row.conventions.values():
        assert ("values" in convention) == (convention["kind"] == "text")
        assert "default" not in convention or "required" not in convention
        if "axis" in convention:
            assert convention["axis"] in row.axes["names"]
        if "extent_of" in convention and convention.get("axis") != "depth":
            tensor, dimension = convention["extent_of"]
            assert dimension in dimensions[tensor]
    for stage in file.get("stages", ()):
        assert "dimensions" in stage or stage["name"] in row.named("gradient")
    for rule in row.impossible:
        assert set(rule) <= {*row.conventions, "axes"}


def test_no_call_is_of_two_operators():
    """The marks of a row are not among what all calls of another have."""
    for row in ROWS.values():
        for another in ROWS.values():
            if another is not row:
                marks = {*row.marks["conventions"], *row.marks["inputs"]}
                assert not marks <= {*another.marks["conventions"], *another.marks["inputs"]}


NAMED_IN_KERNELS = re.findall(r'"(\w+)"', re.search(r"kDialectNames\[\] = \{(.*)\}", (SOURCE / "kernels" / "names.h").read_text())[1])


@pytest.mark.parametrize("operator, convention, names", [
    ("msda", "dialect", NAMED_IN_KERNELS), ("msda", "padding_mode", libmsda.PADDINGS),
    ("grid_sample", "interpolation", libmsda.INTERPOLATIONS), ("grid_sample", "padding_mode", (*libmsda.PADDINGS, "reflection")),
])  # fmt: skip
def test_values_are_those_of_the_kernels(operator, convention, names):
    assert tuple(ROWS[operator].conventions[convention]["values"]) == tuple(names)


def test_the_pages_follow_the_rows():
    done = subprocess.run([sys.executable, SOURCE / "tools" / "operators", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run tools/operators, which writes {done.stdout}{done.stderr}"


def test_older_captures_say_the_same(tmp_path):
    """Real numbers were texts, and flags integers."""
    rng = np.random.default_rng(7)
    boxes, grad = np.float32([[0, 0.5, 1, 3.5, 4]]), rng.normal(size=(1, 2, 2, 2)).astype(np.float32)
    sizes = {"sampling_ratio": 2, "input_batch": 1, "input_height": 5, "input_width": 5}
    found = []
    for name, kept in (("new", {"spatial_scale": 0.75, "aligned": True}), ("old", {"spatial_scale": "0.75", "aligned": 1})):
        call = Invocation({"boxes": boxes, "grad_output": grad}, {"grad_input": np.ones((1, 2, 5, 5), np.float32)}, "", facts={**sizes, **kept})
        write_capture(tmp_path / f"{name}.h5", call)
        assert {key: (type(value), value) for key, value in read_capture(tmp_path / f"{name}.h5").invocations[0].facts.items() if key in kept} == {
            key: (type(value), value) for key, value in kept.items()}
        (result,) = run(tmp_path / f"{name}.h5", atol=1e-3, rtol=1e-3, device="cpu").invocations
        assert (result["operator"], result["spatial_scale"], result["aligned"]) == ("roi_align", 0.75, True)
        found.append(result)
    assert found[0] == found[1] and found[0]["findings"]
