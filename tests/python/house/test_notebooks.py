"""Every notebook in docs/ runs from top to bottom, prints what is stored in it, and shows what its text describes."""

import copy
import os
import re
import shutil

import h5py
import nbformat
import numpy as np
import pytest
from conftest import BUILD, SOURCE
from nbclient import NotebookClient
from support.operators import OPERATORS
from support.launches import CLIENT
from support.recording import FLAKY, record
from support.recording import pytestmark as no_sanitizer

from msda_replay import Invocation, write_capture

pytestmark = pytest.mark.pages("docs/notebooks/, the notebook that the test names",
                                "change the cell so that it runs, and shows what the text above it says; MSDA_STORE_NOTEBOOKS=1 makes this test "
                                "store what the cells print now")

NOTEBOOKS = SOURCE / "docs" / "notebooks"


def text_of(cell):
    """What a cell prints; a folder that it makes has a name of its own each time."""
    shown = [output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
    return re.sub(r"/\S*/tmp\w{8}/", "FOLDER/", "".join(shown))


def texts(cells):
    return "\n".join(map(text_of, cells))


def pictures(cells):
    shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
    return sum("image/png" in data or "<iframe" in data.get("text/html", "") for data in shown)


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def store(path, cells):
    """Stores what was printed and plotted. A page is half a megabyte, which GitHub does not show: its cell keeps the words."""
    notebook = nbformat.read(path, as_version=4)
    for kept, cell in zip(code_of(notebook), cells):
        kept.outputs, kept.execution_count = copy.deepcopy(cell.outputs), cell.execution_count
        for output in kept.outputs:
            output.get("data", {}).pop("text/html", None)
    nbformat.write(notebook, path)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a notebook's code cells, with variables of the environment; returns the cells. It lies where it does in the source tree."""
    folder = tmp_path / "docs" / "notebooks"
    folder.mkdir(parents=True)
    (tmp_path / "tests").symlink_to(SOURCE / "tests")

    def execute(name, **variables):
        monkeypatch.setenv("PYTHONPATH", str(SOURCE / "tools" / "python"))
        monkeypatch.setenv("PATH", f"{BUILD / 'bin'}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("PYTEST_CURRENT_TEST")  # which would label calls
        for variable, value in variables.items():
            monkeypatch.setenv(variable, str(value))
        notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(folder)}}).execute()
        return code_of(notebook)

    return execute


@pytest.fixture
def run_as_stored(run):
    """Runs a notebook that must print what is stored in it."""

    def execute(name, **variables):
        path = NOTEBOOKS / f"{name}.ipynb"
        cells = run(name, **variables)
        if os.environ.get("MSDA_STORE_NOTEBOOKS"):
            store(path, cells)
        stored = code_of(nbformat.read(path, as_version=4))
        assert [text_of(cell) for cell in stored] == [text_of(cell) for cell in cells]
        assert [cell.execution_count for cell in stored] == list(range(1, len(cells) + 1)) and path.stat().st_size < 200_000
        return cells

    return execute


def test_all_are_tested():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {"inspect_capture", "flaky_test", "own_adapter"}


