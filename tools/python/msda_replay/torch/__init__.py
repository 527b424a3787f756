"""Deterministic operators for PyTorch, by libmsda: the same bits on every run, on any GPU and on the CPU.

    from msda_replay.torch import multi_scale_deformable_attention     # in place of a kernel that adds atomically
    with msda_replay.torch.deterministic(): loss.backward()            # PyTorch's backward passes, replaced

docs/deterministic-torch.md says what is replaced, and what is not.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("msda_replay.torch needs PyTorch 2.4 or later: https://pytorch.org", name=error.name) from None

from ..receipts import Receipt, read_receipt
from .operators.msda import multi_scale_deformable_attention, multiscale_deformable_attention
from .replacement import deterministic
from .report import Report, report

__all__ = [
    "Receipt",
    "Report",
    "deterministic",
    "multi_scale_deformable_attention",
    "multiscale_deformable_attention",
    "read_receipt",
    "report",
]
