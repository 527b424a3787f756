"""PyTorch's and torchvision's deterministic ways round the operators that are replaced, taken out of use meanwhile.

Under torch.use_deterministic_algorithms(True) some operators are made of others, since their own backward passes have no fixed order,
and take up to several times as long. Where these passes are replaced, their own forward passes are the shorter way (short_ways in
operators/). The names there are no public ones: with a PyTorch that lacks them the long ways stay, with the same promise.
"""

import functools
import importlib
import sys

import torch

from .operators import REPLACED


def _needs_long_way(input, arguments):
    """While torch.compile or a tracer reads the program, whose result may run where nothing is replaced; and for gradients that only
    the long way has, those of boxes."""
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing() or type(input) not in (torch.Tensor, torch.nn.Parameter)
    return traced or any(isinstance(argument, torch.Tensor) and argument.requires_grad for argument in arguments)


def _in_one_operator(long_way, short_way, device):
    """`long_way`, but on tensors of a device the other function."""

    @functools.wraps(long_way)
    def way(input, *arguments):
        if _needs_long_way(input, arguments) or input.device.type != device:
            return long_way(input, *arguments)
        return short_way(input, *arguments)

    return way


def shorten(device):
    """Puts the operators in place of the ways round them. Returns a function that undoes it."""
    kept = []
    importlib.import_module("torch._decomp.decompositions")
    for name, (function, short_way) in [way for replaced in REPLACED for way in replaced.short_ways.items()]:
        module = sys.modules.get(name)  # torchvision has been imported, or is not replaced
        long_way = getattr(module, function, None)
        if long_way is not None:
            kept.append((module, function, long_way))
            setattr(module, function, _in_one_operator(long_way, short_way, device))

    def undo():
        for module, function, long_way in kept:
            setattr(module, function, long_way)

    return undo
