"""Makes files with trails by hand, straight to docs/capture-format.md: not by the recorder's writer, which they test."""

import copy
import dataclasses
import hashlib
import json
import struct

import h5py
import numpy as np

LAUNCH, GRAPH, COPY_IN, COPY_WITHIN, COPY_OUT, SET, HOST, FRESH, CALL = range(9)
DIGESTED, MEASURES, UNORDERED, SPARSE = 1, 2, 4, 8
NONE = 0xFFFFFFFF
ADDRESS = b"Address!"

CONV = "_ZN5cudnn23implicit_convolve_sgemmIfEEvPKfPf"
RELU = "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvf"
DROPOUT = "_ZN2at6native20fused_dropout_kernelEv"
GEMM = "ampere_sgemm_128x64_nn"
SCATTER = "_ZN2at6native13indexAddSmallIfEEvPf"
LOCKED = "_ZN2at6native13reduce_kernelIfEEvPf"
TRITON = "triton_red_fused_sum_0"
ADAM = "_ZN2at6native25multi_tensor_apply_kernelEv"
UNSCALE = "_ZN2at6native46_amp_foreach_non_finite_check_and_unscale_cudaEv"

FACTS = {SCATTER: {"float_atomics": 4, "may_communicate": 0}, LOCKED: {"float_atomics": 0, "may_communicate": 1}}


def digest(*what):
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:8], "little")


@dataclasses.dataclass
class Row:
    kind: int = LAUNCH
    kernel: str = ""
    digest: int = 0
    flags: int = DIGESTED
    stream: int = 0
    code: str = "code 1"
    grid: tuple = (64, 1, 1)
    block: tuple = (256, 1, 1)
    shared: int = 0
    parameters: bytes = b""
    caller: dict = dataclasses.field(default_factory=dict)
    parts: str = "0+4096"
    bytes: int = 4096
    architecture: str = "sm_90"


def parameters(*words):
    """Words of 8 bytes; None is an address."""
    return b"".join(ADDRESS if word is None else struct.pack("<Q", word) for word in words)


def training(steps, changed=None):
    """Rows of a loop as training has it, about 12 a step. changed(step, place) gets each row's step and place in it, and may
    return what has gone wrong from there on, which all later results of launches then depend on."""
    rows, state = [], None
    step_rows = [
        Row(COPY_IN, bytes=1 << 20, parts="0+1048576", caller={"python": "train.py:20 step"}),
        Row(SET, parameters=parameters(0)),
        Row(LAUNCH, CONV, parameters=parameters(None, None, 7), caller={"operation": "aten::cudnn_convolution", "python": "model.py:11 forward"}),
        Row(LAUNCH, RELU, parameters=parameters(None, 4096)),
        Row(LAUNCH, RELU, parameters=parameters(None, 8192), grid=(128, 1, 1)),
        Row(LAUNCH, DROPOUT, parameters=parameters(None, 1234, 0), caller={"operation": "aten::native_dropout"}),
        Row(LAUNCH, GEMM, parameters=parameters(None, None, None), code="code gemm"),
        Row(LAUNCH, TRITON, parameters=parameters(None, None), code="code triton"),
        Row(LAUNCH, SCATTER, parameters=parameters(None, None), caller={"node": "IndexAddBackward0", "operation": "aten::index_add_"}),
        Row(LAUNCH, LOCKED, parameters=parameters(None, None)),
        Row(LAUNCH, ADAM, parameters=parameters(None, 0x3F800000)),
        Row(COPY_OUT, bytes=4, parts="0+4"),
    ]
    for step in range(steps):
        for place, template in enumerate(step_rows):
            row = copy.deepcopy(template)
            if changed is not None:
                state = changed(step, place) or state
            if row.kernel == DROPOUT:
                row.parameters = parameters(None, 1234, 4 * step)
            depends = state if row.kind in (LAUNCH, COPY_OUT) else None
            row.digest = digest(step, place, depends)
            rows.append(row)
    return rows


