"""Launches of the poison programs."""

import json

import h5py
import pytest
from support.adapters import POISON
from support.cubins import make_cubin
from support.launches import CLIENT
from support.recording import record

COUNT = 256


def name_of(kernel):
    return f"_Z{len('poison_' + kernel)}poison_{kernel}iPKfPfS1_"


@pytest.fixture
def launched(tmp_path):
    """Records launches of one of the kernels. Returns the capture."""

    def make(kernel, launches=1, atomics=None):
        capture, adapter, image = tmp_path / f"{kernel}.h5", tmp_path / "mine.json", tmp_path / f"{kernel}.cubin"
        adapter.write_text(json.dumps(POISON))
        image.write_bytes(make_cubin([name_of(kernel)], bytes(8)))  # shorter than an instruction: nothing can be counted in it
        done = record(CLIENT, "--kernel", f"poison_{kernel}", "--image", image, "--seed", "7", "--launches", str(launches),
                      options=["-o", capture, "--adapter", adapter])
        assert done.returncode == 0 and capture.exists(), done.stderr
        if atomics is not None:
            with h5py.File(capture, "r+") as file:
                for code in file["kernels"].values():
                    code.attrs.update(atomics)
        return capture

    return make
