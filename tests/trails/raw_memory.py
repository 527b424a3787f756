"""Memory straight from the driver, beside PyTorch's allocator: what a library takes and gives back."""

import ctypes

BYTES, TRIES = 65536, 256


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def allocate(self):
        address = ctypes.c_uint64()
        if status := self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)):
            raise RuntimeError(f"cuMemAlloc: CUDA error {status}")
        return address.value

    def free(self, address):
        if status := self.library.cuMemFree_v2(ctypes.c_uint64(address)):
            raise RuntimeError(f"cuMemFree: CUDA error {status}")


class Span:
    """What torch.as_tensor makes a tensor of float32 of, without a copy."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {"shape": (BYTES // 4,), "typestr": "<f4", "data": (address, False), "version": 3}


def tensor_at(torch, address):
    return torch.as_tensor(Span(address), device="cuda")


def take_freed(driver, freed):
    """Allocates until the driver hands out a freed address again. Returns (whether it did, all that was allocated, the wanted one last)."""
    taken = []
    while len(taken) < TRIES:
        taken.append(driver.allocate())
        if taken[-1] == freed:
            return True, taken
    return False, taken
