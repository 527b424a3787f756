"""The subcommands of msda-replay as functions, whose arguments are the commands' flags (docs/commands.md). All raise CommandError."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

import numpy as np

from .answers import AdviseResult, DiffResult, ExplainResult, ExportResult, GradcheckResult, MinimizeResult, OrderResult, StagesResult, StressResult
from .command import CommandError, Said, ask, execute
from .flags import (
    AdviseFlags,
    DiffFlags,
    ExportFlags,
    GradcheckFlags,
    MinimizeFlags,
    OrderFlags,
    Path,
    ReportFlags,
    RunFlags,
    StagesFlags,
    StressFlags,
    only,
    takes,
)
from .page import Page
from .results import RunResult

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _ask(subcommand: str, flags: Mapping[str, Any], *captures: Path) -> Said:
    return ask(subcommand, ["--", *(os.fspath(capture) for capture in captures)], flags)


@takes(RunFlags)
def run(capture: Path, **flags: Unpack[RunFlags]) -> RunResult:
    """Replays a capture's calls, compares them, and says why elements are out of tolerance."""
    return RunResult(os.fspath(capture), _ask("run", flags, capture), lambda: report(capture, **only(ReportFlags, flags)))


@takes(StagesFlags)
def stages(capture: Path, **flags: Unpack[StagesFlags]) -> StagesResult:
    """Returns the intermediate tensors' statistics stage by stage, and the stages of single elements, in float32 beside float64."""
    return StagesResult(_ask("stages", flags, capture), lambda: report(capture, **only(ReportFlags, flags)))


@takes(StressFlags)
def stress(capture: Path, **flags: Unpack[StressFlags]) -> StressResult:
    """Simulates the recorded test with other inputs: how often it fails, and why."""
    said = _ask("stress", flags, capture)

    def page() -> Page:
        with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
            simulated = os.path.join(folder, "stress.json")
            with open(simulated, "w", encoding="ascii") as file:
                json.dump(said.json, file)
            shown: Dict[str, Any] = {**only(ReportFlags, flags), "stress_json": simulated}
            return report(capture, **shown)

    return StressResult(said, page)


@takes(AdviseFlags)
def advise(capture: Path, **flags: Unpack[AdviseFlags]) -> AdviseResult:
    """Returns a mask and a tolerance that make the recorded test sound, and which planted faults it then finds."""
    return AdviseResult(_ask("advise", flags, capture))


@takes(OrderFlags)
def order(capture: Path, **flags: Unpack[OrderFlags]) -> OrderResult:
    """Reads from the recorded bits in which order the atomic additions arrived."""
    return OrderResult(_ask("order", flags, capture))


@takes(MinimizeFlags)
def minimize(capture: Path, output: Path, **flags: Unpack[MinimizeFlags]) -> MinimizeResult:
    """Writes the smallest call that is out of tolerance for the same cause to the capture `output`."""
    shown: Dict[str, Any] = {**only(ReportFlags, flags), "invocation": None, "reference": None, "repeat": None}  # those are of `capture`
    return MinimizeResult(_ask("minimize", {**flags, "output": output}, capture), lambda: report(output, **shown))


@takes(GradcheckFlags)
def gradcheck(capture: Path, **flags: Unpack[GradcheckFlags]) -> GradcheckResult:
    """Compares gradients with finite differences of the forward pass, also where it has kinks."""
    return GradcheckResult(_ask("gradcheck", flags, capture))


@takes(DiffFlags)
def diff(a: Path, b: Path, *more: Path, **flags: Unpack[DiffFlags]) -> DiffResult:
    """Compares two runs, captures or invocations ("FILE:INVOCATION"), or several runs with trails with the first."""
    return DiffResult(_ask("diff", flags, a, b, *more))


@takes(ExportFlags)
def export(capture: Path, to: str, output: Path, **flags: Unpack[ExportFlags]) -> ExportResult:
    """Writes a reproducer that needs no msda-replay (`to` is pytest or cpp), or npz, zip or tensorboard."""
    return ExportResult(_ask("export", {**flags, "to": to, "output": output}, capture))


def explain(word: Optional[str] = None) -> ExplainResult:
    """Returns what a cause, a verdict or a term means; without `word`, all that there are."""
    return ExplainResult(_ask("explain", {}, *([word] if word else [])))


@takes(ReportFlags)
def report(capture: Path, **flags: Unpack[ReportFlags]) -> Page:
    """Returns the page that `msda-replay report` makes: where the errors lie, how large they are, and why."""
    values: Dict[str, Any] = dict(flags)
    values["no_stages"] = not values.pop("stages", True)
    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        target = os.path.join(folder, "page.html")
        execute("report", ["--", os.fspath(capture)], {**values, "output": target})
        with open(target, encoding="utf-8") as file:
            return Page(file.read())


def replay(capture: Path, invocation: int, mode: str = "float64") -> Dict[str, np.ndarray]:
    """Returns the gradients that a mode of `run` gives for a recorded call."""
    from .reading import open_capture

    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        target = os.path.join(folder, "replays.h5")
        run(capture, invocation=invocation, mode=mode, device=None if mode == "original" else "cpu", save_replays=target)
        with open_capture(target) as saved:
            results = saved[0].results
            if mode not in results:
                raise CommandError(f"{os.fspath(capture)}: mode {mode} gave no gradients")
            return {name: tensor[()] for name, tensor in results[mode].items()}
