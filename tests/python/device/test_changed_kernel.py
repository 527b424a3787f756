"""recorder/device/changed.ptx, run by ptx_machine.py, against NumPy: where memory differs from its copy, and the digest of that."""

import struct

import numpy as np
import pytest
from conftest import BUILD
from support.problems import recorder_digest
from support.ptx_machine import Kernel, Memory

KERNEL = Kernel((BUILD / "recorder/device/changed.ptx").read_text(), threads=256)
MEMORY, COPIES, FOUND, SLOT = 0x2000_0000, 0x4000_0000, 0x10000, 0x20000
MOST, WORDS = 32, 6
LEAST, END = 0x7000_0000_0000, 0x7000_8000_0000


class Device:
    """What is found of a piece lies in device memory, as zeros before the first launch, and stays there from launch to launch."""

    def __init__(self):
        self.memory, self.sequence = Memory(), 0
        self.memory.allocate(FOUND, bytes(8 * (MOST * WORDS + 1)))
        self.memory.allocate(SLOT, bytes(8 * (MOST * WORDS + 1)))

    def find(self, before, now, blocks, least=LEAST, end=END):
        """`before` and `now`: bytes of each piece. What the kernel says of each."""
        table = b""
        for i, (copy, data) in enumerate(zip(before, now)):
            self.memory.allocate(MEMORY + (i << 20), data)
            self.memory.allocate(COPIES + (i << 20), copy)
            table += struct.pack("<QQQ", MEMORY + (i << 20), COPIES + (i << 20), len(data))
        self.sequence += 7
        numbers = {"least": least, "range": end - least, "found": FOUND, "slot": SLOT, "sequence": self.sequence}
        parameters = {"pieces": table.ljust(24 * MOST, b"\0"), **{name: struct.pack("<Q", number) for name, number in numbers.items()}}
        for mode in (0, 1):
            assert self.memory.load(SLOT, 8) == self.sequence - 7  # nothing is handed over before the end
            KERNEL.launch(self.memory, blocks, {**parameters, "mode": struct.pack("<I", mode)}, rows=len(now))
        assert self.memory.load(SLOT, 8) == self.sequence
        assert not any(self.memory.pieces[FOUND])  # cleared for the next launch
        words = struct.unpack(f"<{WORDS * len(now)}Q", self.memory.pieces[SLOT][8:8 + 8 * WORDS * len(now)])
        return [words[i:i + WORDS] for i in range(0, len(words), WORDS)]


