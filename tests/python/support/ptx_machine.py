"""Runs a kernel given as PTX, thread by thread: what the recorder's PTX uses of the language, for tests where there is no GPU.

Memory is checked: an access outside what was allocated, or not aligned, raises. Blocks run one after the other in random order.
"""

import bisect
import functools
import operator
import random
import re
import struct

import numpy as np

WARP = 32
OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
              "min": min, "max": max, "shl": lambda a, b: a << min(b, 64), "shr": lambda a, b: a >> min(b, 64), "cvt": lambda a, _: a,
              "popc": lambda a, _: a.bit_count()}
OPERATIONS |= {"not": lambda a, _: ~a}
OF_WIDTH = {"brev": lambda a, width: int(f"{a:0{width}b}"[::-1], 2), "clz": lambda a, width: width - a.bit_length()}
COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}  # registers have their bits
FLOAT_OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "abs": lambda a, _: abs(a),
                    "cvt": lambda a, _: a}
PARAMETERS, SHARED = 1 << 60, 1 << 61  # where these memories begin


class Memory:
    def __init__(self):
        self.pieces, self.begins = {}, []

    def allocate(self, address, data):
        self.pieces[address] = bytearray(data)
        self.begins = sorted(self.pieces)

    def at(self, address, size):
        assert address % size == 0, f"{size} bytes at {address:#x} are not aligned"
        number = bisect.bisect(self.begins, address) - 1
        begin = self.begins[number]
        piece, place = self.pieces[begin], address - begin
        assert number >= 0 and place + size <= len(piece), f"{size} bytes at {address:#x} are not allocated"
        return piece, slice(place, place + size)

    def load(self, address, size):
        piece, place = self.at(address, size)
        return int.from_bytes(piece[place], "little")

    def store(self, address, size, value):
        piece, place = self.at(address, size)
        piece[place] = (value % (1 << 8 * size)).to_bytes(size, "little")


def operands(text):
    return [entry.strip() for entry in re.split(r",(?![^{]*\})", text)] if text else []


@functools.cache
def members(text):
    return [entry.strip() for entry in text.strip("{}").split(",")]


@functools.cache
def terms(text):
    """Splits "[%rd1+16]" into ["%rd1", "16"]."""
    return [entry.strip() for entry in text.strip("[]").split("+")]


@functools.cache
def integer(text):
    return int(text.replace("0d", "0x"), 0)  # 0d begins the bits of a number of float64


def number(bits, kind):
    """The value of these bits as a number of such a type: float64 holds each of them exactly."""
    if kind not in FLOATS:
        return np.float64(bits)
    return np.float64(struct.unpack(FLOATS[kind], bits.to_bytes(struct.calcsize(FLOATS[kind]), "little"))[0])


