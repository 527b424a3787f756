"""Randomly damaged captures: changed bytes, and changes that keep a file valid HDF5."""

import contextlib
import os
import random
import resource
import signal
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


# What h5py and NumPy raise where a change cannot be made; the file stays as it is then.
REFUSED = (ValueError, TypeError, KeyError, OSError, RuntimeError, IndexError, OverflowError, AttributeError, UnicodeError, MemoryError)
# A command may use this much memory, and no more, on a damaged file.
MOST_MEMORY = 1 << 30
MOST_SECONDS = 30  # to change a file


def _bytes(data, places):
    for _ in range(places.randint(1, 8)):
        data[places.randrange(len(data))] = places.randrange(256)


def _bits(data, places):
    for _ in range(places.randint(1, 4)):
        data[places.randrange(len(data))] ^= 1 << places.randrange(8)


def _large_numbers(data, places):
    """Lengths, addresses and counts lie at multiples of 4 or 8."""
    for _ in range(places.randint(1, 3)):
        at = places.randrange(max(1, len(data) // 8 - 1)) * 8
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


NUMBERS = (0, -1, 1, 2, 7, 2**15, 2**31 - 1, 2**31, 2**32 + 1, 2**62, -2**63, 2**63 - 1, np.uint64(2**64 - 1), 0.5, 1e308, -1e308, 5e-324,
           np.nan, np.inf, -np.inf)
TEXTS = ("", "x", "\x1b[2J", b"\xff\xfe", "\u202e", "\u00e9" * 300, "a" * 60_000, "-1", "1e999", "nan", "9" * 400, "0x10", "zeros", "border",
         "reflection", "nearest", "bilinear", "bicubic", "trilinear", "deformable_detr", "msda_triton", "grid_sample", "sum", "mean",
         "inputs/value@16 @120", "120:4096 -1:-1", "uninitialized", "reference", "[" * 3000)
OTHERS = ([1, 2], [2**40] * 3, [-1] * 5, np.zeros(0), np.arange(5000), np.zeros((1,) * 12), True, h5py.Empty("f4"), ["x", "y"], np.float16(1),
          np.zeros(3, [("a", "i4"), ("b", "S3")]), np.array([1 + 2j]))


def _objects(file):
    found = []
    file.visititems(lambda name, item: found.append(item))
    return found


def _data(dataset):
    if dataset.size is None or dataset.nbytes > 1 << 22:  # another change has claimed so much
        raise ValueError("too large")
    return dataset[()]


def _stored_bytes(dataset, data):
    """Bytes of the elements as they lie in the file; bfloat16 is read as float32."""
    if data.dtype == np.float32 and dataset.id.get_type().get_size() == 2:
        data = (np.ascontiguousarray(data).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(data).tobytes()


def _sign(dataset):
    """Gives it the digest of what it holds now."""
    from msda_replay.digest import digest

    if "digest" in dataset.attrs:
        dataset.attrs["digest"] = digest(_stored_bytes(dataset, _data(dataset)))


def _set_attribute(item, places):
    names = sorted(item.attrs) or ["label"]
    item.attrs[places.choice(names)] = places.choice(places.choice((NUMBERS, TEXTS, OTHERS)))


def _alter_attribute(item, places):
    """To something of its type."""
    name = places.choice(sorted(item.attrs))
    value = item.attrs[name]
    if isinstance(value, (str, bytes)):
        item.attrs[name] = places.choice(TEXTS) if places.random() < 0.7 else value[:len(value) // 2] + value
    else:
        array = np.array(value)
        array[...] = np.array([places.choice(NUMBERS) for _ in range(array.size)]).astype(array.dtype).reshape(array.shape)
        item.attrs.create(name, array)


def _drop_attribute(item, places):
    del item.attrs[places.choice(sorted(item.attrs))]


def _drop(item, places):
    del item.parent[item.name.rsplit("/", 1)[1]]


def _rename(item, places):
    parent, name = item.parent, item.name.rsplit("/", 1)[1]
    others = [another for another in parent if another != name] or [name + "x"]
    another = places.choice((name + "x", name + "\x1b", name + "\u202e", "-1", "9" * 30, "000007", name.encode() + b"\xff", places.choice(others)))
    if isinstance(another, str) and another in parent:
        del parent[another]
    parent.move(name, another)


def _link(item, places):
    """To itself, to nowhere, to another file, to a group above it, to another object."""
    parent, name, file = item.parent, item.name.rsplit("/", 1)[1], item.file
    another = places.choice(_objects(file))
    links = (h5py.SoftLink(item.name), h5py.SoftLink("/nowhere"), h5py.SoftLink(another.name), h5py.ExternalLink("/dev/zero", "/"),
             h5py.ExternalLink(file.filename, another.name), parent, another, file["/"])
    del parent[name]
    parent[name] = places.choice(links)


def _recreate(dataset, data, signed=True, **options):
    """With other data and its old attributes; with the right digest, or none."""
    parent, name = dataset.parent, dataset.name.rsplit("/", 1)[1]
    attributes = {key: value for key, value in dataset.attrs.items() if key != "DIMENSION_LABELS" and (signed or key != "digest")}
    del parent[name]
    made = parent.create_dataset(name, data=data, **options)
    for key, value in attributes.items():
        made.attrs[key] = value
    _sign(made)


def _replace(item, places):
    """Another shape, type and storage."""
    shape = tuple(places.choice((0, 1, 2, 7, 100)) for _ in range(places.randint(0, 4)))
    kind = places.choice(("f2", "f4", "f8", ">f8", "i4", "i8", "u1", "S4", "c8"))
    options = {"chunks": True, "compression": "gzip"} if shape and 0 not in shape and places.random() < 0.5 else {}
    _recreate(item, np.zeros(shape, kind), signed=places.random() < 0.5, **options)


def _retype(item, places):
    data = _data(item)
    _recreate(item, data.astype(places.choice(("f2", "f4", "f8", "i4", "i8", "u1", "i2"))))


def _reshape(item, places):
    """A size less, more, 0, or of another axis; an axis more or less."""
    data = _data(item)
    change = places.randrange(5)
    if change == 0 or data.ndim == 0:
        data = data[..., None]
    elif change == 1:
        data = data[0]
    elif change == 2:
        data = np.moveaxis(data, places.randrange(data.ndim), places.randrange(data.ndim))
    else:
        axis = places.randrange(data.ndim)
        size = places.choice((0, 1, data.shape[axis] - 1, data.shape[axis] + 1, 2 * data.shape[axis]))
        data = np.take(data, range(size), axis, mode="wrap") if data.size else data
    _recreate(item, data)


def _renumber(item, places):
    """Other elements: negative, unsorted, huge, not finite."""
    data = _data(item)
    if data.dtype.kind not in "iuf" or data.size == 0:
        return _replace(item, places)
    flat = data.reshape(-1)
    change = places.randrange(3)
    if change == 0:
        flat[:] = flat[[places.randrange(flat.size) for _ in range(flat.size)]] if flat.size < 5000 else flat[::-1].copy()
    else:
        own = (flat[places.randrange(flat.size)] * -1, flat.max() + 1 if np.isfinite(flat.max()) else 0, 1e38, -1e-40, 65504)
        numbers = np.array([places.choice(NUMBERS + own) for _ in range(8)], object)
        at = [places.randrange(flat.size) for _ in range(1 if change == 1 else min(flat.size, 8))]
        flat[at] = [_as(number, data.dtype) for number in numbers[:len(at)]]
    item[...] = data
    if places.random() < 0.9:
        _sign(item)


def _as(number, dtype):
    if dtype.kind == "f":
        return np.array(float(number)).astype(dtype)[()]
    number = int(number) if np.isfinite(float(number)) else 0
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return min(max(number, low), high)


def _claim(item, places):
    """More elements than the file has bytes for."""
    parent, name = item.parent, item.name.rsplit("/", 1)[1]
    attributes = dict(item.attrs)
    shape = [*item.shape] or [1]
    shape[places.randrange(len(shape))] = places.choice((2**20, 2**31, 2**40, 2**62))
    del parent[name]
    made = parent.create_dataset(name, shape=shape, dtype=item.dtype, chunks=(1,) * len(shape))
    for key in attributes.keys() - {"DIMENSION_LABELS"}:
        made.attrs[key] = attributes[key]


def _swap_kind(item, places):
    """A group where a dataset was, and the reverse."""
    parent, name = item.parent, item.name.rsplit("/", 1)[1]
    was_dataset = isinstance(item, h5py.Dataset)
    del parent[name]
    if was_dataset:
        parent.create_group(f"{name}/deeper")
    else:
        parent[name] = np.arange(3.0)


ON_ANY = (_set_attribute, _set_attribute, _alter_attribute, _alter_attribute, _drop_attribute, _drop, _rename, _link, _swap_kind)
ON_DATASETS = (_replace, _retype, _reshape, _reshape, _renumber, _renumber, _renumber, _claim)


def _structure(path, places):
    """Still valid HDF5, but not what was written; most data have the digests that they should have, some files a right list of contents."""
    with h5py.File(path, "r+") as file, np.errstate(all="ignore"):
        for _ in range(places.randint(1, 3)):
            items = _objects(file)
            if not items:
                break
            item = places.choice(items)
            changes = ON_DATASETS if isinstance(item, h5py.Dataset) and places.random() < 0.6 else ON_ANY
            with contextlib.suppress(*REFUSED):
                places.choice(changes)(item if places.random() < 0.97 else file["/"], places)
        if "contents" in file and places.random() < 0.5:
            from msda_replay import contents

            with contextlib.suppress(*REFUSED):
                del file["contents"]
                contents.write(file)


def _is_made(change, *arguments):
    """In a process of its own: libhdf5 may fail to close what it has changed, crash or not come to an end."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(MOST_SECONDS)
            change(*arguments)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def damage(source, target, seed, structured=0.25):
    """Writes a damaged copy; this share stays valid HDF5. What cannot be made of one seed is made of the next."""
    data = bytearray(source.read_bytes())
    places = random.Random(seed)
    target.write_bytes(data)
    if places.random() < structured:
        return _is_made(_structure, target, places) or damage(source, target, seed + 1, structured)
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
