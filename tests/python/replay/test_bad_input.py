"""Bad usage and bad captures: the right exit status, one clear line, no crash."""

import os
import random
import shutil

import h5py
import numpy as np
import pytest
from support.problems import backward, make_problem

from msda_replay import Invocation, write_capture

COMMANDS = ("run", "list", "show", "stages", "verify")


def expect_line(finished, status, *parts):
    assert finished.status == status, finished.out + finished.err
    lines = finished.err.strip().splitlines()
    assert len(lines) == 1, finished.err
    assert lines[0].startswith("msda-replay: ")
    for part in parts:
        assert str(part) in lines[0], lines[0]


@pytest.fixture
def capture(tmp_path, rng):
    path = tmp_path / "a.h5"
    inputs = make_problem(rng)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    write_capture(path, Invocation(inputs, outputs, "msda_triton", atol=1e-3, rtol=1e-2))
    return path


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_part_of_a_capture_is_said_to_be_part(replay, capture, share):
    """Half a download: how much is missing, and what to do."""
    whole = capture.read_bytes()
    capture.write_bytes(whole[: int(share * len(whole))])
    for command in COMMANDS:
        expect_line(replay(command, capture), 2, f"{capture}: is truncated: it has {capture.stat().st_size} of {len(whole)} bytes", "copy it again")


def put(path, name, array, **options):
    """Replaces a dataset, digest and all."""
    with h5py.File(path, "r+") as file:
        if name in file:
            del file[name]
        if array is not None:
            file.create_dataset(name, data=array, **options)


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_no_captures(replay, tmp_path, command):
    expect_line(replay(command, tmp_path / "missing.h5"), 2, tmp_path / "missing.h5", "no such file")
    expect_line(replay(command, tmp_path), 2, "is a folder, and stages takes one capture" if command == "stages" else "no capture")
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    expect_line(replay(command, text), 2, text, "cannot read it as HDF5")
    another = tmp_path / "other.h5"
    h5py.File(another, "w").close()
    expect_line(replay(command, another), 2, another, "not a capture")


@pytest.mark.parametrize("command", COMMANDS)
def test_truncated_at_50_places(replay, demo_capture, tmp_path, command):
    size = os.path.getsize(demo_capture)
    places = random.Random(7)
    path = tmp_path / "cut.h5"
    for _ in range(50 if command == "run" else 10):
        shutil.copy(demo_capture, path)
        held = places.randrange(size)
        os.truncate(path, held)
        has_superblock = held >= 96
        expect_line(replay(command, path), 2, path, f"is truncated: it has {held} of {size} bytes; copy it again" if has_superblock else "")


def test_other_format_versions(replay, capture):
    for version in (0, 2, -5):
        with h5py.File(capture, "r+") as file:
            file.attrs["format_version"] = version
        expect_line(replay("run", capture), 2, capture, f"has format version {version}, this program reads version 1")


def test_tensors_that_do_not_fit(replay, capture, rng):
    inputs = "invocations/000000/inputs/"
    with h5py.File(capture) as file:
        original = {name: dataset[()] for name, dataset in file[inputs].items()}

    def expect(name, array, *parts):
        put(capture, inputs + name, array)
        expect_line(replay("run", capture), 2, capture, *parts)
        put(capture, inputs + name, original[name])

    expect("value", original["value"][0], "value has rank 3, not 4", "[batch, pixel, head, channel]")
    expect("value", original["value"][:, 1:], "the levels do not add up", "42 pixels, value has 41")
    expect("value", original["value"].astype(np.int64), "value has type int64")
    expect("value", None, "inputs has no value")
    expect("spatial_shapes", original["spatial_shapes"] * -1, "level 0 is -6 x -5; sides go from 1")
    expect("spatial_shapes", np.array([[2**40, 2**40], [3, 4]]), "sides go from 1 to 16777216")
    expect("spatial_shapes", np.array([[2**24, 2**24], [3, 4]]), "the levels do not add up")
    expect("spatial_shapes", original["spatial_shapes"].astype(float), "has type float64, not int32 or int64")
    expect("attention_weights", original["attention_weights"][:, 1:], "attention_weights has shape")
    expect("sampling_locations", original["sampling_locations"][..., :1], "sampling_locations has shape")
    expect("grad_output", original["grad_output"][..., :-1], "grad_output has shape")
    put(capture, inputs + "level_start_index", np.array([0, 29]))
    expect_line(replay("run", capture), 2, "level_start_index: level 1 starts at 29, but the levels before it end at 30")
    put(capture, inputs + "level_start_index", np.array([0, 30]))
    replay("run", capture, expect=0)
    put(capture, "invocations/000000/outputs/grad_value", original["value"][:, :5])
    expect_line(replay("run", capture), 2, "outputs/grad_value has shape [1, 5, 2, 8], not [1, 42, 2, 8]")
    put(capture, "invocations/000000/outputs/grad_value", original["value"].astype(np.int32))
    expect_line(replay("run", capture), 2, f"{capture}: /invocations/000000/outputs/grad_value has type int32, ")


