"""Reads members of NumPy .npz archives that may be damaged or hostile.

np.load allocates what a header declares before it has read anything, and reads every kind of member. This reader accepts only
what np.savez writes, checks each declared size against the archive, and reads only the requested members.
"""

import io
import math
import os
import stat
import struct
import warnings
import zipfile
from dataclasses import dataclass
from typing import Tuple

import numpy as np

from .capture import CaptureError

_SUFFIX = ".npy"
_LONGEST_HEADER = 10000  # NumPy's own limit; its parser needs stack for a long header
_CHUNK = 1 << 20
_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class Header:
    """A member's description of its array. The data begin at `offset`."""

    shape: Tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype
    offset: int

    @property
    def bytes(self):
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """An open archive, used as a context manager. Every error is a CaptureError of one line."""

    noun = "the archive"
    remedy = ", or write the keys into the archive"
    takes_measured_dialect = True

    def __init__(self, path):
        self._path = os.fspath(path)
        try:
            if not stat.S_ISREG(os.stat(self._path).st_mode):
                raise CaptureError(f"{self._path}: cannot read it as an .npz archive: it is no regular file")
            self._zip = zipfile.ZipFile(self._path)
        except CaptureError:
            raise
        except Exception as error:  # zipfile may raise anything on damaged bytes
            raise CaptureError(f"{self._path}: cannot read it as an .npz archive: {_reason(error)}") from error
        members = [info for info in self._zip.infolist() if info.filename.endswith(_SUFFIX)]
        self._members = {info.filename[: -len(_SUFFIX)]: info for info in members}
        self._others = [info.filename for info in self._zip.infolist() if not info.filename.endswith(_SUFFIX)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._zip.close()

    def __contains__(self, name):
        return name in self._members

    def names_beside(self, used):
        """Returns the names of all other members, sorted."""
        return sorted({*self._members, *self._others} - set(used))

    def header(self, name):
        """Reads only a member's Header, and checks that the archive holds as much data as it declares."""
        info = self._members[name]
        if info.flag_bits & 1:
            self.fail(name, "is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.fail(name, "is compressed in a way that np.savez does not use")
        header = self._reading(name, self._parse_header, info)
        # The size of a text type that is too long for NumPy's own int wraps around.
        if any(extent < 0 for extent in header.shape) or header.dtype.hasobject or header.dtype.itemsize < 0:
            self.fail(name, f"has shape {header.shape} and type {header.dtype}")
        if header.offset + header.bytes != info.file_size:
            self.fail(name, f"declares {header.bytes} bytes of data and holds {info.file_size - header.offset}")
        return header

    def read(self, name):
        """Reads a member's array. Memory grows as data arrive, never by a declared size."""
        header = self.header(name)
        if any(isinstance(extent, bool) for extent in header.shape):  # which NumPy parses, and cannot reshape to
            self.fail(name, f"has shape {header.shape}")
        data = self._reading(name, self._read_bytes, self._members[name])
        if len(data) != header.offset + header.bytes:
            self.fail(name, f"holds {len(data)} bytes, not {header.offset + header.bytes}")
        array = np.frombuffer(data, header.dtype, math.prod(header.shape), header.offset)
        return array.reshape(header.shape, order="F" if header.is_fortran else "C")

    @staticmethod
    def spelled(name, value):
        """Returns a convention as an option of the importer."""
        return f"--{name.replace('_', '-')} {str(value).lower()}"

    def fail(self, name, what):
        raise CaptureError(f"{self._path}: {name} {what}")

    def _reading(self, name, work, info):
        try:
            with self._zip.open(info) as member, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's, of headers by Python 2
                return work(member)
        except MemoryError as error:
            raise CaptureError(f"{self._path}: memory does not suffice for {name}") from error
        except Exception as error:  # zlib, zipfile, struct and NumPy's parser may raise anything on damaged bytes
            raise CaptureError(f"{self._path}: cannot read {name}: {_reason(error)}") from error

    @staticmethod
    def _parse_header(member):
        start = member.read(np.lib.format.MAGIC_LEN)
        version = np.lib.format.read_magic(io.BytesIO(start))
        if version not in _READERS:
            raise ValueError(f"format version {version} is not one of plain arrays")
        length_format = "<H" if version == (1, 0) else "<I"
        length_bytes = member.read(struct.calcsize(length_format))
        (length,) = struct.unpack(length_format, length_bytes)
        if length > _LONGEST_HEADER:
            raise ValueError(f"its header of {length} bytes is longer than {_LONGEST_HEADER}")
        shape, is_fortran, dtype = _READERS[version](io.BytesIO(length_bytes + member.read(length)))
        return Header(shape, is_fortran, dtype, len(start) + len(length_bytes) + length)

    @staticmethod
    def _read_bytes(member):
        data = bytearray()
        while chunk := member.read(_CHUNK):
            data += chunk
        return data


def _reason(error):
    return str(error) or type(error).__name__
