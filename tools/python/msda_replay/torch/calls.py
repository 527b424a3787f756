"""Calls of libmsda on PyTorch's tensors."""

import contextlib
import ctypes

import torch

from .. import libmsda


def described(name, tensor):
    """The msda_tensor of a tensor, which must outlive it. Raises TypeError."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return libmsda.tensor_at(tensor.data_ptr() or None, dtype, tensor.shape, tensor.stride(), name)


def run(function, on, call, *arguments):
    """Runs msda_FUNCTION where the tensor `on` is: on the CPU, or on its GPU's current stream. Raises ValueError."""
    if not on.is_cuda:
        libmsda.run(f"msda_{function}", call, *arguments)
        return
    there = on.device.index == torch.cuda.current_device()
    with contextlib.nullcontext() if there else torch.cuda.device(on.device):
        stream = torch.cuda.current_stream(on.device).cuda_stream
        libmsda.run(f"msda_cuda_{function}", call, *arguments, ctypes.c_void_p(stream))


def check_together(tensors):
    """Raises ValueError unless all these tensors, by name, are on one CPU or GPU."""
    first, *_ = tensors
    for name, tensor in tensors.items():
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(f"{name} is on {tensor.device}: libmsda works on CPUs and NVIDIA's GPUs")
        if tensor.device != tensors[first].device:
            raise ValueError(f"{name} is on {tensor.device}, {first} on {tensors[first].device}: move them to one device")