def test_sizes_that_no_file_holds(replay, capture):
    put(capture, "invocations/000000/inputs/value", None)
    with h5py.File(capture, "r+") as file:
        file.create_dataset("invocations/000000/inputs/value", shape=(2**30, 2**20, 2, 8), dtype="f4", chunks=(1, 1, 2, 8))
    expect_line(replay("run", capture), 2, "the file holds 0 bytes of it")


def test_conventions_that_nobody_knows(replay, capture):
    for name, value in (("dialect", "cudnn"), ("padding_mode", "reflection")):
        with h5py.File(capture, "r+") as file:
            old = file["invocations/000000"].attrs[name]
            file["invocations/000000"].attrs[name] = value
        expect_line(replay("run", capture), 2, f'unknown {name} "{value}"', "there are")
        with h5py.File(capture, "r+") as file:
            file["invocations/000000"].attrs[name] = old
    with h5py.File(capture, "r+") as file:  # without one, it is another operator's kernel
        file["invocations/000000"].attrs["dialect"] = ""
    for command in ("run", "stages"):
        expect_line(replay(command, capture), 3, capture, "is known only by its machine code")
    with h5py.File(capture, "r+") as file:
        file["invocations/000000"].attrs["dialect"] = "deformable_detr"
        file["invocations/000000"].attrs["align_corners"] = True
    expect_line(replay("run", capture), 2, "deformable_detr supports padding zeros and align_corners false only")


def test_recorded_tolerance_that_is_none(replay, capture):
    for value in (np.nan, -1.0, np.inf):
        with h5py.File(capture, "r+") as file:
            file["invocations/000000"].attrs["atol"] = value
        expect_line(replay("run", capture), 2, capture, "its tolerance is atol")


@pytest.mark.parametrize(
    "status, arguments, part",
    [
        (2, ("--atol", "nan"), "--atol nan"),
        (2, ("--rtol", "-1"), "--rtol -1"),
        (2, ("--atol", "inf"), "--atol inf"),
        (2, ("--invocation", "7"), "has no invocation 7"),
        (2, ("--invocation", "-1"), "has no invocation -1"),
        (2, ("--invocation", "first"), "--invocation first: give a number or all"),
        (2, ("--mode", "quantum"), "--mode quantum: no such mode"),
        (2, ("--mode", "deterministic,"), "no such mode"),
        (2, ("--mode", "mixed"), "say which stages"),
        (2, ("--mode", "mixed", "--float64-stages", "all"), "--float64-stages all: no such stage"),
        (3, ("--mode", "original"), "needs a CUDA device"),
        (3, ("--mode", "deterministic,original"), "needs a CUDA device"),
        (3, ("--device", "cuda"), "--device cuda"),
        (3, ("--device", "cuda:1"), "--device cuda:1"),
        (2, ("--device", "cuda:x"), "--device cuda:x"),
        (2, ("--device", "tpu"), "--device tpu"),
        (2, ("--repeat", "0"), "--repeat 0"),
        (2, ("--threads", "-2"), "--threads -2"),
        (2, ("--threads", "1000000"), "--threads 1000000"),
        (2, ("--json", "/nowhere/at/all.json"), "/nowhere/at/all.json: cannot write it"),
    ],
)
def test_flags(replay, capture, status, arguments, part):
    expect_line(replay("run", capture, *arguments), status, part)


