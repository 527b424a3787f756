"""A survey that pages show is what the program prints of a survey with these numbers: of two training steps of RAFT or Deformable DETR, or
of the tutorial's train.py."""

import re
import subprocess

import h5py
import pytest
from conftest import REPLAY, SOURCE
from support.recording import pytestmark as no_sanitizer
from support.surveys import surveyed

pytestmark = [no_sanitizer, pytest.mark.pages("the page in the test's name", "copy what the program prints now of the kernels that vary")]

TWIN = {"twin_trials": 4, "twin_equal": 4, "beside_that_differ": 0}
RAFT = [10, 10, 4, *[37] * 82, 100], [{
    "kernel": "_ZN5cudnn22bilinear_sampler_bw_4dIffEEv17cudnnTensorStructPKT_S1_PS2_S1_S4_S4_S5_T0_S6_S6_S6_iNS_15reduced_divisorE",
    "node": "CudnnGridSamplerBackward0", "operation": "cudnn_grid_sampler_backward", "launches": 32, "varied": 32, "first_varied": 739,
    "most_words": 1227, **TWIN, "twin_replaced": 16, "evidence_launches": 4, "evidence_differing": 4, "evidence_additions": 122973,
    "evidence_addresses": 32768, "evidence_most_additions": 4, "evidence_greatest_addend": 1.91e-06, "evidence_difference": 1.14e-13,
    "evidence_bound": 2.28e-12}]  # fmt: skip
GRAPH = [*[20] * 23, 30], [{
    "kernel": "_ZN2at6native19indexFuncLargeIndexIfljLi2ELi2ELin2ELb1ENS0_9ReduceAddEEEvNS_4cuda6detail10TensorInfoIT_T1_EENS5_IKS6_S7_EENS5_IKT0_"
              "S7_EEiiS7_S7_llRKT6_S6_",
    "node": "", "operation": "index_add", "launches": 20, "varied": 20, "first_varied": 6, "most_words": 13845, **TWIN, "twin_replaced": 1,
    "evidence_launches": 4, "evidence_differing": 4, "evidence_additions": 256000, "evidence_addresses": 32000, "evidence_most_additions": 17,
    "evidence_greatest_addend": 2.42, "evidence_difference": 1.43e-06, "evidence_bound": 3.15e-05}]  # fmt: skip
# Before surveys counted additions.
DETR = [84] * 159 + [108], [{
    "kernel": "_ZN2at6native31grid_sampler_2d_backward_kernelIfiEEvv", "node": "GridSampler2DBackward0", "operation": "grid_sampler_2d_backward",
    "launches": 192, "varied": 192, "first_varied": 2206, "most_words": 302508, **TWIN, "twin_replaced": 59, "evidence_addresses": 0}, {
    "kernel": "fmha_cutlassB_f32_aligned_64x64_k32_sm80", "node": "ScaledDotProductEfficientAttentionBackward0",
    "operation": "_efficient_attention_backward", "launches": 24, "varied": 1, "beside_that_differ": 2, "first_varied": 6200, "most_words": 4628,
    "twin_trials": 0, "float_atomics": 0, "compare_and_swaps": 1, "may_communicate": 1, "used_integer_atomics": 1}]  # fmt: skip


@pytest.mark.parametrize("page, survey", [("README.md", GRAPH), ("docs/tutorial/training.md", GRAPH), ("docs/survey.md", RAFT), ("docs/reproducible-training.md", DETR)])
def test_the_survey_of_a_page(page, survey, tmp_path):
    others, kernels = survey  # of the others, those with few launches vary
    rows = kernels + [{"kernel": f"other_{number}", "launches": launches, "varied": launches if launches <= 10 else 0, "first_varied": 9000}
                      for number, launches in enumerate(others)]
    surveyed(tmp_path / "survey.h5", "drawn")
    with h5py.File(tmp_path / "survey.h5", "r+") as file:
        for number in range(1, len(rows)):
            file.copy("survey/000000", f"survey/{number:06}")
        for number, row in enumerate(rows):
            file[f"survey/{number:06}"].attrs.update({**row, "surveyed": row["launches"], "varied_beside": 0,
                                                      "extra_launches": 2 * row["launches"], "extra_that_differ": 2 * row["varied"]})
    done = subprocess.run([REPLAY, "survey", "survey.h5"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    shown = re.split(r"\norder_only  other_|\n\d+ launch(?:es)? that varied|\n\d+ kernels ", done.stdout)[0]
    shown = "".join(f"    {line}\n" for line in shown.splitlines())
    assert kernels[0]["operation"] in shown and shown in (SOURCE / page).read_text(), shown
