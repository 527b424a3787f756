"""Sees the calls of PyTorch's operators, on a CPU or a GPU, without a preloaded library, and makes invocations of them."""

import collections
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from ..capture import BFloat16, Invocation, write_capture
from ..memory import free_memory
from .operators import Refused, all_calls
from .source_lines import SourceLines

_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64)
_SHARE = 4  # of the free memory
_ENVIRONMENT = ("CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONHASHSEED")
PROBE = "msda_replay.probe"  # in place of a kernel's name


def _copied(tensor):
    copy = tensor.detach().to("cpu", copy=True).contiguous()
    return copy.float().numpy().view(BFloat16) if copy.dtype == torch.bfloat16 else copy.numpy()


def _probed(value):
    """A tensor of any value that a program may want to compare: of a type that captures have, or of bytes."""
    if isinstance(value, torch.Generator):
        value = value.get_state()
    elif not isinstance(value, torch.Tensor):
        array = np.asarray(value)
        if array.dtype.kind in "biufc":
            value = torch.from_numpy(np.ascontiguousarray(array)) if array.ndim else torch.tensor(array.item())
        elif " at 0x" in (text := repr(value)):
            raise ValueError("its text has an address, which is another one in each run")
        else:
            value = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    if value.dtype in _TYPES or value.layout != torch.strided:
        return value
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).to(torch.int32)


def _bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


class OperatorCalls(TorchDispatchMode):
    """While it is entered, it sees each call of this thread and of its backward passes before the call reaches its kernel, and keeps those
    that msda-replay knows as `invocations`. `left_out` says how many others were not kept, by their reasons. What goes wrong here is a call
    left out, and never the program's error.

    `label` returns a call's label; no call is kept where it returns None. With `labels_forward` calls of a backward pass have the label of their
    forward call. `max_bytes` bounds what is kept (a quarter of the free memory)."""

    supports_higher_order_operators = True  # torch.cond, for example, would raise an error otherwise

    def __init__(self, label: Callable[[], Optional[str]], max_bytes: Optional[int] = None, labels_forward: bool = False):
        super().__init__()
        self._max_bytes = max_bytes
        self._describe = all_calls()
        self._source_lines = SourceLines(label, labels_forward)
        self._lock = threading.Lock()  # backward passes run in threads of their own
        self.clear()

    def clear(self) -> None:
        """Forgets what it has kept."""
        with self._lock:
            self.left_out: Dict[str, int] = collections.Counter()
            self.invocations: List[Invocation] = []
            self._left = self._max_bytes if self._max_bytes is not None else free_memory() // _SHARE

    def keep(self, label: str, value: Any) -> None:
        """Keeps a value that is of no call."""
        name = f"{PROBE}({label!r})"
        try:
            tensor = _probed(value)
            if reason := self._refusal({"value": tensor}):
                return self._leave_out(name, reason)
            probe = Invocation({"value": _copied(tensor)}, {}, dialect="", kernel=PROBE, facts={"label": str(label)})
            with self._lock:
                self.invocations.append(probe)
        except Exception as error:  # the program must go on
            self._leave_out(name, f"could not be read: {type(error).__name__}: {' '.join(str(error).split())}")

    def leave(self) -> None:
        """Leaves this mode, unless the program has entered another since and has not left it."""
        if _get_current_dispatch_mode() is self:
            self.__exit__(None, None, None)

    def write(self, path: str, seed: Optional[int] = None, overwrite: bool = False) -> None:
        """Writes a capture of what it has kept, with PyTorch's seed as it is now unless one is given. Raises CaptureError."""
        seed = torch.initial_seed() if seed is None else seed
        seeds = [{"source": "torch_cpu", "value": seed & (2**64 - 1)}]
        libraries = {"torch": torch.__version__, "Python": sys.version.split()[0]}
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        run = {"argv": sys.argv, "libraries": libraries, "seeds": seeds, "environment": environment}
        if self.left_out:
            run["left_out"] = "; ".join(f"{count} x {reason}" for reason, count in self.left_out.items())
        if torch.cuda.is_initialized():
            run.update(gpu=torch.cuda.get_device_name(), cuda=str(torch.version.cuda))
        write_capture(path, self.invocations, run, overwrite)

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Otherwise torch.compile would compile nothing, and the program get other bits."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self._source_lines.see()
        describe = self._describe.get(func._schema.name) if hasattr(func, "_schema") else None  # a higher-order operator has none
        begun = self._begin(func, describe, types, args, kwargs) if describe is not None else None
        returned = func(*args, **kwargs)
        if begun is not None:
            self._end(begun, returned)
        return returned

    def _leave_out(self, name: str, reason: str) -> None:
        with self._lock:
            self.left_out[f"{name} {reason}"] += 1

    def _begin(self, func, describe, types, args, kwargs):
        name = func._schema.name
        try:
            label, source_line = self._source_lines.of_this_call()
            if label is None:
                return None
            # Before anything is computed of the tensors: a graph that is captured must not get more nodes.
            if types:
                raise Refused(f"has tensors of the class {types[0].__name__}, which may have no data")
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                raise Refused("is captured in a CUDA graph")
            schema = func._schema.arguments
            call = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
            call.update({argument.name: value for argument, value in zip(schema, args)}, **kwargs)
            described = describe(call)
            if described is None:
                return None
            if reason := self._refusal({**described.inputs, **described.before}):
                raise Refused(reason)
            copies = {key: _copied(tensor) for key, tensor in described.inputs.items()}
            before = {key: _copied(tensor) for key, tensor in described.before.items()}
            of_program = {"label": label, "source_line": source_line}
            return name, of_program, described, copies, before
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
        name, of_program, described, inputs, before = begun
        try:
            outputs = {key: _copied(tensor) for key, tensor in described.results(returned).items()}
            facts = {**described.facts, **{fact: text for fact, text in of_program.items() if text}}
            invocation = Invocation(inputs, outputs, dialect="", kernel=name, outputs_before=before, facts=facts)
            with self._lock:
                self._left -= sum(array.nbytes for array in outputs.values())
                self.invocations.append(invocation)
        except Exception as error:
            self._leave_out(name, f"has results that could not be read: {type(error).__name__}: {' '.join(str(error).split())}")
