"""Calls of operators of one's own, made by hand: an Invocation that holds its operator's definition."""

from typing import Any, Dict, Mapping, Sequence

from .capture import CaptureError, Invocation, Result
from .libmsda import FLOATS
from .own import Operator, operator_from

_OTHERS = ("atol", "rtol", "kernel", "label")


class _Call:
    """What save_call was given for a call of an operator; `source` reads it, and fails with the path."""

    def __init__(self, source: Any, described: Operator):
        self.source, self.described = source, described
        self.taken: set = set()

    def tensors(self, roles: Sequence[str], prefix: str, are_needed: bool) -> Dict[str, Any]:
        found = {}
        for tensor in self.described.adapter["tensors"]:
            name = prefix + tensor["name"]
            if tensor["role"] not in roles or not (are_needed or name in self.source):
                continue
            if name not in self.source:
                self.source.fail("the call", f"has no {name}; it is one of {self.described!r}")
            found[tensor["name"]] = self._tensor(name, tensor)
        return found

    def _tensor(self, name: str, tensor: Mapping[str, Any]) -> Any:
        dtype, array = self.source.header(name).dtype, self.source.read(name)
        is_float, rank = tensor["type"] in FLOATS, tensor.get("rank") or len(tensor["shape"])
        if (dtype.name in FLOATS) != is_float:
            self.source.fail(name, f"has type {dtype}, and the operator takes {'floating-point numbers' if is_float else 'integers'}")
        if array.ndim != rank:
            self.source.fail(name, f"has {array.ndim} dimensions, and the operator takes {rank}")
        self.taken.add(name)
        return array

    def scalars(self, tensors: Mapping[str, Any]) -> str:
        """Returns the kernel's numbers as a recorder writes them: "rows=6 alpha=0.5". Sizes of dimensions need not be given."""
        sizes: Dict[str, int] = {}
        for tensor in self.described.adapter["tensors"]:
            for expression, size in zip(tensor.get("shape", ()), getattr(tensors.get(tensor["name"]), "shape", ())):
                sizes.setdefault(expression, size)
        words = []
        for parameter in self.described.adapter.get("parameters", ()):
            for field in parameter.get("fields", [{}]):
                name = ".".join(part for part in (parameter.get("name"), field.get("name")) if part)
                kind = field.get("type", parameter["type"])
                if name and kind not in ("pointer", "bytes"):
                    words.append(f"{name}={self._number(name, kind, sizes)}")
        return " ".join(words)

    def _number(self, name: str, kind: str, sizes: Mapping[str, int]) -> Any:
        argument = name.replace(".", "_")
        if argument not in self.source and name not in sizes:
            self.source.fail("the call", f"has no {argument}, a number of the operator {self.described.name}")
        value = self.source.read(argument).item() if argument in self.source else sizes[name]
        self.taken.add(argument)
        if kind.startswith("float"):
            return value
        if value != int(value):
            self.source.fail(argument, f"is {value}, which is no integer")
        return int(value)


def invocation_of(source: Any, given: Any, names: Sequence[str]) -> Invocation:
    """Returns the Invocation of a call of an operator. `names`: of all that the source has. Raises CaptureError."""
    try:
        described = operator_from(given)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{source.path}: {error}") from error
    call = _Call(source, described)
    inputs, outputs = call.tensors(("input", "inout"), "", True), call.tensors(("output", "inout"), "observed_", True)
    before, reference = (call.tensors(("output", "inout"), prefix, False) for prefix in ("before_", "reference_"))
    scalars = call.scalars({**inputs, **outputs})
    others = {name: source.read(name).item() for name in _OTHERS if name in source}
    unknown = sorted(set(names) - call.taken - set(others))
    if unknown:
        source.fail("the call", f"has no argument {', '.join(unknown)}; it has those of {described!r}, observed_, reference_ and before_ of "
                                f"its outputs, its numbers, and {', '.join(_OTHERS)}")
    facts = {"adapter": described.adapter["name"], "operator": described.name, "definition": described.to_json(None), "scalars": scalars}
    if others.get("label"):
        facts["label"] = others["label"]
    return Invocation(inputs, outputs, "", outputs_before={**{name: inputs[name] for name in outputs if name in inputs}, **before},
                      results={"reference": Result(reference, "reference")} if reference else {}, kernel=others.get("kernel", ""),
                      atol=others.get("atol"), rtol=others.get("rtol"), facts=facts)
