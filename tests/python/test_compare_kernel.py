"""recorder/device/compare.ptx, run by ptx_machine.py, against a comparison of the bytes."""

import struct

from conftest import SOURCE
from ptx_machine import Kernel, Memory

KERNEL = Kernel((SOURCE / "recorder/device/compare.ptx").read_text(), threads=256)
COUNTS, MOST_PIECES = 0x10000, 32
# Whole and broken units, words and blocks; a single byte; nothing.
SIZES = [12000, 4096, 16, 1, 4097, 4096 * 2 + 15, 0, 7, 20]


def words(data):
    return [data[at:at + 4] for at in range(0, len(data), 4)]


def counted(memory, pairs, blocks):
    pieces = b"".join(struct.pack("<QQQ", *pair) for pair in pairs).ljust(24 * MOST_PIECES, b"\0")
    memory.allocate(COUNTS, bytes(8 * MOST_PIECES))
    KERNEL.launch(memory, blocks, {"pieces": pieces, "counts": struct.pack("<Q", COUNTS)}, rows=len(pairs))
    return list(struct.unpack(f"<{MOST_PIECES}Q", memory.pieces[COUNTS]))


def changed(rng, data, count):
    other = bytearray(data)
    for at in rng.integers(0, max(len(data), 1), count if data else 0):
        other[at] ^= 1 << rng.integers(8)
    return bytes(other)


def pairs_of(rng, memory, sizes, count):
    pairs, expected = [], []
    for i, size in enumerate(sizes):
        data = rng.bytes(size)
        other = changed(rng, data, count)
        addresses = (2 * i + 1) << 24, (2 * i + 2) << 24
        for address, bytes_of in zip(addresses, (data, other)):
            memory.allocate(address, bytes_of)
        pairs.append((*addresses, size))
        expected.append(sum(a != b for a, b in zip(words(data), words(other))))
    return pairs, expected


def test_every_size(rng):
    for blocks in (1, 2):
        memory = Memory()
        pairs, expected = pairs_of(rng, memory, SIZES, 40)
        assert counted(memory, pairs, blocks) == expected + [0] * (MOST_PIECES - len(SIZES))
        assert sum(expected) > 100


def test_the_first_and_the_last_byte(rng):
    for size in (size for size in SIZES if size):
        for at in (0, size - 1):
            memory, data = Memory(), bytearray(rng.bytes(size))
            memory.allocate(1 << 24, data)
            data[at] ^= 128
            memory.allocate(2 << 24, data)
            assert counted(memory, [(1 << 24, 2 << 24, size)], 1)[0] == 1, (size, at)


def test_equal_memory_and_as_many_pieces_as_fit(rng):
    memory = Memory()
    pairs, _ = pairs_of(rng, memory, [16 * (i + 1) for i in range(MOST_PIECES)], 0)
    assert counted(memory, pairs, 1) == [0] * MOST_PIECES
