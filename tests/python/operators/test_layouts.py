"""Tensors with gaps, expanded, turned around and offset: the library computes what it does of contiguous ones, bit for bit."""

import copy

import numpy as np
import pytest
from conftest import BUILD
from support.bits import grid_sample, interpolate, msda, roi_align, scatter_add
from support.bits.compare import Side
from support.bits.devices import Host, load
from support.bits.laid import GUARD, Laid


def elements(laid, memory):
    """The tensor's elements in memory, as a view."""
    numbers = memory[:-GUARD].view(laid.stored)[laid.offset if all(laid.shape) else 0:]
    return np.lib.stride_tricks.as_strided(numbers, laid.shape, [stride * laid.stored.itemsize for stride in laid.strides])


def contiguous(laid):
    plain = Laid(laid.dtype, laid.shape, contiguous=True)
    elements(plain, plain.memory)[...] = elements(laid, laid.memory)
    return plain


@pytest.mark.parametrize("room", [msda, grid_sample, scatter_add, interpolate, roi_align], ids=lambda room: room.__name__.rpartition(".")[2])
@pytest.mark.parametrize("mode", ["deterministic", "float64"])
def test_layouts_decide_no_bit(room, mode):
    side, strided = Side(load(BUILD / "lib" / "libmsda.so"), Host()), 0
    for number in range(40):
        problem = room.Problem(number, 2000)
        plain = copy.copy(problem)
        plain.inputs = {name: contiguous(laid) for name, laid in problem.inputs.items()}
        function = problem.functions[-1]
        results = problem.results_of(function, "float32")
        plain_results = [contiguous(laid) for laid in results]
        strided += any(given.strides != made.strides for given, made in zip(problem.inputs.values(), plain.inputs.values()))
        memories, plain_memories = side.run(problem, function, results, mode), side.run(plain, function, plain_results, mode)
        for laid, made, memory, plain_memory in zip(results, plain_results, memories, plain_memories):
            assert elements(laid, memory).tobytes() == elements(made, plain_memory).tobytes(), f"{number}: {problem}"
    assert strided > 10
