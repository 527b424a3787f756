"""Writing and reading capture files (docs/capture-format.md) with h5py."""

import datetime
import math
import os
import re
import stat
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

try:
    import h5py
    import numpy as np
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"msda_replay needs {error.name}: apt-get install python3-h5py python3-numpy, or pip install tools/python",
        name=error.name,
    ) from None

from . import contents
from .digest import digest
from .libmsda import DTYPES
from .memory import free_memory
from .operator_rows import DEFAULT, DIALECTS

Path = Union[str, os.PathLike[str]]
FORMAT = "msda-capture"
FORMAT_VERSION = 1
ABOUT = ("Calls of numerical kernels, with inputs and outputs, recorded by msda-replay. "
         "'msda-replay run FILE' replays and explains them; any HDF5 reader opens the file.")
FORMAT_PAGE = "docs/capture-format.md in msda-replay's sources and packages"
_MOST_COMPRESSED = 1032  # bytes in one of deflate
ALWAYS_FREE = 1 << 26  # bytes of memory; to ask the system for each small tensor takes long
_READ_LESS = "read a part of it (open_capture reads what is indexed, as in tensor[0]), or use a machine with more memory"

DIMENSIONS = {name: DEFAULT.dimensions(name, ()) for name in DEFAULT.tensors}
INPUTS = DEFAULT.named("input")
PADDING_MODES = tuple(DEFAULT.conventions["padding_mode"]["values"])

# A row of /run/seeds.
_SEED = np.dtype([("time", "S32"), ("source", "S24"), ("value", "<u8"), ("invocation", "<i8")])

# Attributes of an invocation without a field of their own.
FACTS = (
    "kernel_digest", "grid", "block", "shared_bytes", "stream", "device", "process", "thread", "duplicates",
    "distinct_outputs", "time", "label", "adapter",
)
_FIELDS = ("kernel", "dialect", "atol", "rtol")  # attributes with a field; with a dialect also its conventions


class CaptureError(Exception):
    """An error in writing or reading a capture; the message names the file and the thing."""


def unreadable(path, error):
    """Returns the CaptureError for a file that HDF5 does not open; HDF5's own message is about descriptors and buffers."""
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    if os.path.isdir(path):
        why = "it is a folder"
    elif not os.path.exists(path):
        why = "no such file"
    elif not os.access(path, os.R_OK):
        why = "permission denied"
    elif "file signature not found" in why:
        why = "it is no HDF5 file"
    elif whole := re.search(r"stored_eof = (\d+)", why):
        why = (f"it is truncated: it has {os.path.getsize(path)} of {whole[1]} bytes; copy it again, or record again (while it is still being "
               "written, wait for msda-record to end)")
    return CaptureError(f"{path}: cannot read it: {why}")


def _names_and_sizes(tensors):
    sizes = [f"{name} {' x '.join(map(str, array.shape))} {array.dtype}" for name, array in tensors.items()]
    return ", ".join(sizes) or "none"


@dataclass(repr=False)
class Result:
    """Another result for the same inputs. `role` is "reference" for what a test compared with; `dialect` the conventions
    it follows (empty: for a reference that which most tests compare with, otherwise that of the call); `notes` numbers that belong to it."""

    tensors: Dict[str, np.ndarray]
    role: str = ""
    dialect: str = ""
    notes: Dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        words = [f"{name} {value}" for name, value in (("role", self.role), ("dialect", self.dialect)) if value]
        return f"<result{''.join(f', {word}' for word in words)}: {_names_and_sizes(self.tensors)}>"


@dataclass(repr=False)
class Invocation:
    """One backward call. Tensors by name, shaped as DIMENSIONS says; floating-point ones float16, bfloat16 (of ml_dtypes, or
    as NumPy saves those, void of two bytes), float32 or float64, the others int32 or int64. `facts` holds any of FACTS. `stages`, `stage_summaries` and `digests` are read only:
    a summary holds the attributes of docs/capture-format.md, and under "float64" those of the float64 run.

    A kernel that is not the operator's backward has dialect "": its tensors have names and shapes of its own, uint8 among
    their types, and `facts` holds its texts, numbers and flags, including padding_mode and align_corners."""

    inputs: Dict[str, np.ndarray]
    outputs: Dict[str, np.ndarray]
    dialect: str
    padding_mode: str = "zeros"
    align_corners: bool = False
    kernel: str = ""
    outputs_before: Dict[str, np.ndarray] = field(default_factory=dict)
    results: Dict[str, Result] = field(default_factory=dict)
    stages: Dict[str, np.ndarray] = field(default_factory=dict)
    atol: Optional[float] = None
    rtol: Optional[float] = None
    facts: Dict[str, Any] = field(default_factory=dict)
    stage_summaries: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    digests: Dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        conventions = f"{self.dialect}, padding {self.padding_mode}, align_corners {str(self.align_corners).lower()}"
        return (f"<invocation: {conventions if self.dialect else self.kernel or 'kernel'}; inputs {_names_and_sizes(self.inputs)}; "
                f"outputs {', '.join(self.outputs) or 'none'}>")


