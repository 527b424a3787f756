"""Calls that add rows or elements where indices say: index_add, scatter_add, scatter_reduce, index_put, and the gradient of an embedding."""

import torch

from . import Described, Refused

INTEGERS = (torch.int64, torch.int32)


def sum_of(returned):
    return {"sum": returned}


def along(call, source):
    """index_add and scatter_add: the sum begins with what `self` holds."""
    size = call["self"].dim()
    if size == 0:
        raise Refused("has no dimension")
    dim = call["dim"] % size
    facts = {"reduce": "sum", "dim": dim, "dim_size": int(call["self"].shape[dim])}
    return Described({"index": call["index"], "source": source}, facts, sum_of, {"sum": call["self"]})


def index_add(call):
    if call["alpha"] != 1:
        raise Refused("has an alpha that is not 1")
    if call["index"].dim() != 1:
        raise Refused("has an index without a dimension")
    return along(call, call["source"])


def same_sizes(call):
    """Takes the elements of the source that have an index, as PyTorch does."""
    index, source = call["index"], call["src"]
    source = source[tuple(slice(size) for size in index.shape)]
    dims = [axis for axis in range(index.dim()) if axis != call["dim"] % max(index.dim(), 1)]
    if any(index.shape[axis] != call["self"].shape[axis] for axis in dims):
        raise Refused("has fewer indices than elements beside its dimension")
    return along(call, source)


def scatter_reduce(call):
    if call["reduce"] not in ("sum", "mean"):
        raise Refused(f"reduces by {call['reduce']}")
    described = same_sizes(call)
    described.facts["reduce"] = call["reduce"]
    if not call["include_self"]:
        described.facts["include_self"] = False
    return described


def index_put(call):
    """Indices of adjacent dimensions, as one index of rows. An assignment, which does not accumulate, is no sum."""
    if not call["accumulate"]:
        return None
    given = list(call["indices"])
    while given and given[-1] is None:
        given.pop()
    first = next((axis for axis, index in enumerate(given) if index is not None), 0)
    if not given or any(index is None or index.dtype not in INTEGERS for index in given[first:]):
        raise Refused("has other indices than integers of adjacent dimensions")
    indices = torch.broadcast_tensors(*given[first:])
    shape = call["self"].shape
    before, sizes, rest = shape[:first], shape[first : len(given)], shape[len(given) :]
    index = torch.zeros_like(indices[0], dtype=torch.int64)
    for of_axis, size in zip(indices, sizes):
        index = index * size + torch.where(of_axis < 0, of_axis + size, of_axis)
    rows = sizes.numel()
    outer = [before.numel()] if first else []  # what lies before the indices is one more dimension
    source = call["values"].expand(*before, *index.shape, *rest).reshape(*outer, index.numel(), rest.numel())

    def in_rows(tensor):
        return tensor.reshape(*outer, rows, rest.numel())

    facts = {"reduce": "sum", "dim": len(outer), "dim_size": rows}
    return Described({"index": index.reshape(-1), "source": source}, facts, lambda returned: {"sum": in_rows(returned)},
                     {"sum": in_rows(call["self"])})


def embedding(call):
    if call["scale_grad_by_freq"]:
        raise Refused("divides by frequencies")
    channels = call["grad_output"].shape[-1]
    facts = {"reduce": "sum", "dim": 0, "dim_size": int(call["num_weights"])}
    if call["padding_idx"] >= 0:
        facts["padding_idx"] = int(call["padding_idx"])
    inputs = {"index": call["indices"].reshape(-1), "source": call["grad_output"].reshape(-1, channels)}
    return Described(inputs, facts, sum_of)


CALLS = {
    **{f"aten::index_add{end}": index_add for end in ("", "_")},
    **{f"aten::scatter_add{end}": same_sizes for end in ("", "_")},
    **{f"aten::scatter_reduce{end}": scatter_reduce for end in ("", "_")},
    **{f"aten::{name}": index_put for name in ("index_put", "index_put_", "_index_put_impl_")},
    "aten::embedding_dense_backward": embedding,
}
