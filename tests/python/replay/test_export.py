"""msda-replay export: every reproducer is run on its own, and fails with the element and the bits that `run` names; with the right
value in place of the recorded one it passes."""

import functools
import io
import json
import os
import re
import resource
import runpy
import shutil
import signal
import struct
import subprocess
import sys
import zipfile

import h5py
import matplotlib.image
import numpy as np
import pytest
from conftest import DATA, REPLAY, SOURCE
from support.operators import OPERATORS, bfloat16
from support.problems import backward, make_problem
from support.reproducers import (  # noqa: F401
    RUN,
    SUFFIX,
    check_report,
    compile_together,
    export,
    finding_of,
    records,
    run_cpp,
    run_program,
    run_pytest,
    same_result,
)

from msda_replay import Invocation, Result, read_capture, write_capture
from msda_replay.digest import digest
from msda_replay.importer import import_case
from msda_replay.pytest_plugin.attach import _write_contents
MSDA_GRADIENTS = ("grad_value", "grad_sampling_locations", "grad_attention_weights")


# --- Running reproducers, as a stranger would: without the project.


def expected_type(finding, stored):
    return "float64" if finding["against"] == "float64" else stored


def as_type(tensors, stored):
    convert = bfloat16 if stored == "bfloat16" else lambda array: array.astype(stored)
    return {name: array if array.dtype == np.int64 else convert(array) for name, array in tensors.items()}


