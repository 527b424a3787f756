"""Randomly damaged captures: changed bytes, and changes that keep a file valid HDF5."""

import random
import resource
import subprocess
import sys

import h5py
import numpy as np

_PEAK = """import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status not in (0, 1))"""


def peak_memory(*command):
    """KiB, of the largest process of a command that succeeds or finds something; not of this one, which is large itself."""
    return int(subprocess.run([sys.executable, "-S", "-c", _PEAK, *map(str, command)], stdout=subprocess.PIPE, check=True).stdout)


# A command may use this much memory, and no more, on a damaged file.
MOST_MEMORY = 1 << 30


def _bytes(data, places):
    for _ in range(places.randint(1, 8)):
        data[places.randrange(len(data))] = places.randrange(256)


def _bits(data, places):
    for _ in range(places.randint(1, 4)):
        data[places.randrange(len(data))] ^= 1 << places.randrange(8)


def _large_numbers(data, places):
    """Lengths, addresses and counts lie at multiples of 4 or 8."""
    for _ in range(places.randint(1, 3)):
        at = places.randrange(len(data) // 8 - 1) * 8
        size = places.choice((2, 4, 8))
        number = places.choice((0, 1, 2**15, 2**31 - 1, 2**32 - 1, 2**62, 2**64 - 1, len(data), places.randrange(len(data))))
        data[at:at + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")


def _cut(data, places):
    del data[places.randrange(len(data)):]


def _blocks(data, places):
    size = places.choice((8, 64, 512, 4096))
    a, b = (places.randrange(max(1, len(data) - size)) for _ in range(2))
    data[a:a + size], data[b:b + size] = data[b:b + size], data[a:a + size]


def _zeros(data, places):
    at, size = places.randrange(len(data)), places.choice((1, 8, 64, 1024))
    data[at:at + size] = bytes(len(data[at:at + size]))


BYTEWISE = (_bytes, _bits, _large_numbers, _cut, _blocks, _zeros)


def _objects(file):
    found = []
    file.visititems(lambda name, item: found.append(item))
    return found


def _structure(path, places):
    """Still valid HDF5, but not what was written."""
    values = (0, -1, 2**62, np.nan, "x", "\x1b[2J", b"\xff", [1, 2], [2**40] * 3, np.zeros(0), np.arange(5000), True, h5py.Empty("f4"))
    with h5py.File(path, "r+") as file:
        for _ in range(places.randint(1, 3)):
            item = places.choice(_objects(file))
            change = places.randrange(5)
            names = sorted(item.attrs)
            if change == 0 and names:
                item.attrs[places.choice(names)] = places.choice(values)
            elif change == 1 and names:
                del item.attrs[places.choice(names)]
            elif change == 2:
                del item.parent[item.name.rsplit("/", 1)[1]]
            elif change == 3:
                file.move(item.name, item.name + places.choice(("x", "\x1b", "\u202e")))
            elif isinstance(item, h5py.Dataset):
                group, name = item.parent, item.name.rsplit("/", 1)[1]
                shape = tuple(places.choice((0, 1, 2, 7, 100)) for _ in range(places.randint(0, 7)))
                kind = places.choice(("f2", "f4", ">f8", "i8", "u1", "S4", "c8"))
                options = {"chunks": True, "compression": "gzip"} if shape and 0 not in shape and places.random() < 0.5 else {}
                del group[name]
                group.create_dataset(name, shape=shape, dtype=kind, **options)


def damage(source, target, seed):
    """Writes a damaged copy."""
    places = random.Random(seed)
    data = bytearray(source.read_bytes())
    with open(target, "wb") as file:
        file.write(data)
    if places.random() < 0.25:
        return _structure(target, places)
    for _ in range(places.randint(1, 2)):
        if data:
            places.choice(BYTEWISE)(data, places)
    target.write_bytes(data)


def run(command, environment=None):
    """The status, standard output and standard error of a command; status None if it does not end."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, timeout=180, env=environment)
    except subprocess.TimeoutExpired:
        return None, b"", b""
    return done.returncode, done.stdout, done.stderr


def most_memory():
    """The peak memory in bytes among all ended processes that this one started."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
