"""Capture files of msda-replay in Python: write_capture, read_capture, and `python3 -m msda_replay import`.

docs/capture-format.md describes the file, docs/python.md shows both functions at work.
"""

try:
    import h5py  # noqa: F401
    import numpy  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"msda_replay needs {error.name}: apt-get install python3-h5py python3-numpy, or pip install tools/python",
        name=error.name,
    ) from None

from .capture import Capture, CaptureError, Invocation, Result, read_capture, write_capture

__version__ = "0.1.0"
__all__ = ["Capture", "CaptureError", "Invocation", "Result", "read_capture", "write_capture"]
