"""The divergences that the client plants: one thing at one place of one step, in the middle of the run."""

import contextlib
import time

from . import expected

SPIN = 100_000_000  # cycles: some 50 ms, longer than two launches take to begin
PATIENCE = 2.0  # seconds, after which the spinning has ended although others use the device as well


class Plants:
    """What the models and the loop call at the places of the plants. Nothing happens there but at the planted step; there the markers
    are launched in every run, and the plant's own work if it is asked for."""

    def __init__(self, torch, chosen):
        self.torch, self.kind, self.side, self.device = torch, chosen.plant, chosen.side, chosen.device
        self.planted_step, self.step = chosen.steps // 2, -1
        self.tensors = [torch.full((1,), value, device=chosen.device) for value in (1.5, 0.5)]
        self.checks = []  # functions that say at the end whether the plant took
        self.done = False

    def begin(self, step):
        self.step = step

    def marked(self, site):
        """Launches the site's marker at the planted step. Returns whether this is that step."""
        if self.step != self.planted_step:
            return False
        getattr(self.torch, expected.SITES[site])(*self.tensors)
        return True

    def is_asked(self, kind):
        """Returns whether this run has the plant. The first run has only plants of both runs, without what makes them part."""
        if self.kind != kind or (self.side == "a" and not expected.PLANTS[kind].both):
            return False
        self.done = True
        return True

    def parts(self, kind):
        return self.is_asked(kind) and self.side == "b"

    def took(self):
        """Returns whether the plant was planted and did what it is for; None if there was none to plant. It copies from the device."""
        if not self.kind or self.kind == "gpu" or (self.side == "a" and not expected.PLANTS[self.kind].both):
            return None
        return self.done and all(check() for check in self.checks)

    # The places, in the order of a step

    def order(self, batches):
        """Returns the loader's batches; the planted step and the next one change places."""
        if self.parts("workers_order"):
            here = self.planted_step
            batches[here], batches[here + 1] = batches[here + 1], batches[here]
        return batches

    def loss_weights(self, pinned, transfer):
        """Returns the weights of the losses, from memory of the host that the program changes too early."""
        if self.marked("data") and self.is_asked("host_value"):
            if self.side == "b":
                pinned[0] *= 1.25
            weights = transfer(pinned)
            self.checks.append(lambda: (weights[0] / weights[1]).item() == (1.25 if self.side == "b" else 1))
            return weights
        return transfer(pinned)

    def convolution(self):
        """Returns whether this is the planted step of a pair whose second run has cuDNN measure. It does so for shapes only that are new to it."""
        asked = self.marked("convolution") and self.is_asked("cudnn_benchmark")
        if asked and self.side == "b":
            self.torch.backends.cudnn.benchmark = True
        return asked

    @contextlib.contextmanager
    def product(self):
        """Encloses a product of matrices in float32."""
        planted = self.marked("product") and self.parts("tf32")
        self.torch.backends.cuda.matmul.allow_tf32 = planted
        try:
            yield
        finally:
            self.torch.backends.cuda.matmul.allow_tf32 = False

    @contextlib.contextmanager
    def tuned(self):
        """Encloses a product of matrices by the tuned kernel."""
        if not (self.marked("tuned") and self.parts("tuner")):
            yield
            return
        from . import kernels

        with kernels.other_configuration():
            yield

    def layer(self, x):
        """An activation of float32 in rows, in front of a dropout."""
        if not self.marked("layer"):
            return x
        if self.parts("dropout_seed"):
            self.torch.manual_seed(self.torch.initial_seed() + 1)
        for kind, plant in (("atomic", self.add_atomically), ("unwritten", self.read_unwritten), ("stream_race", self.race)):
            if self.is_asked(kind):
                with self.torch.no_grad():
                    added = plant(x.detach())
                return x + added
        return x

    def scale(self, scaler, value):
        """The program sets the loss scale after each step."""
        if self.marked("scale") and self.parts("loss_scale"):
            value /= 2
        scaler.update(new_scale=value)

    def weight(self, parameter):
        """A weight goes to the host and back."""
        if self.marked("weight") and self.is_asked("weight_bit"):
            host = parameter.detach().cpu()
            if self.side == "b":
                host.view(self.torch.int32).view(-1)[0] ^= 1
            parameter.data.copy_(host)

    # The plants that have work of their own

    def add_atomically(self, x):
        """Adds up rows in eight groups in the order in which they come. Numbers of 24 bits, so that sums have to be rounded."""
        rows = x.reshape(-1, x.shape[-1]) * 1.1
        group = self.torch.arange(len(rows), device=x.device) % 8
        sums = self.torch.zeros(8, x.shape[-1], device=x.device).index_add_(0, group, rows)
        return (sums * 1e-3)[group].reshape(x.shape)

    def read_unwritten(self, x):
        """A kernel sums a buffer that nobody wrote. In it is what was in the one of two equal buffers that was freed: which one differs; what
        the program launched, and with which numbers, does not."""
        from . import kernels, raw_memory

        driver = raw_memory.Driver()
        places = [driver.allocate() for _ in range(2)]
        for place, value in zip(places, (1.0, 2.0)):
            raw_memory.tensor_at(self.torch, place).fill_(value)
        self.torch.cuda.synchronize()
        freed, kept = places if self.side == "a" else places[::-1]
        driver.free(freed)
        same, taken = raw_memory.take_freed(driver, freed)
        buffer, total = raw_memory.tensor_at(self.torch, taken[-1]), self.torch.zeros(1, device=x.device)
        left = 1.0 if self.side == "a" else 2.0
        kernels.sum_of_buffer[(1,)](buffer, total, BLOCK=buffer.numel())
        self.torch.cuda.synchronize()
        for address in (kept, *taken):
            driver.free(address)
        self.checks.append(lambda: same and total.item() == buffer.numel() * left)
        return total * 1e-4

    def race(self, x):
        """A second stream reads what the first one writes, and nothing orders the two. The first is kept busy; one run has its second
        launch late, the other at once."""
        from . import kernels

        x = x.contiguous()
        torch, buffer, out, side_stream = self.torch, self.torch.zeros_like(x), self.torch.empty_like(x), self.torch.cuda.Stream()
        kernels.along(kernels.write_values, (buffer, buffer))  # loads the code, which waits for the device
        kernels.along(kernels.read_values, (buffer, out))
        torch.cuda.synchronize()
        torch.cuda._sleep(SPIN)
        kernels.along(kernels.write_values, (x, buffer))
        if self.side == "a":
            time.sleep(PATIENCE)
        with torch.cuda.stream(side_stream):
            kernels.along(kernels.read_values, (buffer, out))
        torch.cuda.current_stream().wait_stream(side_stream)
        out.record_stream(side_stream)
        buffer.record_stream(side_stream)
        self.checks.append(lambda: bool((out == x * 2).all()) == (self.side == "a"))
        return out * 1e-3