def test_elements_of_stages(replay, capture):
    for element in ("grad_values[0,0,0,0]", "grad_value", "grad_value[0]", "grad_value[0,99,0,0]", "grad_value[0,0,0,-1]",
                    "grad_value[0,0,0,0", "grad_value[0,0,0,0]x", "grad_value[a,0,0,0]", "grad_value[0,0,0,0,0]", "[0]", ""):
        expect_line(replay("stages", capture, "--element", element), 2, "--element")


def test_usage(replay, capture):
    for arguments in ((), ("run",), ("walk", capture), ("run", capture, "--no-such-flag"), ("run", capture, "extra")):
        finished = replay(*arguments, expect=2)
        assert finished.err
    for arguments in (("--help",), ("run", "--help"), ("--version",)):
        assert replay(*arguments, expect=0).out


def test_capture_without_invocations(replay, tmp_path):
    path = tmp_path / "empty.h5"
    write_capture(path, [])
    expect_line(replay("run", path), 2, "holds no invocations")
    assert "0 invocations" in replay("list", path, expect=0).words


def test_empty_tensors(replay, tmp_path, rng):
    for sizes in ({"batch": 0}, {"queries": 0}, {"points": 0}, {"channels": 0}, {"heads": 0}):
        inputs = make_problem(rng, **sizes)
        path = tmp_path / "a.h5"
        write_capture(path, Invocation(inputs, {n: a.astype(np.float32) for n, a in backward(inputs).items()}, "msda_triton"),
                      overwrite=True)
        for command in COMMANDS:
            replay(command, path, expect=0)


def test_damage_is_named_by_verify(replay, demo_capture, tmp_path):
    path = tmp_path / "damaged.h5"
    shutil.copy(demo_capture, path)
    with h5py.File(path) as file:
        offset = file["invocations/000000/outputs/grad_value"].id.get_offset()
    with open(path, "r+b") as file:
        file.seek(offset + 12345)
        byte = file.read(1)[0]
        file.seek(offset + 12345)
        file.write(bytes([byte ^ 1]))
    finished = replay("verify", path, expect=2)
    assert "objects damaged" in finished.err and "1 of " in finished.err
    assert "/invocations/000000/outputs/grad_value is damaged" in finished.err
    report = replay("verify", path, "--json", "-", expect=2).json
    assert [d["object"] for d in report["damaged"]] == ["/invocations/000000/outputs/grad_value"]
    assert "every digest is right" in replay("verify", demo_capture, expect=0).words
    put(path, "invocations/000000/inputs/extra", np.zeros(3))
    assert "extra has no digest" in replay("verify", path, expect=2).err


@pytest.mark.parametrize("command", [
    ["run", "CAPTURE", "--json", "CAPTURE"],
    ["show", "CAPTURE", "--json", "CAPTURE"],
    ["verify", "CAPTURE", "--json", "LINK"],
    ["stress", "CAPTURE", "--runs", "1", "--curve-runs", "0", "--atol", "1e-3", "--rtol", "1e-2", "--state", "CAPTURE"],
    ["minimize", "CAPTURE", "-o", "CAPTURE", "--force"],
    ["minimize", "CAPTURE", "-o", "LINK", "--force"],
    ["recover", "CAPTURE", "-o", "CAPTURE", "--force"],
    ["report", "CAPTURE", "-o", "CAPTURE", "--force"],
    ["export", "CAPTURE", "--to", "npz", "-o", "CAPTURE", "--force"],
    ["run", "CAPTURE", "--save-replays", "CAPTURE"],
], ids=" ".join)  # fmt: skip
def test_no_command_replaces_a_capture_by_its_result(replay, demo_capture, tmp_path, command):
    """Not even with --force: the capture may be the only trace of a failure."""
    capture = tmp_path / "a.h5"
    shutil.copy(demo_capture, capture)
    before = capture.read_bytes()
    (tmp_path / "link.h5").symlink_to(capture)
    names = {"CAPTURE": capture, "LINK": tmp_path / "link.h5"}
    done = replay(*(names.get(word, word) for word in command), expect=2)
    assert capture.read_bytes() == before
    assert len(done.err.splitlines()) == 1 and ".h5" in done.err
