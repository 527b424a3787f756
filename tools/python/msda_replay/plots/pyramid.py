"""plot_pyramid: where on the images the errors lie."""

import math
import textwrap
from typing import Any, List, Optional, Tuple

import numpy as np

from ..reading import Call
from .figures import BAD, MUTED, Source, call_of, expected_of, gradients_of, judged, new_figure, tolerance_of

_MOST_COLUMNS = 4

# A map: its title, the largest error of each pixel, and the largest share of what is allowed there. NaN: nothing lies there.
Map = Tuple[str, np.ndarray, np.ndarray]


def _reduced(array: np.ndarray, keep: Tuple[int, ...]) -> np.ndarray:
    others = tuple(axis for axis in range(array.ndim) if axis not in keep)
    return array.max(axis=others, initial=0) if array.size else np.zeros([array.shape[axis] for axis in keep])


def _by_place(values: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: Tuple[int, int]) -> np.ndarray:
    """Returns the largest value of the samples that lie nearest to each pixel."""
    image = np.full(shape, -1.0)
    np.maximum.at(image, (np.clip(rows, 0, shape[0] - 1), np.clip(columns, 0, shape[1] - 1)), values)
    return np.where(image < 0, np.nan, image)


def _msda_maps(call: Call, tensor: str, error: np.ndarray, share: np.ndarray) -> List[Map]:
    shapes = [tuple(map(int, shape)) for shape in call.inputs["spatial_shapes"][()]]
    maps, start = [], 0
    locations = None if tensor == "grad_value" else call.inputs["sampling_locations"][()].astype(np.float64)
    for level, (height, width) in enumerate(shapes):
        title = f"level {level}, {height} x {width}"
        if locations is None:
            images = [_reduced(part[:, start:start + height * width], (1,)).reshape(height, width) for part in (error, share)]
        else:
            at = locations[:, :, :, level]
            # Nearest pixels; padding and align_corners move a sample by less than what can be seen.
            rows, columns = (np.nan_to_num(np.floor(np.clip(at[..., axis], 0, 1) * size)).astype(int).ravel()
                             for axis, size in ((1, height), (0, width)))
            parts = [part[:, :, :, level] for part in (error, share)]
            worst = [part.max(-1) if tensor == "grad_sampling_locations" else part for part in parts]
            images = [_by_place(part.ravel(), rows, columns, (height, width)) for part in worst]
        maps.append((title, images[0], images[1]))
        start += height * width
    return maps


def _row(array: np.ndarray) -> np.ndarray:
    return array.reshape(1, -1)


def _image_maps(tensor: str, dims: Tuple[str, ...], error: np.ndarray, share: np.ndarray) -> List[Map]:
    """Returns the maps of tensors that are images: the last two dimensions without one of coordinates; each slice of a volume."""
    count = error.ndim - (dims[-1] == "axis")
    if count < 2:
        return [(dims[0] if dims else tensor, _row(error), _row(share))]
    is_volume = len(dims) > 2 and dims[count - 3].endswith("depth")
    keep = tuple(range(count - (3 if is_volume else 2), count))
    images = [_reduced(part, keep) for part in (error, share)]
    size = " x ".join(map(str, images[0].shape))
    if not is_volume:
        return [(f"{dims[count - 2]} x {dims[count - 1]}, {size}", images[0], images[1])]
    return [(f"slice {z} of {size}", images[0][z], images[1][z]) for z in range(len(images[0]))]


def _scale_of(image: np.ndarray) -> Any:
    """Returns a logarithmic scale, so one outlier does not hide the others; no error is drawn as the smallest."""
    from matplotlib.colors import LogNorm

    errors = image[image > 0]
    if errors.size == 0:
        return None
    high = float(errors.max())
    return LogNorm(max(float(errors.min()), high * 1e-9) * (0.5 if errors.min() == high else 1), high, clip=True)


def plot_pyramid(source: Source, tensor: Optional[str] = None, against: Optional[str] = None, atol: Optional[float] = None,
                 rtol: Optional[float] = None) -> Any:
    """Draws maps of the largest error of each pixel, a map for each level (of a volume: each slice) with a colour scale of its own.
    Circles mark pixels with elements out of tolerance. A gradient of samples is shown where the samples lie.

    `tensor` is the gradient, by default the first that is out of tolerance; the other arguments are those of plot_errors."""
    call = call_of(source)
    names = gradients_of(call, tensor)
    atol, rtol, origin = tolerance_of(call, atol, rtol)
    chosen: Optional[Tuple[str, str, np.ndarray, np.ndarray]] = None
    for name in names:
        observed = call.outputs[name][()].astype(np.float64)
        expected, side = expected_of(call, name, against)
        error, share = judged(observed, expected, side, atol, rtol)
        if chosen is None or (chosen[3].max(initial=0) <= 1 < share.max(initial=0)):
            chosen = (name, side, error, share)
    assert chosen is not None  # gradients_of gives at least one
    name, side, error, share = chosen
    maps = (_msda_maps(call, name, np.nan_to_num(error), share) if call.operator == "msda"
            else _image_maps(name, call.outputs[name].dims, np.nan_to_num(error), share))
    columns = min(len(maps), _MOST_COLUMNS)
    rows = math.ceil(len(maps) / columns)
    figure, axes = new_figure(rows, columns, 3.4 * columns + 0.6, 3.2 * rows + 0.6)
    for place, (title, image, shares) in zip(axes.flat, maps):
        shown = place.imshow(image, cmap="viridis", norm=_scale_of(image), interpolation="nearest",
                             aspect="equal" if image.shape[0] > 1 else "auto")
        place.set_facecolor("#eeeeee")  # where no sample lies
        ys, xs = np.nonzero(np.nan_to_num(shares, posinf=np.inf) > 1)
        place.scatter(xs, ys, s=60, facecolors="none", edgecolors=BAD, linewidths=1.4)
        outside = f"\n{len(ys):,} pixel{'s' * (len(ys) != 1)} out of tolerance" if len(ys) else "\nwithin tolerance"
        place.set_title(title + outside, fontsize=9, color=BAD if len(ys) else "black")
        place.tick_params(labelsize=7)
        bar = figure.colorbar(shown, ax=place, shrink=0.8)
        bar.ax.tick_params(which="both", labelsize=7)
    for place in axes.flat[len(maps):]:
        place.set_axis_off()
    title = f"largest |recorded - {side}| of {name}; atol {atol:g}, rtol {rtol:g} ({origin})"
    lines = textwrap.wrap(title, int(12 * figure.get_figwidth()))  # a letter of this size is a twelfth of an inch wide at most
    figure.suptitle("\n".join(lines) + "\n", fontsize=10)
    figure.supxlabel(f"call {call.id} of {call.path}", fontsize=8, color=MUTED)
    return figure
