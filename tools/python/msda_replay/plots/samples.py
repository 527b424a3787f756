"""A sample of an operator as plots need it: its image, its coordinates in every arithmetic, and the gradient in each cell.

Formulas are those of docs/determinism.md; a coordinate that the analysis found is taken from the finding instead."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from ..capture import CaptureError
from ..reading import Call
from ..results import Finding

AXES = ("x", "y", "z")


def exact_coordinate(dialect: str, align: bool, place: float, size: int) -> float:
    """Returns the coordinate in exact arithmetic, rounded once. `dialect` is "" for the operator grid_sample: places in [-1, 1]."""
    at = Fraction(place) if dialect else (Fraction(place) + 1) / 2
    return float(at * (size - 1) if align else at * size - Fraction(1, 2))


def coordinate(dialect: str, align: bool, place: float, size: int, real: Any) -> float:
    """Returns the coordinate as a kernel of the dialect computes it, as written."""
    place, one, size_ = real(place), real(1), real(size)
    if dialect == "deformable_detr":
        return float(real(exact_coordinate(dialect, align, float(place), size)))  # one fused multiply-add
    if dialect == "msda_triton":
        return float(place * (size_ - one) if align else place * size_ - real(0.5))
    grid = real(2) * place - one if dialect else place
    return float((grid + one) / real(2) * (size_ - one) if align else ((grid + one) * size_ - one) / real(2))


def _reflected(at: float, size: int, align: bool) -> Tuple[float, int]:
    """Returns the coordinate after reflection and clipping, and 1, or -1 where it decreases as `at` increases."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if high <= low:
        return 0.0, 1
    along = abs(at - low) % (2 * (high - low))
    is_mirrored = (at < low) != (along > high - low)
    return min(max(low + min(along, 2 * (high - low) - along), 0.0), size - 1.0), -1 if is_mirrored else 1


@dataclass
class Sample:
    """One sample. The image is the one whose slope is the gradient: value times grad_output, summed over channels. Axes are in
    the order of coordinates: x, y, z; the image's are the reverse."""

    image: np.ndarray
    places: Tuple[float, ...]  # as the input has them
    exact: Tuple[float, ...]  # in pixels
    real: Any  # the arithmetic's type
    dialect: str
    padding: str
    align: bool
    weight: float  # the attention weight
    where: str
    signs: Tuple[int, ...] = (1, 1, 1)  # -1 on axes where reflection mirrors the image

    @property
    def sizes(self) -> Tuple[int, ...]:
        return self.image.shape[::-1]

    def _at(self, cell: Sequence[int]) -> float:
        """Returns the image at integer coordinates, padded."""
        inside = all(0 <= at < size for at, size in zip(cell, self.sizes))
        if not inside and self.padding == "zeros":
            return 0.0
        cell = [min(max(at, 0), size - 1) for at, size in zip(cell, self.sizes)]
        return float(self.image[tuple(cell[::-1])])

    def scale(self, axis: int) -> float:
        """Returns the pixels for one unit of the input's coordinate."""
        size = self.sizes[axis] - (1 if self.align else 0)
        return size if self.dialect else self.signs[axis] * size / 2

    def gradient_in(self, cell: int, axis: int) -> float:
        """Returns the derivative by the input's coordinate where the pixel coordinate of this axis lies in [cell, cell + 1]. In one cell it
        is constant; it jumps between cells."""
        others = [other for other in range(len(self.sizes)) if other != axis]
        lows = {other: int(np.floor(self.exact[other])) for other in others}
        clips = self.padding != "zeros" and self.dialect != "msda_triton"  # where the coordinate is clipped, the derivative is 0
        if clips and not 0 <= cell < self.sizes[axis] - 1:
            return 0.0
        total = 0.0
        for corner in np.ndindex(*[2] * len(others)):
            weight, place = 1.0, [0] * len(self.sizes)
            for other, far in zip(others, corner):
                fraction = self.exact[other] - lows[other]
                weight *= fraction if far else 1 - fraction
                place[other] = lows[other] + far
            ahead, behind = list(place), list(place)
            ahead[axis], behind[axis] = cell + 1, cell
            total += weight * (self._at(ahead) - self._at(behind))
        return total * self.weight * self.scale(axis)

    def plane(self) -> np.ndarray:
        """Returns the image; of a volume the slice nearest to the sample."""
        if self.image.ndim == 2:
            return self.image
        return self.image[int(np.clip(round(self.exact[2]), 0, self.sizes[2] - 1))]


def _real_of(call: Call, tensor: str) -> Any:
    """Returns float32 or float64; the operator grid_sample computes 16-bit tensors in that type."""
    type_ = call.inputs[tensor].type
    if type_ == "float64":
        return np.float64
    return np.float16 if type_ == "float16" and call.operator == "grid_sample" else np.float32


def _padded(call: Call, at: float, size: int) -> Tuple[float, int]:
    """Returns where reflection puts a coordinate, and its sign. Other paddings are shown where the sample is."""
    if call.operator == "grid_sample" and call.padding_mode == "reflection":
        return _reflected(at, size, call.align_corners)
    return at, 1


