"""The program around operator_bits.py, grid_bits.py and plain_bits.py: the devices, the options that all have, and their parts in
turn. Needs the CUDA driver for a GPU."""

import argparse
import ctypes
import hashlib
import os
import pathlib

OWN_STREAM = -1
SOURCE = pathlib.Path(__file__).resolve().parents[4]


class Host:
    """The CPU's functions, on host memory."""

    prefix, name, needs_stream = "msda_", "CPU", False

    def to_device(self, data):
        return data.ctypes.data

    def to_host(self, pointer, data):
        pass  # it is the same memory

    def free(self, pointer):
        pass

    def wait(self):
        pass

    def stream(self, number):
        return None


class Gpu:
    """The GPU's functions, on memory of one GPU, by the driver's C interface."""

    prefix, needs_stream = "msda_cuda_", True

    @staticmethod
    def count():
        """GPUs, or why there are none."""
        try:
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return 0, "no CUDA driver, libcuda.so.1"
        count = ctypes.c_int(0)
        error = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
        return count.value, f"the CUDA driver has no device (error {error})"

    def __init__(self, number):
        self.driver, self.number, self.name = ctypes.CDLL("libcuda.so.1"), number, f"GPU {number}"
        self.do("cuInit", 0)
        self.begin()

    def begin(self):
        self.context, self.streams = ctypes.c_void_p(), {}
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.number)

    def reset(self):
        """Ends the context with all memory and streams, and begins another."""
        self.do("cuDevicePrimaryCtxReset_v2", self.number)
        self.begin()

    def do(self, function, *arguments):
        error = getattr(self.driver, function)(*arguments)
        if error:
            raise RuntimeError(f"{function}: error {error} of the CUDA driver")

    def to_device(self, data):
        pointer = ctypes.c_uint64()
        self.do("cuCtxSetCurrent", self.context)
        self.do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(data.nbytes))
        self.do("cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes))
        return pointer.value

    def to_host(self, pointer, data):
        self.do("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), ctypes.c_uint64(pointer), ctypes.c_size_t(data.nbytes))

    def free(self, pointer):
        self.do("cuMemFree_v2", ctypes.c_uint64(pointer))

    def wait(self):
        self.do("cuCtxSetCurrent", self.context)
        self.do("cuCtxSynchronize")

    def stream(self, number):
        """0: the default stream; others do not wait for it. OWN_STREAM: each thread's."""
        if number == OWN_STREAM:
            return ctypes.c_void_p(2)  # CU_STREAM_PER_THREAD
        if number and number not in self.streams:
            stream = ctypes.c_void_p()
            self.do("cuCtxSetCurrent", self.context)
            self.do("cuStreamCreate", ctypes.byref(stream), 1)
            self.streams[number] = stream
        return self.streams.get(number)


def parser_of(what, parts):
    parser = argparse.ArgumentParser(description=what)
    build = pathlib.Path(os.environ.get("MSDA_BUILD", SOURCE / "build"))
    parser.add_argument("--library", type=pathlib.Path, default=build / "lib" / "libmsda.so", help="(default: build/lib/libmsda.so)")
    parser.add_argument("--part", choices=parts, action="append", help="this part; may be repeated (default: all)")
    parser.add_argument("--problems", type=int, default=500, metavar="N", help="of the part modes (500)")
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help="of the part repeat (1000)")
    parser.add_argument("--device", default="0", help="the GPU's number; `host`: the CPU against itself, which tests this program")
    return parser


def run_parts(chosen, parts_of):
    """The exit status. `parts_of(library, device, gpus)`: functions by name, each of which returns whether all was equal and a line
    about it; `gpus`: how many there are."""
    library = ctypes.CDLL(str(chosen.library))
    library.msda_last_error.restype = ctypes.c_char_p
    on_host = chosen.device == "host"
    gpus, why = (1, "") if on_host else Gpu.count()
    if not on_host and gpus and not library.msda_cuda_device_count():
        gpus, why = 0, f"{chosen.library} was built without CUDA"
    if not gpus:
        print(f"skipped: {why}")
        return 0
    parts, all_good = parts_of(library, Host() if on_host else Gpu(int(chosen.device)), gpus), True
    for name in chosen.part or parts:
        good, text = parts[name]()
        print(text, flush=True)
        all_good &= good
    return int(not all_good)


def digest(memories):
    return hashlib.blake2b(b"".join(memory.tobytes() for memory in memories)).hexdigest()


def repeated(ours, theirs, runs):
    """Whether the CPU's digest is the only one, and a line about it. `theirs` yields the results of one run after another."""
    ours, found = digest(ours), set(map(digest, theirs))
    return found == {ours}, f"repeat: {runs} runs, {len(found)} digest{'s' * (len(found) != 1)}, the CPU's {'' if ours in found else 'not '}among them"
