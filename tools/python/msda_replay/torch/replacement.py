"""PyTorch's backward passes that add atomically, replaced by deterministic ones of the same formula."""

import contextlib
import functools
import threading
import warnings
from typing import Dict, Iterator, Optional, Sequence, Union

import torch

from .. import libmsda
from ..receipts import Receipt
from . import calls, compiled, receipts, report, ways
from .operators import REPLACED

_REPLACED = {operator: function for replaced in REPLACED for operator, function in replaced.functions.items()}
_AROUND = {operator: function for replaced in REPLACED for operator, function in replaced.around.items()}
_names = (key.removeprefix("aten::") for key in {**_REPLACED, **_AROUND} if key.startswith("aten::") and "." not in key)
compiled.keep_operators(tuple(name for name in _names if hasattr(torch.ops.aten, name)))
_lock = threading.Lock()
_users: Dict[str, int] = {}  # device type: how many contexts are open
compiled.trace_refused(lambda: any(_users.values()))


def _native_functions():
    module = calls.native()
    found = [replaced.native(module) for replaced in REPLACED] if module is not None else []
    return {operator: function for functions in found for operator, function in functions.items()}


def _functions_around(device):
    """Returns the functions that may call PyTorch's own kernels, which are asked for while these are still in place."""
    if not hasattr(torch.library, "get_kernel"):
        return {}

    def with_kernel(operator, function):
        own = torch.library.get_kernel(operator, device.upper())
        return lambda keyset, *given, **more: function(functools.partial(own.call_boxed, keyset), *given, **more)

    has_own = torch._C._dispatch_has_kernel_for_dispatch_key  # not of a GPU, if PyTorch was built without CUDA
    return {operator: with_kernel(operator, function) for operator, function in _AROUND.items() if has_own(operator, device.upper())}


def _replace(device):
    libraries = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that an operator is overridden, which is the purpose.
        native = _native_functions() if device == "cuda" else {}
        around = _functions_around(device)
        counted = {operator: report.counted(operator, function) for operator, function in {**_REPLACED, **around}.items()}
        for operator, function in {**counted, **native}.items():
            namespace, name = operator.split("::")
            if "cudnn" in name and device != "cuda" or not hasattr(getattr(torch.ops, namespace), name.split(".")[0]):
                continue  # torchvision has not been imported
            if namespace not in libraries:
                libraries[namespace] = torch.library.Library(namespace, "IMPL")
            with_keys = {"with_keyset": True} if operator in around else {}  # an option that older PyTorch lacks
            libraries[namespace].impl(name, function, device.upper(), **with_keys)
    return libraries.values()


class _Replacement:
    """PyTorch's operators on a device, replaced until it is undone."""

    def __init__(self, device):
        self._libraries = _replace(device)
        self._lengthen = ways.shorten(device) if device == "cuda" else lambda: None  # on a CPU PyTorch goes none of them

    def undo(self):
        self._lengthen()
        for library in self._libraries:
            library._destroy()


_replacements: Dict[str, _Replacement] = {}


@contextlib.contextmanager
def _replaced(device):
    with _lock:
        if _users.get(device, 0) == 0:
            _replacements[device] = _Replacement(device)
        _users[device] = _users.get(device, 0) + 1
    try:
        yield
    finally:
        with _lock:
            _users[device] -= 1
            if _users[device] == 0:
                _replacements.pop(device).undo()


@contextlib.contextmanager
def deterministic(devices: Union[str, Sequence[str]] = ("cuda",), receipt: Optional[Receipt] = None) -> Iterator[None]:
    """While it lasts, PyTorch's sums by an index, and its and torchvision's backward passes that add atomically, are libmsda's, in all
    threads: those that docs/deterministic-torch.md lists; and on a GPU index_put without accumulate, by one index, where the module in
    C++ is there.

    devices: "cuda", "cpu" or both; PyTorch's own passes on CPUs are deterministic, but have other bits. receipt: a
    Receipt, to which the calls' digests are added; this waits for the GPU after each call. Then
    torch.use_deterministic_algorithms(True) does not refuse these operators. Contexts may be nested. Raises ValueError.
    """
    devices = (devices,) if isinstance(devices, str) else tuple(devices)
    for device in devices:
        libmsda.choice("devices", {"cuda": 0, "cpu": 1}, device)
    library = libmsda.library()  # Fails here rather than in a backward pass.
    if "cuda" in devices and torch.cuda.is_available() and library.msda_cuda_device_count() == 0:
        raise ValueError("devices: 'cuda'; this libmsda reaches no GPU, which PyTorch does: build it with CUDA (docs/building.md)")
    with contextlib.ExitStack() as contexts:
        for device in devices:
            contexts.enter_context(_replaced(device))
        if receipt is not None:
            contexts.enter_context(receipts.kept(receipt))
        yield
