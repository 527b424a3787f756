"""The measured client: training steps of a model with random weights. Prints one line of JSON.

    python3 client.py MODEL plain|deterministic [--steps 10] [--timed 0] [--alone] [--device cuda|cpu]

- weights: SHA-256 of all parameters and buffers after the steps;
- losses: of each step, as hexadecimal floating-point numbers, all bits;
- refused: operators for which PyTorch has no deterministic algorithm, and which msda_replay.torch does not replace either. Then the steps
  were made with `warn_only`;
- alone, with --alone: what PyTorch says to one more step under torch.use_deterministic_algorithms(True) alone, "" if it does not refuse;
- seconds, with --timed N: by mode, the median time of five steps in each of N / 5 rounds. In each round every mode has its turn, `plain`, `deterministic`
  (both switches), `context` (msda_replay.torch.deterministic() alone) and `alone` (PyTorch's switch alone, with warnings in place of errors), and
  begins with a step that does not count. What happens beside, or slowly, thus meets all modes of a round.

All modes have the same settings of cuDNN (deterministic, no benchmark) and of cuBLAS, and uninitialized memory is not
filled. Exit status 77, with the reason on standard error, where PyTorch, a model's library or the device is missing.
"""

import contextlib
import hashlib
import os
import pathlib
import re
import statistics
import sys
import time
import warnings

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]

import clients  # noqa: E402 (after the path)
import models  # noqa: E402

AT_ONCE = 5
TIMED = ("plain", "deterministic", "context", "alone")
LACKS = re.compile(r"(\S+) does not have a deterministic implementation")


class Training:
    """A model with its optimizer, whose steps are made under one of the modes."""

    def __init__(self, torch, model, loss_of, device):
        self.torch, self.model, self.loss_of, self.device = torch, model, loss_of, device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        self.warn_only = False

    @contextlib.contextmanager
    def mode(self, name):
        import msda_replay.torch

        self.torch.use_deterministic_algorithms(name in ("deterministic", "alone"), warn_only=self.warn_only)
        try:
            with contextlib.ExitStack() as stack:
                if name in ("deterministic", "context"):
                    stack.enter_context(msda_replay.torch.deterministic())
                yield
        finally:
            self.torch.use_deterministic_algorithms(False)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss_of()
        loss.backward()
        self.optimizer.step()
        return loss.item().hex()  # waits for the device

    def digest(self):
        digest = hashlib.sha256()
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(clients.bytes_of(self.torch, tensor))
        return digest.hexdigest()

    def turn(self, mode):
        """Returns the median seconds of some steps; the first, which finds nothing in the caches, does not count."""
        with self.mode(mode):
            seconds = []
            for _ in range(1 + AT_ONCE):
                begin = time.perf_counter()
                self.step()
                seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds[1:])

    def times(self, count):
        """Returns the seconds of a step by mode, one number for each round after the first. Each round begins with another mode."""
        seconds = {mode: [] for mode in TIMED}
        for number in range(1 + -(-count // AT_ONCE)):
            begin = number % len(TIMED)
            for mode in TIMED[begin:] + TIMED[:begin]:
                found = self.turn(mode)
                if number > 0:
                    seconds[mode].append(found)
        return seconds


def refusal(call):
    """Returns what PyTorch refuses a step with, because an operator has no deterministic algorithm; or nothing."""
    try:
        call()
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        return " ".join(str(error).split())[:160]
    return ""


def lacking(said):
    return sorted({match[1] for warning in said if (match := LACKS.search(str(warning.message)))})


def train(torch, chosen):
    """Returns what is printed. A model that PyTorch refuses in spite of the context is made anew, with warnings in place of errors."""
    for warn_only in (False, True):
        torch.manual_seed(2026)
        model, loss_of, library = models.TRAINED[chosen.model](torch, chosen)
        training = Training(torch, model, loss_of, chosen.device)
        training.warn_only, losses = warn_only, []
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with training.mode(chosen.mode):
                why = refusal(lambda: losses.extend(training.step() for _ in range(chosen.steps)))
        if not why:
            break
    found = {"losses": losses, "weights": training.digest(), "refused": lacking(said) if warn_only else []}
    if chosen.alone:
        training.warn_only = False
        with training.mode("alone"):
            found["alone"] = refusal(training.step)
        training.warn_only = warn_only
    if chosen.timed:
        training.warn_only = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["seconds"] = training.times(chosen.timed)
    return {**found, "machine": clients.machine_of(torch, library, chosen.device)}


def measure(torch, chosen):
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    torch.utils.deterministic.fill_uninitialized_memory = False
    return train(torch, chosen)


def main():
    parser = clients.options_of(__doc__, models.TRAINED, steps=10)
    parser.add_argument("mode", choices=("plain", "deterministic"))
    parser.add_argument("--timed", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--edges", type=int, default=200_000, help="of the graph")
    parser.set_defaults(size=256)
    chosen = parser.parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded
    return clients.ended(chosen, lambda torch: measure(torch, chosen))


if __name__ == "__main__":
    sys.exit(main())
