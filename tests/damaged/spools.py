"""Damaged spools (recorder/spool/frame.h): frames that are lost, doubled, moved, or say something else with a right checksum."""

import ctypes
import struct

import numpy as np
from support.damage import BYTEWISE

HEADER = struct.Struct("<IIQQQ")  # magic, kind, bytes of the message and of the payload, checksum
FILE_HEADER_BYTES = 16
KINDS = 12
COUNTS = (0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def _checksum():
    """XXH3-64 of bytes, from where the package has its digests."""
    try:
        import xxhash

        return xxhash.xxh3_64_intdigest
    except ImportError:
        function = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
        function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
        return lambda data: function(data, len(data))


checksum_of = _checksum()


def frames_of(data):
    """[kind, message, payload] of each frame of a whole spool."""
    at, frames = FILE_HEADER_BYTES, []
    while at + HEADER.size <= len(data):
        _, kind, message, payload, checksum = HEADER.unpack_from(data, at)
        end = at + HEADER.size + message + payload
        if end > len(data) or checksum_of(bytes(data[at:at + 24] + data[at + HEADER.size:end])) != checksum:
            break
        body = at + HEADER.size
        frames.append([kind, bytearray(data[body:body + message]), bytearray(data[body + message:end])])
        at = end
    return frames


def frame(kind, message, payload, claimed=None):
    """Returns a frame with a right checksum; `claimed` are other lengths than it has."""
    lengths = claimed or (len(message), len(payload))
    head = HEADER.pack(0x6D617266, kind, *lengths, 0)[:24]
    return head + struct.pack("<Q", checksum_of(bytes(head + message + payload))) + message + payload


def _change_number(message, places):
    """Changes a number at any byte of the message: a length, count, number or truth value."""
    size = places.choice((1, 4, 8, 8))
    if len(message) >= size:
        at = places.randrange(len(message) - size + 1)
        number = places.choice((*COUNTS, int.from_bytes(message[at:at + size], "little") + places.choice((-1, 1, 8))))
        message[at:at + size] = (number % 256**size).to_bytes(size, "little")


def _change_text(message, places):
    """Replaces printable bytes by as many others: names of sections and tensors, types, digests."""
    runs, start = [], None
    for at, byte in enumerate([*message, 0]):
        if 32 <= byte < 127:
            start = at if start is None else start
        else:
            if start is not None and at - start > 3:
                runs.append((start, at))
            start = None
    if runs:
        begin, end = places.choice(runs)
        text = places.choice((b"/", b"..", b"\x1b[2J", b"\xff\xfe", b"\0", b"inputs", b"float64", b"int64", b"outputs", b"-1", b"9" * 40))
        message[begin:end] = (text * (end - begin))[:end - begin]


def _swap_texts(frames, places):
    """Puts a message in place of another of its kind."""
    a, b = places.choice(frames), places.choice(frames)
    a[1], b[1] = b[1], a[1]


def _change(frames, places):
    change = places.randrange(10)
    entry = places.choice(frames)
    if change <= 3:
        _change_number(entry[1], places)
    elif change == 4:
        _change_text(entry[1], places)
    elif change == 5:
        places.choice(BYTEWISE)(places.choice([data for data in entry[1:] if len(data) >= 64] or [bytearray(64)]), places)
    elif change == 6:
        frames.insert(places.randrange(len(frames) + 1), [entry[0], bytearray(entry[1]), bytearray(entry[2])])
    elif change == 7:
        frames.remove(entry)
    elif change == 8:
        frames.insert(places.randrange(len(frames)), frames.pop(places.randrange(len(frames))))
    else:
        places.choice((_swap_texts, lambda *_: entry.__setitem__(0, places.randrange(KINDS + 1)), _renumber_payload))(frames, places)


def _renumber_payload(frames, places):
    """Puts other numbers into a tensor: indices and sizes that lead out of it, numbers that are not finite."""
    payload = places.choice([frame[2] for frame in frames])
    for _ in range(places.randint(1, 8)):
        if len(payload) >= 8:
            at = places.randrange(len(payload) // 8) * 8
            payload[at:at + 8] = places.choice((np.int64(places.choice((-1, 0, 2**31, 2**62, -2**63))).tobytes(),
                                                np.float32([places.choice((np.nan, np.inf, 1e38, -1.0))] * 2).tobytes(),
                                                np.int32([places.choice((-1, 2**30))] * 2).tobytes()))


def damage(source, target, places):
    """Writes a damaged spool."""
    data = bytearray(source.read_bytes())
    if places.random() < 0.25:
        for _ in range(places.randint(1, 2)):
            if data:
                places.choice(BYTEWISE)(data, places)
    else:
        frames = frames_of(data)
        for _ in range(places.choice((1, 1, 2, 4))):
            if frames:
                _change(frames, places)
        wrong = places.randrange(len(frames)) if frames and places.random() < 0.1 else None
        claimed = (places.choice((*COUNTS, len(frames[wrong][1]))), places.choice((*COUNTS, len(frames[wrong][2])))) if wrong is not None else None
        data = data[:FILE_HEADER_BYTES] + b"".join(frame(*entry, claimed if at == wrong else None) for at, entry in enumerate(frames))
    target.write_bytes(data)
