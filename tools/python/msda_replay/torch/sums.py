"""Sums by an index, libmsda's operator, of which several of PyTorch's are made."""

from .. import libmsda
from . import calls

run = calls.Function(*libmsda.SUMS_BY_INDEX)


def add_by_index(total, dim, index, source, include_self=False, padding=-1, scale="sum"):
    """Sums up the rows, or elements, of a source into those of `total` that the index names."""
    fields = (libmsda.SCATTER_SCALES[scale], dim, include_self, padding)
    run(fields, {"index": index, "source": source}, {"options": None, "self": total})
