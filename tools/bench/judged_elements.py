"""Time and memory of `msda-replay run` where very many elements are out of tolerance, and whether planted faults among them are named.

    python3 judged_elements.py [--queries 20000] [--seconds 20] [--memory 6] [--assert]

Two calls of Q queries, 8 heads, 4 levels, 1 point, 32 channels, as recorded captures with a reference:

- `rounding`: float32 values beside those of another order of additions and some with a few roundings more, under a tolerance
  below what float32 keeps, so that rounding explains them; the share out of tolerance grows from row to row.
- `encoder`: each query at the centre of a pixel, with integer offsets, as in an encoder: coordinates lie on cell
  boundaries, and the reference (grid_sample) lands on the other side in many.

In each 0.05 % of the elements (of `rounding`: of those out of tolerance) have a flipped sign, half of them on the recorded
side, half on the reference's. Exit status 1, with --assert, if a planted fault is not named or another element is accused, if 960,000 elements
take longer than --seconds, if memory passes --memory times the capture, or if time grows faster than the elements do.
"""

import json
import os
import sys
import tempfile

import numpy as np
from harness import Options, ended, line, measure_process, table
from libmsda import ATOMIC, BUILD, Operator, make_inputs

from msda_replay import Invocation, Result, write_capture

REPLAY = os.path.join(BUILD, "bin", "msda-replay")
NAMES = ("value", "spatial_shapes", "sampling_locations", "attention_weights", "grad_output")
SHARE = 0.0005


def measure(path, answer):
    """Returns the wall seconds, peak memory in bytes, and the JSON."""
    seconds, memory, status = measure_process([REPLAY, "run", path, "--mode", "deterministic", "--json", answer])
    if status != 1:
        raise RuntimeError(f"msda-replay run ended with {status}")
    with open(answer) as file:
        return seconds, memory, json.load(file)["invocations"][0]


