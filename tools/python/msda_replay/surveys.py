"""msda_replay.survey: which launches of a function, a program or a kept survey vary, and why (docs/survey.md)."""

from __future__ import annotations

import functools
import os
import pickle
import sys
import tempfile
from dataclasses import dataclass, field
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .answers import Answer
from .command import CommandError, Said, ask, execute
from .commands import report
from .flags import MakeSurveyFlags, Path, ReadSurveyFlags, SurveyFlags, only, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

_is_surveyed = False  # this process, whose surveys are empty


@dataclass(frozen=True)
class SurveyedKernel:
    """A kernel: its verdict, how many of its launches varied, were surveyed and were made, who launched it, and what to type."""

    kernel: str
    verdict: str
    varied: int
    surveyed: int
    launches: int
    why: str = field(repr=False)
    node: str = field(repr=False)
    operation: str = field(repr=False)
    python: str = field(repr=False)
    remedy: Optional[Dict[str, str]] = field(repr=False)
    json: Dict[str, Any] = field(repr=False)

    @property
    def varies(self) -> bool:
        """Whether its results may be others in the next run."""
        return self.varied > 0 or self.verdict == "reads_unwritten"


class Survey(Answer, Sequence[SurveyedKernel]):
    """The kernels of a survey, those that vary first. `capture` is the path of the file that keeps it, or None."""

    launches: int
    surveyed: int
    varied: int
    kernels: List[Dict[str, Any]]
    baseline: Optional[Dict[str, Any]] = None

    def __init__(self, said: Said, capture: Optional[str]):
        super().__init__(said, None if capture is None else functools.partial(report, capture))
        self.capture = capture
        names = ("kernel", "verdict", "varied", "surveyed", "launches", "why", "node", "operation", "python", "remedy")
        self._kernels = [SurveyedKernel(**{name: kernel[name] for name in names}, json=kernel) for kernel in self.kernels]

    def __getitem__(self, place: Any) -> Any:
        return self._kernels[place]

    def __len__(self) -> int:
        return len(self._kernels)

    def __iter__(self) -> Iterator[SurveyedKernel]:
        return iter(self._kernels)

    @property
    def varying(self) -> List[SurveyedKernel]:
        return [kernel for kernel in self._kernels if kernel.varies]

    def __repr__(self) -> str:
        return f"<survey: {len(self.varying)} of {len(self)} kernels vary, in {self.varied} of {self.surveyed} launches>"


@takes(SurveyFlags)
def survey(what: Union[Callable[..., Any], Path, Sequence[str]], *arguments: Any, output: Optional[Path] = None, **flags: Unpack[SurveyFlags]) -> Survey:
    """Surveys a function, a command (a list of words), or reads a survey that was kept (a path).

    A function is called with `arguments` in a new process of Python, as multiprocessing starts one by "spawn": it and its arguments
    must be such that pickle can send them, and its module is imported there. What it returns is dropped. `output`: where the survey
    is kept, a file that is replaced; None: nowhere. Within a surveyed function, another survey is empty. Raises CommandError, with
    what the command says, if nothing could be surveyed or the function raises.
    """
    if isinstance(what, (str, os.PathLike)):
        return Survey(_read(what, flags), os.fspath(what))
    if _is_surveyed:
        return Survey(Said("", [], {"launches": 0, "surveyed": 0, "varied": 0, "kernels": []}), None)
    with tempfile.TemporaryDirectory(prefix="msda-replay-") as folder:
        command = _command_of(what, arguments, folder) if callable(what) else [str(word) for word in what]
        kept = os.fspath(output) if output is not None else None
        target = kept or os.path.join(folder, "survey.h5")
        try:
            made = execute("survey", ["--", *command], {**only(MakeSurveyFlags, flags), "force": True, "output": target})
        finally:
            _raise_failure(what, folder)
        # Read again, because the program's own text is among the command's.
        return Survey(_read(target, flags)._replace(messages=made.messages), kept)


def _read(path: Path, flags: SurveyFlags) -> Said:
    return ask("survey", [os.fspath(path)], {**only(ReadSurveyFlags, flags), "timeout": flags.get("timeout")})


def _raise_failure(what: Any, folder: str) -> None:
    """Raises an error if the function has raised."""
    failure = os.path.join(folder, "failure")
    if os.path.exists(failure):
        with open(failure, errors="replace") as file:
            raise CommandError(f"{getattr(what, '__name__', what)}: {file.read()}")


def _command_of(function: Callable[..., Any], arguments: Tuple[Any, ...], folder: str) -> List[str]:
    """Returns the command of a Python that calls the function."""
    call = os.path.join(folder, "call")
    try:
        sent = pickle.dumps((function, arguments))
    except Exception as error:
        name = getattr(function, "__qualname__", str(function))
        raise CommandError(f"{name} cannot be sent to another process: {error}; survey a function of a module, without a closure, or a "
                           "command") from error
    with open(call, "wb") as file:
        preparation = spawn.get_preparation_data("survey")
        preparation.pop("authkey", None)  # must not be sent, and is not needed
        pickle.dump((preparation, sent), file)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {package!r}); from msda_replay.surveys import _call; _call()", call]


def _call() -> None:
    """Calls the function, in the surveyed process."""
    import traceback

    global _is_surveyed
    call, _is_surveyed = sys.argv[1], True
    try:
        with open(call, "rb") as file:
            preparation, sent = pickle.load(file)
        spawn.prepare(preparation)
        function, arguments = pickle.loads(sent)
        function(*arguments)
    except BaseException:
        with open(os.path.join(os.path.dirname(call), "failure"), "w") as file:
            file.write(traceback.format_exc())
        raise
