"""The devices that a call's memory lies on. Needs the CUDA driver for a GPU."""

import ctypes

OWN_STREAM = -1


def load(path):
    library = ctypes.CDLL(str(path))
    library.msda_last_error.restype = ctypes.c_char_p
    return library


class Host:
    """The CPU's functions, on host memory."""

    prefix, name, needs_stream = "msda_", "CPU", False

    def to_device(self, data):
        return data.ctypes.data

    def write(self, pointer, data):
        pass  # it is the same memory

    def to_host(self, pointer, data):
        pass

    def free(self, pointer):
        pass

    def wait(self):
        pass

    def stream(self, number):
        return None


class Gpu:
    """The GPU's functions, on memory of one GPU, by the driver's C interface."""

    prefix, needs_stream = "msda_cuda_", True

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
        self.write(pointer.value, data)
        return pointer.value

    def write(self, pointer, data):
        self.do("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes))

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
