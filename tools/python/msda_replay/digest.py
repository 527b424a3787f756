"""XXH3-128 digests as msda-replay writes them: "xxh3-128:" and 32 hexadecimal digits."""

import ctypes
import ctypes.util

import numpy as np


def _from_package():
    import xxhash

    return lambda data: xxhash.xxh3_128_hexdigest(data)


def _from_system_library():
    # Debian's and Ubuntu's package managers need libxxhash, so it is installed even without Python's wrapper.
    class Hash128(ctypes.Structure):
        _fields_ = [("low64", ctypes.c_uint64), ("high64", ctypes.c_uint64)]

    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    function = library.XXH3_128bits
    function.restype = Hash128
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def hexdigest(data):
        view = np.frombuffer(data, np.uint8)
        result = function(view.ctypes.data, view.size)
        return f"{result.high64:016x}{result.low64:016x}"

    return hexdigest


def _find():
    for source in (_from_package, _from_system_library):
        try:
            return source()
        except (ImportError, OSError, AttributeError):
            continue
    raise ImportError("msda_replay needs XXH3: `pip install xxhash`, or `apt-get install libxxhash0`")


_hexdigest = _find()


def digest(data):
    """Returns the digest of bytes, or of any object with a contiguous buffer."""
    return "xxh3-128:" + _hexdigest(data)
