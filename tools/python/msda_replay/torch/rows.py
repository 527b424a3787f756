"""Numbers written where an index says: of several with the same index the last stays."""

import ctypes

import torch

from .. import libmsda


def put(to, index, values):
    """to[index[j]] = values[j], for j = 0, 1, ...; all of one dimension and contiguous, the index int64 and not negative. On a GPU numbers
    beyond the end are left out."""
    if index.numel() == 0:
        return
    if to.is_cuda:
        described = libmsda.tensor_at(index.data_ptr(), "int64", index.shape, index.stride(), "index")
        call = libmsda.IndexPutCall(to.data_ptr(), to.numel(), to.element_size(), values.data_ptr(), described)
        with torch.cuda.device(to.device):
            libmsda.run("msda_cuda_index_put", call, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        return
    last = torch.zeros_like(to, dtype=torch.int64).scatter_reduce_(0, index, torch.arange(1, index.numel() + 1), "amax")
    torch.where(last > 0, values[(last - 1).clamp_(min=0)], to, out=to)
