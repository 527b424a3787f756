"""Calls of libmsda on PyTorch's tensors."""

import ctypes

import torch

from .. import libmsda

_DTYPES = {getattr(torch, name): name for name in libmsda.DTYPES}


def described(name, tensor):
    """The msda_tensor of a tensor, which must outlive it. Raises TypeError."""
    dtype = _DTYPES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.")
    return libmsda.tensor_at(tensor.data_ptr(), dtype, tensor.shape, tensor.stride(), name)


def _handle_of_stream(device):
    return torch.cuda.current_stream(device).cuda_stream


# PyTorch's own, which makes no Stream object for each call; not a public function.
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _handle_of_stream)


def run(function, on, call, *arguments):
    """Runs msda_FUNCTION where the tensor `on` is: on the CPU, or on its GPU's current stream. Raises ValueError."""
    if not on.is_cuda:
        libmsda.run(f"msda_{function}", call, *arguments)
        return
    device = on.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return run(function, on, call, *arguments)
    libmsda.run(f"msda_cuda_{function}", call, *arguments, ctypes.c_void_p(_current_stream(device)))


def check_together(tensors):
    """Raises ValueError unless all these tensors, by name, are on one CPU or GPU."""
    (first, tensor), *others = tensors.items()
    device = tensor.device
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"{first} is on {device}: libmsda works on CPUs and NVIDIA's GPUs")
    for name, tensor in others:
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, {first} on {device}: move them to one device")