@dataclass(repr=False)
class Capture:
    """A whole file. `run` holds argv (a list), environment and libraries (mappings), seeds (a list of mappings: time,
    source, value, and invocation, the first that began after it), and further texts."""

    invocations: List[Invocation]
    run: Dict[str, Any] = field(default_factory=dict)
    tool_version: str = ""
    created: str = ""

    def __repr__(self) -> str:
        return f"<capture of {len(self.invocations)} invocation{'s' * (len(self.invocations) != 1)}>"


def is_bfloat16(dtype):
    """Returns whether it is the type of ml_dtypes, or what np.savez writes for it."""
    return dtype.name == "bfloat16" or (dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None and dtype.subdtype is None)


def _bfloat16_type():
    type_ = h5py.h5t.IEEE_F32LE.copy()
    type_.set_fields(15, 7, 8, 0, 7)
    type_.set_size(2)
    type_.set_ebias(127)
    return type_


class BFloat16(np.ndarray):
    """bfloat16 numbers widened to float32, to be written as bfloat16. NumPy has no such type; ml_dtypes has, but is not needed."""


def widen(array):
    """Returns the array, or its numbers as a BFloat16 if is_bfloat16."""
    if not is_bfloat16(array.dtype):
        return array
    return (np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32).view(BFloat16)


def _write_tensor(group, name, array, has_dialect):
    widened = isinstance(array, BFloat16)
    array = np.ascontiguousarray(array)
    path = f"{group.name}/{name}"
    dimensions = DIMENSIONS.get(name) if has_dialect else None
    if dimensions and array.ndim != len(dimensions):
        raise CaptureError(f"{path} has rank {array.ndim}, not {len(dimensions)}: {list(dimensions)}")
    if is_bfloat16(array.dtype) or widened:
        space = h5py.h5s.create_simple(array.shape)
        identifier = h5py.h5d.create(group.id, name.encode(), _bfloat16_type(), space)
        bits = (array.view(np.uint32) >> 16).astype(np.uint16) if widened else array.view(np.uint16)
        if array.size:
            identifier.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=_bfloat16_type())
        dataset, array = h5py.Dataset(identifier), bits  # the digest is of the bytes as stored
    elif array.dtype.name in DTYPES or (array.dtype == np.uint8 and not has_dialect):
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        dataset = group.create_dataset(name, data=array)
    else:
        raise CaptureError(f"{path} has type {array.dtype}, not float16, bfloat16, float32, float64, int32 or int64")
    dataset.attrs["digest"] = digest(array.tobytes())
    for i, dimension in enumerate(dimensions or ()):
        h5py.h5ds.set_label(dataset.id, i, dimension.encode())  # dataset.dims[i].label reads the shape each time


def _check(invocation):
    if (invocation.atol is None) != (invocation.rtol is None):
        raise CaptureError("atol and rtol go together")
    if not invocation.dialect:
        for name, value in invocation.facts.items():
            if name in _FIELDS or (name not in FACTS and not isinstance(value, (str, int, float))):
                raise CaptureError(f"fact {name!r} is {value!r}; give texts, numbers and flags, and fields as such")
        return
    for name in INPUTS:
        if name not in invocation.inputs:
            raise CaptureError(f"an invocation has no input {name}; it takes {', '.join(INPUTS)}")
    if invocation.dialect not in DIALECTS:
        raise CaptureError(f"unknown dialect {invocation.dialect!r}; there are {', '.join(DIALECTS)}")
    if invocation.padding_mode not in PADDING_MODES:
        raise CaptureError(f"unknown padding_mode {invocation.padding_mode!r}; there are {', '.join(PADDING_MODES)}")
    unknown = set(invocation.facts) - set(FACTS)
    if unknown:
        raise CaptureError(f"unknown facts {sorted(unknown)}; there are {', '.join(FACTS)}")


