"""Captures opened without reading their data: tensors know their dimensions by name and are read where they are indexed."""

import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import h5py
import numpy as np

from . import operators
from .capture import CaptureError, check_format, plain, read_data, read_summary, unreadable
from .results import Findings


class Tensor:
    """A tensor of a capture. `tensor[index]` reads that part, `numpy.asarray(tensor)` all of it, `tensor.isel(query=3)` what lies
    at these places of named dimensions. bfloat16 comes as float32."""

    def __init__(self, dataset: h5py.Dataset, dims: Tuple[str, ...]):
        self._dataset = dataset
        self.name: str = dataset.name.rsplit("/", 1)[-1]
        self.dims = dims
        self.shape: Tuple[int, ...] = dataset.shape
        stored = dataset.id.get_type()
        is_bfloat16 = stored.get_class() == h5py.h5t.FLOAT and stored.get_size() == 2 and stored.get_fields()[2] == 8
        self.type: str = "bfloat16" if is_bfloat16 else dataset.dtype.name

    @property
    def dtype(self) -> np.dtype:
        """That of the arrays that reading gives."""
        return self._dataset.dtype

    @property
    def sizes(self) -> Dict[str, int]:
        return dict(zip(self.dims, self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def digest(self) -> str:
        return plain(self._dataset.attrs.get("digest", ""))

    def __getitem__(self, index: Any) -> np.ndarray:
        if not self._dataset:
            raise CaptureError(f"{self.name}: its capture is closed; open it again with open_capture")
        try:
            return read_data(self._dataset, index)
        except OSError as error:
            raise CaptureError(f"{self._dataset.file.filename}: {self._dataset.name}: cannot read it: {error}") from error
        except (IndexError, ValueError, TypeError) as error:  # h5py's name neither the tensor nor its sizes
            sizes = ", ".join(f"{dim} {size}" for dim, size in self.sizes.items())
            raise type(error)(f"{self.name} ({sizes}): {error}") from None

    def isel(self, **places: Any) -> np.ndarray:
        """What lies at integers or slices of the named dimensions, which go by dimension names."""
        unknown = sorted(set(places) - set(self.dims))
        if unknown:
            raise CaptureError(f"{self.name} has no dimension {', '.join(unknown)}; it has {', '.join(self.dims)}")
        return self[tuple(places.get(dim, slice(None)) for dim in self.dims)]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = self[()]
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(f'{dim} {size}' for dim, size in self.sizes.items())}; {self.type}>"


class Tensors(Mapping[str, Tensor]):
    """Tensors by name: a section of a call, such as its inputs."""

    def __init__(self, tensors: Dict[str, Tensor], title: str):
        self._tensors = tensors
        self._title = title

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            held = ", ".join(self._tensors) or "none"
            raise KeyError(f"{self._title} has no tensor {name}; it has {held}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<{self._title}: {', '.join(self._tensors) or 'none'}>"


class ResultTensors(Tensors):
    """Another result for the same inputs; `role` and `dialect` as docs/capture-format.md has them."""

    def __init__(self, tensors: Dict[str, Tensor], title: str, role: str, dialect: str):
        super().__init__(tensors, title)
        self.role, self.dialect = role, dialect


class Call:
    """One recorded call of an opened capture."""

    def __init__(self, path: str, identifier: int, group: h5py.Group):
        self.path, self.id = path, identifier
        self.facts: Dict[str, Any] = {name: plain(value) for name, value in group.attrs.items()}
        inputs = group.get("inputs", {})
        self.operator = operators.operator_of(self.facts, inputs)
        self.inputs = self._section(group, "inputs")
        self.outputs = self._section(group, "outputs")
        self.outputs_before = self._section(group, "outputs_before")
        self.results: Dict[str, ResultTensors] = {}
        for name, result in group.get("results", {}).items():
            role, dialect = plain(result.attrs.get("role", "")), plain(result.attrs.get("dialect", ""))
            self.results[name] = ResultTensors(self._tensors(result), f"results/{name}", role, dialect)
        stages = {name: stage for name, stage in group.get("stages", {}).items() if isinstance(stage, h5py.Group)}
        self.stages = Tensors({name: self._tensor(name, stage["full"]) for name, stage in stages.items() if "full" in stage}, "stages")
        self.stage_summaries = {name: read_summary(stage) for name, stage in stages.items() if "count" in stage.attrs}
        self._replays: Dict[str, Dict[str, np.ndarray]] = {}

    @property
    def kernel(self) -> str:
        return self.facts.get("kernel", "")

    @property
    def dialect(self) -> str:
        return self.facts.get("dialect", "")

    @property
    def padding_mode(self) -> str:
        return self.facts.get("padding_mode", "zeros")

    @property
    def align_corners(self) -> bool:
        return bool(self.facts.get("align_corners", False))

    @property
    def tolerance(self) -> Optional[Tuple[float, float]]:
        """The recorded test's (atol, rtol)."""
        return (self.facts["atol"], self.facts["rtol"]) if "atol" in self.facts and "rtol" in self.facts else None

    @property
    def reference(self) -> Optional[ResultTensors]:
        """What the test compared with."""
        return next((result for result in self.results.values() if result.role == "reference"), None)

    def replay(self, mode: str = "float64") -> Dict[str, np.ndarray]:
        """The gradients that a mode of `msda-replay run` gives, computed once."""
        if mode not in self._replays:
            from .command import replay

            self._replays[mode] = replay(self.path, self.id, mode)
        return self._replays[mode]

    def findings(self, **flags: Any) -> Findings:
        """What `run` finds in this call."""
        from .command import run

        return run(self.path, invocation=self.id, **flags).findings()

    def _section(self, group: h5py.Group, name: str) -> Tensors:
        return Tensors(self._tensors(group[name]) if name in group else {}, name)

    def _tensors(self, group: h5py.Group) -> Dict[str, Tensor]:
        return {name: self._tensor(name, item) for name, item in group.items() if isinstance(item, h5py.Dataset)}

    def _tensor(self, name: str, dataset: h5py.Dataset) -> Tensor:
        labels = tuple(dimension.label for dimension in dataset.dims)
        dims = labels if all(labels) else operators.dimensions_of(self.operator, name, len(dataset.shape))
        return Tensor(dataset, dims)

    def __repr__(self) -> str:
        words = [self.operator or "kernel", self.dialect, self.facts.get("interpolation", "")]
        words += [self.facts.get("reduce", "")] if self.operator == "scatter_add" else []
        words += [self.facts["mode"]] if self.operator == "interpolate" else []
        if self.operator in ("msda", "grid_sample"):
            words += [f"padding {self.padding_mode}", f"align_corners {str(self.align_corners).lower()}"]
        telling = ("value", "input", "source", "grad_output", *self.inputs)
        first = next((self.inputs[name] for name in telling if name in self.inputs), None)
        shape = f"; {first.name} {' x '.join(map(str, first.shape))} {first.type}" if first is not None else ""
        label = f"; {self.facts['label']}" if self.facts.get("label") else ""
        return f"<call {self.id}: {', '.join(filter(None, words))}{shape}{label}>"


class OpenCapture:
    """An opened capture file: a sequence of calls, `capture[0]` the first. A context manager; `close()` closes the file."""

    def __init__(self, path: Union[str, os.PathLike[str]]):
        self.path = os.fspath(path)
        try:
            self._file = h5py.File(self.path, "r")
        except OSError as error:
            raise unreadable(self.path, error) from error
        try:
            check_format(self._file, self.path)
            groups = self._file.get("invocations", {})
            self.calls: List[Call] = [Call(self.path, int(name), groups[name]) for name in sorted(groups) if name.isdigit()]
        except CaptureError:
            self.close()
            raise
        except Exception as error:  # h5py raises anything on damaged files
            self.close()
            raise CaptureError(f"{self.path}: cannot read it: {error}; `msda-replay verify` tells what is damaged") from error

    def findings(self, **flags: Any) -> Findings:
        """What `run` finds in all calls; `flags` are those of `msda_replay.run`."""
        from .command import run

        return run(self.path, **flags).findings()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "OpenCapture":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getitem__(self, place: int) -> Call:
        try:
            return self.calls[place]
        except IndexError:
            held = f"{len(self)}, from 0 to {len(self) - 1}" if self.calls else "none"
            raise IndexError(f"{self.path}: has no call at {place}; it has {held}") from None

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __repr__(self) -> str:
        count = f"{len(self)} call{'s' * (len(self) != 1)}"
        return f"<capture {self.path}: {count}>" if len(self) != 1 else f"<capture {self.path}: {count}, {self[0]!r}>"


def open_capture(path: Union[str, os.PathLike[str]]) -> OpenCapture:
    """Opens a capture without reading its tensors. Raises CaptureError."""
    return OpenCapture(path)
