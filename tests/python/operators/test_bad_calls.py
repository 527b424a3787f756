"""Calls and archives that an operator does not take are refused: the exit status, and one line that says where and why."""

import numpy as np
import pytest
from support.operators import OPERATORS, archive_of, operator, type_of  # noqa: F401

from msda_replay import CaptureError, Result, read_capture, write_capture
from msda_replay.__main__ import main
from msda_replay.importer import import_case


def without_rows(name, rows=np.s_[:1]):
    return lambda call: call.inputs.update({name: call.inputs[name][rows].copy()})


def fact(**facts):
    return lambda call: call.facts.update(facts)


def tensor(**tensors):
    return lambda call: call.inputs.update(tensors)


GRID, INDEXED, BOXES, LINEAR = "2d-float32-bilinear-zeros-0", "index_add-float32", "roi_align_1_2-float32", "interpolate_bilinear_0_2d_0-float32"
NEAREST = "interpolate_nearest_0_1d_0-float32"
BAD = {
    "grid_sample": [
        (GRID, fact(interpolation="cubic"), ("unknown interpolation", "bilinear")), (GRID, fact(padding_mode="wrap"), ("unknown padding_mode", "reflection")),
        (GRID, fact(align_corners=2), ("align_corners",)), (GRID, without_rows("grid", np.s_[..., :1]), ("grid", "[N,(D,)H,W,2 or 3]")),
        (GRID, without_rows("grad_output"), ("grad_output has shape",)), (GRID, without_rows("input", np.s_[:, :, :0]), ("sides",)),
        ("3d-float32-bilinear-zeros-0", fact(interpolation="bicubic"), ("bicubic",))],
    "scatter_add": [
        (INDEXED, tensor(index=np.full(60, 12)), ("index[0] is 12, and dimension 0 of sum has 12 rows",)),
        (INDEXED, tensor(index=np.full(60, -3)), ("wraps_negative 1",)),
        (INDEXED, lambda call: (fact(wraps_negative=1)(call), tensor(index=np.full(60, -13))(call)), ("index[0] is -13",)),
        (INDEXED, lambda call: (fact(dim_size=2**39)(call), call.outputs.clear(), call.outputs_before.clear()), ("too large for this machine's memory",))],
    "roi_align": [
        (BOXES, tensor(boxes=np.full((6, 5), np.nan, np.float32)), ("boxes[0,0] is nan",)),
        (BOXES, tensor(boxes=np.full((6, 5), 7, np.float32)), ("input has batches 0 to 1",))],
    "interpolate": [
        (NEAREST, fact(align_corners=1), ("align_corners with mode nearest",)), (LINEAR, fact(mode="trilinear"), ("unknown mode",))],
}


def refused(replay, path, call, *words):
    write_capture(path, call, overwrite=True)
    done = replay("run", path, expect=2)
    assert done.out == "" and done.err.count("\n") == 1
    for word in (str(path), "/invocations/000000", *words):
        assert word in done.err


@pytest.mark.parametrize("name, number", [(name, number) for name, rows in BAD.items() for number in range(len(rows))])
def test_bad_calls(replay, tmp_path, name, number):
    variant, change, words = BAD[name][number]
    call = OPERATORS[name].recorded(variant)
    change(call)
    refused(replay, tmp_path / "a.h5", call, *words)


def test_tensors_of_wrong_types_and_shapes(operator, replay, tmp_path):
    variant, gradient, path = operator.typed("float32")[0], operator.summed, tmp_path / "a.h5"
    numbers = [name for name, array in operator.recorded(variant).inputs.items() if array.dtype.kind == "f"]
    for name in numbers:
        call = operator.recorded(variant)
        call.inputs[name] = call.inputs[name].astype(np.int32)
        refused(replay, path, call, f"{name} has type int32")
    for change, words in (
            (lambda call: call.outputs.update({gradient: call.outputs[gradient][:, :1].copy()}), (f"{gradient} has shape",)),
            (lambda call: call.outputs.update({gradient: call.outputs[gradient].astype(np.int32)}), (f"outputs/{gradient} has type int32",)),
            (lambda call: call.results.update(x=Result({gradient: call.outputs[gradient].astype(int)})), (f"results/x/{gradient} has type int64",))):
        call = operator.recorded(variant)
        change(call)
        refused(replay, path, call, *words)


