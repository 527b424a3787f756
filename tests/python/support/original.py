"""Recorded machine code, launched again on the stand-in CUDA driver."""

import json
import os

import pytest
from conftest import BUILD, SOURCE
from support.cubins import make_cubin
from support.launches import CLIENT, COL2IM, TRITON
from support.recording import record
from support.user_adapter import EXAMPLE

GM = "_Z34ms_deformable_col2im_gpu_kernel_gmIfEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_"
GRID_SAMPLER = ("_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_{}d_backward_kernelI{}EEvT0_NS_"
                "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
                "18GridSamplerPaddingEbS3_b")
KERNELS = {
    "col2im17": COL2IM, "col2im17 --double": COL2IM.replace("If", "Id"), "col2im17_gm": GM, "triton": TRITON,
    "grid_sample": GRID_SAMPLER.format(2, "fi"), "grid_sample --double": GRID_SAMPLER.format(2, "dl"),
    "grid_sample_3d": GRID_SAMPLER.format(3, "fi"), "grid_sample_3d --double": GRID_SAMPLER.format(3, "dl"),
    "scale_add": "_Z9scale_addi5ScalePKfPfPh", "whereabouts": "_Z11whereaboutsiPKfS0_PfPl",
}
ADAPTER = json.loads(json.dumps(EXAMPLE))
ADAPTER["adapters"].append({
    "name": "whereabouts", "kernel": "whereabouts",
    "parameters": [{"name": "count", "type": "int32"}] + [{"name": n, "type": "pointer"} for n in ("x", "y", "sums", "places")],
    "tensors": [
        {"name": "x", "role": "input", "pointer": "x", "type": "float32", "shape": ["count"], "strides": ["2"]},
        {"name": "y", "role": "input", "pointer": "y", "type": "float32", "shape": ["count"], "strides": ["2"]},
        {"name": "sums", "role": "inout", "pointer": "sums", "type": "float32", "shape": ["count"], "strides": ["3"]},
        {"name": "places", "role": "output", "pointer": "places", "type": "int64", "shape": ["4"]}]})
SCHEMA = json.loads((SOURCE / "docs" / "run.schema.json").read_text())


def on_stand_in(**variables):
    """The environment of a machine whose GPU is the stand-in."""
    return {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "stand_in"), **{name: str(value) for name, value in variables.items()}}


@pytest.fixture
def launched(tmp_path):
    """Records launches of a kernel whose machine code is known. Returns the capture."""

    def make(kernel, *arguments, variants=1, **variables):
        capture, adapter = tmp_path / "a.h5", tmp_path / "mine.json"
        adapter.write_text(json.dumps(ADAPTER))
        images = []
        for i in range(variants):
            image = tmp_path / f"{i}.cubin"
            image.write_bytes(make_cubin([KERNELS[kernel]], bytes([i]) * (8 + i)))
            images += ["--image", image]
        done = record(CLIENT, "--kernel", *kernel.split(), *images, "--seed", "4", *map(str, arguments),
                      options=["-o", capture, "--adapter", adapter], **variables)
        assert done.returncode == 0 and capture.exists(), done.stderr
        return capture

    return make
