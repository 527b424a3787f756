"""Sums by an index, libmsda's operator, of which several of PyTorch's are made."""

import torch

from .. import libmsda
from . import calls

run = calls.Function(*libmsda.SUMS_BY_INDEX)


def add_by_index(total, dim, index, source, include_self=False, padding=-1, scale="sum"):
    """Sums up the rows, or elements, of a source into those of `total` that the index names."""
    fields = (libmsda.SCATTER_SCALES[scale], dim, include_self, padding)
    run(fields, {"index": index, "source": source}, {"options": None, "self": total})


def total(addends):
    """Returns the sum of all elements: of those whose numbers have the same remainder by 1,024, in their order, and then of these sums."""
    flat = addends.reshape(-1)
    columns = flat.new_empty(1, min(1024, max(flat.numel(), 1)))
    rest = -flat.numel() % columns.shape[1]
    source = (torch.nn.functional.pad(flat, (0, rest)) if rest else flat).view(-1, columns.shape[1])
    none = torch.zeros((), dtype=torch.int64, device=flat.device)
    add_by_index(columns, 0, none.expand(len(source)), source)
    result = flat.new_empty(1)
    add_by_index(result, 0, none.expand(columns.shape[1]), columns.view(-1))
    return result[0]