# --- Archives.


def test_an_archive_becomes_the_call(operator, replay, tmp_path):
    for variant in operator.typed("float32", "float16")[:: 5]:
        call = operator.recorded(variant)
        members = archive_of(call, operator.name)
        reference = {f"reference_{name}": array for name, array in call.outputs.items()}
        np.savez(tmp_path / "a.npz", **members, **reference, atol=1e-3, rtol=1e-2, kernel="k", label="l")
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5"), "--force"]) == 0
        replay("verify", tmp_path / "a.h5", expect=0)
        (read,) = read_capture(tmp_path / "a.h5").invocations
        assert {name: read.facts.get(name) for name in call.facts} == call.facts and (read.kernel, read.facts["label"]) == ("k", "l")
        assert (read.dialect, read.padding_mode, read.align_corners) == (call.dialect, call.padding_mode, call.align_corners)
        for given, found in ((call.inputs, read.inputs), (call.outputs, read.outputs), (call.outputs_before, read.outputs_before),
                             (call.outputs, read.results["reference"].tensors)):
            assert set(given) == set(found) and all(np.array_equal(array, found[name]) for name, array in given.items())
        if type_of(variant) == "float32":
            replay("run", tmp_path / "a.h5", expect=0)


CONVENTIONS = {"msda": ("dialect", "padding_mode", "align_corners"), "grid_sample": ("interpolation", "padding_mode", "align_corners"),
               "interpolate": ("mode",), "roi_align": ("spatial_scale", "sampling_ratio", "aligned")}


@pytest.mark.parametrize("name, convention", [(name, convention) for name, conventions in CONVENTIONS.items() for convention in conventions])
def test_conventions_are_not_guessed(tmp_path, name, convention):
    """Libraries have several: Detectron2 aligns boxes, torchvision does so only if asked."""
    row = OPERATORS[name]
    members = archive_of(row.recorded(row.typed("float32")[-1]), name)
    del members[convention]
    np.savez(tmp_path / "a.npz", **members)
    with pytest.raises(CaptureError, match=f"does not state {convention}"):
        import_case(tmp_path / "a.npz", tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


MORE_ARCHIVES = {"grid_sample": [({"padding_mode": "wrap"}, ("padding_mode", "reflection")), ({"grid": np.zeros((2, 6, 5, 3), np.float32)}, ("grid", "axis"))],
                 "interpolate": [({"mode": None}, ("does not state mode, on which the result depends: one of nearest, ",))]}


def test_archives_that_do_not_fit(operator, tmp_path, capsys):
    members = archive_of(operator.recorded(operator.typed("float32")[-1]), operator.name)
    numbers = [name for name, array in members.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f"]
    changes = [({"operator": "conv2d"}, ("operator", "msda, grid_sample, scatter_add")), *MORE_ARCHIVES.get(operator.name, []),
               *(({name: members[name].astype(np.int32)}, (name, "int32")) for name in numbers),
               *(({name: members[name][(None,) * 4]}, (name,)) for name in numbers)]
    for change, words in changes:
        np.savez(tmp_path / "a.npz", **{name: value for name, value in {**members, **change}.items() if value is not None})
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 2
        line = capsys.readouterr().err
        assert all(word in line for word in words) and not (tmp_path / "a.h5").exists(), (change, line)


def test_results_of_another_shape(operator, tmp_path, capsys):
    members, observed = archive_of(operator.recorded(operator.typed("float32")[-1]), operator.name), f"observed_{operator.summed}"
    np.savez(tmp_path / "a.npz", **{**members, observed: members[observed][..., :1]})
    assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 2
    assert f"{observed} has 1 in dimension " in capsys.readouterr().err and not (tmp_path / "a.h5").exists()
