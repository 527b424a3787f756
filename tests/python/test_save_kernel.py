"""recorder/device/scan.ptx, run by ptx_machine.py: words that point out of the memory that has them."""

import struct

import pytest
from conftest import SOURCE
from ptx_machine import Kernel, Memory

KERNEL = Kernel((SOURCE / "recorder/device/scan.ptx").read_text(), threads=256)
FOUND, MOST = 0x10000, 4095
LEAST, END = 0x7000_0000_0000, 0x7000_8000_0000


def found_in(pieces, blocks):
    """`pieces`: lists of words, by address."""
    memory = Memory()
    for address, words in pieces.items():
        memory.allocate(address, struct.pack(f"<{len(words)}Q", *words))
    memory.allocate(FOUND, bytes(8 * (1 + MOST)))
    table = b"".join(struct.pack("<QQ", address, 8 * len(words)) for address, words in pieces.items()).ljust(512, b"\0")
    numbers = {"least": LEAST, "range": END - LEAST, "found": FOUND}
    KERNEL.launch(memory, blocks, {"pieces": table, **{name: struct.pack("<Q", number) for name, number in numbers.items()}},
                  rows=len(pieces))
    count, *words = struct.unpack(f"<{1 + MOST}Q", memory.pieces[FOUND])
    return count, sorted(words[:count])[-MOST:]


@pytest.mark.parametrize("blocks", [1, 3])
def test_words_that_point_elsewhere_are_found(rng, blocks):
    own, other = LEAST + 0x1000, LEAST + 0x100000
    words = [int(one) for one in rng.integers(0, 1 << 40, 1500)]
    pointers = [LEAST, END - 1, LEAST + 0x12345, other + 8 * 700]
    for place, pointer in zip((0, 1499, 257, 1023), pointers):
        words[place] = pointer
    words[3], words[4], words[5] = own, own + 8 * 1500 - 1, other  # into the pieces themselves
    words[6], words[7] = LEAST - 1, END
    assert found_in({own: words, other: [other + 8, own] * 350}, blocks) == (4, sorted(pointers))


def test_more_than_there_is_room_for_are_counted():
    count, words = found_in({LEAST: [END - 8] * 5000}, 2)
    assert count == 5000 and words == [END - 8] * MOST
