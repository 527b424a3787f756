"""plot_cell: the cell of one finding, and where each arithmetic places the sample."""

from typing import Any, List

import numpy as np

from ..capture import CaptureError
from ..command import contributions
from ..reading import Call, open_capture
from ..results import Finding
from .figures import BAD, EXACT, EXPECTED, MUTED, OBSERVED, new_figure
from .samples import AXES, Sample, addends_of, sample_of, sides_of

_COLOURS = (OBSERVED, EXPECTED, "#CC79A7", "#56B4E9")


def _draw_image(axes: Any, image: np.ndarray, centre: Any, label: str) -> None:
    """The pixels around a place, with the lines between cells, which run through the pixels' centres."""
    limit = float(np.abs(image).max(initial=0)) or 1
    shown = axes.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit, alpha=0.55, interpolation="nearest")
    height, width = image.shape
    for x in range(width):
        axes.axvline(x, color=MUTED, linewidth=0.6)
    for y in range(height):
        axes.axhline(y, color=MUTED, linewidth=0.6)
    axes.set_xlim(centre[0] - 2.6, centre[0] + 2.6)
    axes.set_ylim(centre[1] + 2.6, centre[1] - 2.6)
    axes.set_facecolor("#eeeeee")
    axes.set_xlabel("x, pixels")
    axes.set_ylabel("y, pixels")
    bar = axes.figure.colorbar(shown, ax=axes, shrink=0.75)
    bar.ax.tick_params(labelsize=7)
    bar.set_label(label, fontsize=8)


def _draw_cells(axes: Any, sample: Sample, sides: List[Any], cells: List[int], axis: int) -> None:
    import matplotlib.patches as patches

    _draw_image(axes, sample.plane(), sample.exact, "value x grad_output, summed over channels")
    for side, cell, colour, style in zip(sides, cells, _COLOURS, ("-", "--", ":", "-.")):
        corner = [int(np.floor(at)) for at in sample.exact[:2]]
        if axis < 2:
            corner[axis] = cell
        box = patches.Rectangle((corner[0], corner[1]), 1, 1, fill=False, edgecolor=colour, linewidth=2.4, linestyle=style)
        box.set_label(f"cell {cell}: {side['name'].split(' (')[0]}")
        axes.add_patch(box)
    axes.plot(*sample.exact[:2], linestyle="none", marker="o", color=EXACT, markersize=8, markeredgecolor="white", label="the sample")
    axes.legend(fontsize=8, loc="lower left")
    plane = "" if sample.image.ndim == 2 else f", slice {int(np.clip(round(sample.exact[2]), 0, sample.sizes[2] - 1))}"
    axes.set_title(f"{sample.where}{plane}", fontsize=10)


