"""What diff is to say of each planted divergence: where the two runs part first, how, and why.

Just before the place of a plant the client launches, in every run, one operator that it uses nowhere else: a marker. So a program that knows
nothing of the comparison can find the place in the file of a run: the first launch that differs has to be one of the few rows behind it.
"""

import dataclasses
import re

# The place of a plant, and the operator whose kernel marks it.
SITES = {"data": "heaviside", "layer": "copysign", "product": "hypot", "tuned": "fmod", "convolution": "nextafter", "scale": "logaddexp2",
         "weight": "fmax"}
MODELS = ("mask_rcnn", "triton")
COPY = "^$"  # the row of a copy has no kernel


@dataclasses.dataclass(frozen=True)
class Plant:
    site: str  # "": anywhere
    kernel: str  # regular expression of the kernel's name
    kinds: tuple
    causes: tuple  # None: that diff names no cause
    reach: int = 12  # rows behind the marker within which the planted launch lies
    until: str = ""  # or the site up to whose marker it lies
    both: bool = False  # the first run of a pair is planted as well, without what makes it part

    def as_json(self):
        return {**dataclasses.asdict(self), "marker": marker_of(self.site), "end": marker_of(self.until)}


def marker_of(site):
    """Returns a regular expression that the name of one kernel of each run matches."""
    return rf"{SITES[site]}_kernel" if site else ""


ALGORITHM = ("another_kernel", "only_in_a", "only_in_b")
PLANTS = {
    "atomic": Plant("layer", "index(Func|_add)|scatter", ("other_output",), ("float_atomics",), both=True),
    "dropout_seed": Plant("layer", "dropout", ("other_parameters",), ("generator",)),
    "workers_order": Plant("data", COPY, ("other_input",), ("data_order",)),
    "tuner": Plant("tuned", "tuned_matmul", ("another_kernel",), ("tuner",)),
    # The first convolutions may be given what they had.
    "cudnn_benchmark": Plant("convolution", "conv|cudnn|xmma|cutlass|gemm|nvjet|winograd|fft|[dw]grad|nhwc|nchw", ALGORITHM, ("algorithm",),
                             until="scale", both=True),
    "tf32": Plant("product", "gemm|cutlass|cublas|xmma|nvjet", ("another_kernel",), ("tf32", "algorithm")),
    "unwritten": Plant("layer", "sum_of_buffer", ("other_output",), ("unwritten_memory",), both=True),
    "host_value": Plant("data", f"{COPY}|read_values", ("other_input",), ("host_memory", "batch"), both=True),
    "stream_race": Plant("layer", "read_values", ("other_output",), ("unordered_streams",), both=True),
    "loss_scale": Plant("scale", "[Ff]ill", ("other_parameters", "other_input"), ("loss_scale",)),
    "weight_bit": Plant("weight", COPY, ("other_input",), ("batch", "host_memory", None), both=True),
    "gpu": Plant("", "", ALGORITHM + ("other_parameters", "other_output"), ("gpu",)),
}


def matches(pattern, name):
    return re.search(pattern, name or "") is not None
