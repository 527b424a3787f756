"""Random backward calls of ctc_loss, also impossible ones, of targets that are padded or one after the other."""

import numpy as np

from msda_replay.libmsda import CtcLossCall

from .laid import Drawn, Laid


class Problem(Drawn):
    functions = ("ctc_loss_backward",)

    def __init__(self, number, work, seed=2026, finite=False):
        rng = self.rng = np.random.default_rng([seed, number])
        self.begin(finite)
        self.dtype = str(rng.choice(["float32", "float64"]))
        self.T, self.B, self.C = int(rng.choice([1, 2, 30, 150])), int(rng.choice([1, 3, 150])), int(rng.choice([2, 5, 29, 400]))
        labels = int(rng.choice([0, 1, 12, 40, 700]))
        while self.T * self.B * (self.C + 2 * labels) > work and labels * self.B > 4:
            self.B, labels = max(1, self.B // 2), labels // 2
        if number % 13 == 5:
            self.T, self.B = [(0, 2), (3, 0)][number // 13 % 2]
        self.zero_infinity, self.blank, self.positions = int(rng.integers(2)), int(rng.integers(self.C)), 2 * labels + 1
        lengths = np.stack([rng.integers(0, self.T + 1, self.B), rng.integers(0, labels + 1, self.B)])
        kinds = np.delete(np.arange(self.C), self.blank)[: int(rng.choice([1, 3, self.C]))]  # few: many equal labels
        targets = rng.choice(kinds, (self.B, max(labels, 1)))
        is_padded = rng.random() < 0.5
        numbers = targets if is_padded else targets[np.arange(max(labels, 1)) < lengths[1][:, None]]
        log = lambda n: -5 * rng.random(n)  # noqa: E731
        loss = lambda n: np.where(rng.random(n) < 0.2, np.inf, 3 * rng.random(n))  # noqa: E731
        self.lengths = Laid("int64", lengths.shape, contents=lambda n: lengths.reshape(-1), contiguous=True)
        self.inputs = {
            "log_probs": self.laid((self.T, self.B, self.C), log),
            "targets": Laid(str(rng.choice(["int32", "int64"])), numbers.shape, contents=lambda n: numbers.reshape(-1)[:n], contiguous=True),
            "neg_log_likelihood": self.laid((self.B,), loss),
            "log_alpha": Laid(self.dtype, (self.B, self.T, self.positions), contents=log, contiguous=True),
            "grad_output": self.laid((self.B,), rng.standard_normal),
        }

    def shapes_of(self, function):
        return {"grad_log_probs": (self.T, self.B, self.C)}

    def call(self, place, function):
        call = CtcLossCall(self.blank, self.zero_infinity)
        call.lengths = self.lengths.at(self.lengths.memory.ctypes.data)  # on the host
        for name, laid in self.inputs.items():
            if name != "grad_output":
                setattr(call, name, place(laid))
        return [call, place(self.inputs["grad_output"])]

    def is_crowded(self):
        return self.T >= 30 and self.B >= 3 and self.positions > 20 and self.C < 30

    def __str__(self):
        return f"blank {self.blank}, zero_infinity {self.zero_infinity}, lengths {self.lengths.memory[:-64].view(np.int64)[:8]}, {super().__str__()}"
