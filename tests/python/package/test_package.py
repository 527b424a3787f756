"""The Python package: what it writes reads back, also with plain h5py, and the importer reports what it cannot use."""

import os
import stat
import subprocess
import sys
import venv

import h5py
import numpy as np
import pytest
from conftest import DATA, REPLAY, SOURCE
from support.problems import backward, make_problem

import msda_replay
from msda_replay import CaptureError, Invocation, Result, read_capture, write_capture
from msda_replay.__main__ import main


@pytest.fixture
def invocation(rng):
    inputs = make_problem(rng)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    before = {"grad_value": np.ones_like(outputs["grad_value"])}
    return Invocation(inputs, outputs, "grid_sample", "border", True, "kernel", before,
                      {"reference": Result({"grad_value": outputs["grad_value"]}, "reference", "msda_triton", {"a": 1.0})}, {}, 1e-3, 1e-2,
                      {"label": "a label", "grid": [1, 2, 3]})


def test_round_trip(tmp_path, invocation):
    path = tmp_path / "a.h5"
    run = {"argv": ["a", "b c"], "environment": {"X": "1"}, "libraries": {"torch": "2.11"}, "gpu": "H200"}
    write_capture(path, [invocation, invocation], run)
    capture = read_capture(path)
    assert capture.run == run
    assert capture.tool_version == msda_replay.__version__
    assert len(capture.invocations) == 2
    read = capture.invocations[1]
    for section in ("inputs", "outputs", "outputs_before"):
        written = getattr(invocation, section)
        assert set(getattr(read, section)) == set(written)
        for name, array in written.items():
            assert getattr(read, section)[name].dtype == array.dtype
            np.testing.assert_array_equal(getattr(read, section)[name], array)
    assert (read.dialect, read.padding_mode, read.align_corners, read.kernel) == ("grid_sample", "border", True, "kernel")
    assert (read.atol, read.rtol) == (1e-3, 1e-2)
    assert read.facts["label"] == "a label" and list(read.facts["grid"]) == [1, 2, 3]
    reference = read.results["reference"]
    assert (reference.role, reference.dialect, reference.notes) == ("reference", "msda_triton", {"a": 1.0})
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_plain_h5py_sees_names_types_and_dimensions(tmp_path, invocation):
    path = tmp_path / "a.h5"
    write_capture(path, invocation)
    with h5py.File(path) as file:
        assert file.attrs["format"] == "msda-capture" and file.attrs["format_version"] == 1
        group = file["invocations/000000"]
        assert group.attrs["dialect"] == "grid_sample" and bool(group.attrs["align_corners"]) is True
        value = group["inputs/value"]
        assert [d.label for d in value.dims] == ["batch", "pixel", "head", "channel"]
        assert [d.label for d in group["inputs/sampling_locations"].dims] == ["batch", "query", "head", "level", "point", "xy"]
        datasets = []
        file.visititems(lambda name, item: datasets.append(item) if isinstance(item, h5py.Dataset) else None)
        assert len(datasets) == 11  # with the list of contents
        for dataset in datasets:
            assert dataset.attrs["digest"].startswith("xxh3-128:")
            assert all(d.label for d in dataset.dims)


def test_all_element_types(tmp_path, replay, rng):
    path = tmp_path / "a.h5"
    for dtype in (np.float16, np.float32, np.float64):
        inputs = make_problem(rng, dtype=dtype)
        inputs["spatial_shapes"] = inputs["spatial_shapes"].astype(np.int32)
        write_capture(path, Invocation(inputs, {n: a.astype(dtype) for n, a in backward(inputs).items()}, "msda_triton"), overwrite=True)
        replay("verify", path, expect=0)
        replay("run", path, expect=0)
        assert read_capture(path).invocations[0].inputs["value"].dtype == dtype


def test_bfloat16_opens_as_float32(tmp_path, replay, rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "a.h5"
    inputs = {n: a.astype(ml_dtypes.bfloat16) if a.dtype == np.float32 else a for n, a in make_problem(rng).items()}
    outputs = {n: a.astype(ml_dtypes.bfloat16) for n, a in backward(inputs).items()}
    write_capture(path, Invocation(inputs, outputs, "msda_triton"))
    replay("verify", path, expect=0)
    replay("run", path, expect=0)
    np.testing.assert_array_equal(read_capture(path).invocations[0].inputs["value"], inputs["value"].astype(np.float32))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda i: i.inputs.pop("value"), "no input value"),
        (lambda i: setattr(i, "dialect", "other"), "unknown dialect 'other'"),
        (lambda i: setattr(i, "padding_mode", "other"), "unknown padding_mode"),
        (lambda i: setattr(i, "rtol", None), "atol and rtol go together"),
        (lambda i: i.facts.update(nonsense=1), "unknown facts ['nonsense']"),
        (lambda i: i.inputs.update(value=np.zeros((2, 2))), "value has rank 2, not 4"),
        (lambda i: i.inputs.update(value=np.zeros((1, 2, 3, 4), complex)), "has type complex128"),
    ],
)
def test_refusals_leave_no_file(tmp_path, invocation, change, message):
    change(invocation)
    with pytest.raises(CaptureError, match=".*" + message.replace("[", r"\[").replace("]", r"\]")):
        write_capture(tmp_path / "a.h5", invocation)
    assert os.listdir(tmp_path) == []


