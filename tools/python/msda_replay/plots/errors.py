"""plot_errors: how far all elements of a call's gradients are from what they are compared with."""

from typing import Any, Optional

import numpy as np

from .figures import BAD, MUTED, OBSERVED, Source, call_of, expected_of, gradients_of, judged, new_figure, tolerance_of


def ulp_distance(observed: np.ndarray, expected: np.ndarray, type_: str) -> np.ndarray:
    """Returns how many representable numbers of the type lie between the two, as float64; NaN where a side is not finite."""
    def ordered(array: np.ndarray) -> np.ndarray:
        if type_ == "bfloat16":
            bits = array.astype(np.float32).view(np.int32).astype(np.int64)
            half = 1 << 15  # to nearest: what is between two bfloat16 numbers is on its way to one of them
            return np.where(bits < 0, -((bits & 0x7FFFFFFF) + half >> 16), bits + half >> 16)
        real = np.dtype(type_)
        signed = array.astype(real).view(f"i{real.itemsize}").astype(np.int64)
        return np.where(signed < 0, -(signed & np.iinfo(f"i{real.itemsize}").max), signed)

    one, other = ordered(observed), ordered(expected)
    with np.errstate(over="ignore"):  # 64 bits hold the distance of numbers of one sign only
        distance = np.where((one < 0) == (other < 0), np.abs(one - other), np.abs(one.astype(np.float64)) + np.abs(other.astype(np.float64)))
    return np.where(np.isfinite(observed) & np.isfinite(expected), distance, np.nan)


def _histogram(axes: Any, values: np.ndarray, smallest: float, largest: float, split: Optional[float], title: str) -> None:
    """Draws a histogram on logarithmic axes; zeros have a bar of their own, at the left."""
    positive = values[values > 0]
    low = np.floor(np.log10(max(positive.min(), smallest))) if positive.size else np.log10(smallest)
    high = max(np.ceil(np.log10(min(positive.max(), largest))) if positive.size else 0, low + 1, 1)
    edges = np.logspace(low, high, int(min(12 * (high - low), 90)) + 1)
    counts, _ = np.histogram(np.clip(positive, edges[0], edges[-1]), edges)
    colours = [BAD if split is not None and left >= split * 0.999 else OBSERVED for left in edges[:-1]]
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=colours, edgecolor="white", linewidth=0.3)
    zeros = int((values == 0).sum())
    if zeros:
        step = edges[1] / edges[0]
        at = edges[0] / step**3
        axes.bar(at, zeros, at * (step**1.5 - 1), align="edge", color=MUTED)
        axes.annotate(f"{zeros:,} equal", (at, zeros), xytext=(2, 3), textcoords="offset points", color=MUTED, fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.7, 6 * max(counts.max(initial=1), zeros))
    axes.set_title(title, fontsize=10)
    axes.set_ylabel("elements")


def plot_errors(source: Source, tensor: Optional[str] = None, against: Optional[str] = None, atol: Optional[float] = None,
                rtol: Optional[float] = None) -> Any:
    """Draws histograms of each recorded gradient: the error as a share of what the tolerance allows, and in units in the last place.

    `source` is a call, or a capture of one; `against` the reference (default, where there is one), float64, or another mode or
    result. Without atol and rtol the tolerance is the test's, else the customary one of the type."""
    call = call_of(source)
    names = gradients_of(call, tensor)
    atol, rtol, origin = tolerance_of(call, atol, rtol)
    figure, axes = new_figure(len(names), 2, 11, 2.6 * len(names) + 0.5)
    for row, name in zip(axes, names):
        observed = call.outputs[name][()].astype(np.float64).ravel()
        expected, side = expected_of(call, name, against)
        expected = expected.ravel()
        error, share = judged(observed, expected, side, atol, rtol)
        finite = ~np.isnan(error)
        outside, not_finite = int((share > 1).sum()), int((share[~finite] > 1).sum())
        _histogram(row[0], share[finite], 1e-12, 1e12, 1, f"{name} against {side}: {outside:,} of {error.size:,} out of tolerance")
        row[0].axvline(1, color=BAD, linewidth=1)
        row[0].set_xlabel(f"error / allowed (atol {atol:g}, rtol {rtol:g}, {origin})")
        distance = ulp_distance(observed, expected, call.outputs[name].type)
        distance = distance[np.isfinite(distance)]
        middle = f"half are within {np.median(distance):,.0f} ULP" if distance.size else "no finite elements"
        _histogram(row[1], distance, 1, 1e19, None, middle)
        row[1].set_xlabel(f"distance in ULP of {call.outputs[name].type}")
        if not_finite:  # which no histogram can show
            row[0].annotate(f"{not_finite:,} not finite", (0.98, 0.9), xycoords="axes fraction", ha="right", color=BAD)
    figure.suptitle(f"call {call.id} of {call.path}", fontsize=9, color=MUTED)
    return figure
