"""What msda-replay survey says to type, for kernels that varied on an H100 or H200 in PyTorch 2.11, torchvision 0.26 and cuDNN 9."""

import json
import subprocess

import h5py
import pytest
from conftest import REPLAY, SOURCE
from support.recording import pytestmark  # noqa: F401
from support.surveys import surveyed

# What to type, a dash if nothing is known, and the kernel's name as the driver has it.
SEEN = [line.split("\t") for line in (SOURCE / "tests/data/survey/varying_kernels.txt").read_text().splitlines()]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """The remedies that are printed, by kernel."""
    capture = tmp_path_factory.mktemp("remedies") / "a.h5"
    surveyed(capture, "drawn")
    with h5py.File(capture, "r+") as file:
        for number, (_, kernel) in enumerate(SEEN, 1):
            file.copy("survey/000000", f"survey/{number:06}")
            file[f"survey/{number:06}"].attrs["kernel"] = kernel
    done = subprocess.run([REPLAY, "survey", capture, "--json", "-"], capture_output=True, text=True, timeout=60)
    return {kernel["mangled"]: kernel["remedy"] for kernel in json.loads(done.stdout)["kernels"]}


@pytest.mark.parametrize("remedy, kernel", SEEN, ids=[kernel[:60] for _, kernel in SEEN])
def test_a_real_kernel_has_its_remedy(result, remedy, kernel):
    assert (result[kernel]["type"] if result[kernel] else "-") == remedy


def test_kernels_of_ones_own_have_none(result):
    assert result["survey_drawn_sum"] is None


def test_sources_are_pages(result):
    rows = [row for file in (SOURCE / "replay/survey/remedies").iterdir() for row in json.loads(file.read_text())]
    assert {row["type"] for row in rows} == {remedy for remedy, _ in SEEN} - {"-"}, "a remedy that no kernel here needs, or none"
    for row in rows:
        assert row["source"].startswith("https://") or (SOURCE / row["source"]).is_file(), row
