"""Which receipts are kept, and what is added to them (msda_replay/receipts.py)."""

import threading
from typing import List

import torch

from ..digest import digest
from ..receipts import Receipt

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
    """Returns whether a receipt is kept, so that what a call overwrites must be copied."""
    return bool(open_receipts)


def add(operator, inputs, outputs, options=()):
    """`options` are the conventions. Adds a call to every receipt that is kept. Costs nothing otherwise; with one, it waits for the GPU."""
    if not are_kept():
        return
    types = {name: f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for name, tensor in inputs.items()}
    digests = [{name: _digest(tensor) for name, tensor in tensors.items()} for tensors in (inputs, outputs)]
    sizes = {f"{role}/{name}": tensor.numel() * tensor.element_size() for role, tensors in (("inputs", inputs), ("outputs", outputs))
             for name, tensor in tensors.items()}
    with kept._lock:
        for receipt in open_receipts:
            receipt.calls.append({"operator": operator, "options": {**dict(options), **types}, "inputs": digests[0], "outputs": digests[1],
                                  "bytes": sizes})