def _write_invocation(group, invocation):
    _check(invocation)
    attributes = group.attrs
    attributes["kernel"] = invocation.kernel
    has_dialect = bool(invocation.dialect)
    if has_dialect:
        attributes["dialect"] = invocation.dialect
        attributes["padding_mode"] = invocation.padding_mode
        attributes["align_corners"] = bool(invocation.align_corners)
    if invocation.atol is not None:
        attributes["atol"], attributes["rtol"] = float(invocation.atol), float(invocation.rtol)
    for name, value in invocation.facts.items():
        attributes[name] = value
    sections = {"inputs": invocation.inputs, "outputs_before": invocation.outputs_before, "outputs": invocation.outputs}
    for section, tensors in sections.items():
        if section == "outputs_before" and not tensors:
            continue
        subgroup = group.create_group(section)
        for name, array in tensors.items():
            _write_tensor(subgroup, name, array, has_dialect)
    for name, result in invocation.results.items():
        subgroup = group.create_group(f"results/{name}")
        subgroup.attrs["role"] = result.role
        if result.dialect:
            subgroup.attrs["dialect"] = result.dialect
        for note, number in result.notes.items():
            subgroup.attrs[note] = float(number)
        for tensor, array in result.tensors.items():
            _write_tensor(subgroup, tensor, array, has_dialect)


def _write_seeds(group, seeds):
    rows = [(s.get("time", ""), s["source"], s["value"], s.get("invocation", -1)) for s in seeds]
    table = np.array(rows, _SEED)
    dataset = group.create_dataset("seeds", data=table)
    dataset.attrs["digest"] = digest(table.tobytes())
    dataset.dims[0].label = "seed"


def _file_image(invocations, run, trail=None):
    """Returns the bytes of a capture file."""
    from . import __version__

    with h5py.File("capture", "w", driver="core", backing_store=False, block_size=1 << 20) as file:
        now = datetime.datetime.now(datetime.timezone.utc)
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["about"] = ABOUT
        file.attrs["format_page"] = FORMAT_PAGE
        file.attrs["tool_version"] = __version__
        file.attrs["created"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        group = file.create_group("run")
        group.attrs.create("argv", list(map(str, run.pop("argv", []))), dtype=h5py.string_dtype())
        for section in ("environment", "libraries"):
            subgroup = group.create_group(section)
            for name, value in run.pop(section, {}).items():
                subgroup.attrs[name] = str(value)
        if "seeds" in run:
            _write_seeds(group, run.pop("seeds"))
        for name, value in run.items():
            group.attrs[name] = str(value)
        file.create_group("invocations")
        for i, invocation in enumerate(invocations):
            _write_invocation(file.create_group(f"invocations/{i:06d}"), invocation)
        if trail is not None:
            from .trails import write_trail

            write_trail(file, trail)
        contents.write(file)
        file.flush()
        return file.id.get_file_image()


def check_target(path, overwrite):
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # it does not exist; creating it will report any error
    if not stat.S_ISREG(mode):
        raise CaptureError(f"{path}: is no regular file, and only those are replaced; give another name")
    if not overwrite:
        raise CaptureError(f"{path}: exists; replace it with --force or overwrite=True, or give another name")
    with open(path, "rb") as there:
        begin = there.read(8)
    if begin != b"\x89HDF\r\n\x1a\n" and any(begin):  # zeros are what a killed writer leaves
        raise CaptureError(f"{path}: is no capture, and only those are replaced; give another name")


def write_capture(path: Path, invocations: Union[Invocation, Iterable[Invocation]], run: Optional[Mapping[str, Any]] = None,
                  overwrite: bool = False) -> None:
    """Writes a capture file, readable by its owner only.

    `invocations` is an Invocation or a list of them. Refuses to replace a file unless `overwrite`, and anything but a
    regular file always; leaves none behind when it fails. Raises CaptureError.
    """
    if isinstance(invocations, Invocation):
        invocations = [invocations]
    _write_file(os.fspath(path), overwrite, lambda: _file_image(invocations, dict(run or {})))


def write_trail_file(path, trail, run):
    """Writes a capture that holds a trail, replacing one."""
    _write_file(os.fspath(path), True, lambda: _file_image([], dict(run), trail))


def _write_file(path, overwrite, image):
    check_target(path, overwrite)
    partial = f"{path}.{os.getpid()}.partial"
    try:
        # Tried before the work, without HDF5: if HDF5 cannot write everything, it aborts the process at exit.
        descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as file:
            file.write(image())
        os.replace(partial, path)
    except OSError as error:
        raise CaptureError(f"{path}: cannot write it: {error}") from error
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)


