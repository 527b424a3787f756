"""Capture files of msda-replay in Python: write_capture, read_capture, and `python3 -m msda_replay import`.

docs/capture-format.md describes the file; docs/python.md shows both functions at work.
"""

from .capture import Capture, CaptureError, Invocation, Result, read_capture, write_capture

__version__ = "0.1.0"
__all__ = ["Capture", "CaptureError", "Invocation", "Result", "read_capture", "write_capture"]
