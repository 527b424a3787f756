"""What the tests of the operators that msda_replay.torch.deterministic() replaces have in common. Needs PyTorch."""

import os

import pytest
import torch

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without which PyTorch refuses matrix products; read when cuBLAS is loaded
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
_TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def numbers(seed, *shape):
    """Normal ones in float64, the same on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(found, expected, dtype):
    """Fails unless a result in `dtype` is near the one in float64."""
    torch.testing.assert_close(found.cpu().double(), expected, rtol=_TOLERANCE[dtype], atol=_TOLERANCE[dtype], equal_nan=True)
