"""The measured client: training steps of a Hugging Face detector with random weights. Prints one line of JSON.

    python3 client.py MODEL [--steps 1] [--device cuda|cpu] [--size 256]

The line says what the program computed, so that runs with and without the recorder can be compared:

- losses: of each step, as hexadecimal floating-point numbers, all bits;
- stable: SHA-256 of the gradients, of all steps, that no atomic addition reaches;
- sketch: of each other parameter eight sums of its gradients with random signs (the same signs in every run). A changed
  element changes all eight; runs that add in another order differ in their last digits;
- calls: how many grid_sample backward passes there were, which the recorder should record;
- kernel: what the names of their kernels have in common;
- step_seconds: the time of the steps alone, without imports and the model's construction.

PyTorch's grid_sample adds to the gradient of its `input` atomically, in an order that changes from run to run. Which
parameters that reaches is read from the autograd graph: all that are reached from that edge of a grid_sample node.
Everything else runs with deterministic algorithms; a kernel that has none is named in `unsettled`, and then no equality
is promised.
The optimizer updates only parameters with stable gradients. So each step begins with the same bits in every run, and
the losses and stable gradients of all steps can be compared bit for bit. Exit status 77, with the reason on standard
error, where PyTorch, transformers or the device is missing.
"""

import hashlib
import os
import pathlib
import re
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import clients  # noqa: E402 (after the path)
import models  # noqa: E402

SIGNS = 8
# The only operator whose atomics are accounted for.
ACCOUNTED = "grid_sampler_2d_backward_cuda"
KERNEL = "grid_sampler_2d_backward"


def make_deterministic(torch):
    torch.manual_seed(2026)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False


def walk(roots):
    """Returns the nodes of an autograd graph that are reachable from `roots`, which are included."""
    found, waiting = set(), list(roots)
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [following for following, _ in node.next_functions]
    return found


def atomics_reach(loss):
    """Returns how many grid_sample nodes there are, and the ids of the parameters that their atomic additions reach."""
    samplers = [node for node in walk([loss.grad_fn]) if node.name().startswith("GridSampler2DBackward")]
    behind = walk(node.next_functions[0][0] for node in samplers)
    return len(samplers), {id(node.variable) for node in behind if hasattr(node, "variable")}


class Sketch:
    """Sums with random signs, of each parameter over all steps."""

    def __init__(self, torch, device):
        self.torch, self.device, self.sums = torch, device, {}
        self.generator = torch.Generator(device).manual_seed(7)

    def add(self, name, gradient):
        flat = gradient.detach().reshape(-1).double()
        signs = self.torch.randint(0, 2, (SIGNS, flat.numel()), generator=self.generator, device=self.device, dtype=self.torch.int8)
        sums = ((2 * signs - 1) * flat).sum(1)
        self.sums[name] = self.sums[name] + sums if name in self.sums else sums

    def numbers(self):
        return {name: sums.tolist() for name, sums in self.sums.items()}


def train(torch, model, loss_of, chosen):
    """Returns what is printed, without the times."""
    digest, sketch, losses, calls = hashlib.sha256(), Sketch(torch, chosen.device), [], 0
    optimizer = None
    for _ in range(chosen.steps):
        loss = loss_of()
        if optimizer is None:
            calls, reached = atomics_reach(loss)
            trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
            optimizer = torch.optim.SGD([parameter for _, parameter in trained if id(parameter) not in reached], lr=1e-5)
        model.zero_grad()
        loss.backward()
        for name, parameter in trained:
            if parameter.grad is not None and id(parameter) in reached:
                sketch.add(name, parameter.grad)
            elif parameter.grad is not None:
                digest.update(parameter.grad.contiguous().cpu().numpy().tobytes())
        optimizer.step()
        losses.append(loss.item().hex())
    return {"calls": calls * chosen.steps, "kernel": KERNEL, "losses": losses, "stable": digest.hexdigest(),
            "stable_parameters": len(trained) - len(reached), "sketch": sketch.numbers()}


def measure(torch, chosen):
    make_deterministic(torch)
    model, loss_of, library = models.DETECTORS[chosen.model](torch, chosen)
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = train(torch, model, loss_of, chosen)
    found["step_seconds"] = time.perf_counter() - begin
    named = {match[1] for warning in said if (match := re.match(r"(\S+) does not have a deterministic implementation", str(warning.message)))}
    return {**found, "unsettled": sorted(named - {ACCOUNTED}), "machine": clients.machine_of(torch, library, chosen.device)}


def main():
    parser = clients.options_of(__doc__, models.DETECTORS, steps=1)
    parser.set_defaults(size=256)
    chosen = parser.parse_args()
    # cuBLAS is deterministic only with a workspace of its own, and reads this when it is loaded.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return clients.ended(chosen, lambda torch: measure(torch, chosen))


if __name__ == "__main__":
    sys.exit(main())
