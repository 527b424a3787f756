"""Sees the calls of PyTorch's operators, on a CPU or a GPU, without a preloaded library, and makes invocations of them."""

import collections
import sys
import threading
import warnings
from typing import Any, Dict, List, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from ..capture import BFloat16, CaptureError, Invocation, check_target, write_capture
from ..memory import free_memory
from .operators import Refused, all_calls

_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64)
_SHARE = 4  # of the free memory


def _copied(tensor):
    copy = tensor.detach().to("cpu", copy=True).contiguous()
    return copy.float().numpy().view(BFloat16) if copy.dtype == torch.bfloat16 else copy.numpy()


def _bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


class _Calls(TorchDispatchMode):
    """Sees each call before it reaches its kernel. What goes wrong here is a call left out, and never the program's error."""

    def __init__(self, owner: "Recorder"):
        super().__init__()
        self._owner = owner
        self._describe = all_calls()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        describe = self._describe.get(func._schema.name)
        begun = self._owner._begin(func, describe, types, args, kwargs) if describe is not None else None
        returned = func(*args, **kwargs)
        if begun is not None:
            self._owner._end(begun, returned)
        return returned


class Recorder:
    """What `record` does with PyTorch: begin() and end() enclose the calls."""

    def __init__(self, path: str, overwrite: bool, max_bytes: Optional[int]):
        check_target(path, overwrite)
        self.left_out: Dict[str, int] = collections.Counter()
        self.invocations: List[Invocation] = []
        self._path, self._overwrite = path, overwrite
        self._left = max_bytes if max_bytes is not None else free_memory() // _SHARE
        self._seed = torch.initial_seed()
        self._lock = threading.Lock()  # backward passes run in threads of their own
        self._modules, self._mode = ModuleTracker(), _Calls(self)

    def begin(self) -> None:
        self._modules.__enter__()
        self._mode.__enter__()

    def end(self, kind: Any, error: Any, trace: Any) -> None:
        self._mode.__exit__(kind, error, trace)
        self._modules.__exit__(kind, error, trace)
        seeds = [{"source": "torch_cpu", "value": self._seed & (2**64 - 1)}]
        libraries = {"torch": torch.__version__, "Python": sys.version.split()[0]}
        try:
            write_capture(self._path, self.invocations, {"argv": sys.argv, "libraries": libraries, "seeds": seeds}, self._overwrite)
        except CaptureError as trouble:
            if error is None:
                raise
            warnings.warn(str(trouble), stacklevel=3)  # the program's own error is what its user has to see
        if not self.invocations:
            reasons = "".join(f"; {count} {reason}" for reason, count in self.left_out.items())
            warnings.warn(f"{self._path}: no call of an operator that msda-replay knows{reasons}", stacklevel=3)

    def _leave_out(self, name: str, reason: str) -> None:
        with self._lock:
            self.left_out[f"{name} {reason}"] += 1

    def _label(self) -> str:
        """The innermost module, by its path in the model."""
        return max(self._modules.parents - {"Global"}, key=len, default="")

    def _begin(self, func, describe, types, args, kwargs):
        name = func._schema.name
        try:
            # Before anything is computed of the tensors: a graph that is captured must not get more nodes.
            if types:
                raise Refused(f"has tensors of the class {types[0].__name__}, which may have no data")
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                raise Refused("is captured in a CUDA graph")
            schema = func._schema.arguments
            call = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
            call.update({argument.name: value for argument, value in zip(schema, args)}, **kwargs)
            described = describe(call)
            if reason := self._refusal({**described.inputs, **described.before}):
                raise Refused(reason)
            copies = {key: _copied(tensor) for key, tensor in described.inputs.items()}
            before = {key: _copied(tensor) for key, tensor in described.before.items()}
            return name, described, copies, before
        except Refused as refused:
            self._leave_out(name, str(refused))
        except Exception as error:  # the program must go on
            self._leave_out(name, f"could not be read: {type(error).__name__}: {' '.join(str(error).split())}")
        return None

    def _refusal(self, tensors) -> str:
        for key, tensor in tensors.items():
            if tensor.layout != torch.strided:
                return f"has a {key} that is sparse"
            if tensor.dtype not in _TYPES:
                return f"has a {key} in {str(tensor.dtype).removeprefix('torch.')}"
        with self._lock:
            if _bytes_of(tensors) > self._left:
                return "needs more memory than max_bytes leaves"
            self._left -= _bytes_of(tensors)
        return ""

    def _end(self, begun, returned) -> None:
        name, described, inputs, before = begun
        try:
            outputs = {key: _copied(tensor) for key, tensor in described.results(returned).items()}
            label = self._label()
            facts = {**described.facts, **({"label": label} if label else {})}
            invocation = Invocation(inputs, outputs, dialect="", kernel=name, outputs_before=before, facts=facts)
            with self._lock:
                self._left -= sum(array.nbytes for array in outputs.values())
                self.invocations.append(invocation)
        except Exception as error:
            self._leave_out(name, f"has results that could not be read: {type(error).__name__}: {' '.join(str(error).split())}")

