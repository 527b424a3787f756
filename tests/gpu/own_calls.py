"""Calls of msda_cuda_backward of libmsda on torch's memory: conventions, types, modes, layouts, streams, outputs that are not
wanted, a thread that has not used CUDA, and, with --phase graph, one into a graph. Prints digests and saves tensors."""

import argparse
import ctypes
import pathlib
import sys
import threading

import torch
from common import show

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools" / "bench"))
from libmsda import ATOMIC, DETERMINISTIC, FLOAT64, Call, Options, describe  # noqa: E402

MIXED = 3
LEVELS = torch.tensor([[32, 48], [16, 24], [8, 12], [1, 5]])
STARTS = torch.zeros((), dtype=torch.int64)  # of rank 0: derived
B, Q, M, P, D = 2, 100, 4, 3, 32
DIFFERENTIABLE = ("value", "sampling_locations", "attention_weights")
CONVENTIONS = [(0, 0, 0)] + [(dialect, padding, align) for dialect in (1, 2) for padding in (0, 1) for align in (0, 1)]


def inputs_of(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda kind, *shape: kind(*shape, generator=generator).to(dtype).cuda()  # noqa: E731
    return {"value": draw(torch.randn, B, int(LEVELS.prod(1).sum()), M, D),
            "sampling_locations": (draw(torch.rand, B, Q, M, len(LEVELS), P, 2) * 1.2 - 0.1),
            "attention_weights": draw(torch.rand, B, Q, M, len(LEVELS), P),
            "grad_output": draw(torch.randn, B, Q, M, D)}


def transposed(tensor):
    """The same content with the last dimension outermost."""
    return tensor.movedim(-1, 0).contiguous().movedim(0, -1)


def sliced(tensor):
    """The same content as every second element of a larger tensor."""
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1), 99, dtype=tensor.dtype, device="cuda")
    wide[..., 1::2] = tensor
    return wide[..., 1::2]


class Problem:
    def __init__(self, name, seed, dtype=torch.float32, conventions=(1, 1, 0), mode=DETERMINISTIC, laid=lambda tensor: tensor,
                 want=DIFFERENTIABLE, stages=0):
        self.name = name
        self.inputs = {key: laid(tensor) for key, tensor in inputs_of(seed, dtype).items()}
        self.results = {key: laid(torch.full_like(self.inputs[key], 7)) for key in want}
        tensors = {key: describe(tensor) for key, tensor in self.inputs.items()}
        self.call = Call(*conventions, tensors["value"], describe(LEVELS), describe(STARTS), tensors["sampling_locations"],
                         tensors["attention_weights"])
        self.grad_output, self.options = tensors["grad_output"], Options(mode, 0, 0, stages)
        self.described = {key: describe(tensor) for key, tensor in self.results.items()}

    def run(self, library, stream):
        """Returns the status; does not wait."""
        results = [ctypes.byref(self.described[key]) if key in self.described else None for key in DIFFERENTIABLE]
        return library.msda_cuda_backward(ctypes.byref(self.call), ctypes.byref(self.grad_output), ctypes.byref(self.options),
                                          *results, ctypes.c_void_p(stream))

    def show(self, save):
        for key, tensor in {**self.inputs, "spatial_shapes": LEVELS,
                            **{f"grad_{key}": tensor for key, tensor in self.results.items()}}.items():
            show(f"{self.name}.{key}", tensor, save)


def problems():
    for number, conventions in enumerate(CONVENTIONS):
        yield Problem("{}-conventions{}{}{}-deterministic".format(number, *conventions), number, conventions=conventions)
    number = len(CONVENTIONS)
    rest = [(str(dtype)[6:], dict(dtype=dtype)) for dtype in (torch.float64, torch.float16)]
    rest += [("transposed", dict(laid=transposed)), ("sliced", dict(laid=sliced)),
             ("one", dict(want=("sampling_locations",))), ("none", dict(want=()))]
    for name, how in rest:
        yield Problem(f"{number}-{name}-deterministic", number, **how)
        number += 1
    for name, how in (("float64", dict(mode=FLOAT64)), ("mixed", dict(mode=MIXED, stages=1 << 8)), ("atomic", dict(mode=ATOMIC))):
        yield Problem(f"{number}-modes-{name}", number, **how)
        number += 1


def each(library, save):
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    done = []
    for number, problem in enumerate(problems()):
        torch.cuda.synchronize()
        print(problem.name, "status", problem.run(library, streams[number % 3].cuda_stream), flush=True)
        done.append(problem)
    again = done[0]  # counted as a duplicate
    torch.cuda.synchronize()
    print("again status", again.run(library, streams[1].cuda_stream), flush=True)
    bare, statuses = Problem(f"{len(done)}-thread-deterministic", 1000), []
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: statuses.append(bare.run(library, 0)))
    thread.start()
    thread.join()
    print(bare.name, "status", *statuses, flush=True)
    torch.cuda.synchronize()
    for problem in [*done, bare]:
        problem.show(save)


def into_a_graph(library):
    first, second = Problem("0-before-deterministic", 1), Problem("1-graph-deterministic", 2)
    torch.cuda.synchronize()
    print(first.name, "status", first.run(library, torch.cuda.current_stream().cuda_stream))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        status = second.run(library, torch.cuda.current_stream().cuda_stream)
    print(second.name, "status", status, flush=True)
    graph.replay()
    torch.cuda.synchronize()
    first.show(None)
    second.show(None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--phase", default="each", choices=["each", "graph"])
    parser.add_argument("--save", type=pathlib.Path)
    chosen = parser.parse_args()
    library = ctypes.CDLL(chosen.library)
    if chosen.phase == "graph":
        into_a_graph(library)
    else:
        each(library, chosen.save)


main()
