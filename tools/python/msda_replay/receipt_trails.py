"""Receipts as trails of captures, for msda_replay/receipts.py."""

import json
import re
import sys
from typing import Any, Dict, List

import numpy as np

from . import trails
from .capture import CaptureError, write_trail_file

_DIGEST = re.compile("xxh3-128:([0-9a-f]{16})")  # of which a trail has the first 64 bits
_COPY_IN, _CALL = trails.KINDS.index("copy_in"), trails.KINDS.index("call")


def write(path, calls):
    """Raises CaptureError."""
    write_trail_file(path, _trail_of(calls), _run())


def read(path):
    """Returns the calls. Raises KeyError, TypeError or ValueError if they are of no receipt, CaptureError if it cannot be read."""
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
    """For each call a row of kind copy_in for each input, and one of kind call for each output, or one without a digest. The first of
    these has the options as its parameters; by that a reader knows it."""
    operators, options, parts, rows = _Lists(), _Lists(), _Lists(), []

    def add(kind, call, part, text, parameters):
        value = None if text is None else _half(call, text)
        rows.append((kind, 0 if value is None else trails.IS_DIGESTED, 0, operators.index(call["operator"]), trails.NO_ENTRY, parameters,
                     trails.NO_ENTRY, trails.NO_ENTRY if part is None else parts.index(part), call.get("bytes", {}).get(part, 0), value or 0))

    for call in calls:
        for name, text in call["inputs"].items():
            add(_COPY_IN, call, f"inputs/{name}", text, trails.NO_ENTRY)
        own = json.dumps(call["options"]).encode()
        parameters = options.index(own + b" " * (-len(own) % 8))
        for i, (name, text) in enumerate(call["outputs"].items()):
            add(_CALL, call, f"outputs/{name}", text, trails.NO_ENTRY if i else parameters)
        if not call["outputs"]:
            add(_CALL, call, None, None, parameters)
    names = {"kernels": [{"name": name} for name in operators.all()], "configurations": [], "callers": [], "parts": parts.all()}
    return trails.Trail(np.array(rows, trails.ROW), names, options.all(), trails.no_changes())


def _calls_of(trail):
    """Returns the calls of a trail that _trail_of made. Raises KeyError, TypeError or ValueError if it is none."""
    calls: List[Dict[str, Any]] = []
    inputs: Dict[str, str] = {}
    sizes: Dict[str, int] = {}
    of_inputs = None
    for row in trail:
        operator, (section, _, name) = row.kernel["name"], row.parts.partition("/")
        value = None if row.digest is None else f"xxh3-128:{row.digest:016x}"
        if row.kind == "copy_in":
            if section != "inputs" or value is None or of_inputs not in (None, operator):
                raise ValueError(row)
            inputs[name], sizes[row.parts], of_inputs = value, row.bytes, operator
            continue
        if row.kind != "call" or of_inputs not in (None, operator) or (value is not None and section != "outputs"):
            raise ValueError(row)
        if row.parameters is not None:
            calls.append({"operator": operator, "options": json.loads(row.parameters), "inputs": inputs, "outputs": {}, "bytes": sizes})
            inputs, sizes, of_inputs = {}, {}, None
        if not calls or inputs or calls[-1]["operator"] != operator:
            raise ValueError(row)
        if value is not None:
            calls[-1]["outputs"][name] = value
            calls[-1]["bytes"][row.parts] = row.bytes
    if inputs:
        raise ValueError(inputs)
    return calls


def _run():
    """Returns what else may decide numbers."""
    run: Dict[str, Any] = {"argv": sys.argv, "libraries": {}}
    torch = sys.modules.get("torch")
    if torch is not None:
        run["libraries"]["torch"] = str(torch.__version__)
        if torch.cuda.is_initialized():
            run["gpu"] = torch.cuda.get_device_name()
            run["cuda"] = str(torch.version.cuda)
    return run
