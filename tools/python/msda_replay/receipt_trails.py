"""Receipts as trails of captures, for msda_replay/receipts.py."""

import json
import re
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np

from . import trails
from .capture import CaptureError, write_trail_file

_DIGEST = re.compile("xxh3-128:([0-9a-f]{16})")  # of which a trail has the first 64 bits
_COPY_IN, _CALL = trails.KINDS.index("copy_in"), trails.KINDS.index("call")


def write(path, calls):
    """Raises CaptureError."""
    write_trail_file(path, _trail_of(calls), _run())


def read(path):
    """The calls. Raises KeyError, TypeError or ValueError if they are of no receipt, CaptureError if it cannot be read."""
    return _calls_of(trails.trail(path))


class _Lists:
    """Entries, each of which is listed once."""

    def __init__(self):
        self._places: Dict[Any, int] = {}

    def index(self, entry):
        return self._places.setdefault(entry, len(self._places))

    def all(self):
        return list(self._places)


def _half(call, text):
    found = _DIGEST.match(text)
    if not found:
        raise CaptureError(f"{text!r}, of a call of {call['operator']}, is no digest; a receipt in a capture has those of XXH3")
    return int(found[1], 16)


def _trail_of(calls):
    """For each call a row of kind copy_in for each input, and one of kind call for each output, or one without a digest. The options are
    the parameters of a call's first row and of its first row of kind call, by which a reader knows where calls begin."""
    operators, options, parts, rows = _Lists(), _Lists(), _Lists(), []
    for call in calls:
        text = json.dumps(call["options"]).encode()
        own = options.index(text + b" " * (-len(text) % 8)), operators.index(call["operator"])
        written: List[Tuple[int, str, Optional[int]]] = [
            (kind, f"{role}/{name}", _half(call, text)) for kind, role in ((_COPY_IN, "inputs"), (_CALL, "outputs"))
            for name, text in call[role].items()]
        if not call["outputs"]:
            written.append((_CALL, "", None))
        begun: Set[int] = set()
        for kind, part, value in written:
            is_first = not begun or kind not in begun
            begun.add(kind)
            rows.append((kind, 0 if value is None else trails.IS_DIGESTED, 0, own[1], trails.NO_ENTRY,
                         own[0] if is_first else trails.NO_ENTRY, trails.NO_ENTRY, parts.index(part) if part else trails.NO_ENTRY, 0, value or 0))
    names = {"kernels": [{"name": name} for name in operators.all()], "configurations": [], "callers": [], "parts": parts.all()}
    return trails.Trail(np.array(rows, trails.ROW), names, options.all(), trails.no_changes())


def _calls_of(trail):
    """The calls of a trail that _trail_of made. Raises KeyError, TypeError or ValueError if it is none."""
    calls: List[Dict[str, Any]] = []
    has_called = True
    for row in trail:
        if row.kind not in ("copy_in", "call"):
            raise ValueError(row.kind)
        if row.parameters is not None and (row.kind == "copy_in" or has_called):
            calls.append({"operator": row.kernel["name"], "options": json.loads(row.parameters), "inputs": {}, "outputs": {}})
            has_called = False
        has_called = has_called or row.kind == "call"
        if not calls or row.kernel["name"] != calls[-1]["operator"] or (row.kind == "copy_in" and has_called):
            raise ValueError(row.index)
        if row.digest is not None:
            section, _, name = row.parts.partition("/")
            if section != ("inputs" if row.kind == "copy_in" else "outputs"):
                raise ValueError(row.parts)
            calls[-1][section][name] = f"xxh3-128:{row.digest:016x}"
    return calls


def _run():
    """What else may decide numbers."""
    run: Dict[str, Any] = {"argv": sys.argv, "libraries": {}}
    torch = sys.modules.get("torch")
    if torch is not None:
        run["libraries"]["torch"] = str(torch.__version__)
        if torch.cuda.is_initialized():
            run["gpu"] = torch.cuda.get_device_name()
            run["cuda"] = str(torch.version.cuda)
    return run
