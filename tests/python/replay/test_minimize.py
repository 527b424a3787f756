"""msda-replay minimize: the cause stays, recorded bits stay where nothing of theirs was cut, and it stops and continues."""

import json
import lzma
import os
import signal
import subprocess
import time

import h5py
import jsonschema
import numpy as np
import pytest
from conftest import DATA, REPLAY, SOURCE
from support.operators import OPERATORS, operator  # noqa: F401
from support.problems import backward, make_problem

from msda_replay import Invocation, Result, read_capture, write_capture
from msda_replay.capture import ABOUT, FORMAT_PAGE
from msda_replay.digest import digest

SCHEMA = json.loads((SOURCE / "docs" / "minimize.schema.json").read_text())


@pytest.fixture
def minimize(replay, tmp_path):
    """Minimizes a capture; returns the JSON, the small invocation and what `run` says of it."""

    def run(capture, *flags):
        small = tmp_path / "small.h5"
        result = replay("minimize", capture, "-o", small, "--force", "--from-scratch", "--json", "-", *flags, expect=0).json
        jsonschema.validate(result, SCHEMA)
        replay("verify", small, expect=0)
        explained = replay("run", small, "--device", "cpu", "--json", "-", expect=1).json
        assert explained["verdict"]["causes"].get(result["cause"])
        assert explained["invocations"][0]["groups"][0]["cause"] == result["cause"] or not result["headline"]
        (call,) = read_capture(small).invocations
        return result, call, explained

    return run


def test_a_real_failure(minimize, demo_capture):
    result, call, explained = minimize(demo_capture)
    assert result["cause"] == "cell_boundary" and result["at_fault"] == "reference" == explained["verdict"]["at_fault"]
    assert {result["sizes"][symbol] for symbol in "BMQLP"} == {1} and result["sizes"]["D"] <= 4
    assert result["recorded_sizes"]["Q"] == 1000 and result["element"]["recorded_index"] == [0, 948, 0, 0, 2, 0]
    # The two float32 formulas of the x coordinate, by hand: they must still give neighbouring cells.
    x, width = call.inputs["sampling_locations"][0, 0, 0, 0, 0, 0], np.float32(call.inputs["spatial_shapes"][0, 1])
    entry, half = np.float32(1), np.float32(0.5)
    of_kernel = x * width - half
    of_reference = (((np.float32(2) * x - entry) + entry) * width - entry) * half
    assert np.floor(of_kernel) != np.floor(of_reference)
    assert "mode" in call.facts["minimized_replayed"] and "invocation 0" in call.facts["minimized_from"]


def test_the_file_says_what_it_is_and_what_was_found(minimize, demo_capture, tmp_path):
    _, _, explained = minimize(demo_capture)
    with h5py.File(tmp_path / "small.h5") as small:
        assert small.attrs["verdict"] == explained["verdict"]["summary"]
        assert (small.attrs["about"], small.attrs["format_page"]) == (ABOUT, FORMAT_PAGE)
    with h5py.File(demo_capture) as written:
        assert (written.attrs["about"], written.attrs["format_page"]) == (ABOUT, FORMAT_PAGE)
        assert "verdict" not in written.attrs
    assert (SOURCE / FORMAT_PAGE.split()[0]).is_file()


def reaching(inputs, query, s, m):
    """Whether the query's samples add to the pixel: by the gradient itself, with every other query's grad_output zero."""
    alone = {**inputs, "grad_output": np.where(np.arange(inputs["grad_output"].shape[1])[None, :, None, None] == query,
                                               inputs["grad_output"], 0)}
    return bool(np.any(backward(alone)["grad_value"][0, s, m]))


def test_a_mistake_in_a_sum_keeps_its_addends_and_its_bits(minimize, tmp_path, rng):
    inputs = make_problem(rng)
    grads = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    wrong = (0, 7, 1, 3)
    grads["grad_value"][wrong] += 1
    write_capture(tmp_path / "whole.h5", Invocation(inputs=inputs, outputs=grads, dialect="deformable_detr", atol=1e-3, rtol=1e-2))
    result, call, _ = minimize(tmp_path / "whole.h5")
    assert result["cause"] == "implementation_error" and result["at_fault"] == "observed"
    reach = [q for q in range(20) if reaching(inputs, q, 7, 1)]
    assert 0 < len(reach) < 20 and result["sizes"]["Q"] == len(reach)
    assert result["sizes"]["M"] == result["sizes"]["L"] == result["sizes"]["D"] == 1
    np.testing.assert_array_equal(call.outputs["grad_value"][tuple(result["element"]["index"])], grads["grad_value"][wrong])
    assert not any(np.isclose(call.inputs["grad_output"], 0).all(axis=(0, 2, 3)))  # a query that adds nothing would be cut


@pytest.fixture
def grid_sample_call():
    return OPERATORS["grid_sample"].recorded("2d-float32-bilinear-border-1")


