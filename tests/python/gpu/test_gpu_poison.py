"""run --poison on a GPU: kernels written for the purpose, each with one defect or none, get their verdict in every run."""

import collections
import json

import pytest
from support.adapters import POISON
from support.gpu import invocations_of, share_of

RUNS = share_of(100)
# The verdict, and on whose contents y depends where nothing else varies.
KERNELS = {"race": ("race", None), "reads_output": ("reads_unwritten", ["y"]), "reads_scratch": ("reads_unwritten", ["parameter 3"]),
           "order_only": ("order_only", None), "none": ("deterministic", []), "reads_shared": ("reads_unwritten", ["shared memory"])}


def kernel_of(name):
    """"race" of "_Z11poison_raceiPKfPfS1_"."""
    return next(short for short in KERNELS if f"poison_{short}iPK" in name)


def verdicts_of(launches):
    """Yields each relaunched kernel, with its verdict and memories, None where those are not judged."""
    for launch in launches:
        name = kernel_of(launch["kernel"])
        memories = launch["poison"]["tensors"]["y"]["varies_across"]
        yield name, (launch["poison"]["verdict"], None if KERNELS[name][1] is None else memories)


@pytest.mark.gpu("nvcc")
@pytest.mark.parametrize("kernels", [[name for name in KERNELS if name != "reads_shared"], ["reads_shared"]], ids=["memory", "shared memory"])
def test_verdicts(programs, kernels):
    adapter = programs.folder() / "poison.json"
    adapter.write_text(json.dumps(POISON))
    done, capture = programs.record([programs.compiled("poison"), "--kernels", ",".join(kernels)], ["--adapter", adapter])
    invocations_of(capture, done, len(kernels))
    right, wrong = collections.Counter(), {}
    for _ in range(RUNS):
        done = programs.replay("run", capture, "--mode", "original", "--poison", "--json", "-", expected=(0, 1))
        for name, found in verdicts_of(json.loads(done.stdout)["relaunched"]):
            right[name] += found == KERNELS[name]
            if found != KERNELS[name]:
                wrong[name] = found
    assert not wrong and right == dict.fromkeys(kernels, RUNS)
