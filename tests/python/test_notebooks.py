"""Every notebook in docs/ runs from top to bottom on the shipped capture, and plots what its text describes."""

import pathlib
import shutil

import h5py
import nbformat
import pytest
from conftest import SOURCE
from nbclient import NotebookClient
from test_recording import FLAKY, record
from test_recording import pytestmark as no_sanitizer

NOTEBOOKS = sorted((SOURCE / "docs" / "notebooks").glob("*.ipynb"))


def texts(cell):
    return "".join(output.get("text", "") for output in cell.get("outputs", []))


def run(path, capture, monkeypatch):
    """The notebook's code cells, run."""
    monkeypatch.setenv("MSDA_CAPTURE", str(capture))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before committing"
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, demo_capture, monkeypatch):
    code = run(path, demo_capture, monkeypatch)
    pictures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 3
    shown = "\n".join(texts(cell) for cell in code)
    # The numbers that the text draws its conclusions from.
    assert "grad_sampling_locations [  0 948   0   0   2   0] recorded -128.07781982421875 reference 131.80838012695312" in shown
    assert "'pixel': '2.99999976', 'cell': '2'" in shown and "'pixel': '3', 'cell': '3'" in shown
    assert "largest error 9." in shown and "e-06 of an allowed 0.001" in shown
    assert "no stages in this capture" in shown


@no_sanitizer
def test_a_table_of_recorded_stages(demo_capture, monkeypatch, tmp_path):
    recorded, capture = tmp_path / "recorded.h5", tmp_path / "a.h5"
    assert record(FLAKY, "--seed", "3", options=["-o", recorded, "--stages", "summary"]).returncode == 0
    shutil.copy(demo_capture, capture)
    with h5py.File(recorded) as source, h5py.File(capture, "r+") as file:
        source.copy("invocations/000000/stages", file["invocations/000000"])
    shown = "\n".join(texts(cell) for cell in run(SOURCE / "docs" / "notebooks" / "inspect_capture.ipynb", capture, monkeypatch))
    table = [line for line in shown.splitlines() if " numbers, mean magnitude " in line]
    assert len(table) == 9 and table[0].startswith("pixel_coordinates") and table[-1].startswith("grad_value")
    assert "1536000 numbers" in table[3] and "7296 zeros, 0 subnormal, 0 NaN, 0 infinite" in table[-1]
