"""What additions to memory make of subnormal numbers, by type and instruction: what msda-replay's bounds and `order` assume."""

import collections

from .bench import Skip, expect
from .registry import check

INSTRUCTIONS = ("RED", "ATOMG", "ATOM", "shared")
TYPES = {"float32": "uint32", "float64": "uint64", "float16": "uint16", "bfloat16": "uint16"}


def number_of(kind, bits):
    import numpy as np

    if kind == "bfloat16":
        return np.uint32(bits << 16).view(np.float32)
    return np.dtype(TYPES[kind]).type(bits).view(kind)


def flushed(number):
    import numpy as np

    return number if abs(number) >= np.finfo(np.float32).tiny else np.copysign(np.float32(0), number)


def sum_of(kind, instruction, first, second):
    """Returns the bits of the sum that an addition to memory makes of numbers that are given by their bits. Those of float32 to global
    memory flush subnormal numbers and sums to zero of their sign. Others keep them, as a loop of the compiler does that adds to
    float32 in shared memory, unless nvcc's -ftz=true is given."""
    import numpy as np

    one, other = number_of(kind, first), number_of(kind, second)
    if kind == "float32" and instruction != "shared":
        return int(flushed(flushed(one) + flushed(other)).view(np.uint32))
    if kind == "bfloat16":  # by way of float32, which has more than twice the bits: the same as one rounding
        bits = int((one + other).view(np.uint32))
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return int((one + other).view(TYPES[kind]))


def judged(kind, lines):
    """Returns how many sums of this type each instruction made, all as sum_of says; raises Failed for the first that is not."""
    counts = collections.Counter()
    for line in lines:
        of, instruction, *bits = line.split()
        if of != kind:
            continue
        first, second, found = (int(one, 16) for one in bits)
        wanted = sum_of(kind, instruction, first, second)
        expect(found == wanted, f"{instruction}: {first:x} + {second:x} gives {found:x}, not {wanted:x}")
        counts[instruction] += 1
    missing = [one for one in INSTRUCTIONS if not counts[one]]
    expect(not missing, f"the program printed no sums of {', '.join(missing)}")
    return counts


@check("subnormals", "subnormal numbers added by RED, ATOMG, ATOM and to shared memory, in four types", ["nvcc"])
def subnormals(bench):
    lines = []

    def added(kind):
        if not lines:
            lines.extend(bench.run([bench.program("subnormals")]).stdout.splitlines())
        if kind == "bfloat16" and not any(line.startswith("bfloat16 ") for line in lines):
            raise Skip("GPUs have such additions from sm_90 on")
        counts = judged(kind, lines)
        return f"{sum(counts.values())} sums", "flushed to zero, kept in shared memory" if kind == "float32" else "kept"

    for kind in TYPES:
        yield kind, lambda kind=kind: added(kind)
