"""A survey that pages show is what the program prints of a survey with these numbers, which are of two training steps of RAFT."""

import subprocess

import h5py
import pytest
from conftest import REPLAY, SOURCE
from support.recording import pytestmark as no_sanitizer
from support.surveys import surveyed

pytestmark = [no_sanitizer, pytest.mark.pages("README.md and docs/survey.md", "copy what the program prints now of the first kernel that varies")]

CUDNN = {
    "kernel": "_ZN5cudnn22bilinear_sampler_bw_4dIffEEv17cudnnTensorStructPKT_S1_PS2_S1_S4_S4_S5_T0_S6_S6_S6_iNS_15reduced_divisorE",
    "node": "CudnnGridSamplerBackward0", "operation": "cudnn_grid_sampler_backward", "launches": 32, "surveyed": 32, "varied": 32,
    "extra_launches": 64, "extra_that_differ": 64, "first_varied": 739, "most_words": 1227, "twin_replaced": 16, "twin_trials": 4,
    "twin_equal": 4, "evidence_launches": 4, "evidence_differing": 4, "evidence_additions": 122973, "evidence_addresses": 32768,
    "evidence_most_additions": 4, "evidence_greatest_addend": 1.91e-06, "evidence_difference": 1.14e-13, "evidence_bound": 2.28e-12}  # fmt: skip


def test_the_survey_of_raft(tmp_path):
    surveyed(tmp_path / "survey.h5", "drawn")
    with h5py.File(tmp_path / "survey.h5", "r+") as file:
        for number, launches in enumerate([10, 10, 4, *[37] * 82, 100], 1):  # the other kernels: three vary
            file.copy("survey/000000", f"survey/{number:06}")
            varied = launches if number <= 3 else 0
            file[f"survey/{number:06}"].attrs.update(kernel=f"other_{number}", launches=launches, surveyed=launches, varied=varied,
                                                      extra_that_differ=2 * varied, extra_launches=2 * launches, first_varied=900)
        file["survey/000000"].attrs.update(CUDNN)
    done = subprocess.run([REPLAY, "survey", "survey.h5"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    shown = "".join(f"    {line}\n" for line in done.stdout.split("\norder_only  other_")[0].splitlines())
    assert "bilinear_sampler_bw_4d" in shown
    for page in ("README.md", "docs/survey.md"):
        assert shown in (SOURCE / page).read_text(), shown
