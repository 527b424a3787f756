"""Compares the deterministic CPU backward with PyTorch's grid_sample path: same inputs and threads, alternating in one run.

    python3 against_torch.py [--threads 2] [--rounds 15] [--most 0.5] [--detectors] [--assert]

Exit status 1 if ours takes more than `--most` of PyTorch's time in row 1 in float32 or, with `--assert`, in any row; 77
if PyTorch is not installed.
"""

import platform
import statistics
import sys
import time

import numpy as np
from harness import Options, ended, line, pytorch, table
from libmsda import FLOAT64, Operator, make_inputs

# What make_inputs takes, and the type; row 1 first.
ROWS = [({"P": points}, dtype) for points in (3, 4) for dtype in ("float32", "float64")]
THREE_LEVELS = ((80, 80), (40, 40), (20, 20))
# The calls of detectors: decoders of one image and of a batch, and an encoder, whose queries are the pixels.
DETECTORS = [
    ({"B": 1, "Q": 300, "P": 4, "levels": THREE_LEVELS}, "float32"),
    ({"B": 8, "Q": 300, "P": 4, "levels": THREE_LEVELS}, "float32"),
    ({"B": 1, "Q": 900, "P": 4}, "float32"),
    ({"B": 1, "Q": 8400, "P": 4, "levels": THREE_LEVELS}, "float32"),
]


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def row(torch, sizes, dtype, threads, rounds):
    from gpu.contenders import GridSample  # here, because it needs PyTorch

    inputs = {name: array.astype(dtype) if array.dtype == np.float32 else array for name, array in make_inputs(**sizes).items()}
    operator = Operator(dialect=2)
    tensors = [torch.from_numpy(inputs[name]).requires_grad_() for name in ("value", "sampling_locations", "attention_weights")]
    output = GridSample.forward(tensors[0], inputs["spatial_shapes"].tolist(), tensors[1], tensors[2])
    grad_output = torch.from_numpy(inputs["grad_output"])

    def theirs():
        return torch.autograd.grad(output, tensors, grad_output, retain_graph=True)

    def ours():
        return operator.backward(inputs, threads=threads)

    # The gradients must agree, or the times mean nothing, except for the few samples that float32 lands in other cells.
    exact = operator.backward(inputs, mode=FLOAT64).values()
    for mine, torchs, truth in zip(ours().values(), theirs(), exact):
        for result in (mine, torchs.numpy()):
            share = np.mean(np.abs(result - truth) > 1e-3 + 1e-2 * np.abs(truth))
            assert share < 1e-4, f"{share:.2%} of a gradient differ from float64"
    times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return [1e3 * statistics.median(side) for side in zip(*times)]


def name_of(sizes):
    inputs = make_inputs(**sizes)
    B, Q, M, L, P = inputs["attention_weights"].shape
    sides = ",".join(str(height) for height, _ in inputs["spatial_shapes"])
    return f"{B} {Q} {M} {L} {P} {inputs['value'].shape[-1]} ({sides})"


def measured(chosen):
    torch = pytorch("compare")
    torch.set_num_threads(chosen.threads)
    print(f"PyTorch {torch.__version__}, {chosen.threads} threads, {platform.processor() or platform.machine()}, "
          f"median of {chosen.rounds} rounds, milliseconds")
    print(table(["B Q M L P D (levels)", "type", "msda-replay deterministic", "PyTorch grid_sample path", "ratio"]))
    rows = DETECTORS if chosen.detectors else ROWS
    for number, (sizes, dtype) in enumerate(rows):
        mine, theirs = row(torch, sizes, dtype, chosen.threads, chosen.rounds)
        ratio, name = mine / theirs, name_of(sizes)
        print(line([name, dtype, f"{mine:.1f}", f"{theirs:.1f}", f"{ratio:.2f}"]), flush=True)
        if ratio > chosen.most and (chosen.every or (rows is ROWS and number == 0)):
            yield f"{name} in {dtype}: more than {chosen.most} of PyTorch's time"


def main():
    parser = Options(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--most", type=float, default=0.5, help="of PyTorch's time")
    parser.add_argument("--detectors", action="store_true", help="measure the calls of detectors instead")
    parser.add_argument("--assert", action="store_true", dest="every", help="no row may take more than --most")
    chosen = parser.parse_args()
    return ended("against_torch", lambda: list(measured(chosen)))


if __name__ == "__main__":
    sys.exit(main())
