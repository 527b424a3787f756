"""The source lines of atomic instructions, from the line table of a cubin that nvcc writes here."""

import json
import random
import re
import shutil

import h5py
import numpy as np
import pytest
from support.adapters import POISON
from support.launches import CLIENT
from support.lined_cubins import PROGRAM, cubins, needs_nvcc  # noqa: F401
from support.original import on_stand_in
from support.recording import pytestmark, record  # noqa: F401

ATOMIC_LINE = next(i for i, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "atomicAdd(" in text)


@pytest.fixture
def captured(tmp_path, cubins):
    def make(kernel, architecture="sm_90", with_lines=True):
        capture, adapter = tmp_path / "a.h5", tmp_path / "mine.json"
        adapter.write_text(json.dumps(POISON))
        done = record(CLIENT, "--kernel", f"poison_{kernel}", "--image", cubins("sm_90", with_lines),
                      options=["-o", capture, "--force", "--adapter", adapter])
        assert done.returncode == 0, done.stderr
        if architecture != "sm_90":  # which the stand-in would not load
            image = np.frombuffer(cubins(architecture, with_lines).read_bytes(), np.uint8)
            with h5py.File(capture, "r+") as file:
                (code,) = file["kernels"].values()
                del code["image"]
                code["image"] = image
                code.attrs["architecture"] = architecture
        return capture

    return make


def atomics(replay, capture):
    return replay("show", capture, "--json", "-", expect=0).json["run"]["kernels"][0]["atomics"]


@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])  # relocations without and with addends
def test_the_line_of_an_inlined_atomic(replay, captured, architecture):
    capture = captured("order_only", architecture)
    (place,) = atomics(replay, capture)
    *inner, outermost = place["lines"]
    assert (place["opcode"], place["count"]) == ("RED", 1) and outermost == {"file": str(PROGRAM), "line": ATOMIC_LINE}
    assert [entry["file"].rsplit("/", 1)[1] for entry in inner] == ["sm_20_atomic_functions.hpp"]
    text = replay("show", capture, expect=0).out
    assert re.search(rf"^    RED at {re.escape(str(PROGRAM))}:{ATOMIC_LINE},\s+through\s+sm_20_atomic_functions.hpp:\d+$", text, re.M)


@needs_nvcc
def test_code_without_atomics_or_without_lines(replay, captured):
    assert atomics(replay, captured("none")) == []
    assert atomics(replay, captured("order_only", with_lines=False)) == []


@needs_nvcc
def test_poison_names_the_line(replay, captured):
    done = replay("run", captured("order_only"), "--mode", "original", "--poison", expect=0, env=on_stand_in())
    assert f" RED at {PROGRAM}:{ATOMIC_LINE}, through" in done.words
    done = replay("run", captured("order_only"), "--mode", "original", "--poison", "--json", "-", expect=0, env=on_stand_in())
    assert [atomic["lines"][-1]["line"] for atomic in done.json["relaunched"][0]["poison"]["atomics"]] == [ATOMIC_LINE]


@needs_nvcc
def test_damaged_line_tables(replay, captured, tmp_path):
    """Any bytes give some lines or none, and no crash."""
    capture, rng = captured("order_only"), random.Random(3)
    with h5py.File(capture) as file:
        (name,) = file["kernels"]
        whole = bytearray(file[f"kernels/{name}/image"][()].tobytes())
    header = whole.find(b"sm_20_atomic_functions.hpp") - 200  # within .debug_line
    for _ in range(25):
        image = bytearray(whole)
        for _ in range(rng.choice((1, 4, 30))):
            image[rng.choice((header + rng.randrange(800), rng.randrange(len(image))))] = rng.randrange(256)
        damaged = tmp_path / "damaged.h5"
        shutil.copy(capture, damaged)
        with h5py.File(damaged, "r+") as file:
            file[f"kernels/{name}/image"][...] = list(image)
        assert isinstance(atomics(replay, damaged), list)
