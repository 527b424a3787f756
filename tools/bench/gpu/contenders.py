"""The contenders: libmsda and its peers.

Each has prepare(inputs), untimed, which returns a function without arguments: from inputs to the three finished gradients,
enqueued on the device, including everything that the gradients need, such as cleared memory.
"""

import ctypes

import torch
import torch.nn.functional as F
from harness import Failed
from libmsda import ATOMIC, DETERMINISTIC, FLOAT64, Call, Options, caller, describe, type_name

from . import names

MODES = {"deterministic": DETERMINISTIC, "atomic": ATOMIC, "float64": FLOAT64}
# Number of the dialect and of its padding. msda_triton is measured with border padding, as its users have it.
CONVENTIONS = {"deformable_detr": (0, 0, 0), "msda_triton": (1, 1, 0)}
DIFFERENTIABLE = ("value", "sampling_locations", "attention_weights")


class Ours:
    """libmsda through its C ABI, in one mode and dialect; on the CPU if the tensors are in host memory."""

    def __init__(self, library, mode, dialect="deformable_detr", result_type=None):
        self.library, self.mode, self.conventions, self.result_type = library, MODES[mode], dialect, result_type
        self.name = names.ours(mode, dialect)

    def prepare(self, inputs):
        shapes, starts = inputs["spatial_shapes"], torch.zeros((), dtype=torch.int64)
        ordered = (inputs["value"], shapes, starts, inputs["sampling_locations"], inputs["attention_weights"])
        call = Call(*CONVENTIONS[self.conventions], *map(describe, ordered))
        results = [torch.empty_like(inputs[name], dtype=self.result_type) for name in DIFFERENTIABLE]
        structures = [call, describe(inputs["grad_output"]), Options(self.mode, 0, 0, 0)]
        stream = torch.cuda.current_stream().cuda_stream if inputs["value"].is_cuda else None
        return caller(self.library, "msda_backward" if stream is None else "msda_cuda_backward", structures, results, (ordered, inputs), stream)


class MsdaTriton:
    """The function that its autograd calls for the backward pass: it clears three gradients and launches its kernel."""

    name, conventions = names.MSDA_TRITON, "msda_triton"

    def __init__(self):
        from msda_triton import kernels

        self.kernel = kernels.triton_multi_scale_deformable_attention_bwd_kernel
        self.backward = kernels.triton_multi_scale_deformable_attention_bwd

    def begin(self):
        """Forgets the autotuner's choice: it ignores Q and B, and would keep the choice for another problem."""
        getattr(self.kernel, "cache", {}).clear()

    def prepare(self, inputs):
        # The types that its frontend accepts.
        if type_name(inputs["value"]) not in ("float16", "float32", "float64"):
            raise Failed(f"it does not take {type_name(inputs['value'])}")
        ordered = (inputs["grad_output"], inputs["value"], inputs["spatial_shapes"].to(inputs["value"].device),
                   inputs["sampling_locations"], inputs["attention_weights"])
        return lambda: self.backward(*ordered, "border", False)


class GridSample:
    """Autograd through one grid_sample a level and a weighted sum. The forward pass and what it keeps are not timed."""

    name, conventions = names.GRID_SAMPLE, "deformable_detr"

    @staticmethod
    def forward(value, shapes, locations, weights):
        B, _, M, D = value.shape
        Q, P = locations.shape[1], locations.shape[4]
        grids, sampled = 2 * locations - 1, []
        # split has the cheapest gradient of all ways to separate the levels.
        for level, pixels in enumerate(value.split([height * width for height, width in shapes], dim=1)):
            image = pixels.permute(0, 2, 3, 1).reshape(B * M, D, *shapes[level])
            grid = grids[:, :, :, level].transpose(1, 2).reshape(B * M, Q, P, 2)
            sampled.append(F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
        weights = weights.transpose(1, 2).reshape(B * M, 1, Q, -1)
        output = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
        return output.view(B, M, D, Q).permute(0, 3, 1, 2)

    def prepare(self, inputs):
        leaves = [inputs[name].detach().requires_grad_() for name in DIFFERENTIABLE]
        output = self.forward(leaves[0], inputs["spatial_shapes"].tolist(), *leaves[1:])
        return lambda: torch.autograd.grad(output, leaves, inputs["grad_output"], retain_graph=True)


class DeformableDetr:
    """A build of the Deformable DETR kernels: dd_backward_f32 and _f64 (_f16 and _bf16 if it has them) in a shared library."""

    name, conventions = names.DEFORMABLE_DETR, "deformable_detr"
    SUFFIXES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}

    def __init__(self, library):
        self.library = library

    def prepare(self, inputs):
        value, shapes = inputs["value"], inputs["spatial_shapes"]
        symbol = "dd_backward_" + self.SUFFIXES[type_name(value)]
        if not hasattr(self.library, symbol):
            raise Failed(f"the library has no {symbol}")
        function = getattr(self.library, symbol)
        sizes = shapes.prod(1)
        starts = (sizes.cumsum(0) - sizes).to(value.device)
        tensors = (inputs["grad_output"], value, shapes.to(value.device), starts, inputs["sampling_locations"],
                   inputs["attention_weights"])
        (B, S, M, D), (_, Q, _, L, P, _) = value.shape, inputs["sampling_locations"].shape
        results = [torch.empty_like(inputs[name]) for name in DIFFERENTIABLE]
        arguments = [*(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors), *map(ctypes.c_int, (B, S, M, D, L, Q, P)),
                     *(ctypes.c_void_p(result.data_ptr()) for result in results)]

        def run(keep=tensors):
            results[0].zero_()  # the kernel adds to it
            function(*arguments)  # on the legacy default stream, which PyTorch's is too
            return results

        return run


def load(path):
    library = ctypes.CDLL(path)
    library.msda_last_error.restype = ctypes.c_char_p
    return library


def all_of(library, modes, deformable_detr, on_gpu):
    """Returns the contenders, and by name the reasons why other peers are missing. `deformable_detr`: a path, or None."""
    # float64 shows its cost relative to float32; one dialect suffices.
    dialects = {"float64": ["deformable_detr"]}
    present = [Ours(library, mode, dialect) for mode in modes for dialect in dialects.get(mode, CONVENTIONS)]
    present.append(GridSample())
    absent = {}

    def add(name, make):
        try:
            if not on_gpu:
                raise Failed("it has no kernel for the CPU")
            present.append(make())
        except Exception as error:  # noqa: BLE001 (a version with other names, a Triton that it does not work with, no library)
            absent[name] = first_line(error)

    def load_deformable_detr():
        if not deformable_detr:
            raise Failed("no build of it is given by --deformable-detr")
        return DeformableDetr(ctypes.CDLL(deformable_detr))

    add(names.MSDA_TRITON, MsdaTriton)
    add(names.DEFORMABLE_DETR, load_deformable_detr)
    return present, absent


def first_line(error):
    return f"{type(error).__name__ + ': ' if not isinstance(error, Failed) else ''}{error}".splitlines()[0][:200]