def _draw_coordinates(axes: Any, sample: Sample, sides: List[Any], axis: int) -> None:
    """The coordinates in ULP, from the nearest line between cells or, if that is far, from the exact coordinate."""
    exact = sample.exact[axis]
    boundary = round(exact)
    ulp = float(np.spacing(sample.real(max(abs(boundary), abs(exact), 2.0**-10))))
    near = abs(exact - boundary) < 200 * ulp
    origin = float(boundary) if near else exact
    rows = [("exact", exact, None, EXACT)] + [(side["name"], side["coordinate"], side["bound"], colour)
                                              for side, colour in zip(sides, _COLOURS)]
    # All coordinates, and the bars of at least one side; longer ones run out of the picture, and their text says how far.
    bounds = [bound / ulp for _, _, bound, _ in rows if bound is not None]
    span = max(3.0, 1.6 * max(abs(at - origin) / ulp for _, at, _, _ in rows), 1.6 * min(bounds, default=0.0))
    for row, (name, at, bound, colour) in enumerate(rows):
        distance = (at - origin) / ulp
        axes.errorbar(distance, -row, xerr=None if bound is None else bound / ulp, fmt="o", color=colour, markersize=9, capsize=5)
        place = f"{distance:+.3g} ULP" if distance else "on the boundary" if near else "0 ULP"
        error = f", error up to {bound / ulp:.2g} ULP" if bound is not None else ""
        axes.annotate(f"{name}\n{at:.9g}: {place}{error}", (0, -row), xytext=(0, 10), textcoords="offset points", fontsize=8,
                      color=colour, ha="center", bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1})
    axes.set_xlim(-span, span)
    axes.set_ylim(-len(rows) + 0.4, 0.9)
    axes.set_yticks([])
    if near:
        axes.axvline(0, color=BAD, linewidth=1.4)
        for side, cell in (("left", boundary - 1), ("right", boundary)):
            axes.annotate(f"cell {cell}", (0.02 if side == "left" else 0.98, 0.03), xycoords="axes fraction", ha=side, color=BAD, fontsize=9)
        axes.set_title(f"{AXES[axis]} at the boundary {boundary}, enlarged", fontsize=10)
        axes.set_xlabel(f"ULP from {boundary} (1 ULP = {ulp:.3g} pixels)")
    else:
        axes.set_title(f"{AXES[axis]}: {abs(exact - boundary) / ulp:,.0f} ULP from the nearest boundary, {boundary}", fontsize=10)
        axes.set_xlabel(f"ULP from the exact coordinate (1 ULP = {ulp:.3g} pixels)")
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)


def _draw_gradient(axes: Any, sample: Sample, finding: Finding, cells: List[int], axis: int) -> None:
    first, last = min(cells) - 2, max(cells) + 2
    numbers = list(range(first, last + 1))
    heights = [sample.gradient_in(cell, axis) for cell in numbers]
    axes.stairs(heights, [*numbers, last + 1], baseline=None, color=MUTED, linewidth=1.6, label="exact, by cell")
    at = sample.exact[axis]
    axes.axvline(at, color=EXACT, linewidth=0.8, linestyle=":")
    for name, value, colour, marker in ((finding.against, finding.expected, EXPECTED, "X"), ("recorded", finding.observed, OBSERVED, "o")):
        if np.isfinite(value):
            axes.plot(at, value, marker, color=colour, markersize=9, markeredgecolor="white", label=f"{name}: {value:.6g}")
    axes.set_xticks(range(first, last + 2))
    axes.set_xlabel(f"{AXES[axis]} coordinate, pixels")
    axes.set_title("the gradient in each cell", fontsize=10)
    axes.legend(fontsize=8)
    axes.margins(y=0.3)


def _plot_sample(call: Call, finding: Finding) -> Any:
    sample = sample_of(call, finding)
    is_location = finding.tensor != "grad_attention_weights"
    axis = finding.index[-1] if is_location else int(np.argmin([abs(at - round(at)) for at in sample.exact]))
    sides = sides_of(call, sample, finding, axis)
    cells = [int(np.floor(side["coordinate"])) for side in sides] or [int(np.floor(sample.exact[axis]))]
    has_steps = is_location and call.facts.get("interpolation", "bilinear") == "bilinear"
    figure, axes = new_figure(1, 2 + has_steps, 4.6 * (2 + has_steps), 4.2)
    _draw_cells(axes[0, 0], sample, sides, cells, axis)
    _draw_coordinates(axes[0, 1], sample, sides, axis)
    if has_steps:
        _draw_gradient(axes[0, 2], sample, finding, cells, axis)
    return figure


