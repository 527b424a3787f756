"""What additions to memory on a GPU make of subnormal numbers, by type and instruction: what msda-replay's bounds and `order` assume."""

import collections

import numpy as np
import pytest

INSTRUCTIONS = ("RED", "ATOMG", "ATOM", "shared")
TYPES = {"float32": "uint32", "float64": "uint64", "float16": "uint16", "bfloat16": "uint16"}


def number_of(kind, bits):
    if kind == "bfloat16":
        return np.uint32(bits << 16).view(np.float32)
    return np.dtype(TYPES[kind]).type(bits).view(kind)


def flushed(number):
    return number if abs(number) >= np.finfo(np.float32).tiny else np.copysign(np.float32(0), number)


def sum_of(kind, instruction, first, second):
    """Returns the bits of the sum that an addition to memory makes of numbers that are given by their bits. Those of float32 to global
    memory flush subnormal numbers and sums to zero of their sign. Others keep them, as a loop of the compiler does that adds to
    float32 in shared memory, unless nvcc's -ftz=true is given."""
    a, b = number_of(kind, first), number_of(kind, second)
    if kind == "float32" and instruction != "shared":
        return int(flushed(flushed(a) + flushed(b)).view(np.uint32))
    if kind == "bfloat16":  # by way of float32, which has more than twice the bits: the same as one rounding
        bits = int((a + b).view(np.uint32))
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return int((a + b).view(TYPES[kind]))


def count_right(kind, lines):
    """Returns how many sums of this type each instruction made, all as sum_of says."""
    counts = collections.Counter()
    for line in lines:
        type_name, instruction, *bits = line.split()
        if type_name == kind:
            first, second, found = (int(text, 16) for text in bits)
            wanted = sum_of(kind, instruction, first, second)
            assert found == wanted, f"{instruction}: {first:x} + {second:x} gives {found:x}, not {wanted:x}"
            counts[instruction] += 1
    absent = [name for name in INSTRUCTIONS if not counts[name]]
    assert not absent, f"the program printed no sums of {', '.join(absent)}"
    return counts


@pytest.fixture(scope="module")
def lines(programs):
    return programs.run([programs.compiled("subnormals")]).stdout.splitlines()


@pytest.mark.gpu("nvcc")
@pytest.mark.parametrize("kind", TYPES)
def test_sums_of_the_gpu(lines, kind):
    if kind == "bfloat16" and not any(line.startswith("bfloat16 ") for line in lines):
        pytest.skip("GPUs have such additions from sm_90 on")
    count_right(kind, lines)


# Bits of two numbers, of their sum in global memory and in shared memory.
@pytest.mark.parametrize(("kind", "first", "second", "wanted", "kept"), [
    ("float32", 100, 200, 0, 300), ("float32", 5, 0x3f800000, 0x3f800000, 0x3f800000),
    ("float32", 0x80000001, 0x80000001, 0x80000000, 0x80000002), ("float32", 0x00c00000, 0x80800000, 0, 0x00400000),
    ("float32", 0x00800000, 0x00800000, 0x01000000, 0x01000000), ("float64", 1, 5, 6, 6), ("float16", 1, 0x3ff, 0x400, 0x400),
    ("float16", 5, 0x8001, 4, 4), ("bfloat16", 1, 5, 6, 6), ("bfloat16", 0x80, 0x8001, 0x7f, 0x7f),
    ("bfloat16", 0x3f80, 0x3b80, 0x3f80, 0x3f80)])
def test_sums_of_subnormals(kind, first, second, wanted, kept):
    sums = dict.fromkeys(INSTRUCTIONS, wanted) | {"shared": kept}
    lines = [f"{kind} {name} {first:x} {second:x} {found:x}" for name, found in sums.items()]
    assert count_right(kind, lines).total() == 4
    for at, (name, found) in enumerate(sums.items()):
        with pytest.raises(AssertionError, match=f"{name}: {first:x}"):
            count_right(kind, [*lines[:at], f"{kind} {name} {first:x} {second:x} {found + 1:x}", *lines[at + 1:]])
    with pytest.raises(AssertionError, match="no sums of shared"):
        count_right(kind, lines[:3])
