"""PyTorch's backward passes that add atomically, replaced by deterministic ones of the same formula."""

import contextlib
import threading
import warnings
from typing import Dict, Iterator, Optional, Sequence, Union

import torch

from .. import libmsda
from ..receipts import Receipt
from . import calls, compiled, receipts, scatter, ways

_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")  # by PyTorch's numbers
_PADDINGS = ("zeros", "border", "reflection")
_run_backward = calls.Function("grid_sample_backward", libmsda.GridCall)


def _grid_sample_backward(grad_output, input, grid, interpolation, padding, align_corners, output_mask):
    if input.is_cuda and interpolation == 2:
        # There is no bicubic kernel for GPUs; the CPU's gives the same bits as one would.
        found = _grid_sample_backward(
            grad_output.cpu(), input.cpu(), grid.cpu(), interpolation, padding, align_corners, output_mask
        )
        return tuple(gradient if gradient is None else gradient.to(input.device) for gradient in found)
    gradients = {
        name: torch.empty_like(tensor, memory_format=torch.contiguous_format) if wanted else None
        for name, tensor, wanted in zip(("grad_input", "grad_grid"), (input, grid), output_mask)
    }
    arguments = {"grad_output": grad_output, "options": None, **gradients}
    _run_backward((interpolation, padding, align_corners), {"input": input, "grid": grid}, arguments)
    receipts.add(
        "grid_sample_backward",
        {"grad_output": grad_output, "input": input, "grid": grid},
        {name: gradient for name, gradient in gradients.items() if gradient is not None},
        {"interpolation": _INTERPOLATIONS[interpolation], "padding_mode": _PADDINGS[padding], "align_corners": bool(align_corners)},
    )
    return tuple(gradients.values())


def _cudnn_backward(input, grid, grad_output):
    # cuDNN's operator: bilinear, padded with zeros, align_corners.
    return _grid_sample_backward(grad_output, input, grid, 0, 0, True, (True, True))


_REPLACED = {
    "aten::grid_sampler_2d_backward": _grid_sample_backward,
    "aten::grid_sampler_3d_backward": _grid_sample_backward,
    "aten::cudnn_grid_sampler_backward": _cudnn_backward,
    **scatter.REPLACED,
}
_names = (key.removeprefix("aten::") for key in _REPLACED if key.startswith("aten::") and "." not in key)
compiled.keep_operators(tuple(name for name in _names if hasattr(torch.ops.aten, name)))
_lock = threading.Lock()
_users: Dict[str, int] = {}  # device type: how many contexts are open


def _replace(device):
    libraries = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that an operator is overridden, which is the purpose.
        native = scatter.native_functions() if device == "cuda" else {}
        for operator, function in {**_REPLACED, **native}.items():
            namespace, name = operator.split("::")
            if "cudnn" in name and device != "cuda" or not hasattr(getattr(torch.ops, namespace), name.split(".")[0]):
                continue  # torchvision has not been imported
            if namespace not in libraries:
                libraries[namespace] = torch.library.Library(namespace, "IMPL")
            libraries[namespace].impl(name, function, device.upper())
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
    """While it lasts, these are libmsda's, in all threads: index_add, scatter_add, and the backward passes of grid_sample
    (2D, 3D, cuDNN's), embedding, interpolate (linear, bilinear, trilinear, bicubic) and torchvision's roi_align; and on a GPU index_put
    without accumulate, by one index, where the module in C++ is there (docs/deterministic-torch.md).

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