def read_as_float32(tensors):
    return {name: (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if array.dtype == "V2" else array
            for name, array in tensors.items()}


def write_msda(path, rng, gradient, stored="float32", dialect="msda_triton", reference=False, **conventions):
    """A call whose largest element of one gradient has the wrong sign."""
    sizes = {"queries": 6, "channels": 4, "levels": ((3, 4), (2, 3))}
    inputs = as_type(make_problem(rng, **sizes), stored)
    right = backward(read_as_float32(inputs), **conventions)
    wrong = {name: array.copy() for name, array in right.items()}
    wrong[gradient].reshape(-1)[np.argmax(np.abs(wrong[gradient]))] *= -1
    results = {"torch": Result(as_type(right, stored), "reference", "grid_sample")} if reference else {}
    write_capture(path, Invocation(inputs, as_type(wrong, stored), dialect, results=results, **conventions), overwrite=True)
    return path


# --- The real failure.


@pytest.fixture(scope="module")
def small_capture(demo_capture, tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.h5"
    subprocess.run([REPLAY, "minimize", demo_capture, "-o", path, "--quiet"], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("to", ["pytest", "cpp"])
def test_the_real_failure(replay, export, demo_capture, tmp_path, to):
    output = tmp_path / f"test_h200{SUFFIX[to]}"
    result = export(demo_capture, to, output)
    _, finding = finding_of(replay, demo_capture)
    assert finding["index"] == result["finding"]["index"] == [0, 948, 0, 0, 2, 0]
    assert (result["finding"]["observed_bits"], result["finding"]["expected_bits"]) == ("0xc30013ec", "0x4303cef2")
    assert [name for name in result["files"]] == [str(output), str(output.with_suffix({"pytest": ".npz", "cpp": ".bin"}[to]))]
    out = RUN[to](output, 1)
    check_report(out, finding, "float32", "float32")
    # Both arithmetics, step by step: the coordinates on either side of the boundary, with the bits that `run` prints.
    for hexadecimal in ("0x403fffff", "0x40400000"):
        assert hexadecimal in out
    assert "The reference is wrong, the recorded kernel right, in 1 element" in output.read_text()


@pytest.mark.parametrize("to", ["pytest", "cpp"])
def test_a_small_call_stands_in_one_file(replay, export, small_capture, tmp_path, to):
    output = tmp_path / f"test_small{SUFFIX[to]}"
    result = export(small_capture, to, output)
    assert result["files"] == [str(output)] and os.listdir(tmp_path) == [output.name]
    _, finding = finding_of(replay, small_capture)
    check_report(RUN[to](output, 1), finding, "float32", "float32")
    # The reference fixed: with the recorded numbers in its place.
    numbers = {"pytest": r'"{}": np[.]array[(]\[(.*?)\]', "cpp": r'"{}",\n.*?, {{(?=\n)(.*?)}}'}[to]
    text = output.read_text()
    observed, reference = (re.search(numbers.format(f"{side}_{finding['tensor']}"), text, re.S) for side in ("observed", "reference"))
    output.write_text(text[:reference.start(1)] + observed[1] + text[reference.end(1):])
    if to == "pytest":
        run_pytest(output, 0)
        assert subprocess.run([sys.executable, output], capture_output=True, text=True).stdout == "within tolerance\n"
    else:
        assert "is within tolerance" in run_cpp(output, 0)


@pytest.mark.long
def test_no_flag_of_the_compiler_changes_the_bits(export, small_capture, tmp_path):
    export(small_capture, "cpp", tmp_path / "a.cpp")
    plain = run_cpp(tmp_path / "a.cpp", 1)
    assert run_cpp(tmp_path / "a.cpp", 1, flags=("-O3", "-march=native", "-ffp-contract=fast")) == plain


# --- Every operator, type and gradient.


TYPES = ["float16", "bfloat16", "float32", "float64"]
MSDA = [
    ("grad_value", "msda_triton", {"padding_mode": "border"}),
    ("grad_sampling_locations", "deformable_detr", {}),
    ("grad_attention_weights", "grid_sample", {"align_corners": True}),
]


@pytest.fixture(scope="module")
def msda_captures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("msda")
    return {(gradient, stored): write_msda(folder / f"{gradient}_{stored}.h5", np.random.default_rng(2026), gradient, stored, dialect, **conventions)
            for gradient, dialect, conventions in MSDA for stored in TYPES}


@pytest.fixture(scope="module")
def msda_programs(export, msda_captures, tmp_path_factory):
    chosen = {case: capture for case, capture in msda_captures.items() if case[1] in ("bfloat16", "float32")}
    return compile_together(export, chosen, tmp_path_factory.mktemp("msda_programs"))


@pytest.mark.parametrize("stored", TYPES)
@pytest.mark.parametrize("gradient, dialect, conventions", MSDA)
def test_msda(replay, export, msda_captures, msda_programs, tmp_path, stored, gradient, dialect, conventions):
    capture = msda_captures[gradient, stored]
    call, finding = finding_of(replay, capture)
    assert finding["tensor"] == gradient and finding["against"] == "float64"
    result = export(capture, "pytest", tmp_path / "test_a.py")
    assert result["finding"]["cause"] == "implementation_error" and not result["finding"]["tolerance"]["recorded"]
    check_report(run_pytest(tmp_path / "test_a.py", 1), finding, stored, "float64")
    if stored in ("bfloat16", "float32"):
        check_report(msda_programs((gradient, stored), 1), finding, stored, "float64")


CONVENTIONS = [(dialect, padding, align) for dialect in ("deformable_detr", "msda_triton", "grid_sample") for padding in ("zeros", "border")
               for align in (False, True) if dialect != "deformable_detr" or (padding, align) == ("zeros", False)]


@pytest.mark.parametrize("dialect, padding, align", CONVENTIONS)
@pytest.mark.long
def test_the_arithmetic_of_every_dialect(replay, export, tmp_path, rng, dialect, padding, align):
    """In float32 and float64 the reproducer's formulas, which are its own, give every bit that the kernels do: on edges and beyond,
    with more channels than lanes, and where many samples meet in a pixel."""
    inputs = make_problem(rng, heads=1, queries=24, channels=33, points=3, levels=((2, 3), (1, 2)))
    locations = inputs["sampling_locations"]
    chosen = rng.random(locations.shape)
    locations[chosen < 0.3] = rng.uniform(-0.3, 1.3, (chosen < 0.3).sum())
    locations[chosen < 0.2] = rng.choice(np.float32([0, 1, 0.5, 0.25, 1 / 3]), (chosen < 0.2).sum())
    outputs = {name: np.zeros(array.shape, np.float32) for name, array in backward(inputs).items()}
    capture = tmp_path / "a.h5"
    for gradient in MSDA_GRADIENTS:
        call = Invocation(inputs, {gradient: outputs[gradient]}, dialect, padding_mode=padding, align_corners=align)
        write_capture(capture, call, overwrite=True)
        call, finding = finding_of(replay, capture)
        export(capture, "pytest", tmp_path / "a.py", "--force")
        module = runpy.run_path(str(tmp_path / "a.py"))
        assert module["INDEX"] == tuple(finding["index"])
        state = module["computed"].__globals__
        state["located"] = functools.cache(state["located"])  # a sample lands in the same place for each channel
        for mode, real in (("deterministic", np.float32), ("float64", np.float64)):
            computed = np.zeros(outputs[gradient].shape, real)
            for state["INDEX"] in np.ndindex(computed.shape):
                computed[state["INDEX"]] = module["computed"](dialect, real)
            assert digest(computed.tobytes()) == call["digests"][mode][gradient], (gradient, mode)


def test_a_mended_kernel_passes(replay, export, tmp_path, rng):
    """Its value written into the tensors beside the reproducer: the archive, and the binary file."""
    capture = tmp_path / "a.h5"
    inputs = make_problem(rng, queries=40)
    right = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    wrong = {name: array.copy() for name, array in right.items()}
    wrong["grad_value"][0, 7, 1, 3] += 2
    write_capture(capture, Invocation(inputs, wrong, "deformable_detr", atol=1e-3, rtol=1e-2))
    _, finding = finding_of(replay, capture)
    export(capture, "pytest", tmp_path / "test_a.py")
    check_report(run_pytest(tmp_path / "test_a.py", 1), finding, "float32", "float64")
    archive = dict(np.load(tmp_path / "test_a.npz"))
    np.testing.assert_array_equal(archive["observed_grad_value"], wrong["grad_value"])
    archive["observed_grad_value"] = right["grad_value"]
    np.savez(tmp_path / "test_a.npz", **archive)
    run_pytest(tmp_path / "test_a.py", 0)

    export(capture, "cpp", tmp_path / "a.cpp")
    check_report(run_cpp(tmp_path / "a.cpp", 1), finding, "float32", "float64")
    data = (tmp_path / "a.bin").read_bytes()
    assert data.count(wrong["grad_value"].tobytes()) == 1
    (tmp_path / "fixed.bin").write_bytes(data.replace(wrong["grad_value"].tobytes(), right["grad_value"].tobytes()))
    assert "is within tolerance" in run_program(tmp_path / "a", 0, tmp_path / "fixed.bin")
    assert "cannot read" in subprocess.run([tmp_path / "a", "missing.bin"], capture_output=True, text=True).stderr


def test_values_that_are_not_finite(replay, export, tmp_path, rng):
    captures = {value: tmp_path / f"{value}.h5" for value in (np.nan, -np.inf)}
    for value, capture in captures.items():
        inputs = make_problem(rng, queries=6, channels=4, levels=((3, 4),))
        outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
        outputs["grad_attention_weights"][0, 3, 1, 0, 1] = value
        write_capture(capture, Invocation(inputs, outputs, "deformable_detr", atol=1e-3, rtol=1e-2))
    programs = compile_together(export, captures, tmp_path)
    for value, capture in captures.items():
        _, finding = finding_of(replay, capture)
        export(capture, "pytest", tmp_path / "a.py", "--force")
        for out in (run_pytest(tmp_path / "a.py", 1), programs(value, 1)):
            check_report(out, finding, "float32", "float64")


def test_advice_is_reproduced_too(replay, export, small_capture, tmp_path):
    """Without its reference the real failure is advice: a test against grid_sample would fail."""
    call = read_capture(small_capture).invocations[0]
    call.results, call.facts = {}, {}
    write_capture(tmp_path / "a.h5", call)
    _, finding = finding_of(replay, tmp_path / "a.h5")
    assert finding["advisory"] and finding["against"] == "grid_sample"
    for to in ("pytest", "cpp"):
        result = export(tmp_path / "a.h5", to, tmp_path / f"a{SUFFIX[to]}")
        assert result["finding"]["advisory"]
        check_report(RUN[to](tmp_path / f"a{SUFFIX[to]}", 1), finding, "float32", "float32")


def test_which_invocation(replay, export, tmp_path, rng):
    inputs = make_problem(rng, queries=6, channels=4, levels=((3, 4),))
    right = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    calls = []
    for i in range(3):
        outputs = {name: array.copy() for name, array in right.items()}
        outputs["grad_attention_weights"][0, i, 0, 0, 0] += i
        calls.append(Invocation({**inputs, "value": inputs["value"]}, outputs, "deformable_detr", atol=1e-3, rtol=1e-2))
    write_capture(tmp_path / "a.h5", calls)
    assert export(tmp_path / "a.h5", "pytest", tmp_path / "a.py")["invocations"] == [1]
    result = export(tmp_path / "a.h5", "pytest", tmp_path / "b.py", "--invocation", 2)
    assert result["invocations"] == [2] and result["finding"]["index"] == [0, 2, 0, 0, 0]
    assert "invocation 1, at fault: observed" in replay("export", tmp_path / "a.h5", "--to", "cpp", "-o", tmp_path / "c.cpp", expect=0).words
    refused = replay("export", tmp_path / "a.h5", "--to", "cpp", "-o", tmp_path / "d.cpp", "--invocation", 0, expect=2)
    assert "nothing is out of tolerance" in refused.err
    # Within tolerance there is still a call to send.
    assert export(tmp_path / "a.h5", "npz", tmp_path / "d.npz", "--invocation", 0)["finding"] is None


# --- NumPy archives.


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "float32", "float64"])
def test_an_archive_comes_back(replay, export, tmp_path, rng, stored):
    capture = write_msda(tmp_path / "a.h5", rng, "grad_value", stored, reference=True, padding_mode="border")
    call = read_capture(capture).invocations[0]
    export(capture, "npz", tmp_path / "a.npz")
    import_case(tmp_path / "a.npz", tmp_path / "b.h5")
    result = same_result(replay, capture, tmp_path / "b.h5")
    assert result["invocations"][0]["findings"]
    back = read_capture(tmp_path / "b.h5").invocations[0]
    for before, after in ((call.inputs, back.inputs), (call.outputs, back.outputs)):
        assert set(before) == set(after)
        for name in before:
            np.testing.assert_array_equal(before[name], after[name])


def test_an_archive_of_the_real_failure(replay, export, demo_capture, tmp_path):
    export(demo_capture, "npz", tmp_path / "a.npz")
    import_case(tmp_path / "a.npz", tmp_path / "b.h5")
    same_result(replay, demo_capture, tmp_path / "b.h5")
    ours, theirs = np.load(tmp_path / "a.npz"), np.load(DATA / "h200_border_noalign_0.npz")
    for name in ours.files:
        if name in theirs.files:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_buffers_and_starts_of_levels_come_back(replay, export, tmp_path, rng):
    inputs = make_problem(rng, queries=6)
    inputs["level_start_index"] = np.array([0, 30])
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    before = {"grad_value": rng.standard_normal(outputs["grad_value"].shape).astype(np.float32)}
    outputs["grad_value"] += before["grad_value"]
    write_capture(tmp_path / "a.h5", Invocation(inputs, outputs, "deformable_detr", outputs_before=before, facts={"label": "a test"}))
    export(tmp_path / "a.h5", "npz", tmp_path / "a.npz")
    import_case(tmp_path / "a.npz", tmp_path / "b.h5")
    result = same_result(replay, tmp_path / "a.h5", tmp_path / "b.h5")
    assert result["verdict"]["causes"].get("uninitialized_output")
    back = read_capture(tmp_path / "b.h5").invocations[0]
    np.testing.assert_array_equal(back.inputs["level_start_index"], [0, 30])
    assert back.facts["label"] == "a test"


# --- An archive for an issue.


RUN_FACTS = {"argv": ["pytest", "secret_test.py"], "environment": {"PYTHONHASHSEED": "0", "CUDA_HOME": "/home/someone/cuda"},
             "libraries": {"libtorch.so": "/home/someone/lib/libtorch.so.2"}, "host": "someones-host", "gpu": "NVIDIA H200",
             "seeds": [{"time": "", "source": "libc", "value": 7, "invocation": 0}]}


@pytest.fixture
def named_capture(tmp_path, rng):
    path = write_msda(tmp_path / "someones.h5", rng, "grad_value", reference=True, padding_mode="border")
    call = read_capture(path).invocations[0]
    call.facts["label"] = "someones_test"
    write_capture(path, [call, call], RUN_FACTS, overwrite=True)
    return path


@pytest.mark.parametrize("flags", [[], ["--anonymous"]], ids=["all", "anonymous"])
def test_an_archive_for_an_issue(replay, export, named_capture, tmp_path, flags):
    printed = export(named_capture, "zip", tmp_path / "issue.zip", *flags)
    with zipfile.ZipFile(tmp_path / "issue.zip") as archive:
        assert archive.testzip() is None and archive.namelist() == printed["members"]
        archive.extractall(tmp_path / "issue")
    there = tmp_path / "issue"
    assert set(os.listdir(there)) == {"README.md", "environment.txt", "run.txt", "run.json", "capture.h5", "test_reproducer.py"}
    replay("verify", there / "capture.h5", expect=0)
    result = replay("run", "capture.h5", "--device", "cpu", "--json", "-", cwd=there, expect=1)
    assert result.json == json.loads((there / "run.json").read_text())
    assert replay("run", "capture.h5", "--device", "cpu", cwd=there).out == (there / "run.txt").read_text()
    _, finding = finding_of(replay, named_capture)
    check_report(run_pytest(there / "test_reproducer.py", 1), finding, "float32", expected_type(finding, "float32"))
    run = read_capture(there / "capture.h5").run
    everything = b"".join((there / name).read_bytes() for name in os.listdir(there) if name != "capture.h5") + repr(run).encode()
    everything += (there / "capture.h5").read_bytes()
    private = [b"secret_test.py", b"/home/someone", b"someones-host", b"someones_test"]
    if flags:
        assert not [text for text in (*private, str(tmp_path).encode()) if text in everything]
        assert run["argv"] == [] and run["environment"] == {} and printed["tells"] == ["gpu", "libraries", "time of recording", "seeds"]
    else:
        assert all(text in everything for text in private)
        assert {"arguments", "host", "label", "libraries", "environment variable CUDA_HOME"} <= set(printed["tells"])
        for name in printed["tells"]:
            assert name in (there / "README.md").read_text()
    assert run["gpu"] == "NVIDIA H200" and [seed["value"] for seed in run["seeds"]] == [7]
    for name in printed["members"]:
        if name != "README.md":
            assert f"`{name}`" in (there / "README.md").read_text()


def test_a_large_call_for_an_issue(replay, export, demo_capture, tmp_path):
    result = export(demo_capture, "zip", tmp_path / "issue.zip")
    assert "test_reproducer.npz" in result["members"]
    with zipfile.ZipFile(tmp_path / "issue.zip") as archive:
        archive.extractall(tmp_path)
    _, finding = finding_of(replay, demo_capture)
    check_report(run_pytest(tmp_path / "test_reproducer.py", 1), finding, "float32", "float32")
    assert (tmp_path / "issue.zip").stat().st_size < 0.9 * demo_capture.stat().st_size + (tmp_path / "test_reproducer.npz").stat().st_size


def test_stages_code_and_digests_of_a_recording_go_along(replay, export, tmp_path):
    """A capture by an older recorder: what `show` prints of its invocation, it prints of the archive's."""
    recorded = DATA / "v0.1" / "recorded.h5"
    result = replay("export", recorded, "--to", "zip", "-o", tmp_path / "a.zip", "--json", "-", expect=0).json
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extract("capture.h5", tmp_path)
    before, after = (replay("show", path, "--json", "-", "--invocation", id_, expect=0).json["invocations"][0]
                     for path, id_ in ((recorded, result["invocations"][0]), (tmp_path / "capture.h5", 0)))
    before["id"] = 0
    for call in (before, after):
        for tensor in call["tensors"]:
            tensor["path"] = tensor["path"].split("/", 3)[3]
    assert before == after


# --- TensorBoard.


def fields(message):
    """A message of protocol buffers as [(field, value)], by its wire format."""
    found, at = [], 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.append((number, varint()))
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        part = message[at:at + size]
        assert len(part) == size
        at += size
        found.append((number, struct.unpack("<d" if kind == 1 else "<f", part)[0] if kind in (1, 5) else part))
    return found


def test_event_files(replay, export, demo_capture, tmp_path):
    result = export(demo_capture, "tensorboard", tmp_path / "logs" / "run")
    (name,) = os.listdir(tmp_path / "logs" / "run")
    assert "tfevents" in name and result["files"] == [str(tmp_path / "logs" / "run" / name)]
    first, *events = [dict(fields(record)) for record in records((tmp_path / "logs" / "run" / name).read_bytes())]
    assert first[3] == b"brain.Event:2" and first[1] > 1.6e9
    values = [dict(fields(dict(fields(event[5]))[1])) for event in events]
    assert all(event[2] == 0 for event in events)
    by_tag = {value[1].decode(): value for value in values}
    assert len(by_tag) == len(values)
    call = replay("run", demo_capture, "--device", "cpu", "--json", "-").json["invocations"][0]
    for comparison in call["comparisons"]:
        tag = f"{comparison['tensor']}/{comparison['observed']} against {comparison['expected']}/"
        assert by_tag[tag + "elements out of tolerance"][2] == comparison["mismatched"]
        assert by_tag[tag + "largest absolute difference"][2] == np.float32(comparison["max_abs"])
    assert by_tag["causes/cell_boundary"][2] == 1
    assert call["verdict"]["summary"].encode() in dict(fields(by_tag["verdict"][8]))[8]
    # Tensors, errors by level and stages.
    data = np.load(DATA / "h200_border_noalign_0.npz")
    for name, tensor in ("value", data["value"]), ("grad_sampling_locations", data["observed_grad_sampling_locations"]):
        expected = {"lowest": tensor.min(), "highest": tensor.max(), "norm": np.linalg.norm(tensor.astype(float)), "NaN": 0, "infinite": 0}
        assert {fact: by_tag[f"tensors/{name}/{fact}"][2] for fact in expected} == pytest.approx(expected)
        assert dict(fields(by_tag[f"tensors/{name}"][5]))[3] == tensor.size
    off = np.abs(data["observed_grad_sampling_locations"].astype(float) - data["reference_grad_sampling_locations"]).max((0, 1, 2, 4, 5))
    what = "grad_sampling_locations/recorded against reference/largest error/level "
    assert [by_tag[f"{what}{level}"][2] for level in range(4)] == pytest.approx(off)
    stages = replay("stages", demo_capture, "--json", "-").json["invocations"][0]["summary"]
    assert len(stages) == 9
    for stage in stages:
        assert by_tag[f"stages/{stage['stage']}/largest difference from float64"][2] == pytest.approx(stage["max_abs"], rel=1e-6)
    # The histogram of the errors, by NumPy.
    errors = data["observed_grad_sampling_locations"].astype(float) - data["reference_grad_sampling_locations"]
    histogram = dict(fields(by_tag["grad_sampling_locations/recorded against reference/error"][5]))
    assert (histogram[1], histogram[2], histogram[3]) == (errors.min(), errors.max(), errors.size)
    assert histogram[4] == pytest.approx(errors.sum()) and histogram[5] == pytest.approx((errors**2).sum())
    limits, counts = (np.frombuffer(histogram[field], "<f8") for field in (6, 7))
    edges = np.concatenate([[-np.inf], limits])
    np.testing.assert_array_equal(counts, np.histogram(errors, edges)[0])


def event_values(folder):
    """[(step, value by field)] of the one event file in a folder."""
    (name,) = os.listdir(folder)
    events = [dict(fields(record)) for record in records((folder / name).read_bytes())][1:]
    return [(event[2], dict(fields(dict(fields(event[5]))[1]))) for event in events]


def drawn_errors(off):
    """White without an error; from light to dark blue over six decades, up to the tolerance; red at it and beyond."""
    with np.errstate(divide="ignore"):
        share = np.clip(1 + np.log10(off) / 6, 0, 1)[..., None]
    blue = np.array([207, 225, 242]) + share * (np.array([8, 48, 107]) - np.array([207, 225, 242]))
    return np.where((off >= 1)[..., None], [215, 38, 30], np.where((off == 0)[..., None], 255, blue))


def test_error_images(export, demo_capture, tmp_path):
    """A picture for each level, read by another PNG reader, and one of the elements of each other gradient; by a tolerance that some of the
    errors come near. Small pictures are enlarged."""
    tolerance = 1e-6
    export(demo_capture, "tensorboard", tmp_path, "--atol", tolerance, "--rtol", tolerance)
    by_tag = {value[1].decode(): value for _, value in event_values(tmp_path)}
    data = dict(np.load(DATA / "h200_border_noalign_0.npz"))
    right = backward(data, padding_mode="border")

    def check(name, tag, wanted, size):
        given = dict(fields(by_tag[f"{name}/recorded against float64/error in tolerances/{tag}"][4]))
        assert (given[1], given[2], given[3]) == (wanted.shape[0] * size, wanted.shape[1] * size, 3)
        pixels = matplotlib.image.imread(io.BytesIO(given[4]))[..., :3] * 255
        np.testing.assert_allclose(pixels, drawn_errors(wanted).repeat(size, 0).repeat(size, 1), atol=1)
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 10

    def off(name):
        return np.abs(data[f"observed_{name}"] - right[name]) / (tolerance + tolerance * np.abs(right[name]))

    start, pixels = 0, off("grad_value").max((0, 2, 3))
    for level, (height, width) in enumerate(data["spatial_shapes"]):
        check("grad_value", f"level {level}", pixels[start:start + height * width].reshape(height, width), 64 // max(height, width))
        start += height * width
    check("grad_attention_weights", "elements", off("grad_attention_weights").reshape(500, 2, 12).max(1), 1)  # 1000 rows, two in a pixel


def test_event_files_by_tensorboard(replay, export, demo_capture, tmp_path):
    """Read back by TensorBoard itself, where it is installed."""
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    export(demo_capture, "tensorboard", tmp_path)
    events = event_accumulator.EventAccumulator(str(tmp_path), size_guidance={"images": 0})
    events.Reload()
    tags = events.Tags()
    assert [entry.value for entry in events.Scalars("causes/cell_boundary")] == [1]
    histogram = events.Histograms("grad_sampling_locations/recorded against reference/error")[0].histogram_value
    assert histogram.num == sum(histogram.bucket) == 24000
    assert len(tags["images"]) == 8 and "verdict" in tags["tensors"]
    assert b"The reference is wrong" in events.Tensors("verdict")[0].tensor_proto.string_val[0]


def test_steps_of_one_kernel(export, named_capture, tmp_path):
    result = export(named_capture, "tensorboard", tmp_path / "logs")
    assert result["invocations"] == [0, 1] and result["finding"] is None
    assert {step for step, _ in event_values(tmp_path / "logs")} == {0, 1}


def test_each_module_is_a_curve(export, tmp_path, rng):
    """Two training steps of a model with two layers: the calls of a layer are its steps."""
    calls = [Invocation(inputs, backward(inputs), "msda_triton", kernel="k", facts={"label": label})
             for label in ("first", "second", "second", "first") for inputs in [make_problem(rng)]]
    write_capture(tmp_path / "a.h5", calls)
    export(tmp_path / "a.h5", "tensorboard", tmp_path / "logs")
    norms = {(value[1].decode(), step): value[2] for step, value in event_values(tmp_path / "logs") if value[1].endswith(b"/value/norm")}
    wanted = [("msda first", 0), ("msda second", 0), ("msda second", 1), ("msda first", 1)]
    assert norms == pytest.approx({(f"{curve}/tensors/value/norm", step): np.linalg.norm(call.inputs["value"].astype(float))
                                   for (curve, step), call in zip(wanted, calls)})


# --- Files.


FORMATS = {"pytest": "a.py", "cpp": "a.cpp", "npz": "a.npz", "zip": "a.zip"}


@pytest.mark.parametrize("to", FORMATS)
def test_nothing_is_replaced_unasked(replay, export, small_capture, tmp_path, to):
    output = tmp_path / FORMATS[to]
    output.write_text("mine")
    assert "--force" in replay("export", small_capture, "--to", to, "-o", output, expect=2).err
    assert output.read_text() == "mine" and os.listdir(tmp_path) == [output.name]
    output.write_text("")  # --force replaces exports by exports (test_new_files.py), and empty files
    export(small_capture, to, output, "--force")
    assert output.read_bytes() and os.listdir(tmp_path) == [output.name]
    (tmp_path / "folder.py").mkdir()
    refused = replay("export", small_capture, "--to", "pytest", "-o", tmp_path / "folder.py", "--force", expect=2)
    assert "it is a folder" in refused.err


def test_the_file_beside_is_not_replaced_either(replay, demo_capture, tmp_path):
    (tmp_path / "a.npz").write_text("mine")
    refused = replay("export", demo_capture, "--to", "pytest", "-o", tmp_path / "a.py", expect=2)
    assert "a.npz: exists" in refused.err and os.listdir(tmp_path) == ["a.npz"]


def test_events_are_not_replaced_unasked(replay, export, small_capture, tmp_path):
    export(small_capture, "tensorboard", tmp_path)
    (name,) = os.listdir(tmp_path)
    before = (tmp_path / name).read_bytes()
    assert "--force" in replay("export", small_capture, "--to", "tensorboard", "-o", tmp_path, expect=2).err
    assert (tmp_path / name).read_bytes() == before
    export(small_capture, "tensorboard", tmp_path, "--force")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("to", ["npz", "zip"])
def test_the_capture_itself_is_never_replaced(replay, small_capture, tmp_path, to):
    capture = tmp_path / "a.h5"
    shutil.copy(small_capture, capture)
    os.link(capture, tmp_path / "same.h5")
    for name in ("a.h5", "same.h5"):
        refused = replay("export", capture, "--to", to, "-o", tmp_path / name, "--force", expect=2)
        assert " itself; give another name" in refused.err
    assert capture.read_bytes() == small_capture.read_bytes()


@pytest.mark.parametrize("to", FORMATS)
def test_a_full_disk_leaves_nothing(replay, demo_capture, tmp_path, to):
    refused = replay("export", demo_capture, "--to", to, "-o", tmp_path / FORMATS[to], expect=2,
                     preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)), __import__("signal").signal(25, 1)))
    assert len(refused.err.splitlines()) == 1 and re.search(f"{tmp_path / 'a'}[.][a-z]+: cannot (write|flush)", refused.err)
    assert os.listdir(tmp_path) == []


