"""What calls of PyTorch's operators say: for each operator of msda-replay a module with its table CALLS, by the name of the ATen or library
operator. A function of the table takes the arguments by the names of PyTorch's schema and returns a Described, or None for a call that the
operator does not mean, or raises Refused."""

import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import Any, Callable, Dict


class Refused(Exception):
    """Why a call is not recorded, as words behind its name."""


@dataclass
class Described:
    """A call as a capture holds it: tensors by name, before it runs; `results` takes what it returned and gives the outputs by name."""

    inputs: Dict[str, Any]
    facts: Dict[str, Any]
    results: Callable[[Any], Dict[str, Any]]
    before: Dict[str, Any] = field(default_factory=dict)


def all_calls():
    """Returns the functions of all operators' tables, by PyTorch's name of the call."""
    modules = (importlib.import_module(f".{module.name}", __name__) for module in pkgutil.iter_modules(__path__))
    return {name: describe for module in modules for name, describe in module.CALLS.items()}
