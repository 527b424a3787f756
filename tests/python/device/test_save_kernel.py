"""recorder/device/save.ptx, run by ptx_machine.py: copies, and words that point out of the memory that has them."""

import struct

import pytest
from conftest import BUILD
from support.ptx_machine import Kernel, Memory

KERNEL = Kernel((BUILD / "recorder/device/save.ptx").read_text(), threads=256)
FOUND, MOST = 0x10000, 4095
ANY = 0x8000
COPIES = 0x2000_0000
LEAST, END = 0x7000_0000_0000, 0x7000_8000_0000


def found_in(pieces, blocks, known=0):
    """`pieces`: bytes, by address. How many words were found, and those that are listed; the copies are checked."""
    memory, table = Memory(), b""
    for number, (address, data) in enumerate(pieces.items()):
        memory.allocate(address, data)
        memory.allocate(COPIES + (number << 20), bytes(len(data)))
        table += struct.pack("<QQQ", address, COPIES + (number << 20), len(data))
    memory.allocate(ANY, bytes(4))
    memory.allocate(FOUND, struct.pack("<Q", known) + bytes(8 * MOST))
    numbers = {"least": LEAST, "range": END - LEAST, "found": FOUND, "known": known, "any": ANY}
    KERNEL.launch(memory, blocks, {"pieces": table.ljust(768, b"\0"), **{name: struct.pack("<Q", number) for name, number in numbers.items()}},
                  rows=len(pieces))
    for number, data in enumerate(pieces.values()):
        assert memory.pieces[COPIES + (number << 20)] == data
    count, *words = struct.unpack(f"<{1 + MOST}Q", memory.pieces[FOUND])
    assert memory.load(ANY, 4) == (count > known)
    return count - known, sorted(words[: count - known])[-MOST:]


def packed(words):
    return struct.pack(f"<{len(words)}Q", *words)


@pytest.mark.parametrize("blocks", [1, 3])
def test_words_that_point_elsewhere_are_found(rng, blocks):
    own, another = LEAST + 0x1000, LEAST + 0x100000
    words = [int(entry) for entry in rng.integers(0, 1 << 40, 1501)]
    pointers = [LEAST, END - 1, LEAST + 0x12345, another + 8 * 700, LEAST + 0x777]
    for place, pointer in zip((0, 1499, 257, 1023, 1500), pointers):
        words[place] = pointer
    words[3], words[4], words[5] = own, own + 8 * 1501 - 1, another  # into the pieces themselves
    words[6], words[7], words[8] = LEAST - 1, END, 0
    assert found_in({own: packed(words), another: packed([another + 8, own] * 350)}, blocks, known=70) == (5, sorted(pointers))


@pytest.mark.parametrize("size", [*range(1, 18), 4096, 4100, 12287])
def test_any_number_of_bytes_is_copied(rng, size):
    data = bytes(rng.integers(0, 256, size, dtype="uint8"))
    end = packed([LEAST + 5]) if size % 16 >= 8 else b""  # the last whole word
    data = data[: size // 8 * 8 - len(end)] + end + data[size // 8 * 8:]
    assert found_in({LEAST + 0x1000: data}, 2) == (len(end) // 8, [LEAST + 5] * (len(end) // 8))


def test_more_than_there_is_room_for_are_counted():
    count, words = found_in({LEAST: packed([END - 8] * 5000)}, 2)
    assert count == 5000 and words == [END - 8] * MOST