def test_grid_sample(minimize, grid_sample_call, tmp_path):
    where, whole, gradients = (0, 4, 0, 0), tmp_path / "whole.h5", grid_sample_call.outputs
    gradients["grad_grid"][where] *= -1
    write_capture(whole, grid_sample_call)
    result, call, explained = minimize(whole)
    assert result["operator"] == "grid_sample" and result["cause"] == "implementation_error"
    assert result["sizes"] == {"N": 1, "C": 3, "H_out": 1, "W_out": 1}  # what it would have made of fewer channels nobody knows
    assert explained["verdict"]["at_fault"] == "observed"
    assert call.outputs["grad_grid"][0, 0, 0, 0] == gradients["grad_grid"][where]
    # Where only the addends of other samples are missing, the arithmetic was run again, and says so.
    assert {entry["tensor"] for entry in result["replayed"]} <= {"outputs/grad_input", "outputs/grad_grid"}


def test_a_gradient_of_a_sample_needs_no_other_sample(minimize, grid_sample_call, tmp_path, rng):
    """Also where the other gradients are reported first without those that are cut."""
    off = {name: array * (1 + rng.uniform(-3e-7, 3e-7, array.shape)).astype(np.float32) for name, array in grid_sample_call.outputs.items()}
    grid_sample_call.results = {"reference": Result(off, "reference")}
    write_capture(tmp_path / "whole.h5", grid_sample_call)
    for index in ((0, 4, 0, 0), (0, 2, 0, 1), (1, 5, 4, 1), (1, 1, 3, 1)):
        element = f"grad_grid[{','.join(map(str, index))}]"
        result, call, _ = minimize(tmp_path / "whole.h5", "--atol", "0", "--rtol", "1e-8", "--element", element)
        assert result["cause"] in ("accumulation_order", "ill_conditioned")
        assert result["sizes"]["N"] == result["sizes"]["H_out"] == result["sizes"]["W_out"] == 1, (element, result["sizes"])


def test_a_tight_tolerance_becomes_tiny(minimize, operator, tmp_path):
    call = operator.recorded([variant for variant in operator.typed("float32") if "nearest" not in variant][-1])
    write_capture(tmp_path / "whole.h5", call)
    result, small, _ = minimize(tmp_path / "whole.h5", "--atol", "0", "--rtol", "0")
    assert result["at_fault"] == "tolerance" or result["cause"] in ("rounding", "ill_conditioned", "accumulation_order")
    before, after = (sum(array.size for array in entry.inputs.values()) for entry in (call, small))
    assert after <= 0.5 * before
    if operator.name == "grid_sample":
        assert result["sizes"]["N"] == result["sizes"]["H_out"] == result["sizes"]["W_out"] == 1


def test_boxes_stay_on_images_that_there_are(minimize, tmp_path, rng):
    """Rounder numbers were tried for the image of a box, too: -1, and 4 for 3, and memory beyond the gradient was written."""
    boxes = np.array([[image, 1, 1, 5, 4] for image in (2, 0, 3, 2, 2, 1)], np.float32)
    wrong = np.zeros((4, 2, 6, 7), np.float32)
    wrong[2, 0, 2, 3] = np.inf
    facts = {"spatial_scale": "1", "sampling_ratio": 2, "aligned": 0, "input_batch": 4, "input_height": 6, "input_width": 7}
    inputs = {"boxes": boxes, "grad_output": rng.standard_normal((6, 2, 2, 2)).astype(np.float32)}
    path = tmp_path / "a.h5"
    write_capture(path, Invocation(inputs, {"grad_input": np.zeros_like(wrong)}, "", results={"reference": Result({"grad_input": wrong}, "reference")},
                                   facts=facts))
    result, call, _ = minimize(path, "--cause", "non_finite")
    assert result["cause"] == "non_finite" and set(call.inputs["boxes"][:, 0]) <= {0, 1, 2, 3}


def test_which_finding(minimize, replay, tmp_path, rng):
    inputs = make_problem(rng)
    grads = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    grads["grad_attention_weights"][0, 3, 0, 1, 1] = np.nan
    grads["grad_sampling_locations"][0, 5, 1, 0, 0, 1] *= -3
    whole, small = tmp_path / "whole.h5", tmp_path / "small.h5"
    write_capture(whole, Invocation(inputs=inputs, outputs=grads, dialect="deformable_detr", atol=1e-3, rtol=1e-2))
    result, _, _ = minimize(whole, "--element", "grad_attention_weights[0,3,0,1,1]")
    assert result["element"]["recorded_index"] == [0, 3, 0, 1, 1]
    another, _, _ = minimize(whole, "--cause", "implementation_error")
    assert another["cause"] == "implementation_error"
    small.unlink()
    for flags, words in (
        (["--cause", "bad"], "no such cause"), (["--cause", "cell_boundary"], "nothing to minimize"),
        (["--element", "grad_value[0,0,0,0]"], "is not out of tolerance"), (["--element", "x[0]"], "no such tensor"),
    ):
        assert words in replay("minimize", whole, "-o", small, *flags, expect=2).err
        assert not small.exists()
    small.write_text("mine")
    assert "--force" in replay("minimize", whole, "-o", small, expect=2).err
    assert small.read_text() == "mine"


