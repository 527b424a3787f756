"""Calls of libmsda on PyTorch's tensors."""

import ctypes
import functools
import importlib.machinery
import importlib.util

import torch

from .. import libmsda
from ..programs import find_library, find_program

_DTYPES = {getattr(torch, name): name for name in libmsda.DTYPES}
FLOATS = tuple(getattr(torch, name) for name in libmsda.FLOATS)


def _handle_of_stream(device):
    return torch.cuda.current_stream(device).cuda_stream


# PyTorch's own, which make no object for each call; not public functions.
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _handle_of_stream)
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


@functools.lru_cache(maxsize=1)
def native():
    """The module of tools/python/native, which does plain calls in a fraction of the time, or None where it was not built."""
    program = find_program("msda-replay")
    path = program and find_library("msda_torch_calls.abi3.so", program)
    if not path or ".abi3.so" not in importlib.machinery.EXTENSION_SUFFIXES:  # a Python without the stable ABI, such as one without the GIL
        return None
    spec = importlib.util.spec_from_file_location("msda_torch_calls", path)
    if spec is None or spec.loader is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        numbers = {dtype: libmsda.DTYPES[name] for dtype, name in _DTYPES.items()}
        module.use(numbers, _current_device, _current_stream, libmsda.check_status, torch.Tensor)
    except (ImportError, TypeError):  # or it is another version's
        return None
    return module


def address(function):
    """Returns the address of a function of libmsda, as a number."""
    return ctypes.cast(getattr(libmsda.library(), function), ctypes.c_void_p).value


def check_together(tensors):
    """Raises ValueError unless all these tensors, by name, are on one CPU or GPU."""
    (first, tensor), *others = tensors.items()
    device = tensor.device
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"{first} is on {device}: libmsda works on CPUs and NVIDIA's GPUs")
    for name, tensor in others:
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, {first} on {device}: move them to one device")


def _described(name, tensor):
    """Returns the msda_tensor of a tensor, which must outlive it. Raises TypeError."""
    dtype = _DTYPES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.")
    return libmsda.tensor_at(tensor.data_ptr(), dtype, tensor.shape, tensor.stride(), name)


class Function:
    """msda_NAME on the CPU and msda_cuda_NAME on a GPU, whose structure is `structure`, a class of libmsda.py.

    host: of the structure's tensors, those that are on the host wherever the others are; they may be None.
    """

    def __init__(self, name, structure, host=()):
        self._name, self._structure, self._host = name, structure, host
        tensors = [field for field, type in structure._fields_ if type is libmsda.Tensor]
        self._head = getattr(structure, tensors[0]).offset
        self._head_of = functools.lru_cache(maxsize=1024)(lambda fields: bytes(structure(*fields))[: self._head])

    @functools.cached_property
    def addresses(self):
        """The addresses of the functions for the CPU and for a GPU, as numbers."""
        return address(f"msda_{self._name}"), address(f"msda_cuda_{self._name}")

    def __call__(self, fields, inputs, arguments):
        """Runs it where the tensors are: on the CPU, or on their GPU's current stream.

        fields: what the structure has before its tensors. inputs: its tensors, by name. arguments: the function's others, by name;
        None: a null pointer. Raises ValueError and TypeError.
        """
        module = native()
        if module is not None:
            of_host = [(tensor,) if name in self._host and tensor is not None else tensor for name, tensor in inputs.items()]
            status = module.run(*self.addresses, self._head_of(fields), tuple(of_host), tuple(arguments.values()))
            if status is not None:
                return libmsda.check_status(status)
        self._run_by_ctypes(fields, inputs, arguments)

    def _run_by_ctypes(self, fields, inputs, arguments):
        given = {name: tensor for name, tensor in {**inputs, **arguments}.items() if tensor is not None}
        check_together({name: tensor for name, tensor in given.items() if name not in self._host})
        described = {name: _described(name, tensor) for name, tensor in given.items()}
        call = self._structure(*fields, *(described.get(name, libmsda.derived()) for name in inputs))
        pointers = [described.get(name) for name in arguments]
        on = next(iter(inputs.values()))
        if not on.is_cuda:
            libmsda.run(f"msda_{self._name}", call, *pointers)
            return
        device = on.get_device()
        with torch.cuda.device(device):
            libmsda.run(f"msda_cuda_{self._name}", call, *pointers, ctypes.c_void_p(_current_stream(device)))