def test_refusals(replay, small_capture, demo_capture, tmp_path):
    assert "ends in .py" in replay("export", small_capture, "--to", "pytest", "-o", tmp_path / "a.txt", expect=2).err
    assert "--anonymous is for --to zip" in replay("export", small_capture, "--to", "npz", "-o", tmp_path / "a", "--anonymous", expect=2).err
    assert "cannot write it" in replay("export", small_capture, "--to", "npz", "-o", tmp_path / "no" / "a.npz", expect=2).err
    replay("export", small_capture, "--to", "word", "-o", tmp_path / "a", expect=2)
    assert replay("export", tmp_path / "missing.h5", "--to", "npz", "-o", tmp_path / "a", expect=2).err
    write_capture(tmp_path / "k.h5", Invocation({"x": np.zeros(3, np.float32)}, {}, "", kernel="another"))
    assert "is not replayed" in replay("export", tmp_path / "k.h5", "--to", "npz", "-o", tmp_path / "a", expect=3).err
    damaged = bytearray(demo_capture.read_bytes())
    value = np.load(DATA / "h200_border_noalign_0.npz")["value"].tobytes()
    damaged[damaged.index(value[:64]) + 5] ^= 1
    (tmp_path / "d.h5").write_bytes(damaged)
    assert "--damaged" in replay("export", tmp_path / "d.h5", "--to", "npz", "-o", tmp_path / "a", expect=2).err
    result = replay("export", tmp_path / "d.h5", "--to", "npz", "-o", tmp_path / "a", "--damaged", "--json", "-", expect=0).json
    assert result["altered"] == ["/invocations/000000/inputs/value"]


