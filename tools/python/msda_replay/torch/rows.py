"""Numbers written where an index says: of several with the same index the last stays."""

import ctypes

import torch

from .. import libmsda


def put(to, index, values):
    """to[plane, index[plane, j]] = values[plane, j], for j = 0, 1, ...; all of two dimensions and contiguous, the index int64. Negative
    numbers count from the end of their plane. On a GPU numbers outside are left out; on a CPU there may be none."""
    if index.numel() == 0:
        return
    if to.is_cuda:
        described = libmsda.tensor_at(index.data_ptr(), "int64", (index.numel(),), (1,), "index")
        call = libmsda.IndexPutCall(to.data_ptr(), to.numel(), to.element_size(), values.data_ptr(), described, len(to))
        with torch.cuda.device(to.device):
            libmsda.run("msda_cuda_index_put", call, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        return
    places = torch.where(index < 0, index + to.shape[1], index)
    numbers = torch.arange(1, index.shape[1] + 1).expand_as(index)
    last = torch.zeros_like(to, dtype=torch.int64).scatter_reduce_(1, places, numbers, "amax")
    torch.where(last > 0, values.gather(1, (last - 1).clamp_(min=0)), to, out=to)
