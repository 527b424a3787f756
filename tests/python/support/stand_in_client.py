"""Stands in for tools/bench/recording/client.py where there is no GPU: one call of libmsda a step, and the same line of JSON.

Models but `steady` go wrong, most of them only under the recorder, in the way that their names say.
"""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "bench"))
from libmsda import Operator, make_inputs  # noqa: E402


def main(model, steps):
    recorded = "msda_record" in os.environ.get("LD_PRELOAD", "")
    if model == "absent":
        print("client: no GPU that PyTorch can use", file=sys.stderr)
        return 77
    if model == "failing" and recorded:
        return "client: out of memory"
    if model == "hanging":
        time.sleep(60)
    if model == "slow" and recorded:
        time.sleep(1)  # several times what a step takes
    begin, losses = time.perf_counter(), []
    for step in range(steps):
        gradients = Operator().backward(make_inputs(B=1, Q=50, M=2, P=2, D=8, levels=((8, 8), (4, 4)), seed=step))
        losses.append(float(gradients["grad_value"].sum()))
    if model == "other_loss" and recorded:
        losses[-1] *= 1 + 2**-52
    # As if by atomics: differs in the last digits from run to run.
    stray = 1e-3 if model == "other_gradient" and recorded else time.time_ns() % 7 * 1e-9
    found = {"calls": steps + (model == "losing"), "losses": [loss.hex() for loss in losses],
             "stable": "recorded" if model == "other_stable" and recorded else "plain", "sketch": {"weight": [1 + stray] * 8},
             "step_seconds": time.perf_counter() - begin, "machine": {"device": "stand-in"}}
    print("training")
    print("done" if model == "silent" else json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[3])))