@pytest.mark.long
class TestInspectCapture:
    @pytest.fixture(autouse=True)
    def with_pandas(self):
        pytest.importorskip("pandas")

    def test_a_real_failure(self, run_as_stored, monkeypatch):
        monkeypatch.delenv("MSDA_CAPTURE", raising=False)
        code = run_as_stored("inspect_capture")
        shown = texts(code)
        assert pictures(code) == 1
        assert "<sampling_locations: batch 1, query 1000, head 1, level 4, point 3, xy 2; float32>" in shown
        assert "The reference is wrong, the recorded kernel right, in 1 element of grad_sampling_locations" in shown
        assert "grad_sampling_locations[0,948,0,0,2,0]  -128.07782  131.80838   reference    cell_boundary  reference" in shown
        assert "1 ULP from the boundary 3" in shown and "no stages in this capture" in shown

    def test_grid_sample(self, run, tmp_path):
        calls = [OPERATORS["grid_sample"].recorded("2d-float32-bilinear-zeros-0"), OPERATORS["grid_sample"].recorded("3d-float32-bilinear-border-1")]
        calls[1].outputs["grad_grid"][0, 1, 2, 3, 2] += 10
        write_capture(tmp_path / "a.h5", calls)
        code = run("inspect_capture", MSDA_CAPTURE=tmp_path / "a.h5")
        assert pictures(code) == 1 and "<call 1: grid_sample, bilinear, padding border, align_corners true; input 2 x 3 x" in texts(code)

    def test_a_kernel_of_no_operator(self, run, tmp_path):
        tensor = OPERATORS["grid_sample"].recorded("2d-float32-bilinear-zeros-0").inputs["input"]
        write_capture(tmp_path / "a.h5", Invocation({"x": tensor}, {"y": tensor}, "", kernel="k"))
        code = run("inspect_capture", MSDA_CAPTURE=tmp_path / "a.h5")
        assert pictures(code) == 0 and "is known only by its machine code" in texts(code)

    @no_sanitizer
    def test_a_table_of_recorded_stages(self, run, demo_capture, tmp_path):
        recorded, capture = tmp_path / "recorded.h5", tmp_path / "a.h5"
        assert record(FLAKY, "--seed", "3", options=["-o", recorded, "--stages", "summary"]).returncode == 0
        shutil.copy(demo_capture, capture)
        with h5py.File(recorded) as source, h5py.File(capture, "r+") as file:
            source.copy("invocations/000000/stages", file["invocations/000000"])
        table = [line for line in texts(run("inspect_capture", MSDA_CAPTURE=capture)).splitlines() if " numbers, mean magnitude " in line]
        assert len(table) == 9 and table[0].startswith("pixel_coordinates") and table[-1].startswith("grad_value")
        assert "1536000 numbers" in table[3] and "7296 zeros, 0 subnormal, 0 NaN, 0 infinite" in table[-1]


@pytest.mark.long
def test_flaky_test(run_as_stored):
    code = run_as_stored("flaky_test")
    shown = texts(code)
    assert pictures(code) == 2
    # The numbers that the text draws its conclusions from.
    assert "recorded -128.07782, reference 131.80838, float64 -128.077826" in shown
    assert "largest error of grad_value: 9.05e-06 of an allowed 0.001" in shown
    assert "kernel    pixel 2.99999976, cell 2\nreference pixel 3, cell 3" in shown
    assert "0.086 coordinates of a run in different cells, so 8.2% of the runs fail; measured: 8.4 %" in shown
    assert "grad_sampling_locations  against reference  1 of 24000 out of tolerance" in shown
    assert "grad_sampling_locations  against float64    0 of 24000 out of tolerance" in shown


def test_where_flaky_test_says_the_formulas_differ():
    """The text says where all of it comes from: by the notebook's own functions."""
    cells = nbformat.read(NOTEBOOKS / "flaky_test.ipynb", as_version=4).cells
    scope = {"np": np}
    for cell in cells:
        if cell.cell_type == "code" and cell.source.startswith("def "):
            exec(cell.source.split("\n\n\nb, q, m")[0].split("\n\n\nfigure")[0], scope)  # noqa: S102
    bound = {"one quarter": 0.25, "one half": 0.5}
    (said,) = [bound[name] for cell in cells for name in bound if f"comes from locations below {name}," in cell.source]
    for size in (64, 32, 16, 8):
        places, lengths = scope["disagreements"](size)
        assert lengths[places > said].sum() == 0 and lengths[(places > said / 2) & (places < said)].sum() > 0


@no_sanitizer
def test_own_adapter(run_as_stored):
    """On the stand-in CUDA driver, whose kernel it is."""
    cells = run_as_stored("own_adapter", MSDA_PROGRAM=f"{CLIENT} --kernel scale_add --launches 3")
    shown = texts(cells)
    assert "exit status 2" in shown and "/adapters/0/tensors/1/shape/1" in shown
    assert shown.count("signs right: True") == 3 and "rows=6 scale.columns=5 scale.alpha=0.5" in shown
    assert "is known only by its machine code" in shown and "(exit status 3)" in shown
    assert texts(cells[-1:]).strip().endswith("exit status 0")


def test_own_adapter_without_a_gpu(run):
    """It ends cleanly, and checks adapters all the same."""
    shown = texts(run("own_adapter", MSDA_PROGRAM=""))
    assert shown.startswith("No GPU, or no nvcc: nothing is recorded") and "nothing was recorded" in shown
    assert shown.count("exit status") == 2 and "/adapters/0/tensors/1/shape/1" in shown