def test_replaces_nothing_unasked(tmp_path, invocation):
    path = tmp_path / "a.h5"
    for content in (b"precious", b"\x89HDF\r\n\x1a\n"):
        path.write_bytes(content)
        with pytest.raises(CaptureError, match="exists"):
            write_capture(path, invocation)
        assert path.read_bytes() == content
    path.write_bytes(b"precious")
    with pytest.raises(CaptureError, match="is no capture"):
        write_capture(path, invocation, overwrite=True)
    assert path.read_bytes() == b"precious"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    write_capture(path, invocation, overwrite=True)
    read_capture(path)


def test_reading_what_is_no_capture(tmp_path):
    with pytest.raises(CaptureError, match="cannot read it"):
        read_capture(tmp_path / "missing.h5")
    h5py.File(tmp_path / "a.h5", "w").close()
    with pytest.raises(CaptureError, match="not a capture"):
        read_capture(tmp_path / "a.h5")


class TestImport:
    def test_all_keys(self, tmp_path, rng, capsys):
        inputs = make_problem(rng)
        outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
        arrays = {**inputs, **{f"observed_{n}": a for n, a in outputs.items()}, **{f"reference_{n}": a for n, a in outputs.items()},
                  "before_grad_value": outputs["grad_value"] * 0, "level_start_index": np.array([0, 30]), "padding_mode": "border",
                  "align_corners": True, "atol": 1e-3, "rtol": 1e-2, "dialect": "grid_sample", "reference_dialect": "msda_triton",
                  "reference_max_abs_diff_grad_value": 2.5, "kernel": "k", "label": "l", "something_else": 1}
        np.savez(tmp_path / "case.npz", **arrays)
        assert main(["import", str(tmp_path / "case.npz"), "-o", str(tmp_path / "case.h5")]) == 0
        assert "not used: something_else" in capsys.readouterr().err
        invocation = read_capture(tmp_path / "case.h5").invocations[0]
        assert (invocation.dialect, invocation.padding_mode, invocation.align_corners) == ("grid_sample", "border", True)
        assert invocation.results["reference"].dialect == "msda_triton"
        assert invocation.results["reference"].notes == {"max_abs_diff_grad_value": 2.5}
        assert set(invocation.outputs_before) == {"grad_value"}
        assert "level_start_index" in invocation.inputs
        assert (invocation.kernel, invocation.facts["label"]) == ("k", "l")

    def test_only_the_inputs(self, tmp_path, rng, replay):
        np.savez(tmp_path / "case.npz", **make_problem(rng))
        assert main(["import", str(tmp_path / "case.npz"), "-o", str(tmp_path / "case.h5"), "--dialect", "deformable_detr"]) == 0
        finished = replay("run", tmp_path / "case.h5", "--verbose", expect=2)  # replayed, with nothing to compare
        assert "deterministic : float64" in finished.out and "nothing to compare" in finished.err

    def test_refusals(self, tmp_path, rng, capsys):
        target = str(tmp_path / "case.h5")

        def refused(source, *parts):
            assert main(["import", str(source), "-o", target]) == 2
            error = capsys.readouterr().err
            assert len(error.strip().splitlines()) == 1
            for part in (str(source), *parts):
                assert part in error
            assert not os.path.exists(target)

        refused(tmp_path / "missing.npz", "cannot read it")
        (tmp_path / "text.npz").write_text("text")
        refused(tmp_path / "text.npz", "cannot read it")
        np.savez(tmp_path / "pickle.npz", value=np.array([object()], dtype=object))
        refused(tmp_path / "pickle.npz", "the archive has no spatial_shapes")
        inputs = make_problem(rng)
        np.savez(tmp_path / "array.npz", **{**inputs, "atol": np.zeros(3)})
        refused(tmp_path / "array.npz", "atol has shape (3,)")
        del inputs["grad_output"]
        np.savez(tmp_path / "less.npz", **inputs)
        refused(tmp_path / "less.npz", "has no grad_output")

    def test_asks_before_replacing(self, tmp_path):
        target = str(tmp_path / "case.h5")
        source = str(DATA / "h200_border_noalign_0.npz")
        assert main(["import", source, "-o", target]) == 0
        assert main(["import", source, "-o", target]) == 2
        assert main(["import", source, "-o", target, "--force"]) == 0


def test_digests_without_the_xxhash_package(tmp_path, rng):
    """The system's libxxhash gives what the Python package gives."""
    from msda_replay import digest as module

    data = rng.bytes(100000)
    assert "xxh3-128:" + module._from_system_library()(data) == module.digest(data)
    assert module.digest(b"") == "xxh3-128:99aa06d3014798d86001c324468d497f"


@pytest.mark.long
def test_in_a_pip_venv(tmp_path):
    """Installed by pip into a fresh virtual environment, with what PyPI has today."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    copy = tmp_path / "python"  # pip builds in the folder it is given
    subprocess.run(["cp", "-rL", str(SOURCE / "tools" / "python"), str(copy)], check=True)  # also what links lead to
    install = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(copy)], capture_output=True,
                             text=True, env=clean)
    if install.returncode != 0 and "No matching distribution" in install.stderr:
        pytest.skip("PyPI is out of reach")
    assert install.returncode == 0, install.stderr
    target = str(tmp_path / "case.h5")
    subprocess.run([python, "-m", "msda_replay", "import", "--dialect", "msda_triton", str(DATA / "h200_border_noalign_0.npz"),
                    "-o", target], check=True, env=clean, cwd=tmp_path)
    assert subprocess.run([str(REPLAY), "verify", target]).returncode == 0


def test_runs_from_the_tree(tmp_path):
    target = str(tmp_path / "case.h5")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "tools" / "python")}
    subprocess.run([sys.executable, "-m", "msda_replay", "import", str(DATA / "h200_border_noalign_0.npz"), "-o", target],
                   check=True, env=environment, cwd=tmp_path)
