"""recorder/device/digest.ptx, run by ptx_machine.py, against the digest as digest.h describes it."""

import struct

import pytest
from conftest import BUILD
from support.ptx_machine import Kernel, Memory

KERNEL = Kernel((BUILD / "recorder/device/digest.ptx").read_text(), threads=256)
SUMS, SLOT, SLOT_BYTES = 0x10000, 0x20000, 1032  # as kDigestSlotBytes
CHUNK_BITS = 14
KEYS = ((0xA0761D6478BD642F, 0xE7037ED1A0B428DB), (0x8EBC6AF09C88C6E3, 0x589965CC75374CC3))
ALL = 1 << 64


def digest(data):
    sums = [0, 0]
    for at in range(0, len(data), 16):
        a, b = struct.unpack("<QQ", data[at:at + 16].ljust(16, b"\0"))
        for i, keys in enumerate(KEYS):
            x, y = (word ^ (at * 0x9E3779B97F4A7C15 + key) % ALL for word, key in zip((a, b), keys))
            sums[i] += x * y % ALL ^ x * y >> 64
    return [sums[0] % ALL, sums[1] % ALL]


class Device:
    """Sums and a slot, and tensors of the given sizes, each so many bytes behind an aligned address; of the first bytes some may count as
    zeros."""

    def __init__(self, rng, tensors):
        self.memory, self.ranges, self.digests = Memory(), [], []
        self.memory.allocate(SUMS, bytes(SLOT_BYTES))
        self.memory.allocate(SLOT, bytes(SLOT_BYTES))
        for i, (size, offset, *zeros) in enumerate(tensors):
            data, before = rng.bytes(size), sum(zeros)
            self.memory.allocate((i + 1) << 24, bytes(offset) + data)
            self.ranges.append((((i + 1) << 24) + offset, size, before))
            self.digests.append(digest(bytes(before) + data[before:]))

    def launch(self, ranges, sequence, first=0, handed_over=0, hands_over=True):
        pieces, first_blocks, blocks = b"", [], 0
        for address, size, before in ranges:
            pieces += struct.pack("<QQ", address, size | before << 60)
            first_blocks.append(blocks)
            blocks += (size - 1 >> CHUNK_BITS) + 1
        numbers = {"first": first, "from": handed_over, "end": first + len(ranges), "chunk_bits": CHUNK_BITS}
        wide = {"sums": SUMS, "slot": SLOT if hands_over else 0, "sequence": sequence}
        KERNEL.launch(self.memory, blocks, {
            "pieces": pieces.ljust(512, b"\0"), "first_blocks": struct.pack("<32I", *first_blocks, *[0xFFFFFFFF] * (32 - len(ranges))),
            **{name: struct.pack("<Q", value) for name, value in wide.items()},
            **{name: struct.pack("<I", value) for name, value in numbers.items()}})

    def slot(self):
        sequence, *sums = struct.unpack(f"<{SLOT_BYTES // 8}Q", self.memory.pieces[SLOT])
        return sequence, [list(pair) for pair in zip(sums[::2], sums[1::2])]

    def has_sums(self):
        return any(self.memory.pieces[SUMS])


# Whole and broken chunks, pairs and units; a single byte; addresses that are not aligned.
TENSORS = [(40000, 0), (1, 0), (16384, 0), (4096 + 5, 0), (8192 + 16, 0), (5000, 3), (40, 8)]


def test_every_size_and_alignment(rng):
    device = Device(rng, TENSORS)
    device.launch(device.ranges, sequence=7)
    assert device.slot()[0] == 7 and device.slot()[1][:len(TENSORS)] == device.digests
    assert not device.has_sums()


def test_first_bytes_that_count_as_zeros(rng):
    """In one unit, in a whole chunk and more, and with an end amidst a unit."""
    tensors = [(12, 0, 4), (16, 0, 12), (24, 0, 8), (8196, 0, 4), (16384, 0, 12), (40001, 0, 8)]
    device = Device(rng, tensors)
    device.launch(device.ranges, sequence=1)
    assert device.slot()[1][:len(tensors)] == device.digests


@pytest.mark.parametrize("hands_over", [True, False])
def test_a_later_launch_goes_on_and_takes_along_what_stayed(rng, hands_over):
    device = Device(rng, TENSORS[1:5])
    device.launch(device.ranges[:2], sequence=1, hands_over=hands_over)
    assert device.slot()[0] == hands_over and device.has_sums() != hands_over
    device.launch(device.ranges[2:], sequence=2, first=2, handed_over=2 if hands_over else 0)
    assert device.slot()[0] == 2 and device.slot()[1][:len(device.digests)] == device.digests
    assert not device.has_sums()


def test_as_many_tensors_as_fit(rng):
    device = Device(rng, [(16 * (i + 1), 0) for i in range(64)])
    device.launch(device.ranges[:32], sequence=1, hands_over=False)
    device.launch(device.ranges[32:], sequence=2, first=32)
    assert device.slot() == (2, device.digests)
    assert not device.has_sums()
