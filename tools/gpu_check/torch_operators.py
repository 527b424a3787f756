"""msda_replay.torch on a GPU: its own tests, those that need a GPU included."""

import re

from .bench import SOURCE, expect, tail
from .registry import check

LIMIT_S = 300


@check("torch-operators", "deterministic operators in PyTorch: the CPU's bits, autograd, compile, graphs", ["torch", "pytest"])
def torch_operators(bench):
    def tests():
        tests = SOURCE / "tests" / "python" / "pytorch" / "test_torch.py"
        command = [bench.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", tests,
                   "-k", "not libmsda_does_not_reach"]  # that one needs a machine without a GPU
        done = bench.run(command, expected=(0, 1), limit=LIMIT_S, PYTHONPATH=SOURCE / "tools" / "python",
                         MSDA_BUILD=bench.record_program.parent.parent)
        expect(done.returncode == 0, tail(done.stdout))
        # Without a GPU its tests would be skipped, and this check with them; here none may be.
        expect("skipped" not in done.stdout, tail(done.stdout))
        return re.search(r"(\d+) passed", done.stdout)[0]

    yield "", tests
