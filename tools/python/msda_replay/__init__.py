"""Capture files of msda-replay in Python: write_capture, read_capture, `python3 -m msda_replay import`, and a pytest plugin.

docs/capture-format.md describes the file, docs/python.md shows both functions at work, docs/pytest.md the plugin.
"""

__version__ = "0.1.0"
__all__ = ["Capture", "CaptureError", "Invocation", "Result", "read_capture", "write_capture"]


def __getattr__(name):
    # Imported on demand: the plugin is loaded by every pytest that finds this package, and most of them need no h5py.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import capture

    return getattr(capture, name)
