"""record: a capture of PyTorch's operators, from Python."""

import os
from typing import Any, Dict, List, Optional, TypeVar, Union

_T = TypeVar("_T")
_entered: List[Any] = []  # recorders, the innermost last


class record:
    """Records the calls of operators that msda-replay knows (docs/operators.md) while it is entered, forward and backward, and writes them
    to a capture at its end, also when an exception ends it:

        with msda_replay.record("x.h5"):
            loss.backward()

    `max_bytes` bounds what is kept until then (a quarter of the free memory); calls beyond it are not recorded. Afterwards `calls` is the
    number of recorded calls, and `left_out` says how many others were not recorded, by their reasons. Raises CaptureError if the file
    exists, unless `overwrite`, or cannot be written (which is a warning where the program's own exception ends it); ModuleNotFoundError
    without PyTorch 2.4 or later."""

    def __init__(self, path: Union[str, os.PathLike[str]], *, overwrite: bool = False, max_bytes: Optional[int] = None):
        self.path = os.fspath(path)
        self._how = (overwrite, max_bytes)
        self._recorder: Any = None

    @property
    def calls(self) -> int:
        return len(self._recorder.seen.invocations) if self._recorder else 0

    @property
    def left_out(self) -> Dict[str, int]:
        return dict(self._recorder.seen.left_out) if self._recorder else {}

    def __repr__(self) -> str:
        return f"<record {self.path}: {self.calls} call{'s' * (self.calls != 1)}>"

    def __enter__(self) -> "record":
        from .recorder import Recorder  # here, because it needs PyTorch

        self._recorder = Recorder(self.path, *self._how)
        self._recorder.begin()
        _entered.append(self._recorder)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _entered.remove(self._recorder)
        self._recorder.end(kind, error, trace)


def probe(name: str, value: _T) -> _T:
    """Keeps a value of the program in the capture of `record`, so that `diff` says whether two runs agree here: a batch, random numbers, an
    activation; tensors, arrays and numbers of any type, a torch.Generator's state, or the text of lists and the like. Returns the value.
    Where nothing is recorded it does nothing. What cannot be kept is a warning at the end of the recording."""
    for recorder in _entered[-1:]:
        recorder.seen.keep(name, value)
    return value