# --- Names, tolerances and files that a stranger brings.


ATTACK = "x\nimport os; os.mkdir('attacked')\n#\xff\\.h5"


@pytest.mark.parametrize("to", ["pytest", "cpp"])
def test_a_file_s_name_is_no_code(export, small_capture, demo_capture, tmp_path, to):
    for i, source in enumerate((small_capture, demo_capture)):  # tensors in the source, and beside it
        folder = tmp_path / str(i)
        folder.mkdir()
        capture = os.fsencode(folder) + b"/" + ATTACK.encode("latin-1")
        shutil.copy(source, capture)
        output = folder / f"out{SUFFIX[to]}"
        subprocess.run([REPLAY, "export", capture, "--to", to, "-o", output], check=True, capture_output=True)
        assert "import os; os.mkdir" in output.read_text()
        RUN[to](output, 1)
        assert not (folder / "attacked").exists()


@pytest.mark.parametrize("name", ["encoding=sine.h5", "a coding=raw_unicode_escape \\u000aimport os; os.mkdir('attacked')#.h5"])
def test_a_file_s_name_is_no_encoding(export, small_capture, tmp_path, name):
    """Python reads one (PEP 263) from the first two lines of a file."""
    shutil.copy(small_capture, tmp_path / name)
    output = tmp_path / "test_out.py"
    export(tmp_path / name, "pytest", output)
    RUN["pytest"](output, 1)
    assert not (tmp_path / "attacked").exists() and "coding" not in output.read_text().splitlines()[1]


