"""Completes a kept capture: joins its parts, and adds the tolerance and the reference of the test's assertions."""

import itertools
import os
import shutil
from dataclasses import dataclass, field
from typing import List, Set, Tuple

import h5py
import numpy as np

from .. import contents
from ..capture import _SEED, _write_seeds, _write_tensor, plain
from ..digest import digest

_MOST_PERMUTATIONS = 24


def join(parts, target):
    """Makes one capture of several, in this order; their invocations are numbered anew."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    shutil.copyfile(parts[0], target)
    with h5py.File(target, "r+") as file:
        seeds = list(_seeds(file, 0))
        for path in parts[1:]:
            with h5py.File(path, "r") as part:
                first = 1 + max(map(int, file["invocations"]), default=-1)
                _join_kernels(file.require_group("kernels"), part.get("kernels", {}))
                for number in sorted(part["invocations"]):
                    part.copy(f"invocations/{number}", file["invocations"], name=f"{first + int(number):06d}")
                seeds += [seed for seed in _seeds(part, first) if not any(_same(seed, known) for known in seeds)]
        if "seeds" in file["run"]:
            del file["run/seeds"]
        _write_seeds(file["run"], seeds)
        _write_contents(file)


def _join_kernels(kernels, others):
    """An image's group has the facts of the function that was recorded first; each other has one without the image."""
    known = {(name.split(" ")[0], group.attrs["name"]) for name, group in kernels.items()}
    for name, group in others.items():
        digest, function = name.split(" ")[0], group.attrs["name"]
        if (digest, function) in known:
            continue
        known.add((digest, function))
        if digest not in kernels:
            others.copy(name, kernels)
        else:
            kernels.create_group(f"{digest} {function}").attrs.update(group.attrs)


def _seeds(file, first):
    if "run/seeds" in file:
        for row in file["run/seeds"][()]:
            seed = {name: plain(row[name]) for name in _SEED.names or ()}
            yield {**seed, "invocation": seed["invocation"] + first}


def _same(seed, another):
    return all(seed[name] == another[name] for name in ("time", "source", "value"))


def note_verdict(path, verdict):
    """Adds what was said of the capture to it, for whoever opens it elsewhere."""
    with h5py.File(path, "r+") as file:
        file.attrs["verdict"] = verdict
        _write_contents(file)


def _write_contents(file):
    if contents.NAME in file:
        del file[contents.NAME]
    if contents.NAME in file.attrs:
        del file.attrs[contents.NAME]
    contents.write(file)


@dataclass
class Attached:
    """What the assertions said about a capture's calls: `by` are those that said something; `otherwise_judged` the tensors, by call and
    name, that were compared with another tolerance than the one that the capture has for their call."""

    by: List[str] = field(default_factory=list)
    otherwise_judged: Set[Tuple[int, str]] = field(default_factory=set)
    whose: List[str] = field(default_factory=list)  # sentences, of tensors recorded as what a test expects

    def headline(self, verdict):
        """Returns the verdict, which speaks of the recorded kernel and of the reference, and whose they are where that is not obvious."""
        return " ".join([verdict, *self.whose]) if verdict else verdict

    def note_roles(self, call, tensor, names):
        """Says whose result is whose, in the capture, too: `run` prints it."""
        actual, expected = names
        whose = f"The recorded {tensor} is the test's `{expected}`, the reference its `{actual}`."
        call.group.attrs["roles"] = " ".join(filter(None, (call.group.attrs.get("roles", ""), whose)))
        if whose not in self.whose:
            self.whose.append(whose)


def attach(path, comparisons, marker):
    """Adds to the capture what the assertions and the marker `msda` say. Returns what they say."""
    attached = Attached()
    with h5py.File(path, "r+") as file:
        calls = [_Call(int(number), group) for number, group in sorted(file["invocations"].items())]
        if "atol" in marker:
            for call in calls:
                call.tolerance = marker["atol"], marker["rtol"]
        for comparison in sorted(comparisons, key=lambda entry: not entry.failed):  # what failed comes first
            if _attach_one(calls, comparison, marker, attached) and comparison.by not in attached.by:
                attached.by.append(comparison.by)
        if attached.by or "atol" in marker:
            _write_contents(file)
    return attached