def expected(before, now, least=LEAST, end=END):
    """First changed byte, end, number of changed bytes, digest of the numbers of 4 bytes that hold them, by units, with addresses as 1;
    the number of units with changed bytes, and in bit 63 whether there are addresses."""
    at = np.flatnonzero(np.frombuffer(before, "u1") != np.frombuffer(now, "u1"))
    if len(at) == 0:
        return (0, 0, 0, 0, 0, 0)
    units = bytearray(now[at[0] // 16 * 16:(at[-1] // 16 + 1) * 16])
    units += bytes(-len(units) % 16)
    words = np.frombuffer(bytes(units), "<u8").copy()
    is_address = (words >= least) & (words < end)
    words[is_address] = 1
    numbers = np.arange(2 * len(words)) + at[0] // 16 * 4
    counts = (numbers >= at[0] // 4) & (numbers <= at[-1] // 4)
    digest = recorder_digest((words.view("<u4") * counts.astype("<u4")).tobytes())
    has_addresses = (is_address & counts.reshape(-1, 2).any(1)).any()
    count = len(set(at // 16)) | (int(has_addresses) << 63)
    return (int(digest[:16], 16), int(digest[16:], 16), 2**64 - 1 - int(at[0]), int(at[-1]) + 1, len(at), count)


def changed(rng, data, places):
    another = bytearray(data)
    for place in places:
        another[place] ^= int(rng.integers(1, 256))
    return bytes(another)


def random_bytes(rng, size):
    return bytes(rng.integers(0, 256, size, dtype="uint8"))


def check(before, now, blocks=3):
    assert Device().find(before, now, blocks) == [expected(*entry) for entry in zip(before, now)]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 4096, 8207])
def test_each_byte_that_may_be_the_first_or_the_last(rng, size):
    data = random_bytes(rng, size)
    for first in {0, min(1, size - 1), size // 2, size - 1}:
        last = int(rng.integers(first, size))
        check([data], [changed(rng, data, {first, last})], blocks=1 if size < 4096 else 2)


@pytest.mark.parametrize("blocks", [1, 5])
def test_bytes_are_counted(rng, blocks):
    """Single bits, bytes that become 0, whole words: each differing byte is one."""
    data = random_bytes(rng, 9000)
    for count in (1, 15, 8000):
        check([data], [changed(rng, data, set(rng.integers(0, 9000, count).tolist()))], blocks)
    check([b"\xff" * 100], [bytes(100)], blocks)
    check([bytes(100)], [bytes(7) + b"\x80" + bytes(92)], blocks)


def test_nothing_changed(rng):
    data = random_bytes(rng, 5000)
    check([data, b"", data[:16]], [data, b"", data[:16]])


def test_several_pieces_of_odd_sizes(rng):
    sizes = [16, 1, 4097, 8191, 33, 4096, 7]
    before = [random_bytes(rng, size) for size in sizes]
    now = [changed(rng, data, set(rng.integers(0, len(data), 5).tolist())) for data in before]
    now[3] = before[3]
    check(before, now)


def test_as_many_pieces_as_there_may_be(rng):
    before = [random_bytes(rng, 20) for _ in range(MOST)]
    check(before, [changed(rng, data, {i % 20}) for i, data in enumerate(before)], blocks=1)


def test_addresses_do_not_count(rng):
    """Memory with other addresses at the same places has the same digest; words that are just none differ."""
    words = rng.integers(0, 1 << 40, 200).astype("<u8")
    before = words.tobytes()

    def with_words(*some):
        another = words.copy()
        another[[10, 77, 199]] = some
        return another.tobytes()

    entry, another = with_words(LEAST, END - 1, LEAST + 8), with_words(LEAST + 0x5000, LEAST + 0x123456, END - 8)
    found = [Device().find([before], [now], 2)[0] for now in (entry, another)]
    assert found == [expected(before, entry), expected(before, another)]
    assert found[0][:2] == found[1][:2] and found[0][5] >> 63 == 1
    for none in (LEAST - 1, END):
        now = with_words(none, 5, 6)
        (found,) = Device().find([before], [now], 2)
        assert found == expected(before, now) and found[5] >> 63 == 0


def test_addresses_beside_what_changed_are_left_alone(rng):
    """They do not make the launch one that writes addresses."""
    words = rng.integers(0, 1 << 40, 50).astype("<u8")
    words[[0, 21, 49]] = LEAST
    another = words.copy()
    another[20] += 1
    (found,) = Device().find([words.tobytes()], [another.tobytes()], 1)
    assert found == expected(words.tobytes(), another.tobytes()) and found[5] >> 63 == 0


def test_no_memory_is_known(rng):
    data = random_bytes(rng, 100)
    another = changed(rng, data, {3, 80})
    assert Device().find([data], [another], 1, least=0, end=0) == [expected(data, another, 0, 0)]


def test_one_launch_after_the_other(rng):
    """Nothing is left of the one before, which had more pieces and changed more."""
    device = Device()
    for count in (5, 2, 1, 7):
        before = [random_bytes(rng, 100 * (i + 1)) for i in range(count)]
        now = [changed(rng, data, set(rng.integers(0, len(data), 9 if count > 2 else 1).tolist())) for data in before]
        assert device.find(before, now, 2) == [expected(*entry) for entry in zip(before, now)]
