"""msda_replay.trail: what each launch, copy, memset or call of an operator wrote, as digests (docs/capture-format.md, trail)."""

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import h5py
import numpy as np

from .capture import CaptureError, Path
from .digest import digest
from .isolated import IsolatedFile

KINDS = ("launch", "graph", "copy_in", "copy_within", "copy_out", "set", "host_memory", "fresh_memory", "call")
NO_ENTRY = 0xFFFFFFFF
IS_DIGESTED, MEASURES, IS_UNORDERED = 1, 2, 4  # flags of a row
ROW = np.dtype([("kind", "u1"), ("flags", "u1"), ("stream", "<u2"), ("kernel", "<u4"), ("configuration", "<u4"), ("parameters", "<u4"),
                ("caller", "<u4"), ("parts", "<u4"), ("bytes", "<u8"), ("digest", "<u8")])
_CHANGE = np.dtype([("row", "<u8"), ("offset", "<u4"), ("word", "<u8")])
_COLUMNS, _CHANGES = tuple(ROW.fields or ()), tuple(_CHANGE.fields or ())
_OTHERS = {"names": "u1", "parameter_bytes": "u1", "parameter_ends": "<u8"}
_WORTH_PACKING = 1 << 10  # bytes


@dataclass(frozen=True)
class TrailRow:
    """A row of a trail, with the entries of the lists that it names."""

    index: int
    kind: str
    kernel: Dict[str, Any]
    configuration: Optional[Tuple[int, ...]]
    parameters: Optional[bytes] = field(repr=False)
    caller: Dict[str, str] = field(repr=False)
    parts: str
    stream: int
    bytes: int
    digest: Optional[int]  # None: not known
    measures: bool = field(repr=False)
    is_unordered: bool = field(repr=False)


class Trail(Sequence[TrailRow]):
    """What a program launched, copied and set, in order. `rows` is a structured array with a field for each column of the file,
    whose `kernel`, `configuration`, `parameters`, `caller` and `parts` are indices into the lists of these names; `trail[i]` is
    a row with its names. `missing` counts launches that have no row."""

    def __init__(self, rows: np.ndarray, names: Dict[str, List[Any]], parameters: List[bytes], changes: np.ndarray, missing: int = 0):
        self.rows, self.missing = rows, missing
        self.kernels: List[Dict[str, Any]] = names["kernels"]
        self.configurations: List[Tuple[int, ...]] = names["configurations"]
        self.callers: List[Dict[str, str]] = names["callers"]
        self.parts: List[str] = names["parts"]
        self.parameters, self._changes = parameters, changes

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._row(i) for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"row {place} of {len(self)}")
        return self._row(place % len(self))

    def __iter__(self) -> Iterator[TrailRow]:
        return (self._row(i) for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<trail: {len(self)} rows, {len(self.kernels)} kernels>"

    def _row(self, index: int) -> TrailRow:
        row = self.rows[index]

        def entry(name, entries, none):
            return none if row[name] == NO_ENTRY else entries[row[name]]

        return TrailRow(
            index, KINDS[row["kind"]], entry("kernel", self.kernels, {}), entry("configuration", self.configurations, None),
            self._parameters_of(index), entry("caller", self.callers, {}), entry("parts", self.parts, ""), int(row["stream"]),
            int(row["bytes"]), int(row["digest"]) if row["flags"] & IS_DIGESTED else None, bool(row["flags"] & MEASURES),
            bool(row["flags"] & IS_UNORDERED))

    def _parameters_of(self, index: int) -> Optional[bytes]:
        """Returns the list's parameters, with the words in which this row's differ."""
        at = self.rows[index]["parameters"]
        if at == NO_ENTRY:
            return None
        data = bytearray(self.parameters[at])
        begin, end = np.searchsorted(self._changes["row"], [index, index + 1])
        for _, offset, word in self._changes[begin:end]:
            changed = int(word).to_bytes(8, "little")[:len(data) - int(offset)]
            data[int(offset):int(offset) + len(changed)] = changed
        return bytes(data)


def trail(path: Path) -> Trail:
    """Returns the trail of a capture that `msda-record --trail` or `Receipt.write` made. Raises CaptureError."""
    path = os.fsdecode(path)
    file = IsolatedFile(path)
    try:
        answer = file.ask("trail")
        if answer is None:
            raise CaptureError(f"{path}: has no trail; record one: msda-record --trail -o FILE -- COMMAND")
        return _checked(path, {name: file.read(dataset["path"], ()) for name, dataset in answer["datasets"].items()}, answer["missing"])
    finally:
        file.close()


def _checked(path, columns, missing):
    """Returns the trail of a file's columns. Raises CaptureError for indices that are out of their lists, and the like."""

    def damaged(why):
        return CaptureError(f"{path}: /trail: {why}: the file is damaged; copy it again, or record again")

    def column(name, dtype):
        data = columns.get(name)
        if data is None or data.ndim != 1 or data.dtype != np.dtype(dtype):
            raise damaged(f"{name} is missing" if data is None else f"{name} is no list of {np.dtype(dtype).name}")
        return data

    def table(dtype, prefix):
        fields = {name: column(prefix + name, dtype[name]) for name in dtype.names}
        if len(lengths := {len(data) for data in fields.values()}) > 1:
            raise damaged(f"columns of {' and '.join(map(str, sorted(lengths)))} rows")
        rows = np.empty(lengths.pop(), dtype)
        for name, data in fields.items():
            rows[name] = data
        return rows

    rows, changes = table(ROW, ""), table(_CHANGE, "changes_")
    others = {name: column(name, dtype) for name, dtype in _OTHERS.items()}
    try:
        names = _names(json.loads(others["names"].tobytes()))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(f"names cannot be read ({error})") from None
    ends, data = others["parameter_ends"], others["parameter_bytes"].tobytes()
    if (ends[1:] < ends[:-1]).any() or (int(ends[-1]) if len(ends) else 0) != len(data):
        raise damaged(f"parameter_ends does not divide {len(data)} bytes")
    parameters = [data[begin:end] for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist())]
    lists = {"kernel": names["kernels"], "configuration": names["configurations"], "parameters": parameters, "caller": names["callers"],
             "parts": names["parts"]}
    for name, entries in lists.items():
        if ((rows[name] != NO_ENTRY) & (rows[name] >= len(entries))).any():
            raise damaged(f"{name} has indices beyond its {len(entries)} entries")
    if len(rows) and rows["kind"].max() >= len(KINDS):
        raise damaged("rows of no known kind")
    if missing < 0 or (changes["row"][1:] < changes["row"][:-1]).any() or (len(changes) and int(changes["row"][-1]) >= len(rows)):
        raise damaged("missing, or changes_row, cannot be")
    sizes = np.array([*map(len, parameters), 0], "<u8")  # of none, too
    changed = np.minimum(rows["parameters"][changes["row"].astype(np.intp)], len(parameters))
    if (changes["offset"] >= sizes[changed]).any():
        raise damaged("changes_offset lies beyond the row's parameters")
    return Trail(rows, names, parameters, changes, missing)