def elements(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def accused(call):
    """Returns the elements that are named implementation errors, by (tensor, party at fault)."""
    found = {}
    for judged in call["judged"]:
        if judged["cause"] == "implementation_error" and not judged.get("advisory"):
            found.setdefault((judged["tensor"], judged["at_fault"]), set()).update(elements(judged["elements"]))
    return found


def plant(rng, outputs, reference, places):
    """Flips signs among these elements on both sides; returns which, as accused() does. Zeros have no sign to flip."""
    planted = {}
    for name, flats in places.items():
        large = flats[np.abs(outputs[name].ravel()[flats]) > 1e-2 * np.abs(outputs[name]).max()]
        if len(large) < 2:
            continue
        chosen = rng.choice(large, max(2, round(SHARE * len(flats))) // 2 * 2, replace=False)
        for side, arrays, some in (("observed", outputs, chosen[::2]), ("reference", reference, chosen[1::2])):
            arrays[name].ravel()[some] *= -1
            planted[name, side] = set(some.tolist())
    return planted


def outside(outputs, reference, atol, rtol):
    return {name: np.flatnonzero(np.abs(outputs[name] - reference[name]) > atol + rtol * np.abs(reference[name])) for name in outputs}


def rounding_call(queries, share, seed=1):
    rng = np.random.default_rng(seed)
    inputs = make_inputs(B=1, Q=queries, M=8, P=1, D=32)
    operator = Operator(0, 0)
    outputs, reference = operator.backward(inputs), operator.backward(inputs, mode=ATOMIC, seed=3)
    for array in outputs.values():
        noisy = rng.random(array.shape) < share
        array[noisy] *= np.float32(1 + 3e-7)
    tolerance = {"atol": 1e-9, "rtol": 2e-7}
    return rng, inputs, outputs, reference, "deformable_detr", "deformable_detr", tolerance, outside(outputs, reference, **tolerance)


def encoder_call(queries, seed=2):
    rng = np.random.default_rng(seed)
    side = int(np.sqrt(queries * 64 / 85))  # of the first level; the others halve it: 1 + 1/4 + 1/16 + 1/64
    levels = [(max(2, (side + 3) >> l), max(2, side >> l)) for l in range(4)]
    inputs = make_inputs(B=1, Q=sum(h * w for h, w in levels), M=8, P=1, D=32, levels=levels, seed=seed)
    centres = np.concatenate([np.stack(np.meshgrid((np.arange(w) + 0.5) / w, (np.arange(h) + 0.5) / h), -1).reshape(-1, 2)
                              for h, w in levels])
    offsets = rng.integers(-2, 3, inputs["sampling_locations"].shape)
    sizes = inputs["spatial_shapes"][:, ::-1][None, None, None, :, None, :]
    inputs["sampling_locations"] = (centres[None, :, None, None, None, :].astype(np.float32)
                                    + (offsets / sizes).astype(np.float32)).astype(np.float32)
    outputs, reference = Operator(1, 0).backward(inputs), Operator(2, 0).backward(inputs)
    everywhere = {key: np.arange(array.size) for key, array in outputs.items()}
    return rng, inputs, outputs, reference, "msda_triton", "grid_sample", {"atol": 1e-3, "rtol": 1e-2}, everywhere


def row(folder, name, made, limits):
    """Returns how many elements were judged, the seconds, and what is wrong, empty if nothing is."""
    rng, inputs, outputs, reference, dialect, other_dialect, tolerance, places = made
    planted = plant(rng, outputs, reference, places)
    path = os.path.join(folder, "call.h5")
    call = Invocation({key: inputs[key] for key in NAMES}, outputs, dialect, results={"other": Result(reference, "reference", other_dialect)}, **tolerance)
    write_capture(path, call, overwrite=True)
    seconds, memory, answer = measure(path, os.path.join(folder, "answer.json"))
    judged, advice = (sum(group["count"] for group in answer["judged"] if bool(group.get("advisory")) == is_advice) for is_advice in (False, True))
    found = accused(answer)
    missed = sum(len(wanted - found.get(key, set())) for key, wanted in planted.items())
    wrongly = sum(len(some - planted.get(key, set())) for key, some in found.items())
    count, size = sum(map(len, planted.values())), os.path.getsize(path)
    boundaries = answer["verdict"]["causes"].get("cell_boundary", 0)
    print(line([name, f"{judged:,}", f"{advice:,}", f"{boundaries:,}", f"{count - missed} of {count}", wrongly, f"{seconds:.1f}",
                f"{memory / size:.1f}"]), flush=True)
    wrong = missed > 0 or wrongly > 0 or memory > limits.memory * size or seconds > limits.seconds * max(1, (judged + advice) / 960_000)
    return judged + advice, seconds, [f"{name}: a fault missed, an element accused, too slow or too large"] * wrong


def measured(chosen):
    print(table(["call", "judged", "advice", "of them cell_boundary", "planted faults named", "others accused", "wall s", "peak / capture"]))
    wrong, rounding = [], []
    with tempfile.TemporaryDirectory() as folder:
        for share in (0.1, 0.3, 0.6, 0.9):
            judged, seconds, missed = row(folder, f"rounding, {share:.0%} moved", rounding_call(chosen.queries, share), chosen)
            rounding.append(seconds / judged)
            wrong += missed
        wrong += row(folder, "encoder", encoder_call(chosen.queries), chosen)[2]
    print(f"\nseconds an element, the most beside the fewest: {rounding[-1] / rounding[0]:.2f} times")
    if rounding[-1] > 1.5 * rounding[0]:
        wrong.append("time grows faster than the elements do")
    return wrong if chosen.asserts else []


def main():
    parser = Options(__doc__)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20, help="for 960,000 elements; of more in proportion")
    parser.add_argument("--memory", type=float, default=6, help="times the capture's size")
    parser.add_argument("--assert", action="store_true", dest="asserts")
    chosen = parser.parse_args()
    return ended("judged_elements", lambda: measured(chosen))


if __name__ == "__main__":
    sys.exit(main())
