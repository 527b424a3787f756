"""The digests that the recorder computes on the device, against NumPy."""

from .bench import Skip, expect, saved_tensors, tail
from .kernels import ORDER_DEPENDENT, variant_of
from .registry import check


def digest(data):
    """recorder/device/digest.h of some bytes, as 32 hexadecimal digits."""
    import numpy as np

    padded = np.frombuffer(data + bytes(-len(data) % 16), "<u8").reshape(-1, 2)
    key = np.arange(len(padded), dtype=np.uint64) * np.uint64(16) * np.uint64(0x9E3779B97F4A7C15)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)

    def fold(x, y):  # low ^ high of the 128-bit product, from products of 32 bits
        x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
        middle = x1 * y0 + (x0 * y0 >> half)
        other = x0 * y1 + (middle & mask)
        return (x * y) ^ (x1 * y1 + (middle >> half) + (other >> half))

    def sum_of(a, b):
        terms = fold(padded[:, 0] ^ (key + np.uint64(a)), padded[:, 1] ^ (key + np.uint64(b)))
        return int(terms.sum(dtype=np.uint64))

    return "".join(f"{sum_of(a, b):016x}" for a, b in ((0xA0761D6478BD642F, 0xE7037ED1A0B428DB),
                                                      (0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)))


def digests_in(capture):
    """For each invocation its kernel, and the digests, by section and tensor, that the recorder's kernel computed."""
    import h5py

    with h5py.File(capture, "r") as file:
        for invocation in file["invocations"].values():
            texts = dict(invocation["digests"].attrs) if "digests" in invocation else {}
            yield invocation.attrs["kernel"], {tuple(name.split("/")): text.split()[-1] for name, text in texts.items()
                                               if not name.startswith("outputs_before/")}


@check("digests", "a capture of --digest-only against NumPy", ["nvcc"])
def digests(bench):
    def equal():
        if "--digest-only" not in bench.run([bench.record_program, "--help"]).stdout:
            raise Skip("this msda-record has no --digest-only")
        done, capture, saved_in = bench.outcome_kept([bench.program("col2im17"), "--variant", "all"], ["--digest-only"],
                                                     ORDER_DEPENDENT)
        expect(capture.exists(), f"no capture: {tail(done.stderr)}")
        saved = {name.split("-", 2)[2]: tensors for name, tensors in saved_tensors(saved_in).items()}
        count = 0
        for kernel, found in digests_in(capture):
            real = saved[variant_of(kernel if isinstance(kernel, str) else kernel.decode())]
            for (section, name), value in found.items():
                expect(value == digest(real[name].tobytes()), f"{kernel}: {section}/{name} is {value}")
                count += 1
        if count == 0:
            raise Skip("the capture has no digests of the recorder's own kernel")
        return f"{count} tensors"

    yield "against NumPy", equal
