"""Captures opened without reading their data: tensors know their dimensions by name and are read where they are indexed."""

import functools
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import operators
from .capture import CaptureError
from .isolated import IsolatedFile
from .operator_rows import ROWS
from .results import Findings


class Tensor:
    """A tensor of a capture. `tensor[index]` reads that part, `numpy.asarray(tensor)` all of it, `tensor.isel(query=3)` what lies
    at these places of named dimensions. bfloat16 comes as float32."""

    def __init__(self, file: IsolatedFile, described: Dict[str, Any], dims: Tuple[str, ...]):
        self._file, self._path = file, described["path"]
        self.name: str = self._path.rsplit("/", 1)[-1]
        self.dims = dims
        self.shape: Tuple[int, ...] = tuple(described["shape"])
        self.type: str = described["type"]
        self._dtype = np.dtype(described["dtype"])
        self.digest: str = described["digest"]

    @property
    def dtype(self) -> np.dtype:
        """The type of the arrays that reading gives."""
        return self._dtype

    @property
    def sizes(self) -> Dict[str, int]:
        return dict(zip(self.dims, self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        if self._file.is_closed:
            raise CaptureError(f"{self.name}: its capture is closed; open it again with open_capture")
        try:
            return self._file.read(self._path, index)
        except (IndexError, ValueError, TypeError) as error:  # h5py's name neither the tensor nor its sizes
            sizes = ", ".join(f"{dim} {size}" for dim, size in self.sizes.items())
            raise type(error)(f"{self.name} ({sizes}): {error}") from None

    def isel(self, **places: Any) -> np.ndarray:
        """Returns what lies at integers or slices of the named dimensions, which go by dimension names."""
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

    def __init__(self, file: IsolatedFile, identifier: int, replays: Dict[str, Dict[str, np.ndarray]]):
        described = file.ask("call", identifier)
        self._file, self._replays = file, replays
        self.path, self.id = file.path, identifier
        self.facts: Dict[str, Any] = described["facts"]
        self.operator = operators.operator_of(self.facts, described["inputs"])
        self.inputs, self.outputs, self.outputs_before, self.stages = (
            Tensors(self._tensors(described[name]), name) for name in ("inputs", "outputs", "outputs_before", "stages"))
        self.results = {name: ResultTensors(self._tensors(group["tensors"]), f"results/{name}", group["attributes"].get("role", ""),
                                            group["attributes"].get("dialect", "")) for name, group in described["results"].items()}
        self.stage_summaries: Dict[str, Dict[str, Any]] = described["stage_summaries"]

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
        """Returns the gradients that a mode of `msda-replay run` gives, computed once."""
        if mode not in self._replays:
            from .commands import replay

            self._replays[mode] = replay(self.path, self.id, mode)
        return self._replays[mode]

    def findings(self, **flags: Any) -> Findings:
        """Returns what `run` finds in this call."""
        from .commands import run

        return run(self.path, invocation=self.id, **flags).findings()

    def _tensors(self, described: Dict[str, Any]) -> Dict[str, Tensor]:
        return {name: Tensor(self._file, tensor, self._dims(name, tensor)) for name, tensor in described.items()}

    def _dims(self, name: str, described: Dict[str, Any]) -> Tuple[str, ...]:
        return tuple(described["labels"]) if all(described["labels"]) else operators.dimensions_of(self.operator, name, len(described["shape"]))

    def __repr__(self) -> str:
        conventions = ROWS[self.operator].conventions if self.operator in ROWS else {}
        texts = [name for name, convention in conventions.items() if convention["kind"] == "text" and name != "padding_mode"]
        words = [self.operator or "kernel", *(self.facts.get(name, "") for name in texts)]
        if "padding_mode" in conventions:
            words += [f"padding {self.padding_mode}", f"align_corners {str(self.align_corners).lower()}"]
        deciding = ("value", "input", "source", "grad_output", *self.inputs)
        first = next((self.inputs[name] for name in deciding if name in self.inputs), None)
        shape = f"; {first.name} {' x '.join(map(str, first.shape))} {first.type}" if first is not None else ""
        label = f"; {self.facts['label']}" if self.facts.get("label") else ""
        return f"<call {self.id}: {', '.join(filter(None, words))}{shape}{label}>"


class Calls(Sequence[Call]):
    """The calls of a capture, each read when it is asked for: there may be a hundred thousand."""

    def __init__(self, file: IsolatedFile):
        self._ids: List[int] = file.ask("calls")
        self._replays: Dict[int, Dict[str, Dict[str, np.ndarray]]] = {}
        self._read = functools.lru_cache(64)(lambda identifier: Call(file, identifier, self._replays.setdefault(identifier, {})))

    def __getitem__(self, place: Any) -> Any:
        ids = self._ids[place]
        return [self._read(identifier) for identifier in ids] if isinstance(place, slice) else self._read(ids)

    def __len__(self) -> int:
        return len(self._ids)


class OpenCapture:
    """An opened capture file: a sequence of calls, `capture[0]` the first. A context manager; `close()` closes the file."""

    def __init__(self, path: Union[str, os.PathLike[str]]):
        self.path = os.fsdecode(path)
        self._file = IsolatedFile(self.path)
        self.calls = Calls(self._file)

    def findings(self, **flags: Any) -> Findings:
        """Returns what `run` finds in all calls; `flags` are those of `msda_replay.run`."""
        from .commands import run

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
