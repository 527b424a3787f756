"""Captures of msda-replay in Python: write, open, replay, explain, plot. docs/python.md shows them at work, and
docs/capture-format.md describes the file."""

try:
    import h5py  # noqa: F401
    import numpy  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"msda_replay needs {error.name}: apt-get install python3-h5py python3-numpy, or pip install tools/python",
        name=error.name,
    ) from None

from .capture import Capture, CaptureError, Invocation, Result, read_capture, write_capture
from .command import CommandError, replay, run
from .plots import plot_cell, plot_errors, plot_pyramid
from .reading import Call, OpenCapture, Tensor, open_capture
from .results import Finding, Findings, RunResult
from .save import save_call

__version__ = "0.1.0"
__all__ = [
    "Call", "Capture", "CaptureError", "CommandError", "Finding", "Findings", "Invocation", "OpenCapture", "Result", "RunResult",
    "Tensor", "open_capture", "plot_cell", "plot_errors", "plot_pyramid", "read_capture", "replay", "run", "save_call",
    "write_capture",
]