def _refuse_sizes(dataset, index):
    """Raises CaptureError if data are in another file, or are more than the file holds; or more than this machine has memory for:
    what is read twice, in the process that reads and in the one that asks, and unpacked chunks."""
    where = f"{dataset.file.filename}: {dataset.name}"
    if dataset.external or dataset.is_virtual:
        raise CaptureError(f"{where} has its data in another file; a capture holds its own")
    # dataset.size is of 64 bits, and wraps.
    count, held = 0 if dataset.shape is None else math.prod(dataset.shape), dataset.id.get_storage_size()
    declared = count * dataset.id.get_type().get_size()
    if declared > held * (_MOST_COMPRESSED if dataset.id.get_create_plist().get_nfilters() else 1):
        raise CaptureError(f"{where} declares {declared} bytes; the file holds {held}")
    takes = 2 * dataset.dtype.itemsize * (math.prod(dataset.chunks or (0,)) + (count if is_all(index) else 0))
    if takes > ALWAYS_FREE and takes > (free := free_memory()):
        raise CaptureError(f"{where} has {declared} bytes, stored in {held}: reading it takes {takes >> 20} MiB of memory, of which this "
                           f"machine has {free >> 20} MiB free; {_READ_LESS}")


def is_all(index):
    return index is Ellipsis or isinstance(index, tuple) and not index


def read_data(dataset, index=()):
    """Returns the array at an index, by default all of it. Raises CaptureError, for hostile sizes before anything is allocated."""
    _refuse_sizes(dataset, index)
    try:
        return dataset[index]
    except MemoryError as error:
        raise CaptureError(f"{dataset.file.filename}: memory does not suffice for {dataset.name}; {_READ_LESS}") from error


def plain(value):
    """Returns an attribute's value without HDF5's and NumPy's types."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


def _read_invocation(file, described):
    """Returns the Invocation from what server.py sends about it."""

    def tensors(section):
        return {name: file.read(tensor["path"], ()) for name, tensor in section.items()}

    def result(group):
        notes = dict(group["attributes"])
        role, dialect = notes.pop("role", ""), notes.pop("dialect", "")
        return Result(tensors(group["tensors"]), role, dialect, notes)

    attributes = described["facts"]
    dialect = attributes.get("dialect", "")
    conventions = attributes if dialect else {}
    fields = _FIELDS + (("padding_mode", "align_corners") if dialect else ())
    facts = {name: value for name, value in attributes.items()
             if name in FACTS or (name not in fields and isinstance(value, (str, int, float)))}
    return Invocation(
        **{section: tensors(described[section]) for section in ("inputs", "outputs_before", "outputs")}, stages=tensors(described["stages"]),
        results={name: result(group) for name, group in described["results"].items()}, digests=described["digests"],
        stage_summaries=described["stage_summaries"], kernel=attributes.get("kernel", ""), dialect=dialect,
        padding_mode=conventions.get("padding_mode", "zeros"), align_corners=bool(conventions.get("align_corners", False)),
        atol=attributes.get("atol"), rtol=attributes.get("rtol"), facts=facts,
    )


def check_format(file, path):
    """Raises CaptureError unless the open file is a capture of the version that this package reads."""
    if plain(file.attrs.get("format", "")) != FORMAT:
        raise CaptureError(f"{path}: is HDF5, but not a capture")
    version = file.attrs.get("format_version")
    if version != FORMAT_VERSION:
        raise CaptureError(f"{path}: has format version {version}, this package reads version {FORMAT_VERSION}")


def read_capture(path: Path) -> Capture:
    """Reads a whole capture into memory. bfloat16 tensors come as float32. Raises CaptureError."""
    from .isolated import IsolatedFile

    path = os.fsdecode(path)
    file = IsolatedFile(path)
    try:
        answer = file.ask("run")
        calls = [_read_invocation(file, file.ask("call", identifier)) for identifier in file.ask("calls")]
        return Capture(calls, answer["run"], answer["tool_version"], answer["created"])
    finally:
        file.close()
