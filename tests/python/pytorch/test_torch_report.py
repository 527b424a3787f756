"""msda_replay.torch.report(), and the page that lists what PyTorch refuses."""

import os
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", "2.4", reason="needs PyTorch 2.4 or later")

from conftest import SOURCE  # noqa: E402
from msda_replay.torch import deterministic, report  # noqa: E402
from msda_replay.torch.report import REFUSED  # noqa: E402

PAGE = SOURCE / "docs" / "refused-by-pytorch.md"


def calls_of(name):
    return dict(report().replaced).get(name, 0)


def test_calls_within_a_context_are_counted():
    total, index, rows = torch.zeros(4, 2), torch.tensor([0, 1, 1]), torch.ones(3, 2)
    before, names = calls_of("index_add"), [name for name, _ in report().replaced]
    total.index_add(0, index, rows)
    with deterministic("cpu"):
        for _ in range(3):
            total.index_add(0, index, rows)
    total.index_add(0, index, rows)
    assert calls_of("index_add") == before + 3
    assert set(names) <= {name for name, _ in report().replaced}
    assert f"\n  index_add: {before + 3} calls\n" in str(report())


def test_what_may_vary_depends_on_the_switches(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert report().may_vary[0].startswith("operators that are not replaced")
    assert any("CUBLAS" in line for line in report().may_vary) == bool(torch.version.cuda)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert any("cuDNN" in line for line in report().may_vary)
    torch.use_deterministic_algorithms(True)
    try:
        assert not any(line.startswith("operators") for line in report().may_vary)
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert report().may_vary[0].startswith("operators that PyTorch only warns of")
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_process_that_replaced_nothing_says_so():
    program = "import msda_replay.torch; print(msda_replay.torch.report())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE / "tools/python")})
    assert done.stdout.startswith("replaced\n  nothing: no such operator was called within a context\nrefused"), done.stderr


def refusals():
    """What PyTorch's docstring says to be refused, an entry for each of its list, as the page writes it."""
    part = torch.use_deterministic_algorithms.__doc__.split("operations will throw a\n")[1].split("In addition")[0]
    entries = [re.sub(r":\w+:(`[^`]+`)", r"\1", entry).replace("``", "`").replace("- ", "") for entry in re.split(r"\n {8}\* ", part)[1:]]
    return [" ".join(entry.split()) for entry in entries]


@pytest.mark.pages("docs/refused-by-pytorch.md", "give each entry of PyTorch's list a row, with its state; no row may have another entry")
def test_the_page_has_the_list_of_pytorchs_docstring():
    if not torch.__version__.startswith("2.11"):
        pytest.skip("the page is about PyTorch 2.11")
    rows = [row.split(" | ") for row in re.findall(r"^\| (`torch\..*) \|$", PAGE.read_text(), re.MULTILINE)]
    assert [entry for entry, *_ in rows] == refusals()
    states = {state.split(":")[0] for _, state in rows}
    assert states == {"replaced", "not refused", "refused"}
    assert sum(state.startswith("replaced") for _, state in rows) >= 23


def test_the_page_says_what_the_report_says():
    text = PAGE.read_text().replace("`torch.Tensor.", "`")
    for name in REFUSED:
        assert f"`{name.removeprefix('aten::').split(' ')[0]}`" in text, name
