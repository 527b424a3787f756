"""The Python that the documents show runs as it stands, page by page, from top to bottom."""

import re
import shutil

import numpy as np
import pytest
from conftest import SOURCE
from support.problems import backward, make_problem

from msda_replay.capture import ABOUT

pytestmark = pytest.mark.pages("the page in the test's name",
                                "change its Python block so that it runs as it stands, after the blocks above it on the page")

BLOCKS = [(page, number, block) for page in sorted((SOURCE / "docs").glob("*.md"))
          for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M))]


def outputs_of(inputs):
    return {name: array.astype(np.float32) for name, array in backward(inputs).items()}


@pytest.fixture
def names():
    """What a test has at hand when it calls the package: the variables of the pages."""
    import msda_replay

    inputs = make_problem(np.random.default_rng(7), heads=1, channels=4, queries=4)
    outputs = outputs_of(inputs)
    return {
        "msda_replay": msda_replay, "value": inputs["value"], "shapes": inputs["spatial_shapes"], "locations": inputs["sampling_locations"],
        "weights": inputs["attention_weights"], "grad_output": inputs["grad_output"], "gv": outputs["grad_value"],
        "gl": outputs["grad_sampling_locations"], "ga": outputs["grad_attention_weights"], "reference": outputs["grad_sampling_locations"],
        "expected": outputs["grad_sampling_locations"], "outputs": outputs, "pytest": pytest,
    }


class WithGradient(np.ndarray):
    """A tensor of torch, as far as save_call needs it."""

    grad: np.ndarray


def with_gradient(array, gradient):
    made = array.view(WithGradient)
    made.grad = gradient
    return made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnknownMarkWarning")  # the plugin's, which is not loaded here
@pytest.mark.parametrize("page", sorted({page for page, *_ in BLOCKS}), ids=lambda page: page.name)
def test_the_blocks_of_a_page(page, names, tmp_path, monkeypatch, demo_capture, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(demo_capture, "failure.h5")
    (tmp_path / "docs").symlink_to(SOURCE / "docs")
    for at, _, block in (block for block in BLOCKS if block[0] == page):
        if re.search(r"\btorch\b", block.replace("torch.testing.assert_close(...)", "").replace('"torch"', "")):
            pytest.importorskip("torch", reason=f"a block of {at.name} needs PyTorch")
            continue  # test_torch.py has the functions of these blocks, on tensors that fit
        if "assert_close(...)" in block:  # of save_call: the assertion fails here, and the page raises it again
            names.update(
                value=with_gradient(names["value"], names["gv"]), locations=with_gradient(names["locations"], names["gl"]),
                weights=with_gradient(names["weights"], names["ga"]))
            block = block.replace("torch.testing.assert_close(...)", "raise AssertionError").replace('"failure.h5"', '"saved.h5"')
            with pytest.raises(AssertionError):
                exec(compile(block, str(at), "exec"), names)
            assert names["msda_replay"].open_capture("saved.h5")[0].tolerance == (1e-3, 1e-2)
            continue
        if "write_capture" in block:
            block = block.replace('"failure.h5"', '"written.h5"')
        exec(compile(block, str(at), "exec"), names)
    if page.name == "python.md":
        assert "written.h5" in {path.name for path in tmp_path.iterdir()}
        assert names["findings"][0].cause == "cell_boundary"
    if page.name == "capture-format.md":
        about, worst = capsys.readouterr().out.split("grad_sampling_locations", 1)
        assert ABOUT in about and worst.startswith(" ['batch', 'query', 'head', 'level', 'point', 'xy'] 0 948 0 0 2 0 -128.07")


def test_blocks_are_found():
    assert {"python.md", "pytest.md", "deterministic-torch.md"} <= {page.name for page, *_ in BLOCKS} and len(BLOCKS) >= 9
