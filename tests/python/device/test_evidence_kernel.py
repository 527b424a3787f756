"""recorder/device/evidence.ptx, run by ptx_machine.py, against exact sums in every order that is tried."""

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from conftest import BUILD
from support.ptx_machine import Kernel, Memory

KERNEL = Kernel((BUILD / "recorder/device/evidence.ptx").read_text(), threads=256)
RESULTS, MOST_PIECES, MOST_ADDITIONS = 0x10000, 16, 1 << 24
COUNT, CLEAR, MEASURE, COMPARE = range(4)
NAMES = ("addresses", "additions", "most", "others", "differing", "exceeding", "unbounded", "elsewhere", "difference", "share", "magnitude")
# By number: bytes of a word, numbers in it, unit roundoff, greatest, flushed.
TYPES = {"f32": (4, 1, 2.0**-24, float(np.finfo(np.float32).max), 16 * 2.0**-126), "f64": (8, 1, 2.0**-53, np.finfo(np.float64).max, 0.0),
         "f16": (4, 2, 2.0**-11, 65504.0, 0.0), "bf16": (4, 2, 2.0**-8, float.fromhex("0x1.fep127"), 0.0)}
each_type = pytest.mark.parametrize("kind", TYPES)


def bits_of(values, kind):
    """The bytes of numbers that the type has."""
    values = np.asarray(values, np.float64)
    if kind == "bf16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype({"f32": "<f4", "f64": "<f8", "f16": "<f2"}[kind]).tobytes()


def rounded(value, kind):
    """The nearest number of the type, of an exact one."""
    if value == 0:
        return Fraction(0)
    exponent = math.frexp(float(value))[1]
    digits = {"f32": 24, "f64": 53, "f16": 11, "bf16": 8}[kind]
    step = Fraction(2) ** (exponent - digits)
    return round(Fraction(value) / step) * step