def test_the_archive_s_name_is_no_code(export, demo_capture, tmp_path):
    output = tmp_path / "x\nimport os; os.mkdir('attacked')\n#.py"
    export(demo_capture, "pytest", output)
    (tmp_path / "run").mkdir()
    done = subprocess.run([sys.executable, output], cwd=tmp_path / "run", capture_output=True, text=True)
    assert done.returncode == 1 and "is out of tolerance" in done.stderr + done.stdout
    assert os.listdir(tmp_path / "run") == []


def test_fma_rounds_once():
    """A sum a little above the middle between two float32: rounding to float64 first would give the lower one. NumPy 1 makes an unsigned
    integer of 64 bits and a Python integer a float64, which has no last bit to look at."""
    arithmetic = {"np": np}
    exec("import math, functools, operator\nfrom fractions import Fraction\n"
         + (SOURCE / "replay" / "export" / "python" / "arithmetic.py").read_text(), arithmetic)
    numbers = np.float32(8391461), np.float32(np.ldexp(8385756, -70)), np.float32(1)
    assert float(arithmetic["fma"](*numbers)).hex() == "0x1.0000020000000p+0"


def test_an_archive_by_another_tolerance(replay, export, small_capture, tmp_path):
    printed = export(small_capture, "zip", tmp_path / "issue.zip", "--atol", 1e-9, "--rtol", 1e-9)
    with zipfile.ZipFile(tmp_path / "issue.zip") as archive:
        archive.extractall(tmp_path / "issue")
    result = replay("run", "capture.h5", "--device", "cpu", "--json", "-", cwd=tmp_path / "issue", expect=1).json
    assert result == json.loads((tmp_path / "issue" / "run.json").read_text())
    assert result["invocations"][0]["tolerance"] == {"atol": 1e-9, "rtol": 1e-9} and printed["finding"]["tolerance"]["atol"] == 1e-9


