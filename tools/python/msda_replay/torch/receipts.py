"""Receipts: digests of what deterministic operators read and wrote, which two machines can compare."""

import json
import os
import threading
from typing import Any, Dict, Iterable, List, Optional, Union

import torch

from ..digest import digest

_FORMAT = "msda-receipt"
_Path = Union[str, os.PathLike[str]]
_ROLES = ("options", "inputs", "outputs")  # what differs first is told first


class Receipt:
    """The calls of deterministic operators, in order: operator; options, which are its conventions and the types and shapes of its
    inputs; digests of inputs and outputs."""

    def __init__(self, calls: Iterable[Dict[str, Any]] = ()):
        self.calls = list(calls)

    def __repr__(self) -> str:
        return f"<Receipt of {len(self.calls)} calls>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and self.calls == other.calls

    def write(self, path: _Path) -> None:
        """Writes the receipt as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "calls": self.calls}, file, indent=1)
            file.write("\n")

    def difference(self, other: "Receipt") -> Optional[str]:
        """The first difference from another receipt in one sentence, or None."""
        for i, (own, others) in enumerate(zip(self.calls, other.calls)):
            if own["operator"] != others["operator"]:
                return f"call {i} is {own['operator']} here, {others['operator']} there"
            for role in _ROLES:
                names = dict.fromkeys([*own[role], *others[role]])
                changed = [name for name in names if own[role].get(name) != others[role].get(name)]
                if changed:
                    return f"call {i} ({own['operator']}): {role} differ: {', '.join(changed)}"
        if len(self.calls) != len(other.calls):
            return f"{len(self.calls)} calls here, {len(other.calls)} there"
        return None


def _checked(call):
    """A call of a receipt in a file, without what is unknown. Raises KeyError or TypeError if it is none."""
    digests = [text for role in _ROLES[1:] for text in call[role].values()]
    if not isinstance(call["options"], dict) or not all(isinstance(text, str) for text in (call["operator"], *digests)):
        raise TypeError
    return {name: call[name] for name in ("operator", *_ROLES)}


def read_receipt(path: _Path) -> Receipt:
    """The receipt in a file that Receipt.write made. Raises ValueError if it is none."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
            if content["format"] != _FORMAT or not isinstance(content["calls"], list):
                raise KeyError
            return Receipt(map(_checked, content["calls"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: not a receipt of msda_replay.torch") from None


open_receipts: List[Receipt] = []  # one list for as long as the program runs: the module in C++ looks at it


class kept:
    """While it lasts, the calls of all threads' operators are added to `receipt`."""

    _lock = threading.Lock()

    def __init__(self, receipt):
        self.receipt = receipt

    def __enter__(self):
        with kept._lock:
            open_receipts.append(self.receipt)

    def __exit__(self, *_):
        with kept._lock:
            open_receipts[:] = [receipt for receipt in open_receipts if receipt is not self.receipt]


def _digest(tensor):
    # A copy: a tensor with sizes of 1 may count as contiguous with any strides, and cannot be viewed as bytes then.
    data = tensor.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
    return digest(data.view(torch.uint8).numpy())


def are_kept():
    """Whether a receipt is kept, so that what a call overwrites must be copied."""
    return bool(open_receipts)


def add(operator, inputs, outputs, options=()):
    """`options` are the conventions. Adds a call to every receipt that is kept. Costs nothing otherwise; with one, it waits for the GPU."""
    if not are_kept():
        return
    types = {name: f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for name, tensor in inputs.items()}
    digests = [{name: _digest(tensor) for name, tensor in tensors.items()} for tensors in (inputs, outputs)]
    with kept._lock:
        for receipt in open_receipts:
            receipt.calls.append({"operator": operator, "options": {**dict(options), **types}, "inputs": digests[0], "outputs": digests[1]})
