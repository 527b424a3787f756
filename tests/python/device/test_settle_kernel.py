"""recorder/device/settle.ptx, run by ptx_machine.py, against what is to be kept, counted and put back."""

import struct

import pytest
from conftest import BUILD
from support.ptx_machine import Kernel, Memory

KERNEL = Kernel((BUILD / "recorder/device/settle.ptx").read_text(), threads=256)
COUNT, MOST_PIECES = 0x10000, 32
KEEP, COMPARE, COMPARE_AND_END = range(3)
# Whole and broken units, words and blocks; a single byte; nothing.
SIZES = [12000, 4096, 16, 1, 4097, 4096 * 2 + 15, 0, 7, 20]


def words(data):
    return [data[at:at + 4] for at in range(0, len(data), 4)]


def changed(rng, data, count):
    another = bytearray(data)
    for at in rng.integers(0, max(len(data), 1), count if data else 0):
        another[at] ^= 1 << rng.integers(8)
    return bytes(another)


class Pieces:
    """Pieces of memory with a copy of what was in them before; what a launch changed is in them now."""

    def __init__(self, before, now):
        self.memory, self.before, self.sizes = Memory(), before, [len(data) for data in before]
        for i, (old, new) in enumerate(zip(before, now)):
            for place, data in zip(self.places(i), (new, old, bytes(len(old)), bytes(len(old) // 16 + 1))):
                self.memory.allocate(place, data)

    @staticmethod
    def places(i):
        return [(4 * i + part + 1) << 24 for part in range(4)]

    def set(self, contents):
        for i, data in enumerate(contents):
            self.memory.pieces[self.places(i)[0]][:] = data

    def contents(self):
        return [bytes(self.memory.pieces[self.places(i)[0]]) for i in range(len(self.sizes))]

    def settle(self, mode, blocks):
        table = b"".join(struct.pack("<5Q", *self.places(i), size) for i, size in enumerate(self.sizes)).ljust(40 * MOST_PIECES, b"\0")
        self.memory.allocate(COUNT, bytes(8) + bytes([255] * 8))
        KERNEL.launch(self.memory, blocks, {"pieces": table, "mode": struct.pack("<I", mode), "count": struct.pack("<Q", COUNT)},
                      rows=len(self.sizes))
        assert self.memory.load(COUNT + 8, 8) == 0
        return self.memory.load(COUNT, 8)


def differing(some, others):
    return sum(a != b for entry, another in zip(some, others) for a, b in zip(words(entry), words(another)))


def where_kept(before, result, now, otherwise):
    """Returns of `now` what lies in units of 16 bytes that a launch changed, or in a broken one at the end; elsewhere the other."""
    return [b"".join(new[at:at + 16] if old[at:at + 16] != kept[at:at + 16] or at + 16 > len(old) else another[at:at + 16]
                     for at in range(0, len(old), 16)) for old, kept, new, another in zip(before, result, now, otherwise)]


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_launch_and_two_more(rng, blocks):
    before = [rng.bytes(size) for size in SIZES]
    result, second, third = ([changed(rng, data, 30) for data in before] for _ in range(3))
    pieces = Pieces(before, result)
    assert pieces.settle(KEEP, blocks) == 0
    assert pieces.contents() == before
    pieces.set(second)
    assert pieces.settle(COMPARE, blocks) == differing(where_kept(before, result, second, result), result)
    assert pieces.contents() == where_kept(before, result, before, second)
    pieces.set(third)
    assert pieces.settle(COMPARE_AND_END, blocks) == differing(third, result)
    assert pieces.contents() == result and differing(third, result) > 100


def test_equal_results_and_as_many_pieces_as_fit(rng):
    before = [rng.bytes(16 * (i + 1)) for i in range(MOST_PIECES)]
    result = [changed(rng, data, 3) for data in before]
    pieces = Pieces(before, result)
    pieces.settle(KEEP, 1)
    for mode in (COMPARE, COMPARE_AND_END):
        pieces.set(result)
        assert pieces.settle(mode, 1) == 0
    assert pieces.contents() == result


@pytest.mark.parametrize("size", [size for size in SIZES if size])
def test_the_first_and_the_last_byte(rng, size):
    """What the first launch left as it was, another one changes."""
    for at in (0, size - 1):
        before = rng.bytes(size)
        pieces = Pieces([before], [before])
        pieces.settle(KEEP, 1)
        another = bytearray(before)
        another[at] ^= 128
        pieces.set([another])
        assert pieces.settle(COMPARE_AND_END, 1) == 1
        assert pieces.contents() == [before]
