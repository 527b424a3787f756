"""What `run` says to do about a group ends in a line to type: of PyTorch, of the test, or a command. Lines are right: they run, and their
numbers hold."""

import ast
import re
import shlex
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from conftest import REPLAY, SOURCE
from support.operators import OPERATORS, operator  # noqa: F401
from support.run_results import judged  # noqa: F401

from msda_replay import Result, read_capture, write_capture


def sums(outputs):
    """The gradients of the first call that is not 0 everywhere, with one element's sign flipped."""
    (name, array), = [(name, array) for name, array in outputs.items() if np.any(array)][:1]
    at = np.unravel_index(np.abs(array).argmax(), array.shape)
    array[at] = -array[at]
    return outputs


def check_line(line):
    assert len(line) <= 80 - 9, line
    if line.startswith("msda-replay "):
        done = subprocess.run([REPLAY, *shlex.split(line)[1:]], capture_output=True, text=True)
        assert done.returncode in (0, 1) and done.stdout, line + done.stderr
    else:
        ast.parse(line + ("\ndef kernel(): ..." if line.startswith("@") else ""))


def check_groups(call):
    assert call["groups"]
    for group in call["groups"]:
        assert group["help"].endswith(":") and "{" not in group["help"]
        assert "type" in group or group["stages"]
        if "type" in group:
            check_line(group["type"])


@pytest.mark.parametrize("kernel, typed", [
    ("aten::a_sum", 'with msda_replay.torch.deterministic(("cpu", "cuda")): loss.backward()'),
    ("torchvision::a_sum", 'with msda_replay.torch.deterministic(("cpu", "cuda")): loss.backward()'),
    ("_ZN2at6native9a_kernelE", "with msda_replay.torch.deterministic(): loss.backward()"),
    ("a_kernel", None),
])
def test_of_a_wrong_kernel(operator, judged, kernel, typed):  # noqa: F811
    call = operator.all_recorded("float32")[0]
    call.kernel = kernel
    sums(call.outputs)
    result = judged(call)
    check_groups(result)
    assert {(group.get("type"), group["stages"]) for group in result["groups"] if group["at_fault"] == "observed"} == {(typed, True)}


def test_of_a_wrong_reference(operator, judged):  # noqa: F811
    call = operator.all_recorded("float32")[0]
    conventions = {"dialect": call.dialect} if call.dialect else {}
    call.results = {"reference": Result(sums({name: array.copy() for name, array in call.outputs.items()}), "reference", **conventions)}
    result = judged(call)
    check_groups(result)
    typed = {group.get("type") for group in result["groups"] if group["at_fault"] == "reference" and not group.get("advisory")}
    assert typed == {"expected = reference(*(x.double() for x in inputs))"}


def test_the_tolerance_of_the_line_is_enough(operator, judged):  # noqa: F811
    call = operator.all_recorded("float32")[0]
    result = judged(call, "--atol", 0, "--rtol", 1e-9)
    check_groups(result)
    groups = [group for group in result["groups"] if group["at_fault"] == "tolerance" and "assert_close" in group.get("type", "")]
    assert groups
    numbers = [re.fullmatch(r"torch\.testing\.assert_close\(a, b, rtol=(\S+), atol=(\S+)\)", group["type"]).groups() for group in groups]
    for group, (rtol, atol) in zip(groups, numbers):
        bound = "any_order_bound" if group["cause"] == "accumulation_order" else "rounding_bound"
        assert float(rtol) == 1e-9 and float(atol) >= result["findings"][group["worst"]]["evidence"][bound]
    largest = max(numbers, key=lambda pair: float(pair[1]))
    judged(call, "--rtol", largest[0], "--atol", largest[1], expect=0)


@pytest.mark.parametrize("kernel, typed", [
    ("aten::embedding_dense_backward", "torch.nn.Embedding(num_embeddings, embedding_dim, padding_idx=row)"),
    ("aten::index_add", "source = source.float()  # and result.to(torch.bfloat16) after the sum"),
    ("a_kernel", "msda-replay explain stopped_sum"),
])
def test_of_a_sum_that_stopped(replay, tmp_path, kernel, typed):
    shutil.copy(SOURCE / "docs" / "findings" / "embedding_on_a_cpu.h5", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["invocations/000000"].attrs["kernel"] = kernel
    (result,) = replay("run", tmp_path / "a.h5", "--json", "-", expect=1).json["invocations"]
    check_groups(result)
    assert [group["type"] for group in result["groups"]] == [typed]


def test_of_roi_aligns_number_of_points(judged):
    (call,) = read_capture(SOURCE / "docs" / "findings" / "roi_align_points.h5").invocations
    result = judged(call)
    check_groups(result)
    assert result["groups"][0]["type"] == "torchvision.ops.RoIAlign(output_size, spatial_scale, sampling_ratio=2)"


@pytest.mark.parametrize("held, written, typed", [
    (3, lambda right: right + 3, "out = torch.zeros_like(out)  # in place of torch.empty_like"),
    (3, lambda right: right * 0 + 3, "out = torch.zeros_like(out)  # in place of torch.empty_like"),
    (2, lambda right: 3 * right, '@triton.autotune(configs, key, reset_to_zero=["out_ptr"])'),
])
def test_of_a_buffer(operator, judged, held, written, typed):  # noqa: F811
    names, facts = operator.unheld
    call = operator.recorded(next(v for v in operator.variants if v.startswith(names) and "float32" in v), **facts)
    right = call.outputs[operator.summed].copy()
    launches = "triton" in typed
    call.outputs_before = {operator.summed: held * right if launches else np.full_like(right, held)}
    call.outputs[operator.summed] = written(right)
    result = judged(call)
    check_groups(result)
    assert typed in {group["type"] for group in result["groups"] if group["cause"] == "uninitialized_output"}


def test_text_and_commands_end_in_the_line(replay, tmp_path):
    """`run` of a capture and of a folder, at 80 columns."""
    call = OPERATORS["scatter_add"].all_recorded("float32")[0]
    sums(call.outputs)
    call.kernel = "aten::a_sum"
    for name in "ab":
        write_capture(tmp_path / f"{name}.h5", call)
    for path in (tmp_path / "a.h5", tmp_path):
        text = replay("run", path, expect=1, env={"COLUMNS": "80"}).out
        line = '         with msda_replay.torch.deterministic(("cpu", "cuda")): loss.backward()\n         msda-replay stages '
        assert re.search("  help:  PyTorch's kernel is wrong.*:\n" + re.escape(line), text, re.S)
        assert all(len(row) <= 80 for row in text.splitlines() if not row.startswith(("         msda-replay stages", " -->")) and str(tmp_path) not in row)
