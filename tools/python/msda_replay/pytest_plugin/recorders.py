"""What records the tests of this process: the preloaded library, the calls of PyTorch's operators as PyTorch dispatches them, or both."""

import glob
import importlib.util
import os

from .operator_recorder import OperatorRecorder
from .recorder import Recorder


def gpu_is_visible(devices="/dev"):
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles"):
        return False
    return bool(glob.glob(f"{devices}/nvidia[0-9]*")) or os.path.exists(f"{devices}/dxg")


def _pytorch_is_installed():
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:  # something else has its name
        return False


class Recorders:
    """`preloaded` is the library, or None. It sees a GPU's kernels, of any thread, at a lower cost: where it is loaded and a GPU is visible,
    PyTorch's operators are not recorded besides. `leave_out_the_cpu`: then they are not recorded on a CPU."""

    def __init__(self, record=True):
        self.preloaded = Recorder.loaded() if record else None
        wanted = record and _pytorch_is_installed()
        self.leave_out_the_cpu = wanted and self.preloaded is not None and gpu_is_visible()
        self._operators = OperatorRecorder() if wanted and not self.leave_out_the_cpu else None
        self._all = [recorder for recorder in (self.preloaded, self._operators) if recorder is not None]

    def __bool__(self):
        return bool(self._all)

    def describe(self):
        """Returns what is recorded, for the header."""
        return " and ".join(["kernels (by LD_PRELOAD)"] * (self.preloaded is not None) + ["PyTorch's operators"] * (self._operators is not None))

    def label(self, text):
        for recorder in self._all:
            recorder.label(text)

    def discard(self):
        for recorder in self._all:
            recorder.discard()

    def complete(self):
        """Yields the paths of captures of the calls so far. Each has to be moved away before the next is asked for."""
        for recorder in self._all:
            if path := recorder.complete():
                yield path

    def take_left_out(self):
        return self._operators.take_left_out() if self._operators is not None else {}

    def close(self):
        if self._operators is not None:
            self._operators.close()
