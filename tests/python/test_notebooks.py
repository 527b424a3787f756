"""Every notebook in docs/ runs from top to bottom on the shipped capture, and draws what it says."""

import pathlib

import nbformat
import pytest
from conftest import SOURCE
from nbclient import NotebookClient

NOTEBOOKS = sorted((SOURCE / "docs" / "notebooks").glob("*.ipynb"))


def texts(cell):
    return "".join(output.get("text", "") for output in cell.get("outputs", []))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, demo_capture, monkeypatch):
    monkeypatch.setenv("MSDA_CAPTURE", str(demo_capture))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before committing"
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    pictures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 3
    shown = "\n".join(texts(cell) for cell in code)
    # The numbers that the text draws its conclusions from.
    assert "grad_sampling_locations [  0 948   0   0   2   0] recorded -128.07781982421875 reference 131.80838012695312" in shown
    assert "'pixel': '2.99999976', 'cell': '2'" in shown and "'pixel': '3', 'cell': '3'" in shown
    assert "largest error 9." in shown and "e-06 of an allowed 0.001" in shown