def test_nothing_to_compare_is_not_within_tolerance(replay, tmp_path, rng):
    write_capture(tmp_path / "a.h5", Invocation(make_problem(rng), {}, "deformable_detr"))
    for to in ("pytest", "cpp"):
        refused = replay("export", tmp_path / "a.h5", "--to", to, "-o", tmp_path / f"a{SUFFIX[to]}", expect=2)
        assert refused.err == replay("run", tmp_path / "a.h5", "--quiet", expect=2).err and "nothing to compare" in refused.err


def test_anonymous_keeps_no_free_text(replay, export, tmp_path, rng):
    """Attributes that no convention is, names of results, roles: of both operators that reproducers know."""
    def note(path):  # as another writer may
        with h5py.File(path, "r+") as file:
            file["invocations/000000"].attrs.update({"note": "secretive", "author": "secretive"})
            _write_contents(file)

    texts = {"time": "2026-01-01T00:00:00Z"}
    call = read_capture(write_msda(tmp_path / "m.h5", rng, "grad_value", reference=True)).invocations[0]
    call.facts.update(texts)
    reference = call.results.pop("torch")
    call.results = {"secretive torch": reference, "secretive": Result(reference.tensors, "", "grid_sample")}
    write_capture(tmp_path / "m.h5", call, overwrite=True)
    note(tmp_path / "m.h5")
    call = OPERATORS["grid_sample"].recorded("2d-float32-bilinear-border-1")
    call.outputs["grad_grid"] *= -1
    call.facts.update(texts)
    write_capture(tmp_path / "g.h5", call)
    note(tmp_path / "g.h5")
    for name in ("m", "g"):
        there = tmp_path / name
        printed = export(tmp_path / f"{name}.h5", "zip", tmp_path / f"{name}.zip", "--anonymous")
        with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
            archive.extractall(there)
        everything = b"".join((there / file).read_bytes() for file in os.listdir(there))
        assert b"secretive" not in everything and str(tmp_path).encode() not in everything
        assert "time of recording" in printed["tells"] and "time of recording" in (there / "README.md").read_text()
        result = replay("run", "capture.h5", "--device", "cpu", "--json", "-", cwd=there, expect=1).json
        assert result == json.loads((there / "run.json").read_text())
        if name == "m":
            assert "result 1" in {comparison["expected"] for comparison in result["invocations"][0]["comparisons"]} | {
                comparison["observed"] for comparison in result["invocations"][0]["comparisons"]}