@pytest.fixture
def long_search(tmp_path):
    """A capture whose search takes seconds, and the command."""
    whole = tmp_path / "whole.h5"
    whole.write_bytes(lzma.decompress((DATA / "judged" / "bfloat16_ten_percent.h5.xz").read_bytes()))
    return [str(REPLAY), "minimize", str(whole), "-o", str(tmp_path / "small.h5")]


def end_once_begun(command, state, how):
    """Ends the command when it has written its state for the first time; returns its status."""
    before = state.read_bytes() if state.exists() else b""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not state.exists() or state.read_bytes() == before:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(how)
    return process.wait(60)


def test_continues_after_a_kill(long_search, tmp_path):
    state, small = tmp_path / "small.h5.state", tmp_path / "small.h5"
    assert end_once_begun(long_search, state, signal.SIGKILL) == -signal.SIGKILL
    assert not small.exists()
    left = {path.name for path in tmp_path.iterdir()}  # also the state's next version, if it was being written
    before = json.loads(state.read_text())["reached"]["trials"]
    # Stopped again, it has gone on from there, and leaves the best so far.
    assert end_once_begun(long_search, state, signal.SIGINT) == 128 + signal.SIGINT
    assert json.loads(state.read_text())["reached"]["trials"] > before
    assert read_capture(small).invocations[0].facts["minimized_element"].startswith("grad_sampling_locations")
    assert {path.name for path in tmp_path.iterdir()} == left | {"small.h5"}


def test_a_state_of_something_else(long_search, replay, tmp_path):
    state = tmp_path / "small.h5.state"
    end_once_begun(long_search, state, signal.SIGKILL)
    assert "--from-scratch" in replay(*long_search[1:], "--atol", "0.5", expect=2).err
    state.write_text(state.read_text()[:-40])
    assert "remove it" in replay(*long_search[1:], expect=2).err


@pytest.mark.parametrize("kept", [[-1], [10**6], [2**62], [1, 0], [0, 0], [], [0.5], [True], "0", "too many"], ids=str)
def test_a_state_that_somebody_else_wrote(begun, replay, tmp_path, kept):
    """Places of `kept` were used unchecked: 25 of 131 files ended in SIGSEGV or a damaged heap. A digest is no signature."""
    whole, state = begun
    reached = json.loads(state)["reached"]
    reached["kept"][0] = kept if kept != "too many" else list(range(100_000))
    text = json.dumps(reached, separators=(",", ":"))
    (tmp_path / "small.h5.state").write_text(json.dumps({**json.loads(state), "reached": reached, "digest": digest(text.encode())}))
    done = replay("minimize", whole, "-o", tmp_path / "small.h5", expect=2)
    assert "small.h5.state: it is damaged; remove it, or give --from-scratch" in done.err and not (tmp_path / "small.h5").exists()


def test_files_that_are_no_state(begun, replay, tmp_path):
    whole, state = begun
    small, beside = tmp_path / "small.h5", tmp_path / "small.h5.state"
    (tmp_path / "mine").write_bytes(state)
    for make in (lambda: os.mkfifo(beside), lambda: beside.symlink_to("/dev/zero"), lambda: beside.symlink_to(tmp_path / "mine"),
                 lambda: beside.write_text("[" * 200_000 + "]" * 200_000), lambda: beside.write_text("mine"),
                 lambda: beside.write_text('{"subject": 0, "digest": "x", "reached": ' + "[" * 200_000 + "]" * 200_000 + "}")):
        make()
        for flags in ((), ("--from-scratch",)):
            assert "it is no state of minimize, and kept" in replay("minimize", whole, "-o", small, *flags, expect=2).err
            assert os.path.lexists(beside) and not small.exists()
        beside.unlink()
    assert (tmp_path / "mine").read_bytes() == state


def test_a_state_lets_no_other_file_be_replaced(begun, replay, tmp_path):
    whole, state = begun
    small = tmp_path / "small.h5"
    (tmp_path / "small.h5.state").write_bytes(state)
    small.write_text("made after the kill, by somebody else")
    assert "exists; give --force to replace it" in replay("minimize", whole, "-o", small, expect=2).err
    assert small.read_text().startswith("made after")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A capture, and a state of its search."""
    folder = tmp_path_factory.mktemp("state")
    whole, state = folder / "whole.h5", folder / "small.h5.state"
    whole.write_bytes(lzma.decompress((DATA / "judged" / "bfloat16_ten_percent.h5.xz").read_bytes()))
    end_once_begun([str(REPLAY), "minimize", str(whole), "-o", str(folder / "small.h5")], state, signal.SIGKILL)
    return whole, state.read_bytes()
