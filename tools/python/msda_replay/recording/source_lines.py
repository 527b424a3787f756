"""Which line of the program a recorded call comes from. PyTorch itself calls the operators of a backward pass: theirs is the line of the
forward call whose gradient they compute, if that ran while calls were recorded."""

import os
import sys
from typing import Any, Callable, Dict, Optional, Tuple

import torch

# Frames of these folders are passed over.
_OTHERS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MOST = 100_000  # forward calls that are remembered


_Line = Tuple[str, int, str]  # file, number, function


def _line_of_caller() -> Optional[_Line]:
    """The innermost frame that is of neither PyTorch nor this package."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OTHERS):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame is not None else None


def _text_of(line: Optional[_Line]) -> str:
    """Returns "FILE:LINE function", with the file's path from the current folder if it lies below it."""
    if line is None:
        return ""
    path, number, function = line
    try:
        relative = os.path.relpath(path)
    except OSError:  # the current folder is gone
        relative = path
    return f"{path if relative.startswith('..') else relative}:{number} {function}"


class SourceLines:
    """What of the program a call comes from: the line, and what `label` returns. With `labels_forward` a backward pass has the label of the
    forward call. Numbers that autograd gives to its nodes connect the two passes: it counts up before each forward call with a gradient.
    Functions that only PyTorch itself is meant to call say what they are: where a PyTorch lacks them, calls have no lines."""

    def __init__(self, label: Callable[[], Optional[str]], labels_forward: bool) -> None:
        self._label, self._labels_forward = label, labels_forward
        self._next = -1
        self._forward: Dict[int, Tuple[Optional[_Line], Optional[str]]] = {}
        self._number = getattr(torch._C._autograd, "_get_sequence_nr", None)
        self._node = getattr(torch._C, "_current_autograd_node", None)

    def see(self) -> None:
        """To be called for each operator, before it runs."""
        if self._number is None or self._node is None:
            return
        number = self._number()
        if number == self._next or self._node() is not None:
            return
        self._next = number
        self._forward[number - 1] = _line_of_caller(), self._label() if self._labels_forward else None
        if len(self._forward) > _MOST:
            del self._forward[next(iter(self._forward))]

    def of_this_call(self) -> Tuple[Optional[str], str]:
        """Returns the label, which is None if calls are not to be recorded, and the line's text."""
        label = self._label()
        if self._node is None or label is None:
            return label, ""
        node = self._node()
        if node is None:
            return label, _text_of(_line_of_caller())
        line, of_forward = self._forward.get(node._sequence_nr(), (None, None))
        text = _text_of(line)
        return of_forward or label, f"backward pass of {text}" if text else ""
