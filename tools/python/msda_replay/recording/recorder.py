"""What `record` does with PyTorch: names calls by modules, and writes the file."""

import warnings
from typing import Any, Optional

import torch
from torch.utils.module_tracker import ModuleTracker

from ..capture import CaptureError, check_target
from .operator_calls import PROBE, OperatorCalls


class Recorder:
    """begin() and end() enclose the calls, which `seen` keeps."""

    def __init__(self, path: str, overwrite: bool, max_bytes: Optional[int]):
        check_target(path, overwrite)
        self._path, self._overwrite = path, overwrite
        self._seed = torch.initial_seed()
        self._modules = ModuleTracker()
        self.seen = OperatorCalls(self._label, max_bytes, labels_forward=True)

    def begin(self) -> None:
        self._modules.__enter__()
        self.seen.__enter__()

    def end(self, kind: Any, error: Any, trace: Any) -> None:
        self.seen.__exit__(kind, error, trace)
        self._modules.__exit__(kind, error, trace)
        try:
            self.seen.write(self._path, self._seed, self._overwrite)
        except CaptureError as trouble:
            if error is None:
                raise
            warnings.warn(str(trouble), stacklevel=3)  # the program's own error is what its user has to see
        for reason in self.seen.left_out:
            if reason.startswith(PROBE):
                warnings.warn(f"{self._path}: not kept: {reason}", stacklevel=3)
        if not self.seen.invocations:
            reasons = "".join(f"; {count} {reason}" for reason, count in self.seen.left_out.items())
            warnings.warn(f"{self._path}: no call of an operator that msda-replay knows{reasons}", stacklevel=3)

    def _label(self) -> str:
        """The innermost module, by its path in the model."""
        return max(self._modules.parents - {"Global"}, key=len, default="")