def test_torch_is_asked_where_it_computed_one_side(export, tmp_path, rng):
    """torch's grid_sample is none of two other dialects' arithmetics."""
    inputs = make_problem(rng, queries=6, channels=4, levels=((3, 4), (2, 3)))
    right = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    wrong = {**right, "grad_value": -right["grad_value"]}
    for dialect, has_torch in (("msda_triton", False), ("grid_sample", True)):
        call = Invocation(inputs, wrong, "deformable_detr", results={"other": Result(right, "reference", dialect)})
        write_capture(tmp_path / "a.h5", call, overwrite=True)
        result = export(tmp_path / "a.h5", "pytest", tmp_path / "a.py", "--force")
        assert result["finding"]["against"] == "reference"
        assert ("test_against_torch" in (tmp_path / "a.py").read_text()) == has_torch


@pytest.mark.parametrize("to, name, json_name", [
    ("pytest", "a.py", "a.py"), ("pytest", "a.py", "a.npz"), ("cpp", "a.cpp", "./a.bin"), ("npz", "a.npz", "a.npz"), ("zip", "a.zip", "a.zip"),
])
def test_json_does_not_replace_the_output(replay, demo_capture, tmp_path, to, name, json_name):
    refused = replay("export", demo_capture, "--to", to, "-o", tmp_path / name, "--json", json_name, cwd=tmp_path, expect=2)
    assert "which the command writes; give another name" in refused.err and os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def slow_to_export(tmp_path_factory):
    """Its values are random, so that an archive takes its time; its gradients are right, so that nothing else does."""
    inputs = make_problem(np.random.default_rng(1), queries=2000, heads=8, channels=32, levels=((128, 128),))
    inputs["grad_output"][:] = 0
    outputs = {name: array.astype(np.float32) for name, array in backward_of_zeros(inputs).items()}
    capture = tmp_path_factory.mktemp("slow") / "a.h5"
    write_capture(capture, Invocation(inputs, outputs, "deformable_detr"))
    return capture


@pytest.mark.parametrize("to", ["zip", "npz"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(tmp_path, slow_to_export, to, number):
    """While libzip, too, has a temporary file of its own there."""
    folder = tmp_path / "out"
    folder.mkdir()
    child = subprocess.Popen([REPLAY, "export", slow_to_export, "--to", to, "-o", folder / "a", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while child.poll() is None:
        if any(path.name.startswith("1.") and path.stat().st_size > 0 for path in folder.glob(".*/*")):
            break
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == -number and os.listdir(folder) == []


def backward_of_zeros(inputs):
    """The gradients' shapes are all that matters."""
    return {f"grad_{name}": np.zeros_like(inputs[name]) for name in ("value", "sampling_locations", "attention_weights")}


def test_all_files_are_replaced_or_none(replay, demo_capture, tmp_path):
    """The second of two cannot be: a folder is in its place."""
    (tmp_path / "a.npz").touch(0o640)
    (tmp_path / "a.py").touch()
    replay("export", demo_capture, "--to", "pytest", "-o", tmp_path / "a.py", "--force", expect=0)
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o640 and sorted(os.listdir(tmp_path)) == ["a.npz", "a.py"]
    assert (tmp_path / "a.npz").read_bytes()
