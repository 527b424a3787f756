"""The surveyed client: training steps of a model with random weights, as a user would write them. Prints one line of JSON.

    python3 client.py MODEL [--remedies] [--steps 2] [--device cuda|cpu] [--size 256]

Nothing is asked of PyTorch's or cuDNN's settings: whatever varies may vary. With --remedies the program begins with what the survey says to type
for its kernels.

- losses: of each step, as hexadecimal floating-point numbers, all bits;
- gradients: SHA-256 of all gradients, of each step;
- weights: SHA-256 of all parameters and buffers after the steps;
- seconds: of each step, until the device has done it;
- process: from the start of the process to its last line.

Exit status 77, with the reason on standard error, where PyTorch, a model's library or the device is missing.
"""

import contextlib
import os
import pathlib
import sys
import time

BEGIN = time.time()
BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]

import clients  # noqa: E402 (after the path)
import models  # noqa: E402


def type_remedies(torch, stack):
    """What replay/survey/remedies/ says, but for lines of the model itself."""
    import msda_replay.torch

    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    stack.enter_context(msda_replay.torch.deterministic())


def train(torch, chosen, stack):
    torch.manual_seed(2026)
    if chosen.remedies:
        type_remedies(torch, stack)
    model, loss_of, library = models.EVERY[chosen.model](torch, chosen)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    found = {"losses": [], "gradients": [], "seconds": []}
    for _ in range(chosen.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        found["losses"].append(loss.item().hex())  # waits for the device
        found["seconds"].append(time.perf_counter() - begin)
        found["gradients"].append(clients.digest_of(torch, [weight.grad for weight in model.parameters() if weight.grad is not None]))
    found["weights"] = clients.digest_of(torch, model.state_dict().values())
    return {**found, "process": time.time() - BEGIN, "machine": clients.machine_of(torch, library, chosen.device)}


def measure(torch, chosen):
    with contextlib.ExitStack() as stack:
        return train(torch, chosen, stack)


def main():
    parser = clients.options_of(__doc__, models.EVERY, steps=2)
    parser.add_argument("--remedies", action="store_true", help="type what the survey says")
    parser.add_argument("--edges", type=int, default=200_000, help="of the graph")
    parser.set_defaults(size=256)
    chosen = parser.parse_args()
    if chosen.remedies:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded
    return clients.ended(chosen, lambda torch: measure(torch, chosen))


if __name__ == "__main__":
    sys.exit(main())
