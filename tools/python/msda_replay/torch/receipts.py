"""Receipts: digests of what deterministic operators read and wrote, which two machines can compare."""

import json
import threading

import torch

from ..digest import digest

_FORMAT = "msda-receipt"


class Receipt:
    """The calls of deterministic operators, in order: operator, digests of inputs and outputs."""

    def __init__(self, calls=()):
        self.calls = list(calls)

    def __repr__(self):
        return f"<Receipt of {len(self.calls)} calls>"

    def __eq__(self, other):
        return isinstance(other, Receipt) and self.calls == other.calls

    def write(self, path):
        """Writes the receipt as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "calls": self.calls}, file, indent=1)
            file.write("\n")

    def difference(self, other):
        """The first difference from another receipt in one sentence, or None."""
        for i, (own, others) in enumerate(zip(self.calls, other.calls)):
            if own["operator"] != others["operator"]:
                return f"call {i} is {own['operator']} here, {others['operator']} there"
            for role in ("inputs", "outputs"):
                changed = [name for name in own[role] if own[role][name] != others[role].get(name)]
                if changed:
                    return f"call {i} ({own['operator']}): {role} differ: {', '.join(changed)}"
        if len(self.calls) != len(other.calls):
            return f"{len(self.calls)} calls here, {len(other.calls)} there"
        return None


def read_receipt(path):
    """The receipt in a file that Receipt.write made. Raises ValueError if it is none."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
            if content["format"] != _FORMAT:
                raise KeyError
            return Receipt({k: call[k] for k in ("operator", "inputs", "outputs")} for call in content["calls"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: not a receipt of msda_replay.torch") from None


class kept:
    """While it lasts, the calls of all threads' operators are added to `receipt`."""

    _open = []
    _lock = threading.Lock()

    def __init__(self, receipt):
        self.receipt = receipt

    def __enter__(self):
        with kept._lock:
            kept._open.append(self.receipt)

    def __exit__(self, *_):
        with kept._lock:
            kept._open = [receipt for receipt in kept._open if receipt is not self.receipt]


def _digest(tensor):
    data = tensor.detach().cpu().contiguous().view(torch.uint8 if tensor.dim() else tensor.dtype)
    return digest(data.numpy())


def are_kept():
    """Whether a receipt is kept, so that what a call overwrites must be copied."""
    return bool(kept._open)


def add(operator, inputs, outputs):
    """Adds a call to every receipt that is kept. Costs nothing otherwise; with one, it waits for the GPU."""
    if not are_kept():
        return
    digests = [{name: _digest(tensor) for name, tensor in tensors.items()} for tensors in (inputs, outputs)]
    with kept._lock:
        for receipt in kept._open:
            receipt.calls.append({"operator": operator, "inputs": digests[0], "outputs": digests[1]})