def _names(names):
    for name in ("kernels", "callers"):
        if not all(isinstance(entry, dict) for entry in names[name]):
            raise ValueError(f"{name} are no objects")
    if not all(isinstance(part, str) for part in names["parts"]) or not isinstance(names["parts"], list):
        raise ValueError("parts are no texts")
    configurations = [tuple(map(int, configuration)) for configuration in names["configurations"]]
    if any(len(configuration) != 7 for configuration in configurations):
        raise ValueError("a configuration is not seven numbers")
    return {"kernels": list(names["kernels"]), "configurations": configurations, "callers": list(names["callers"]), "parts": names["parts"]}


def write_trail(file: h5py.File, written: Trail) -> None:
    """Adds /trail to an open file."""
    group = file.create_group("trail")
    group.attrs["missing"] = written.missing
    names = {"kernels": written.kernels, "configurations": written.configurations, "callers": written.callers, "parts": written.parts}
    columns = {name: written.rows[name] for name in _COLUMNS}
    columns.update({f"changes_{name}": written._changes[name] for name in _CHANGES})
    columns["names"] = np.frombuffer(json.dumps(names).encode(), "u1")
    columns["parameter_bytes"] = np.frombuffer(b"".join(written.parameters), "u1")
    columns["parameter_ends"] = np.cumsum([len(parameter) for parameter in written.parameters], dtype="<u8")
    for name, column in columns.items():
        data = np.ascontiguousarray(column)
        packed = {"shuffle": True, "compression": "gzip", "chunks": (min(len(data), 1 << 17),)} if data.nbytes >= _WORTH_PACKING else {}
        dataset = group.create_dataset(name, data=data, **packed)
        dataset.attrs["digest"] = digest(data.tobytes())
        if name in _COLUMNS:
            dataset.dims[0].label = "row"


def no_changes() -> np.ndarray:
    return np.empty(0, _CHANGE)
