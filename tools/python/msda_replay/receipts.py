"""Receipts: digests of what deterministic operators read and wrote, which two machines can compare. As JSON, or as the trail of a capture."""

import json
import os
import re
from typing import Any, Dict, Iterable, Optional, Union

_FORMAT = "msda-receipt"
_Path = Union[str, os.PathLike[str]]
_ROLES = ("options", "inputs", "outputs")  # what differs first is reported first
_DIGEST = re.compile("xxh3-128:([0-9a-f]{16})")  # and as many again, which a trail does not have


class Receipt:
    """The calls of deterministic operators, in order: operator; options, which are its conventions and the types and shapes of its
    inputs; digests of inputs and outputs, and of how many bytes they are, which is not compared."""

    def __init__(self, calls: Iterable[Dict[str, Any]] = ()):
        self.calls = list(calls)

    def __repr__(self) -> str:
        return f"<Receipt of {len(self.calls)} calls>"

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Receipt) and len(self.calls) == len(value.calls) and all(
            entry["operator"] == another["operator"] and not any(_changed(entry, another, role) for role in _ROLES)
            for entry, another in zip(self.calls, value.calls))

    def write(self, path: _Path) -> None:
        """Writes the receipt: if the file's name ends in .h5, as the trail of a capture, which `msda-replay diff` compares; otherwise
        as JSON. Raises CaptureError, or OSError."""
        if os.fspath(path).endswith(".h5"):
            from . import receipt_trails  # which needs h5py

            receipt_trails.write(path, self.calls)
            return
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "calls": self.calls}, file, indent=1)
            file.write("\n")

    def difference(self, receipt: "Receipt") -> Optional[str]:
        """Returns the first difference from another receipt in one sentence, or None. Other options with the same inputs and outputs are
        none."""
        for i, (own, others) in enumerate(zip(self.calls, receipt.calls)):
            if own["operator"] != others["operator"]:
                return f"call {i} is {own['operator']} here, {others['operator']} there"
            changed = {role: _changed(own, others, role) for role in _ROLES}
            if not changed["inputs"] and not changed["outputs"]:
                continue
            role = next(role for role in _ROLES if changed[role])
            return f"call {i} ({own['operator']}): {role} differ: {', '.join(changed[role])}"
        if len(self.calls) != len(receipt.calls):
            return f"{len(self.calls)} calls here, {len(receipt.calls)} there"
        return None


def _changed(own, others, role):
    """Returns what differs, by name. A digest that was read from a trail is the first half of one."""

    def same(entry, another):
        if role == "options" or not (isinstance(entry, str) and isinstance(another, str)):
            return entry == another
        halves = [found[1] for found in map(_DIGEST.match, (entry, another)) if found]
        is_half = min(len(entry), len(another)) == len("xxh3-128:") + 16
        return halves[0] == halves[1] if is_half and len(halves) == 2 else entry == another

    return [name for name in dict.fromkeys([*own[role], *others[role]]) if not same(own[role].get(name), others[role].get(name))]


def _checked(call):
    """Returns a call of a receipt in a file, without what is unknown. Raises KeyError or TypeError if it is none."""
    digests = [text for role in _ROLES[1:] for text in call[role].values()]
    if not isinstance(call["options"], dict) or not all(isinstance(text, str) for text in (call["operator"], *digests)):
        raise TypeError
    sizes = call.get("bytes", {})  # receipts of older versions have none
    if not all(isinstance(size, int) and 0 <= size < 1 << 63 for size in sizes.values()):
        raise TypeError
    return {**{name: call[name] for name in ("operator", *_ROLES)}, **({"bytes": sizes} if sizes else {})}


def read_receipt(path: _Path) -> Receipt:
    """Returns the receipt in a file that Receipt.write made; of a capture, digests are the first 64 bits of those that were written. Raises
    ValueError if it is none, CaptureError for a damaged capture."""
    with open(path, "rb") as file:
        is_capture = file.read(8) == b"\x89HDF\r\n\x1a\n"
        file.seek(0)
        try:
            if is_capture:
                from . import receipt_trails

                return Receipt(map(_checked, receipt_trails.read(path)))
            content = json.load(file)
            if content["format"] != _FORMAT or not isinstance(content["calls"], list):
                raise KeyError
            return Receipt(map(_checked, content["calls"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: not a receipt of msda_replay.torch") from None