def _plot_pixel(call: Call, finding: Finding) -> Any:
    places, addends, pixel, where = addends_of(call, finding)
    figure, axes = new_figure(1, 2, 10.5, 4.2)
    near, far = axes[0]
    limit = float(np.abs(addends).max(initial=0)) or 1
    points = near.scatter(places[:, 0], places[:, 1], s=15 + 130 * np.abs(addends) / limit, c=addends, cmap="RdBu_r", vmin=-limit,
                          vmax=limit, edgecolors=MUTED, linewidths=0.6)
    near.plot(*pixel[:2], marker="s", color=EXACT, markersize=9, markeredgecolor="white")
    for offset in (-1, 0, 1):
        near.axvline(pixel[0] + offset, color=MUTED, linewidth=0.6)
        near.axhline(pixel[1] + offset, color=MUTED, linewidth=0.6)
    near.set_xlim(pixel[0] - 1.2, pixel[0] + 1.2)
    near.set_ylim(pixel[1] + 1.2, pixel[1] - 1.2)
    near.set_aspect("equal")
    near.set_xlabel("x, pixels")
    near.set_ylabel("y, pixels")
    near.set_title(f"{where}: {len(addends):,} sample{'s' * (len(addends) != 1)} add to it", fontsize=9)
    bar = figure.colorbar(points, ax=near, shrink=0.75)
    bar.set_label("addend", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    _draw_partial_sums(far, addends, finding, "samples")
    return figure


def _draw_partial_sums(axes: Any, addends: np.ndarray, finding: Finding, what: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.plot(np.arange(len(addends) + 1), np.concatenate([[0], np.cumsum(addends)]), ".-", color=MUTED, label="exact partial sums")
    for name, value, colour in ((finding.against, finding.expected, EXPECTED), ("recorded", finding.observed, OBSERVED)):
        if np.isfinite(value):
            axes.axhline(value, color=colour, linewidth=1.6, linestyle="--" if name != "recorded" else "-", label=f"{name}: {value:.9g}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
    axes.set_xlabel(f"{what} added, in their order")
    axes.set_title(f"exact sum {addends.sum():.9g}, of magnitudes {np.abs(addends).sum():.4g};\nrecorded is "
                   f"{finding.observed - addends.sum():+.3g} off", fontsize=9)
    axes.legend(fontsize=8)


def _plot_sum(call: Call, finding: Finding) -> Any:
    """Draws what each source adds, for an operator that scatters."""
    found = contributions(call.path, call.id, finding.name)
    if not found:
        raise CaptureError(f"{call.path}: call {call.id} is of {call.operator or 'a kernel without a known operator'}: nothing is "
                           f"known to be added to {finding.name}")
    names, addends = [name for name, _ in found], np.array([addend for _, addend in found])
    figure, axes = new_figure(1, 2, 10.5, 4.2)
    near, far = axes[0]
    near.bar(range(len(addends)), addends, color=[OBSERVED if addend >= 0 else EXPECTED for addend in addends])
    near.axhline(0, color=MUTED, linewidth=0.6)
    few = len(names) <= 24
    near.set_xticks(range(len(names)) if few else [])
    if few:
        near.set_xticklabels(names, rotation=90, fontsize=7)
    else:
        near.set_xlabel(f"{names[0]} to {names[-1]}")
    near.set_title(f"{len(names):,} addend{'s' * (len(names) != 1)} of {finding.name}", fontsize=9)
    _draw_partial_sums(far, addends, finding, "sources")
    return figure


def plot_cell(finding: Finding) -> Any:
    """Draws the finding's cell.

    Of a gradient of a sample: the pixels around it with the cells that the sides landed in; the coordinate in each arithmetic,
    enlarged to units in the last place; and the gradient of each cell, which jumps between cells. Of a pixel's gradient: the samples
    that add to it, and their partial sums; of an operator that scatters, what its sources add."""
    if not isinstance(finding, Finding):
        raise TypeError(f"plot_cell takes a finding, such as run(...).findings()[0], not {finding!r}")
    with open_capture(finding.capture) as capture:
        call = next(call for call in capture if call.id == finding.invocation)
        if call.operator in ("msda", "grid_sample"):
            scattered = finding.tensor in ("grad_value", "grad_input")
            figure = _plot_pixel(call, finding) if scattered else _plot_sample(call, finding)
        else:
            figure = _plot_sum(call, finding)
    advice = ", advice" if finding.advisory else ""
    figure.suptitle(f"{finding.name} of call {finding.invocation}: {finding.cause}, at fault: {finding.at_fault}{advice}", fontsize=11)
    return figure