def sample_of(call: Call, finding: Finding) -> Sample:
    """Returns the sample whose gradient the finding is about."""
    places = list(finding.index)
    if call.operator == "msda":
        b, q, m, level, p = places[:5]
        height, width = map(int, call.inputs["spatial_shapes"][level])
        shapes = call.inputs["spatial_shapes"][()]
        start = int(shapes[:level].prod(1).sum())
        pixels = call.inputs["value"][b, start:start + height * width, m].astype(np.float64)
        image = (pixels @ call.inputs["grad_output"][b, q, m].astype(np.float64)).reshape(height, width)
        at = [float(number) for number in call.inputs["sampling_locations"][b, q, m, level, p]]
        weight = float(call.inputs["attention_weights"][b, q, m, level, p])
        dialect, where, real = call.dialect, f"level {level}, {height} x {width}", _real_of(call, "sampling_locations")
    elif call.operator == "grid_sample":
        n, *output = places[:-1]
        pixels = call.inputs["input"][n].astype(np.float64)
        go = call.inputs["grad_output"][(n, slice(None), *output)].astype(np.float64)
        image = np.tensordot(go, pixels, 1)
        at = [float(number) for number in call.inputs["grid"][(n, *output)]]
        weight, dialect, where = 1.0, "", f"image {' x '.join(map(str, image.shape))}"
        real = _real_of(call, "grid")
    else:
        raise CaptureError(f"{call.path}: call {call.id} is of {call.operator or 'a kernel without a known operator'}, which has no cells")
    if not np.isfinite(at).all():
        raise CaptureError(f"{finding.name}: its sample lies at {', '.join(map(str, at))}: a place that is not finite cannot be drawn")
    placed = [_padded(call, exact_coordinate(dialect, call.align_corners, a, s), s) for a, s in zip(at, image.shape[::-1])]
    exact, signs = (tuple(values) for values in zip(*placed))
    return Sample(image, tuple(at), exact, real, dialect, call.padding_mode, call.align_corners, weight, where, signs)


def sides_of(call: Call, sample: Sample, finding: Finding, axis: int) -> List[Dict[str, Any]]:
    """Returns how the arithmetics place the sample: the finding's evidence, else the formulas of the recorded side and of grid_sample."""
    evidence = finding.evidence
    if evidence.get("axis") == AXES[axis] and "exact_coordinate" in evidence:
        return [{"name": f"{one['side']} ({one['dialect'] or call.operator}, {one['evaluation']})", "coordinate": one["coordinate"],
                 "bound": one["coordinate_error_bound"]} for one in evidence.get("sides", []) if "coordinate" in one]
    place, size = sample.places[axis], sample.sizes[axis]
    dialects = dict.fromkeys([sample.dialect, "grid_sample"] if sample.dialect else [""])
    names = {dialect: f"{dialect or 'grid_sample'} in {np.dtype(sample.real).name}" for dialect in dialects}
    return [{"name": name, "coordinate": _padded(call, coordinate(dialect, sample.align, place, size, sample.real), size)[0], "bound": None}
            for dialect, name in names.items()]


def addends_of(call: Call, finding: Finding) -> Tuple[np.ndarray, np.ndarray, Tuple[int, ...], str]:
    """Returns what the samples add to a pixel of a scattered gradient, in float64: the samples' coordinates, their addends, the pixel, and
    where it lies. All coordinates are in the order x, y, z."""
    target: Tuple[int, ...]
    sizes: Tuple[int, ...]
    if call.operator == "msda":
        b, pixel, m, channel = finding.index
        shapes = call.inputs["spatial_shapes"][()]
        ends = np.cumsum(shapes.prod(1))
        level = int(np.searchsorted(ends, pixel, side="right"))
        height, width = map(int, shapes[level])
        first = pixel - int(ends[level - 1] if level else 0)
        target, sizes = (first % width, first // width), (width, height)
        places = call.inputs["sampling_locations"][b, :, m, level].astype(np.float64).reshape(-1, 2)
        attention = call.inputs["attention_weights"][b, :, m, level].astype(np.float64)
        factors = (attention * call.inputs["grad_output"][b, :, m, channel].astype(np.float64)[:, None]).ravel()
        where = f"pixel ({target[0]}, {target[1]}) of level {level}, {height} x {width}"
    elif call.operator == "grid_sample":
        n, channel, *pixels = finding.index
        target, sizes = tuple(pixels[::-1]), call.inputs["input"].shape[:1:-1]
        places = call.inputs["grid"][n].astype(np.float64).reshape(-1, len(sizes))
        factors = call.inputs["grad_output"][n, channel].astype(np.float64).ravel()
        where = f"pixel ({', '.join(map(str, target))})"
        if call.facts.get("interpolation") != "bilinear":
            raise CaptureError(f"{finding.name}: plots of a pixel's addends are of bilinear interpolation only")
    else:
        raise CaptureError(f"{call.path}: call {call.id} is of {call.operator or 'a kernel without a known operator'}, which has no cells")
    size = np.array(sizes, np.float64)
    unit = places if call.operator == "msda" else (places + 1) / 2
    at = unit * (size - 1) if call.align_corners else unit * size - 0.5
    if call.padding_mode == "border":
        at = np.clip(at, 0, size - 1)
    elif call.padding_mode == "reflection":
        at = np.array([[_reflected(a, int(s), call.align_corners)[0] for a, s in zip(row, size)] for row in at]).reshape(at.shape)
    with np.errstate(invalid="ignore"):
        weights = np.clip(1 - np.abs(at - np.array(target)), 0, None).prod(1)
    reached = np.nan_to_num(weights) > 0
    return at[reached], (weights * factors)[reached], tuple(map(int, target)), where