class _Call:
    """An invocation of an open capture. Its outputs are read once."""

    def __init__(self, number, group):
        self.number, self.group = number, group
        self.dialect = plain(group.attrs.get("dialect", ""))
        self.outputs = {name: dataset[()] for name, dataset in group.get("outputs", {}).items() if dataset.dtype.kind == "f"}

    def find(self, array):
        """Returns the output with this array's numbers, and what turns an array like it into one like the output."""
        found = [(name, layout) for name, output in self.outputs.items() if (layout := _layout(array, output)) is not None]
        return found[0] if len(found) == 1 else None  # of several none is guessed

    @property
    def tolerance(self):
        """atol and rtol, or None."""
        attributes = self.group.attrs
        return (float(attributes["atol"]), float(attributes["rtol"])) if "atol" in attributes and "rtol" in attributes else None

    @tolerance.setter
    def tolerance(self, values):
        self.group.attrs["atol"], self.group.attrs["rtol"] = map(float, values)


def _attach_one(calls, comparison, marker, attached):
    """Returns whether some call has got its reference by it."""
    arrays = comparison.arrays()
    if arrays is None:
        return False
    # Some tests name the expected result first, and some expect what a recorded kernel returns.
    for observed, expected in (arrays, arrays[::-1]):
        for call in calls:
            found = call.find(observed)
            if found is None:
                continue
            name, layout = found
            if _add(call, name, layout, expected, comparison, calls, marker, attached.otherwise_judged):
                if observed is not arrays[0]:
                    attached.note_roles(call, name, comparison.names)
                return True
    return False


def _add(call, name, layout, expected, comparison, calls, marker, otherwise_judged):
    if expected.size != call.outputs[name].size or expected.dtype.kind != "f" or f"results/reference/{name}" in call.group:
        return False
    own = comparison.atol, comparison.rtol
    if call.tolerance is None:
        call.tolerance = own
    if own != call.tolerance and "atol" not in marker:  # a call has one, and would be judged wrongly by it
        otherwise_judged.add((call.number, name))
        return False
    otherwise_judged.discard((call.number, name))
    result = call.group.require_group("results/reference")
    result.attrs["role"] = "reference"
    dialect = marker.get("reference") or next((another.dialect for another in calls if another is not call and another.find(expected)), "")
    if dialect and call.dialect and "dialect" not in result.attrs:
        result.attrs["dialect"] = dialect
    array = layout(expected)
    known = next((dataset for another in calls for dataset in another.group.get("outputs", {}).values() if _holds(dataset, array)), None)
    if known is not None:
        result[name] = known  # a hard link: the reference was recorded, too
    else:
        _write_tensor(result, name, array, bool(call.dialect))
    return True


def _holds(dataset, array):
    return (dataset.dtype, dataset.shape) == (array.dtype, array.shape) and "strides" not in dataset.attrs and (
        dataset.attrs.get("digest") == digest(array))


def _bits(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _layout(array, output):
    """If `array` holds the numbers of `output`, in its type or another, in its shape or another, or transposed: a function
    that brings an array of the same layout into that of `output`. Otherwise None."""
    if array.size != output.size or array.size == 0 or array.dtype.kind != "f":
        return None
    wanted = output if output.dtype == array.dtype else output.astype(array.dtype)
    if array.shape != output.shape and (array == array.flat[0]).all():
        return None  # zeros, for example, are in many arrays
    if np.array_equal(_bits(array), _bits(wanted)):
        return lambda values: np.reshape(values, output.shape)
    if sorted(array.shape) != sorted(output.shape) or _sum_of_bits(array) != _sum_of_bits(wanted):
        return None
    orders = (order for order in itertools.permutations(range(array.ndim))
              if tuple(array.shape[axis] for axis in order) == output.shape)
    for order in itertools.islice(orders, _MOST_PERMUTATIONS):
        if np.array_equal(_bits(array.transpose(order)), _bits(wanted)):
            return lambda values, order=order: np.reshape(values, array.shape).transpose(order)
    return None


def _sum_of_bits(array):
    """Equal for two orders of the same elements."""
    numbers = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return int(numbers.sum(dtype=np.uint64))
