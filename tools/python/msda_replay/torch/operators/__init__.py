"""What is replaced of PyTorch, in a module for each family of operators: whatever module here has REPLACED."""

import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Tuple


def _nothing() -> None:
    """Keeps nothing."""


def _none(module: Any) -> Dict[str, Any]:
    """Returns no functions."""
    return {}


@dataclass(frozen=True)
class Replaced:
    """What one module replaces. Operators are PyTorch's: "aten::index_add", or torchvision's."""

    functions: Dict[str, Callable[..., Any]] = field(default_factory=dict)  # by operator
    # Returns those of them, on a GPU, that the module in C++ does without Python where a call is plain.
    native: Callable[[Any], Dict[str, Any]] = _none
    # Returns how many calls these functions have done, by operator.
    native_counts: Callable[[Any], Dict[str, int]] = _none
    # By module: the function in it that computes by other operators, and what computes the same by one that is replaced.
    short_ways: Dict[str, Tuple[str, Callable[..., Any]]] = field(default_factory=dict)
    # By operator: functions that take PyTorch's own kernel before its arguments, for the calls that they leave to it. Without a PyTorch
    # that can say its kernel (2.10) these operators are not replaced.
    around: Dict[str, Callable[..., Any]] = field(default_factory=dict)
    # Has torch.compile keep the forward passes that PyTorch would otherwise trace, and their names in aten.
    keep_forward: Callable[[], None] = _nothing
    forward: Tuple[str, ...] = ()
    # By what names PyTorch refuses the operators while a graph is traced.
    refusals: Tuple[str, ...] = ()


_MODULES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
REPLACED: Tuple[Replaced, ...] = tuple(module.REPLACED for module in _MODULES if hasattr(module, "REPLACED"))
