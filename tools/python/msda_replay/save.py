"""save_call: a capture of one call, straight from a test's tensors."""

import os
from dataclasses import dataclass
from typing import Any, Tuple, Union

import numpy as np

from .capture import BFloat16, CaptureError, write_capture
from .importer import read_call
from .operator_rows import DEFAULT
from .own_calls import invocation_of
from .scalars import keys_of


@dataclass(frozen=True)
class _Type:
    """What the checks of an archive's types ask, of a type that NumPy lacks."""

    name: str = "bfloat16"
    kind: str = "V"
    itemsize: int = 2

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Header:
    shape: Tuple[int, ...]
    dtype: Any
    bytes: int


def _array(value: Any) -> np.ndarray:
    """Returns a NumPy array of a torch tensor, an array, or anything that NumPy makes one of. torch is recognised, not imported."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        tensor = value.detach().cpu()
        return tensor.float().numpy().view(BFloat16) if str(tensor.dtype) == "torch.bfloat16" else tensor.numpy()
    return np.asarray(value) if not isinstance(value, np.ndarray) else value


class _Arguments:
    """The arguments of save_call as the importer reads an archive. Every error is a CaptureError of one line."""

    noun = "the call"
    remedy = ""
    takes_measured_dialect = False

    def __init__(self, path: str, values: Any):
        self.path = path
        self._arrays = {name: self._convert(name, value) for name, value in values.items()}

    def _convert(self, name: str, value: Any) -> np.ndarray:
        if value is None:
            remedy = "; call backward() first, and retain_grad() before it on a tensor that is no leaf" if "_grad_" in name else ""
            self.fail(name, f"is None: leave it out, or give its value{remedy}")
        try:
            array = _array(value)
        except Exception as error:  # torch and NumPy raise many kinds
            self.fail(name, f"cannot be made a NumPy array: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        if array.dtype == object:
            self.fail(name, f"is {type(value).__name__}, not a tensor, an array or a number")
        return array

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def header(self, name: str) -> _Header:
        array = self._arrays[name]
        dtype = _Type() if isinstance(array, BFloat16) else array.dtype
        return _Header(array.shape, dtype, array.size * dtype.itemsize)

    def read(self, name: str) -> np.ndarray:
        return self._arrays[name]

    @staticmethod
    def spelled(name: str, value: Any) -> str:
        return f"{name}={value}" if name == "align_corners" else f'{name}="{value}"'

    def fail(self, name: str, what: str) -> None:
        raise CaptureError(f"{self.path}: {name} {what}")


def save_call(path: Union[str, os.PathLike[str]], *, overwrite: bool = False, **call: Any) -> None:
    """Writes a capture of one backward call.

    The arguments are the keys of an archive (docs/python.md): operator="NAME" (multi-scale attention's if there is none), the operator's
    inputs and conventions; observed_grad_value and so on, what the kernel returned; reference_grad_value and so on, what the test
    compares with; atol, rtol, kernel, label. Tensors are torch tensors (bfloat16, too, on any device) or NumPy arrays. Raises
    CaptureError and leaves no file behind.

    `operator` may also be one of your own (docs/own-operators.md): what @msda_replay.operator makes, an adapter file's path or its contents.
    The arguments are then its inputs, observed_ and reference_ and before_ of its outputs, its numbers, and atol, rtol, kernel, label."""
    operator = call.get("operator", DEFAULT.name)
    if not isinstance(operator, str) or operator.endswith(".json"):
        values = {name: value for name, value in call.items() if name != "operator"}
        return write_capture(path, invocation_of(_Arguments(os.fspath(path), values), operator, list(values)), overwrite=overwrite)
    source = _Arguments(os.fspath(path), call)
    schema = keys_of(source)
    unknown = sorted(set(call) - {*schema.tensors, *schema.scalars})
    if unknown:
        source.fail("the call", f"has no argument {', '.join(unknown)}; there are {', '.join((*schema.tensors, *schema.scalars))}")
    invocation, _, _ = read_call(source)
    write_capture(path, invocation, overwrite=overwrite)