class Pieces:
    """Pieces at these addresses, with room for what a survey keeps of them."""

    def __init__(self, kind, size, bases):
        self.kind, self.size, self.bases, self.memory = kind, size, bases, Memory()
        for base in bases:
            for part in range(6):
                self.memory.allocate(base + (part << 24), bytes(size))
            self.memory.allocate(base + (6 << 24), bytes(size // 16 + 1))
        self.memory.allocate(RESULTS, bytes(8 * len(NAMES)))

    def put(self, part, data, number=0):
        """Parts: memory, initial, counts, magnitudes, before, after, flags."""
        piece = self.memory.pieces[self.bases[number] + (part << 24)]
        piece[:len(data)] = data

    def get(self, part, number=0):
        return bytes(self.memory.pieces[self.bases[number] + (part << 24)])

    def run(self, mode, blocks=2):
        number = list(TYPES).index(self.kind)
        *_, unit, greatest, flushed = TYPES[self.kind]
        table = b"".join(struct.pack("<8Q", *(base + (part << 24) for part in range(7)), self.size) for base in self.bases)
        packed = {"pieces": table.ljust(64 * MOST_PIECES, b"\0"), "mode": struct.pack("<I", mode), "type": struct.pack("<I", number),
                  "results": struct.pack("<Q", RESULTS)}
        packed |= {name: struct.pack("<d", value) for name, value in (("unit", unit), ("greatest", greatest), ("flushed", flushed))}
        KERNEL.launch(self.memory, blocks, packed, rows=len(self.bases))
        numbers = dict(zip(NAMES, struct.unpack(f"<{len(NAMES)}Q", self.memory.pieces[RESULTS])))
        key = numbers["difference"]
        as_float = {"difference": key >> 32 << 32, "bound": key << 32, "share": numbers["share"], "magnitude": numbers["magnitude"]}
        return numbers | {name: struct.unpack("<d", struct.pack("<Q", value % (1 << 64)))[0] for name, value in as_float.items()}


@each_type
@pytest.mark.parametrize("upper", [0x7F13, 0x7F12, 0x7F10, 0x10000, 1, 0xFFFFF])
def test_additions_are_counted(rng, kind, upper):
    """With words that were changed otherwise between them, in two pieces, the second of which is of another address."""
    step, zeros = TYPES[kind][0], (upper & -upper).bit_length() - 1
    most = min(MOST_ADDITIONS, (1 << 32 - zeros) - 1)
    bases, words = [upper << 32, (upper << 32) + (1 << 30)], 700
    pieces = Pieces(kind, words * step + 3, bases)
    expected = []
    others = 0
    for number in range(2):
        before = rng.integers(0, 1 << 32, words * step // 4, dtype=np.uint64)
        counts = rng.integers(0, 3, words) * rng.integers(0, 1 << rng.integers(1, 25), words) % (most + 1)
        counts[5:7] = most, 1
        after = before.copy()
        after[::step // 4] = (before[::step // 4] + np.uint64(upper) * counts.astype(np.uint64)) % (1 << 32)
        if step == 8:
            after[2 * 11 + 1] ^= np.uint64(1)  # a word's upper half
            others, counts[11] = others + 1, 0
        if zeros:
            after[12 * (step // 4)] = (before[12 * (step // 4)] + 1) % (1 << 32)
            others, counts[12] = others + 1, 0
        if most == MOST_ADDITIONS and most + 1 < 1 << 32 - zeros:
            after[13 * (step // 4)] = (int(before[13 * (step // 4)]) + upper * (most + 1)) % (1 << 32)
            others, counts[13] = others + 1, 0
        pieces.put(1, before.astype("<u4").tobytes() + b"abc", number)
        pieces.put(0, after.astype("<u4").tobytes() + b"xyz", number)
        expected.extend(counts)
        assert (counts > 0).sum() > 300
    results = pieces.run(COUNT)
    counted = [int.from_bytes(pieces.get(2, number)[at:at + 4], "little") for number in range(2) for at in range(0, words * step, step)]
    assert counted == [int(entry) for entry in expected]
    assert (results["addresses"], results["additions"], results["most"]) == (sum(n > 0 for n in counted), sum(counted), max(counted))
    assert results["others"] == others


def test_addresses_below_4_gigabytes_count_nothing():
    pieces = Pieces("f32", 64, [0x2000_0000])
    pieces.put(0, struct.pack("<I", 5))
    results = pieces.run(COUNT)
    assert (results["addresses"], results["others"]) == (0, 1) and pieces.get(2) == bytes(64)


def addends_of(rng, kind, words):
    """For each number: its initial value and what is added to it."""
    numbers, counts = words * TYPES[kind][1], rng.integers(0, 7, words)
    counts[words // 5:words // 2] = 0  # which are in units that a launch leaves as they were
    spread = {"f32": 20, "f64": 40, "f16": 4, "bf16": 4}[kind]
    def drawn():
        return rounded(Fraction(float(rng.normal() * 2.0 ** rng.integers(-spread, 1))), kind)
    return [([Fraction(0), drawn()][rng.integers(2)], [drawn() for _ in range(counts[i // TYPES[kind][1]])]) for i in range(numbers)]


def sum_of(initial, addends, kind):
    for addend in addends:
        initial = rounded(initial + addend, kind)
    return initial


def put_counts(pieces, problem):
    step, each = TYPES[pieces.kind][:2]
    pieces.put(2, b"".join(struct.pack("<I", len(problem[i][1])).ljust(step, b"\0") for i in range(0, len(problem), each)))


def magnitudes_of(problem):
    return [max(map(abs, addends), default=Fraction(0)) for _, addends in problem]


def bound_of(problem, kind):
    """The formula of docs/survey.md, exactly."""
    _, _, unit, _, flushed = TYPES[kind]
    bounds = []
    for (initial, addends), magnitude in zip(problem, magnitudes_of(problem)):
        n = len(addends)
        rounds = n if initial else n - 1
        rounds = 0 if rounds == 1 else rounds
        bound = 2 * rounds * Fraction(unit) * (abs(initial) + n * magnitude)
        bounds.append(bound + ((n + 1) * Fraction(flushed) if rounds else 0))
    return bounds


@each_type
def test_words_that_are_added_to_are_cleared_and_measured(rng, kind):
    words, step = 300, TYPES[kind][0]
    problem, junk = addends_of(rng, kind, words), rng.bytes(words * step)
    pieces = Pieces(kind, words * step, [0x7F12 << 32])
    put_counts(pieces, problem)
    pieces.put(0, junk)
    pieces.run(CLEAR)
    each = len(problem) // words
    for word in range(words):
        assert pieces.get(0)[word * step:(word + 1) * step] == (bytes(step) if problem[each * word][1] else junk[word * step:(word + 1) * step])
    greatest = bits_of([float(max([0, *addends])) for _, addends in problem], kind)
    least = bits_of([float(min([0, *addends])) for _, addends in problem], kind)
    for memory in (greatest, least):
        pieces.put(0, memory)
        pieces.run(MEASURE)
    assert pieces.get(3) == bits_of([float(entry) for entry in magnitudes_of(problem)], kind)


class Compared:
    """The program's result and another one, of the same addends."""

    def __init__(self, kind, problem, own, another):
        step, each = TYPES[kind][:2]
        words = len(problem) // each
        size = words * step + step // 2  # a broken word, which is left out
        self.pieces = pieces = Pieces(kind, size, [0x7F12 << 32])
        put_counts(pieces, problem)
        before = bits_of([float(initial) for initial, _ in problem], kind).ljust(size, b"\1")
        after = bits_of([float(entry) for entry in own], kind).ljust(size, b"\1")
        now = bits_of([float(entry) for entry in another], kind).ljust(size, b"\2")
        flags = [before[at:at + 16] != after[at:at + 16] and at + 16 <= size for at in range(0, size, 16)]
        kept = b"".join(after[at:at + 16] if flags[at // 16] or at + 16 > size else b"\xee" * 16 for at in range(0, size, 16))
        for part, data in ((0, now), (1, before), (4, before), (5, kept), (6, bytes(flags)),
                           (3, bits_of([float(entry) for entry in magnitudes_of(problem)], kind))):
            pieces.put(part, data)

    def results(self):
        return self.pieces.run(COMPARE)


@each_type
def test_every_order_is_within_the_bound(rng, kind):
    """All orders of few addends, of which those furthest apart are compared."""
    problem = addends_of(rng, kind, 60)
    sums = [[sum_of(initial, order, kind) for order in itertools.islice(itertools.permutations(addends), 720)] for initial, addends in problem]
    own, another = [max(some) for some in sums], [min(some) for some in sums]
    differences = [a - b for a, b in zip(own, another)]
    assert sum(difference > 0 for difference in differences) > 10
    results, bounds = Compared(kind, problem, own, another).results(), bound_of(problem, kind)
    greatest = max(differences)
    assert results["differing"] == sum(difference > 0 for difference in differences) and results["exceeding"] == results["unbounded"] == results["elsewhere"] == 0
    assert results["difference"] == pytest.approx(float(greatest), rel=2e-6)
    assert results["bound"] == pytest.approx(float(max(b for b, d in zip(bounds, differences) if d == greatest)), rel=1e-5)
    assert results["share"] == pytest.approx(max(float(d / b) for b, d in zip(bounds, differences) if d), rel=1e-5)
    assert results["share"] < 1 and results["magnitude"] == float(max(magnitudes_of(problem)))


@each_type
def test_what_no_order_gives_exceeds_the_bound(rng, kind):
    problem = addends_of(rng, kind, 60)
    bounds, own = bound_of(problem, kind), [sum_of(*entry, kind) for entry in problem]
    added = [i for i, entry in enumerate(problem) if entry[1]]
    digits = {"f32": 24, "f64": 53, "f16": 11, "bf16": 8}[kind]
    def beyond(i):
        step = Fraction(2) ** (math.frexp(float(own[i]) or float(bounds[i]) or 1.0)[1] - digits)
        return rounded(own[i] + 2 * bounds[i] + 2 * step, kind)
    another = list(own)
    chosen = added[::7]
    for i in chosen:
        another[i] = beyond(i)
        assert abs(another[i] - own[i]) > bounds[i] * (1 + Fraction(1, 1 << 19))
    results = Compared(kind, problem, own, another).results()
    assert (results["differing"], results["exceeding"], results["unbounded"]) == (len(chosen), len(chosen), 0) and results["share"] > 1


def test_one_addition_and_two_to_zero_have_one_result():
    """So any difference is of another cause."""
    problem = [(Fraction(0), [Fraction(1)]), (Fraction(3), [Fraction(1)]), (Fraction(0), [Fraction(1), Fraction(2)]), (Fraction(1), [Fraction(1)] * 2)]
    own = [Fraction(1), Fraction(4), Fraction(3), Fraction(3)]
    another = [entry + Fraction(1, 1 << 21) for entry in own]
    results = Compared("f32", problem, own, another).results()
    assert results["exceeding"] == 3 and results["differing"] == 4 and results["share"] == math.inf


@pytest.mark.parametrize("kind, addend, count", [("f32", 2.0**127, 3), ("f64", 2.0**1023, 3), ("f16", 60000.0, 2), ("bf16", 2.0**127, 3), ("f32", math.inf, 1)])
def test_sums_that_may_overflow_have_no_bound(kind, addend, count):
    each = TYPES[kind][1]
    problem = [(Fraction(0), [Fraction(0)] * count)] * each
    compared = Compared(kind, problem, [Fraction(1)] * each, [Fraction(2)] * each)
    compared.pieces.put(3, bits_of([addend] * each, kind))
    results = compared.results()
    assert (results["unbounded"], results["exceeding"], results["difference"], results["bound"]) == (each, 0, 1, math.inf)


@each_type
def test_without_magnitudes_there_is_no_bound(kind):
    """All of their bits are set then: no number."""
    each = TYPES[kind][1]
    compared = Compared(kind, [(Fraction(0), [Fraction(1)] * 3)] * each, [Fraction(1)] * each, [Fraction(2)] * each)
    compared.pieces.put(3, b"\xff" * TYPES[kind][0])
    results = compared.results()
    assert results["unbounded"] == each and results["difference"] == 1 and not math.isfinite(results["magnitude"])


def test_subnormal_numbers_may_be_lost():
    """To float32, whose atomic additions take them as 0."""
    problem = [(Fraction(0), [Fraction(2.0**-140), Fraction(2.0**-127), Fraction(2.0**-127)])] * 2
    results = Compared("f32", problem, [Fraction(2.0**-126) + Fraction(2.0**-140)] * 2, [Fraction(0), Fraction(2.0**-126)]).results()
    assert (results["differing"], results["exceeding"]) == (2, 0)
    results = Compared("f32", problem, [Fraction(2.0**-119)] * 2, [Fraction(0), Fraction(2.0**-126)]).results()
    assert (results["differing"], results["exceeding"]) == (2, 2)


def test_what_differs_elsewhere():
    problem = [(Fraction(0), [])] * 9
    results = Compared("f32", problem, [Fraction(1)] * 9, [Fraction(1)] * 5 + [Fraction(2)] * 4).results()
    assert results["elsewhere"] == 4 and results["differing"] == 0
