"""recorder/device/unwritten.ptx, run by ptx_machine.py, against what is to be filled, and what depends on it."""

import struct

import numpy as np
import pytest
from conftest import BUILD
from support.ptx_machine import Kernel, Memory

KERNEL = Kernel((BUILD / "recorder/device/unwritten.ptx").read_text(), threads=256)
COUNTS, MOST_PIECES, FILL, CHECK, SMALL, NAN = 0x10000, 32, 0, 1, 0, 0xFFFFFFFF
# Whole and broken rows, units and words; a single byte; nothing.
SIZES = [12000, 128, 16, 1, 4097, 4, 0, 7, 150]
UNIT = 16


def packed(bits):
    """A bit for each word, 32 in a word of bits."""
    return np.packbits(bits, bitorder="little").tobytes().ljust(4 * (len(bits) // 32 + 1), b"\0")


def unpacked(data, count):
    return np.unpackbits(np.frombuffer(bytes(data), np.uint8), bitorder="little")[:count].astype(bool)


class Piece:
    """What was in memory before the program's launch and after it, and which words nobody had written. `tracked`: whether it has bits."""

    def __init__(self, number, rng, size, tracked=True):
        self.places = [(6 * number + part + 1) << 24 for part in range(6)]
        self.size, self.tracked = size, tracked
        self.before, self.after = (np.frombuffer(rng.bytes(size), np.uint8).copy() for _ in range(2))
        self.unwritten = rng.random(size // 4) < 0.5 if tracked else np.zeros(size // 4, bool)
        kept = rng.random(size) < 0.1  # the launch changed these bytes
        self.after[~kept] = self.before[~kept]

    def allocate(self, memory, now):
        changed = [self.before[at:at + UNIT].tobytes() != self.after[at:at + UNIT].tobytes() for at in range(0, self.size, UNIT)]
        stored = np.full(self.size, 0xAB, np.uint8)  # where nothing is kept
        for number, is_kept in enumerate(changed):
            if is_kept or (number + 1) * UNIT > self.size:
                stored[number * UNIT:(number + 1) * UNIT] = self.after[number * UNIT:(number + 1) * UNIT]
        flags = bytes(flag and (number + 1) * UNIT <= self.size for number, flag in enumerate(changed)).ljust(1, b"\0")
        for place, data in zip(self.places, (now.tobytes(), self.before.tobytes(), stored.tobytes(), flags, packed(self.unwritten), packed(self.unwritten))):
            memory.allocate(place, data)

    def entry(self):
        bits = self.places[4:] if self.tracked else [0, 0]
        return struct.pack("<7Q", *self.places[:4], *bits, self.size)

    def patterns(self, poison):
        """Bits of each word that nobody wrote; zeros elsewhere."""
        words = []
        for number in range(self.size // 4):
            address = self.places[0] + 4 * number
            mixed = (address >> 3) * 0x9E3779B1 % 2**32
            mixed = (mixed ^ mixed >> 15) * 0x85EBCA77 % 2**32
            small = max(mixed >> 28, 1) if address % 8 == 0 else 0
            words.append(small ^ poison)
        return np.array(words, "<u4")


def launch(memory, pieces, mode, poison, blocks=2):
    table = b"".join(piece.entry() for piece in pieces).ljust(56 * MOST_PIECES, b"\0")
    memory.allocate(COUNTS, bytes(16 * MOST_PIECES))
    KERNEL.launch(memory, blocks, {"pieces": table, "mode": struct.pack("<I", mode), "inverted": struct.pack("<I", poison),
                                   "counts": struct.pack("<Q", COUNTS)}, rows=len(pieces))
    counts = struct.unpack(f"<{2 * MOST_PIECES}Q", memory.pieces[COUNTS])
    return list(zip(counts[::2], counts[1::2]))[:len(pieces)]


@pytest.mark.parametrize("poison", [SMALL, NAN])
def test_only_unwritten_words_are_filled(rng, poison):
    memory, pieces = Memory(), [Piece(number, rng, size, tracked=number != 1) for number, size in enumerate(SIZES)]
    for piece in pieces:
        piece.allocate(memory, piece.before)
    assert launch(memory, pieces, FILL, poison) == [(0, 0)] * len(SIZES)
    for piece in pieces:
        expected = piece.before.copy()
        words = expected[:piece.size // 4 * 4].view("<u4")
        words[piece.unwritten] = piece.patterns(poison)[piece.unwritten]
        assert bytes(memory.pieces[piece.places[0]]) == expected.tobytes()
    filled = np.concatenate([piece.patterns(poison)[piece.unwritten] for piece in pieces])
    assert len(set(filled)) == 16 and (poison == SMALL or np.isnan(filled.view("<f4")).all() and np.isnan(filled.view("<f2")).all())


def judged(piece, now, poison):
    """The words that depend on the pattern, and those that nobody has written; byte by byte."""
    patterns, depend, left = piece.patterns(poison).view(np.uint8), 0, 0
    for begin in range(0, piece.size, 4):
        end, number = min(begin + 4, piece.size), begin // 4
        is_unwritten = number < piece.size // 4 and piece.unwritten[number]
        untouched = [is_unwritten and now[at] == patterns[at] and piece.after[at] == piece.before[at] for at in range(begin, end)]
        depend += any(now[at] != piece.after[at] and not untouched[at - begin] for at in range(begin, end))
        left += all(untouched)
    return depend, left


@pytest.mark.parametrize("poison", [SMALL, NAN])
@pytest.mark.parametrize("blocks", [1, 3])
def test_what_depends_and_what_is_left(rng, poison, blocks):
    memory, pieces, results = Memory(), [Piece(number, rng, size, tracked=number != 1) for number, size in enumerate(SIZES)], []
    for piece in pieces:
        now, pattern = piece.after.copy(), piece.patterns(poison).view(np.uint8)
        mask = np.repeat(piece.unwritten, 4)
        now[:len(mask)][mask] = pattern[mask]
        rewritten = np.flatnonzero(rng.random(piece.size) < 0.2)  # as the program's launch did
        now[rewritten] = piece.after[rewritten]
        for at in np.flatnonzero(rng.random(piece.size) < 0.02):  # otherwise
            now[at] ^= 1 << rng.integers(8)
        piece.allocate(memory, now)
        results.append(now)
    expected = [judged(piece, now, poison) for piece, now in zip(pieces, results)]
    assert launch(memory, pieces, CHECK, poison, blocks) == expected
    assert sum(depend for depend, _ in expected) > 50 < sum(left for _, left in expected)
    for piece, now, (_, left) in zip(pieces, results, expected):
        assert bytes(memory.pieces[piece.places[0]]) == now.tobytes()  # nothing is put back
        assert unpacked(memory.pieces[piece.places[5]], piece.size // 4).sum() == left
        assert unpacked(memory.pieces[piece.places[4]], piece.size // 4).tolist() == piece.unwritten.tolist()


def test_words_stay_written(rng):
    """What one of two launches wrote, the other may leave."""
    memory, piece = Memory(), Piece(0, rng, 256)
    piece.unwritten[:] = True
    piece.after[:] = piece.before
    first = piece.patterns(SMALL)
    first[5] = 77
    piece.allocate(memory, first.view(np.uint8))
    assert launch(memory, [piece], CHECK, SMALL) == [(1, 63)]
    memory.pieces[piece.places[0]][:] = piece.patterns(NAN).tobytes()
    assert launch(memory, [piece], CHECK, NAN) == [(0, 63)]
