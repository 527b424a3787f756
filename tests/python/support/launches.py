"""A program that launches kernels on the stand-in CUDA driver."""

import subprocess

import numpy as np
from conftest import BUILD
from support.problems import recorder_digest
from support.recording import environment

CLIENT = BUILD / "stand_in" / "stand_in_client"
COL2IM = "_Z61ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1IfLj32EEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_"
TRITON = "triton_multi_scale_deformable_attention_bwd_kernel"


def alone(*arguments, **variables):
    return subprocess.run([CLIENT, *map(str, arguments)], capture_output=True, text=True, timeout=60, env=environment(**variables))


def described(array):
    return f"{array.dtype} {'x'.join(map(str, array.shape))} {recorder_digest(np.ascontiguousarray(array).tobytes())}"
