"""Captures of msda-replay in Python: write, open, and all commands; `python3 -m msda_replay import`; and a pytest plugin.

docs/python.md shows the functions at work, docs/pytest.md the plugin; docs/capture-format.md describes the file.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answers import AdviseResult, DiffResult, ExplainResult, ExportResult, GradcheckResult, MinimizeResult, OrderResult, StagesResult, StressResult
    from .capture import Capture, CaptureError, Invocation, Result, read_capture, write_capture
    from .command import CommandError
    from .commands import advise, diff, explain, export, gradcheck, minimize, order, replay, report, run, stages, stress
    from .own import Operator, operator
    from .page import Page
    from .reading import Call, OpenCapture, Tensor, open_capture
    from .recording import probe, record
    from .results import Finding, Findings, RunResult
    from .save import save_call
    from .surveys import Survey, SurveyedKernel, survey
    from .trails import Trail, TrailRow, trail

__version__ = "0.2.0"  # of the whole project: CMakeLists.txt reads this line
_MODULES = {
    "answers": ("AdviseResult", "DiffResult", "ExplainResult", "ExportResult", "GradcheckResult", "MinimizeResult", "OrderResult", "StagesResult",
                "StressResult"),
    "capture": ("Capture", "CaptureError", "Invocation", "Result", "read_capture", "write_capture"),
    "command": ("CommandError",),
    "commands": ("advise", "diff", "explain", "export", "gradcheck", "minimize", "order", "replay", "report", "run", "stages", "stress"),
    "own": ("Operator", "operator"),
    "page": ("Page",),
    "reading": ("Call", "OpenCapture", "Tensor", "open_capture"),
    "recording": ("probe", "record"),
    "results": ("Finding", "Findings", "RunResult"),
    "save": ("save_call",),
    "surveys": ("Survey", "SurveyedKernel", "survey"),
    "trails": ("Trail", "TrailRow", "trail"),
}
__all__ = [
    "AdviseResult", "Call", "Capture", "CaptureError", "CommandError", "DiffResult", "ExplainResult", "ExportResult", "Finding", "Findings",
    "GradcheckResult", "Invocation", "MinimizeResult", "OpenCapture", "Operator", "OrderResult", "Page", "Result", "RunResult",
    "StagesResult", "StressResult", "Survey", "SurveyedKernel", "Tensor", "Trail", "TrailRow", "advise", "diff", "explain", "export",
    "gradcheck", "minimize", "open_capture", "operator", "order", "probe", "read_capture", "record", "replay", "report", "run", "save_call",
    "stages", "stress", "survey", "trail", "write_capture",
]


if not TYPE_CHECKING:  # it would make every wrong name one of any type

    def __getattr__(name):
        # Imported on demand: the plugin is loaded by every pytest that finds this package, and most of them need no h5py.
        for module, names in _MODULES.items():
            if name in names:
                return getattr(importlib.import_module(f".{module}", __name__), name)
        if name == "torch":
            return importlib.import_module(".torch", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