STEP, LAUNCHES = 12, 9  # rows, and launches among them
PLACE = {COPY_IN: 0, SET: 1, CONV: 2, RELU: 3, DROPOUT: 5, GEMM: 6, TRITON: 7, SCATTER: 8, LOCKED: 9, ADAM: 10}


def from_row(at):
    """For training(): everything differs from this row on."""
    return lambda step, place: "other" if step * STEP + place >= at else None


def launches_before(rows, at):
    return sum(row.kind == LAUNCH for row in rows[:at])


class Interned:
    def __init__(self):
        self.entries = {}

    def of(self, entry, what=None):
        key = json.dumps(entry) if not isinstance(entry, (bytes, str)) else entry
        self.entries.setdefault(key, (len(self.entries), entry if what is None else what))
        return self.entries[key][0]

    def all(self):
        return [entry for _, entry in self.entries.values()]


def write_trail(path, rows, run=None, environment=None, libraries=None, argv=("python3", "train.py"), seeds=(), missing=0, changes=()):
    kernels, configurations, callers, parts, blobs = (Interned() for _ in range(5))
    columns = {name: [] for name in ("kind", "flags", "stream", "kernel", "configuration", "parameters", "caller", "parts", "bytes", "digest")}
    for row in rows:
        is_launch = row.kind in (LAUNCH, GRAPH, CALL)
        kernel = {"name": row.kernel, "digest": row.code, "architecture": row.architecture}
        if row.kernel in FACTS:
            kernel["facts"] = FACTS[row.kernel]
        columns["kind"].append(row.kind)
        columns["flags"].append(row.flags)
        columns["stream"].append(row.stream)
        columns["kernel"].append(kernels.of(kernel) if row.kernel else NONE)
        columns["configuration"].append(configurations.of([*row.grid, *row.block, row.shared]) if is_launch else NONE)
        columns["parameters"].append(blobs.of(row.parameters) if row.parameters else NONE)
        columns["caller"].append(callers.of(row.caller) if row.caller else NONE)
        columns["parts"].append(parts.of(row.parts))
        columns["bytes"].append(row.bytes)
        columns["digest"].append(row.digest)
    types = {"kind": "u1", "flags": "u1", "stream": "<u2", "bytes": "<u8", "digest": "<u8"}
    names = {"kernels": kernels.all(), "configurations": configurations.all(), "callers": callers.all(), "parts": parts.all()}
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "msda-capture", "format_version": 1, "tool_version": "0.1.0", "created": "2026-01-01T00:00:00Z"})
        file.create_group("invocations")
        group = file.create_group("run")
        group.attrs["argv"] = list(argv)
        group.attrs.update(run or {})
        group.create_group("environment").attrs.update(environment or {})
        group.create_group("libraries").attrs.update(libraries or {})
        table = np.zeros(len(seeds), dtype=[("time", "S32"), ("source", "S24"), ("value", "<u8"), ("invocation", "<i8")])
        for i, value in enumerate(seeds):
            table[i] = (b"2026-01-01T00:00:00Z", b"torch_cuda", value, -1)
        group.create_dataset("seeds", data=table)
        trail = file.create_group("trail")
        trail.attrs["missing"] = missing

        def put(name, values, kind):
            data = np.asarray(values, dtype=kind)
            packed = {"chunks": (min(len(data), 65536),), "shuffle": True, "compression": "gzip"} if len(data) else {}
            trail.create_dataset(name, data=data, **packed)

        for name, values in columns.items():
            put(name, values, types.get(name, "<u4"))
        put("names", np.frombuffer(json.dumps(names).encode(), dtype="u1"), "u1")
        put("parameter_bytes", np.frombuffer(b"".join(blobs.all()), dtype="u1"), "u1")
        put("parameter_ends", np.cumsum([len(blob) for blob in blobs.all()]), "<u8")
        put("changes_row", [row for row, _, _ in changes], "<u8")
        put("changes_offset", [offset for _, offset, _ in changes], "<u4")
        put("changes_word", [word for _, _, word in changes], "<u8")
    return path
