"""What all plots share: figures, colours, and which call and which sides are meant."""

import os
from typing import Any, List, Optional, Tuple, Union

import numpy as np

from ..capture import CaptureError
from ..reading import Call, OpenCapture, open_capture

# Okabe and Ito's, which people with any colour vision can distinguish.
OBSERVED, EXPECTED, EXACT, BAD, MUTED = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#777777"

Source = Union[Call, OpenCapture, str, os.PathLike[str]]


def new_figure(rows: int, columns: int, width: float, height: float, **options: Any) -> Tuple[Any, np.ndarray]:
    """Returns a figure and its axes, an array of two dimensions."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plots need matplotlib: apt-get install python3-matplotlib, or pip install matplotlib",
                                  name=error.name) from None
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options)
    plt.close(figure)  # a notebook shows what a function returns; open figures would be shown twice
    return figure, axes


def call_of(source: Source) -> Call:
    """Returns the call that is meant by a call, or by a capture that holds only one."""
    if isinstance(source, Call):
        return source
    if not isinstance(source, (OpenCapture, str, os.PathLike)):
        raise TypeError(f"a plot takes a call, a capture or its path, not {source!r}")
    capture = source if isinstance(source, OpenCapture) else open_capture(source)
    if len(capture) != 1:
        raise CaptureError(f"{capture.path}: has {len(capture)} calls; give one of them, such as open_capture(...)[0]")
    return capture[0]


def gradients_of(call: Call, tensor: Optional[str] = None) -> List[str]:
    """Returns the recorded gradients, or the named one."""
    names = [name for name in call.outputs if np.issubdtype(call.outputs[name].dtype, np.floating)]
    if tensor is not None and tensor not in names:
        raise CaptureError(f"{call.path}: call {call.id} has no output {tensor}; it has {', '.join(names) or 'none'}")
    if not names:
        raise CaptureError(f"{call.path}: call {call.id} has no gradients in its outputs: there is nothing to compare")
    return [tensor] if tensor else names


def expected_of(call: Call, tensor: str, against: Optional[str] = None) -> Tuple[np.ndarray, str]:
    """Returns the other side of a comparison in float64, and its name: the named one, else the test's reference, else float64."""
    stored = {**call.results, **({"reference": call.reference} if call.reference is not None else {})}
    if against is None:
        against = "reference" if "reference" in stored and tensor in stored["reference"] else "float64"
    if against in stored:
        if tensor not in stored[against]:
            raise CaptureError(f"{call.path}: the result {against} of call {call.id} has no {tensor}; compare with float64")
        return stored[against][tensor][()].astype(np.float64), against
    return call.replay(against)[tensor].astype(np.float64), against


def judged(observed: np.ndarray, expected: np.ndarray, side: str, atol: float, rtol: float) -> Tuple[np.ndarray, np.ndarray]:
    """Returns the error of each element, NaN where a side is not finite, and its share of what the tolerance allows: above 1 exactly where
    `msda-replay run` says that it is out of tolerance. Two NaN are; equal infinities are if float64 is a side."""
    finite = np.isfinite(observed) & np.isfinite(expected)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.where(finite, np.abs(observed - expected), np.nan)
        allowed = atol + rtol * np.abs(expected)
        share = np.where(error == 0, 0, error / allowed)
        share = np.where(error > allowed, np.maximum(share, np.nextafter(1, 2)), np.minimum(share, 1))  # whatever dividing rounds
    same = (observed == expected) & (side != "float64")
    return error, np.where(finite, share, np.where(same, 0, np.inf))


def tolerance_of(call: Call, atol: Optional[float], rtol: Optional[float]) -> Tuple[float, float, str]:
    """Returns atol, rtol, and where they are from."""
    recorded = call.tolerance
    if atol is not None or rtol is not None:
        return atol or 0.0, rtol or 0.0, "given"
    if recorded is not None:
        return (*recorded, "the test's")
    # docs/causes.md, "What the tests use"
    customary = {"float64": (1e-7, 1e-7), "float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2)}
    first = next(iter(call.outputs.values()))
    return (*customary.get(first.type, (1e-3, 1e-2)), f"customary for {first.type}")
