"""The process that reads captures for isolated.py. libhdf5 crashes on some damaged files, and h5py raises anything on others:
here that ends a process, or becomes one line. What it returns is plain data."""

import json
import math
import os
import pickle
import resource
import signal
import socket
import stat
import struct
import sys
from typing import Any, Dict, List

import h5py
import numpy as np

from .capture import ALWAYS_FREE, CaptureError, check_format, is_all, plain, read_data, unreadable
from .memory import free_memory

_SECTIONS = ("inputs", "outputs", "outputs_before")
_NUMBERS = ("align_corners", "atol", "rtol")
_TEXTS = ("kernel", "dialect", "padding_mode", "label", "interpolation", "reduce", "mode", "role")
_LENGTH = struct.Struct("<QQ")  # of the JSON, and of the bytes after it


def send(connection, message, data=b""):
    text = json.dumps(message, default=_plain_json).encode()
    connection.sendall(_LENGTH.pack(len(text), len(data)) + text)
    connection.sendall(data)


def receive(connection):
    """Returns the message and the bytes after it; EOFError if the other side has ended. Memory grows with what has arrived."""

    def take(count):
        taken = bytearray()
        while len(taken) < count:
            piece = connection.recv(min(count - len(taken), 1 << 24))
            if not piece:
                raise EOFError
            taken += piece
        return taken

    lengths = _LENGTH.unpack(take(_LENGTH.size))
    return json.loads(take(lengths[0])), take(lengths[1])


def _plain_json(value):
    """Returns an array of an attribute; of what JSON has no word for, a text."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "type": "O" if value.dtype.kind in "OSUV" else value.dtype.str}
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _attributes(item):
    """Returns the attributes by name, with texts and numbers where these are expected."""
    values = {name: plain(value) for name, value in item.attrs.items()}
    for name, value in values.items():
        if name in _TEXTS and not isinstance(value, str):
            raise CaptureError(f"{item.file.filename}: {item.name}: attribute {name} is not a text")
        if name in _NUMBERS and not isinstance(value, (int, float)):
            raise CaptureError(f"{item.file.filename}: {item.name}: attribute {name} is not a number")
    return values


def _members(group, kind):
    """Returns the group's own members of a kind. Links that are not hard lead to other places, or out of the file."""
    if not isinstance(group, h5py.Group):
        return {}
    members = {name: _own(group, name) for name in group}
    return {name: member for name, member in members.items() if isinstance(member, kind)}


def _own(group, name):
    link = group.get(name, getclass=True, getlink=True)
    if link is h5py.ExternalLink:
        raise CaptureError(f"{group.file.filename}: {group.name.strip('/')}/{name} is a link to another file; a capture holds its own data")
    return group[name] if link is h5py.HardLink else None


def _tensor(dataset):
    stored, dtype = dataset.id.get_type(), dataset.dtype
    if dtype.kind not in "fiub":
        raise CaptureError(f"{dataset.file.filename}: {dataset.name} has the type {dtype}, which no tensor has")
    is_bfloat16 = stored.get_class() == h5py.h5t.FLOAT and stored.get_size() == 2 and stored.get_fields()[2] == 8
    return {"path": dataset.name, "shape": list(dataset.shape), "dtype": dtype.str, "type": "bfloat16" if is_bfloat16 else dtype.name,
            "labels": [dimension.label for dimension in dataset.dims], "digest": str(plain(dataset.attrs.get("digest", "")))}


def _tensors(group):
    return {name: _tensor(dataset) for name, dataset in _members(group, h5py.Dataset).items()}


def _call(group):
    groups = _members(group, h5py.Group)
    stages = _members(groups.get("stages"), h5py.Group)
    full = {name: _members(stage, h5py.Dataset) for name, stage in stages.items()}
    summaries = {name: _attributes(stage) for name, stage in stages.items() if "count" in stage.attrs}
    for name, summary in summaries.items():
        beside = _members(stages[name], h5py.Group)
        summary.update({"float64": _attributes(beside["float64"])} if "float64" in beside else {})
    return {
        "facts": _attributes(group),
        **{name: _tensors(groups.get(name)) for name in _SECTIONS},
        "results": {name: {"attributes": _attributes(result), "tensors": _tensors(result)}
                    for name, result in _members(groups.get("results"), h5py.Group).items()},
        "stages": {name: _tensor(members["full"]) for name, members in full.items() if "full" in members},
        "stage_summaries": summaries,
        "digests": _attributes(group["digests"]) if "digests" in _members(group, h5py.HLObject) else {},
    }