class Kernel:
    """One entry of PTX, with all of its labels and parameters."""

    def __init__(self, source, threads):
        source = re.sub(r"//.*", "", source)
        head, body = source[source.index(".entry"):source.rindex("}")].split("\n{", 1)
        self.threads, self.code, self.labels, self.names = threads, [], {}, {}
        for align, kind, name, count in re.findall(r"\.param (?:\.align (\d+) )?\.(b8|u32|u64) (\w+)(?:\[(\d+)\])?", head):
            size = int(align or int(kind[1:]) // 8)
            end = max((place + length for place, length in self.names.values()), default=0)
            self.names[name] = -(-end // size) * size, int(count or size)
        shared = re.search(r"\.shared \.align \d+ \.b8 (\w+)\[(\d+)\];", body)
        self.shared_bytes = int(shared[2]) if shared else 0
        self.addresses = {**({shared[1]: SHARED} if shared else {}), **{name: PARAMETERS + place for name, (place, _) in self.names.items()}}
        for part in re.split(r"(?<=[;:])\s*", re.sub(r"(?m)^\s*\.(reg|shared|pragma)[^;]*;", "", body).strip()):
            if part.endswith(":"):
                self.labels[part[:-1]] = len(self.code)
            elif part:
                self.code.append(self.read(part[:-1]))

    @staticmethod
    def read(line):
        """Splits "@!%p setp.ge.u32 %q, %a, %b": ("%p", False), ["setp", "ge", "u32"], ["%q", "%a", "%b"]."""
        guard = re.match(r"@(!?)(%\w+)\s+", line)
        name, _, rest = line[guard.end() if guard else 0:].partition(" ")
        return guard and (guard[2], not guard[1]), name.split("."), operands(rest)

    def launch(self, memory, blocks, parameters, rows=1):
        """A grid of so many blocks in each row. `parameters`: the bytes of each, by name."""
        size = max(place + length for place, length in self.names.values())
        packed = bytearray(size)
        for name, data in parameters.items():
            place, length = self.names[name]
            assert len(data) == length, name
            packed[place:place + length] = data
        memory.allocate(PARAMETERS, packed)
        for block in random.sample(range(blocks * rows), blocks * rows):
            memory.allocate(SHARED, bytes(self.shared_bytes))
            self.run_block(memory, {"%ctaid.x": block % blocks, "%ctaid.y": block // blocks, "%nctaid.x": blocks,
                                    "%nctaid.y": rows})

    def run_block(self, memory, place):
        threads = [Thread(self, memory, {**place, "%tid.x": i}).run() for i in range(self.threads)]
        answers = dict.fromkeys(range(self.threads))
        while answers:
            asked = {}
            for i, answer in answers.items():
                try:
                    asked[i] = threads[i].send(answer)
                except StopIteration:  # this thread has ended
                    pass
            assert len({kind for kind, _, _ in asked.values()}) <= 1, "threads meet at different instructions"
            answers = {i: self.shuffled(asked, i) if kind == "shfl" else None for i, (kind, _, _) in asked.items()}

    @staticmethod
    def shuffled(asked, i):
        source = i + asked[i][2]
        return asked[source if source // WARP == i // WARP else i][1]


class Thread:
    def __init__(self, kernel, memory, registers):
        self.kernel, self.memory, self.registers, self.next = kernel, memory, registers, 0

    def value(self, operand):
        if operand[0] == "%":
            return self.registers[operand]
        address = self.kernel.addresses.get(operand)
        return integer(operand) if address is None else address

    def address(self, operand, space):
        address = sum(map(self.value, terms(operand)))
        assert (space == "param") == (PARAMETERS <= address < SHARED) and (space == "shared") == (address >= SHARED)
        return address

    def run(self):
        """Yields at barriers and shuffles, which it does with the other threads; a shuffle's result is sent to it."""
        while True:
            guard, words, given = self.kernel.code[self.next]
            self.next += 1
            if guard and self.registers[guard[0]] != guard[1]:
                continue
            if words[0] == "ret":
                return
            if words[0] == "bra":
                self.next = self.kernel.labels[given[0]]
            elif words[0] == "bar":
                yield "bar", None, None
            elif words[0] == "shfl":
                self.registers[given[0]] = yield "shfl", self.value(given[1]), self.value(given[2])
            elif words[0] != "membar":
                getattr(self, "do_" + words[0], self.compute)(words, given)

    def do_mov(self, words, given):
        if given[0].startswith("{"):
            low, high = members(given[0])
            self.registers[low], self.registers[high] = self.value(given[1]) % (1 << 32), self.value(given[1]) >> 32
        elif given[1].startswith("{"):
            low, high = members(given[1])
            self.registers[given[0]] = self.value(low) | self.value(high) << 32
        else:
            self.registers[given[0]] = self.value(given[1])

    def do_setp(self, words, given):
        a, b = self.value(given[1]), self.value(given[2])
        if words[-1] in FLOATS:
            a, b = number(a, words[-1]), number(b, words[-1])
        result = bool(COMPARISONS[words[1]](a, b)) and (words[1] != "ne" or a == a and b == b)  # ne is false of a NaN, too
        self.registers[given[0]] = result and (words[2] != "and" or self.registers[given[3]])

    def do_selp(self, words, given):
        self.registers[given[0]] = self.value(given[1] if self.registers[given[3]] else given[2])

    def places(self, words, operand):
        """Addresses and size of what an access reads or writes."""
        size = int(words[-1][1:]) // 8
        address = self.address(operand, words[2] if words[1] == "volatile" else words[1])
        count = next((int(word[1:]) for word in words if word in ("v2", "v4")), 1)
        assert address % (count * size) == 0, "a vector is not aligned"
        return [address + i * size for i in range(count)], size

    def do_ld(self, words, given):
        addresses, size = self.places(words, given[1])
        for register, address in zip(members(given[0]), addresses):
            self.registers[register] = self.memory.load(address, size)

    def do_st(self, words, given):
        addresses, size = self.places(words, given[0])
        for operand, address in zip(members(given[1]), addresses):
            self.memory.store(address, size, self.value(operand))

    def do_red(self, words, given):
        (address,), size = self.places(words, given[0])
        self.memory.store(address, size, OPERATIONS[words[2]](self.memory.load(address, size), self.value(given[1])))

    def do_atom(self, words, given):
        (address,), size = self.places(words, given[1])
        before, operand = self.memory.load(address, size), self.value(given[2])
        self.memory.store(address, size, before + operand if "add" in words else operand)
        self.registers[given[0]] = before

    def compute_float(self, words, given):
        """In float64, rounded to nearest, as all of the recorder's."""
        kind = words[-1]
        assert words[0] == "cvt" and words[-2] == "f64" or kind == "f64" and (words[0] == "abs" or words[1] == "rn")
        numbers = [number(self.value(entry), kind) for entry in given[1:]]
        with np.errstate(all="ignore"):
            result = FLOAT_OPERATIONS[words[0]](*numbers, *[None] * (2 - len(numbers)))
        self.registers[given[0]] = int.from_bytes(struct.pack("<d", result), "little")

    def compute(self, words, given):
        if words[-1] in FLOATS or "f64" in words:
            return self.compute_float(words, given)
        name, kind = words[0], words[1]
        width = int((kind if name == "cvt" else words[-1])[1:])
        a, b = self.value(given[1]), self.value(given[2]) if len(given) > 2 else 0
        if name == "mul" and kind == "hi":
            result = a * b >> width
        elif name == "mul" and kind == "wide":
            result, width = a * b, 2 * width
        elif name in OF_WIDTH:
            result = OF_WIDTH[name](a, width)
        else:
            result = OPERATIONS[name](a, b)
        self.registers[given[0]] = result % (1 << width)