def _run(file):
    group = _members(file, h5py.Group).get("run")
    run: Dict[str, Any] = {"argv": [], "environment": {}, "libraries": {}}
    if group is not None:
        run.update(_attributes(group))
        run["argv"] = [plain(argument) for argument in np.ravel(group.attrs.get("argv", []))]
        run.update({name: _attributes(section) for name, section in _members(group, h5py.Group).items()})
        table = _members(group, h5py.Dataset).get("seeds")
        if table is not None:
            run["seeds"] = _seeds(table)
    return {"run": run, **{name: str(plain(file.attrs.get(name, ""))) for name in ("tool_version", "created")}}


def _seeds(table):
    if not table.dtype.names:
        raise CaptureError(f"{table.file.filename}: /run/seeds is not a table")
    seeds = [{name: plain(row[name]) for name in table.dtype.names} for row in read_data(table)]
    return [{name: value for name, value in seed.items() if (name, value) != ("invocation", -1)} for seed in seeds]


class _Served:
    """One capture, and what is asked of it. Each method returns a message and bytes."""

    def __init__(self, path):
        self.address_space = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        try:
            if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
                raise CaptureError(f"{path}: cannot read it: it is no regular file")
            self.bytes = os.path.getsize(path)
            self.limit()
            self.file = h5py.File(path, "r")
        except OSError as error:
            raise unreadable(path, error) from None
        check_format(self.file, path)
        invocations = _members(self.file, h5py.Group).get("invocations", {})
        self.names = {int(name): name for name in invocations if name.isdecimal()}
        self.invocations = invocations

    def limit(self, data_bytes=0):
        """As docs/capture-format.md has it, for each request."""
        data_bytes = min(data_bytes, 1 << 60)  # as a damaged file may have it: refused later, by its shape
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 3 + self.bytes // 1_000_000 + data_bytes // 250_000_000)
        data_bytes = 3 * data_bytes if data_bytes < ALWAYS_FREE else min(3 * data_bytes, free_memory())
        _limit(resource.RLIMIT_AS, self.address_space + (512 << 20) + self.bytes + data_bytes)

    def calls(self):
        return sorted(self.names), b""

    def call(self, identifier):
        return _call(_own(self.invocations, self.names[identifier])), b""

    def run(self):
        return _run(self.file), b""

    def trail(self):
        group = _members(self.file, h5py.Group).get("trail")
        if group is None:
            return None, b""
        missing = plain(group.attrs.get("missing", 0))
        if not isinstance(missing, int):
            raise CaptureError(f"{group.file.filename}: /trail: attribute missing is not a number")
        return {"missing": missing, "datasets": _tensors(group)}, b""

    def read(self, path, index):
        dataset = self.file[path]
        self.limit(0 if dataset.shape is None else math.prod(dataset.shape) * dataset.dtype.itemsize)
        array = np.asarray(read_data(dataset, index))
        return {"shape": list(array.shape), "dtype": array.dtype.str}, np.ascontiguousarray(array).data.cast("B") if array.size else b""


def _limit(what, value):
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _answer(served, path, request, data):
    """Returns what is sent back; an error is one line."""
    try:
        if request["what"] == "open":
            served.append(_Served(path))
            return {"result": None}, b""
        served[0].limit()
        arguments = request["arguments"] + ([pickle.loads(data)] if data else [])  # written by the process that asks
        result, data = getattr(served[0], request["what"])(*arguments)
        return {"result": result}, data
    except CaptureError as error:
        return {"error": str(error), "type": "CaptureError"}, b""
    except (IndexError, ValueError, TypeError) as error:
        if data and request["what"] == "read" and not is_all(arguments[-1]):  # it may be the index
            return {"error": str(error), "type": type(error).__name__}, b""
        return _unreadable(path, error), b""
    except Exception as error:  # h5py raises anything on damaged files
        return _unreadable(path, error), b""


def _unreadable(path, error):
    why = " ".join(str(error).split()) or type(error).__name__
    return {"error": f"{path}: cannot read it: {why}; `msda-replay verify` lists what is damaged", "type": "CaptureError"}


def _serve(connection):
    served: List[_Served] = []
    send(connection, {"result": "ready"})
    request = receive(connection)[0]
    os.chdir(request["folder"])
    path = request["path"]
    while True:
        try:
            request, data = receive(connection)
            send(connection, *_answer(served, path, request, bytes(data)))
        except (EOFError, OSError):
            for capture in served:
                capture.file.close()  # before the connection: whoever closes waits for that, and may then write to the file
            return


def main():
    """Forks a process for each connection that arrives on descriptor 0; ends with it."""
    os.closerange(3, 1 << 16)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    control = socket.socket(fileno=0)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            try:
                _serve(socket.socket(fileno=descriptors[0]))
            finally:
                os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    sys.exit(main())
