"""Operators of one's own: definitions in the form of an adapter file, from a Python function or from JSON, and captures of their calls."""

import inspect
import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .formula import Formula, Statement, statements_of

_Json = Dict[str, Any]
FLOATS = ("float16", "bfloat16", "float32", "float64")


class Operator:
    """What a kernel computes, in the form of an adapter file (docs/own-operators.md), whoever wrote it."""

    def __init__(self, adapter: Mapping[str, Any]):
        self.adapter = dict(adapter)

    @property
    def name(self) -> str:
        return self.adapter["operator"]["name"]

    def to_json(self, indent: Optional[int] = 2) -> str:
        """Returns the text of an adapter file."""
        return json.dumps({"format": "msda-adapter", "version": 1, "adapters": [self.adapter]}, indent=indent)

    def __repr__(self) -> str:
        return f"<operator {self.name}: {', '.join(tensor['name'] for tensor in self.adapter['tensors'])}>"


def operator_from(given: Any) -> Operator:
    """Returns the operator that an Operator, an adapter file's path, its contents, or one of its adapters describes. Raises ValueError."""
    if isinstance(given, Operator):
        return given
    where = "operator"
    if isinstance(given, (str, os.PathLike)):
        where = os.fspath(given)
        with open(given, encoding="utf-8") as file:
            given = json.load(file)
    adapters = given.get("adapters", [given]) if isinstance(given, Mapping) else []
    described = [adapter for adapter in adapters if isinstance(adapter, Mapping) and isinstance(adapter.get("operator"), Mapping)]
    if len(described) != 1:
        raise ValueError(f"{where}: has {len(described)} adapters with an \"operator\"; give one (docs/own-operators.md)")
    for key in ("name", "tensors"):
        if key not in described[0]:
            raise ValueError(f"{where}: the adapter has no \"{key}\" (docs/own-operators.md)")
    return Operator(described[0])


def operator(function: Optional[Callable[..., Any]] = None, *, sizes: Optional[Mapping[str, str]] = None,
             adds_to: Union[str, Sequence[str]] = (), channels: Sequence[str] = ()) -> Any:
    """Makes an Operator of a function that states what a kernel computes.

    Its arguments are tensors (they are followed by brackets), indices (they stand between brackets) and numbers (the others). `out[...]
    += ...` says what each point of its indices adds, under `if`s. A tensor that is summed up and read afterwards is an intermediate one.

    `sizes`: expressions of numbers, for indices that do not go over a whole dimension. `adds_to`: outputs that begin with what they held;
    all others begin with 0. `channels`: indices along which addends arrive together. Raises ValueError, which names the line."""
    if function is None:
        return lambda stated: operator(stated, sizes=sizes, adds_to=adds_to, channels=channels)
    return Operator(_Definition(function, sizes or {}, {adds_to} if isinstance(adds_to, str) else set(adds_to), channels).adapter())


class _Definition:
    """From the statements of a function to an adapter."""

    def __init__(self, function: Callable[..., Any], sizes: Mapping[str, str], adds_to: set, channels: Sequence[str]):
        self.within, self.statements = statements_of(function)
        self.first_line = self.within.code.co_firstlineno
        self.name, self.sizes, self.adds_to, self.channels = function.__name__, dict(sizes), adds_to, list(channels)
        self.arguments = list(inspect.signature(function).parameters)
        kinds = {int: True, "int": True, float: False, "float": False}
        self.stated_integers = {name: kinds[hint] for name, hint in function.__annotations__.items() if hint in kinds}
        if not self.statements:
            self.fail("adds nothing to any tensor: say what it computes, as out[row] += source[row, column]")
        self.ranks: Dict[str, int] = {}
        self.integers: set = set()  # tensors and numbers that are used as such
        self.reals: set = set()
        self.indices: List[str] = list(self.sizes)
        for statement in self.statements:
            self._look_at(statement)
        self.targets = list(dict.fromkeys(statement.target.parts[0] for statement in self.statements))
        self.read = {node.parts[0] for statement in self.statements for node in self._read_nodes(statement) if node.kind == "element"}
        self.stages = [name for name in self.targets if name in self.read]
        for name in (*self.sizes, *self.channels, *self.adds_to):
            if name not in self.arguments:
                self.fail(f"there is no argument {name}")

    def fail(self, what: str, line: Optional[int] = None) -> Any:
        return self.within.fail(what, line or self.first_line)

    @staticmethod
    def _read_nodes(statement: Statement):
        for formula in (*statement.target.parts[1:], statement.value, *statement.conditions):
            yield from formula.nodes()

    def _look_at(self, statement: Statement) -> None:
        for node in (statement.target, *self._read_nodes(statement)):
            if node.kind != "element":
                continue
            name, *at = node.parts
            if self.ranks.setdefault(name, len(at)) != len(at):
                self.fail(f"{name} has {self.ranks[name]} indices elsewhere, and {len(at)} in {node.text()}", statement.line)
            for index in at:
                if index.kind == "name" and index.parts[0] not in self.indices:
                    self.indices.append(index.parts[0])
                self._take_integers(index)
        self._take_reals(statement.value)

    def _take_integers(self, formula: Formula) -> None:
        for node in formula.nodes():
            if node.kind in ("element", "name"):
                self.integers.add(node.parts[0])

    def _take_reals(self, formula: Formula) -> None:
        if formula.kind in ("element", "name"):
            self.reals.add(formula.parts[0])
        elif formula.kind != "number":
            for part in formula.parts:
                self._take_reals(part)

    def is_integer(self, name: str) -> bool:
        """Returns whether a tensor or a number holds integers: if it is an index, or part of one, or compared and nothing else."""
        return self.stated_integers.get(name, name in self.integers or name not in self.reals)

    def _is_real(self, formula: Formula) -> bool:
        return any(
            node.kind in ("exp", "sqrt", "/") or (node.kind == "number" and isinstance(node.parts[0], float))
            or (node.kind == "element" and (node.parts[0] in self.stages or not self.is_integer(node.parts[0])))
            or (node.kind == "name" and node.parts[0] in self._numbers() and not self.is_integer(node.parts[0]))
            for node in formula.nodes()
        )

    def _numbers(self) -> List[str]:
        return [name for name in self.arguments if name not in self.ranks and name not in self.indices]

    def _sum(self, target: str) -> Tuple[_Json, List[Statement]]:
        """Returns what is said of where a target's elements get their addends from: index, over, where; and its statements."""
        mine = [statement for statement in self.statements if statement.target.parts[0] == target]
        index: List[str] = []
        where: List[str] = []
        for number, at in enumerate(mine[0].target.parts[1:]):
            if at.kind == "name" and at.parts[0] in self.indices and at.parts[0] not in index:
                index.append(at.parts[0])
            else:
                index.append(f"{target}_{number}")
                where.append(f"{at.text(integers=True)} == {index[-1]}")
        where += [condition.text(integers=not self._is_real(condition)) for condition in mine[0].conditions]
        said = self._place_of(mine[0])
        for later in mine[1:]:
            if self._place_of(later) != said:
                self.fail(f"adds to {target} at another place, or under other conditions, than line {mine[0].line}: one `+=` has one place "
                          "and one set of conditions", later.line)
        used = {name for statement in mine for formula in (statement.target, statement.value, *statement.conditions) for name in formula.names()}
        over = [name for name in self.arguments if name in used and name in self.indices and name not in index]
        entry: _Json = {"index": index}
        if over:
            entry["over"] = over
        if where:
            entry["where"] = where
        return entry, mine

    @staticmethod
    def _place_of(statement: Statement) -> Tuple[str, ...]:
        return (statement.target.text(), *(condition.text() for condition in statement.conditions))

    def _value(self, statements: Sequence[Statement]) -> str:
        value = statements[0].value
        for statement in statements[1:]:
            value = value + statement.value
        return value.text()

    def operator(self) -> _Json:
        stages, outputs = [], []
        for target in self.targets:
            entry, statements = self._sum(target)
            if target in self.stages:
                stages.append({"name": target, **entry, "value": self._value(statements)})
                continue
            channels = [name for name in self.channels if name in entry["index"]]
            extra: _Json = {**({"channels": channels} if channels else {}),
                     **({"start": f"{target}[{', '.join(entry['index'])}]"} if target in self.adds_to else {})}
            outputs.append({"tensor": target, **entry, **extra, "addends": self._value(statements)})
        if not outputs:
            self.fail("every tensor that it sums up is read again, so that none is an output")
        return {"name": self.name, **({"sizes": self.sizes} if self.sizes else {}), **({"stages": stages} if stages else {}), "outputs": outputs}

    def adapter(self) -> _Json:
        op = self.operator()
        tensors = []
        for name in self.arguments:
            if name not in self.ranks or name in self.stages:
                continue
            role = "input" if name not in self.targets else "inout" if name in self.adds_to else "output"
            is_integer = role == "input" and self.is_integer(name)
            tensors.append({"name": name, "role": role, "type": "int64" if is_integer else "float32", "rank": self.ranks[name]})
        numbers = [{"name": name, "type": "int64" if self.is_integer(name) else "float64"} for name in self._numbers()]
        return {"name": self.name, **({"parameters": numbers} if numbers else {}), "tensors": tensors, "operator": op}


def invocation_of(path: str, given: Any, call: Mapping[str, Any]) -> Any:
    """Returns the Invocation of a call of an operator, whose definition it holds. Raises CaptureError, which names the path."""
    from .capture import CaptureError, Invocation, Result
    from .save import Arguments

    try:
        described = operator_from(given)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path}: {error}") from error
    source = Arguments(path, call)
    taken = set()

    def take(name: str, tensor: _Json) -> Any:
        array = source.read(name)
        rank = tensor.get("rank") or len(tensor["shape"])
        is_float = source.header(name).dtype.name in FLOATS
        if is_float != (tensor["type"] in FLOATS):
            source.fail(name, f"has type {source.header(name).dtype}, and the operator takes {'floating-point numbers' if not is_float else 'integers'}")
        if array.ndim != rank:
            source.fail(name, f"has {array.ndim} dimensions, and the operator takes {rank}")
        taken.add(name)
        return array

    def group(roles: Sequence[str], prefix: str, is_needed: bool) -> Dict[str, Any]:
        found = {}
        for tensor in described.adapter["tensors"]:
            name = prefix + tensor["name"]
            if tensor["role"] in roles and (name in source or is_needed):
                if name not in source:
                    source.fail("the call", f"has no {name}; the operator {described.name} has {described!r}")
                found[tensor["name"]] = take(name, tensor)
        return found

    inputs = group(("input", "inout"), "", True)
    outputs = group(("output", "inout"), "observed_", True)
    before, reference = (group(("output", "inout"), prefix, False) for prefix in ("before_", "reference_"))
    scalars = _scalars(source, described, {**inputs, **outputs}, taken)
    plain = {name: source.read(name).item() for name in ("atol", "rtol", "kernel", "label") if name in source}
    unknown = sorted(set(call) - taken - set(plain))
    if unknown:
        source.fail("the call", f"has no argument {', '.join(unknown)}; it has those of {described!r}, observed_, reference_ and before_ of "
                                "its outputs, its numbers, and atol, rtol, kernel, label")
    facts = {"adapter": described.adapter["name"], "operator": described.name, "definition": described.to_json(None), "scalars": scalars,
             **({"label": plain["label"]} if plain.get("label") else {})}
    return Invocation(inputs, outputs, "", outputs_before={**{name: inputs[name] for name in outputs if name in inputs}, **before},
                      results={"reference": Result(reference, "reference")} if reference else {}, kernel=plain.get("kernel", ""),
                      atol=plain.get("atol"), rtol=plain.get("rtol"), facts=facts)


def _scalars(source: Any, described: Operator, tensors: Mapping[str, Any], taken: set) -> str:
    """Returns the kernel's numbers as a recorder writes them: "rows=6 alpha=0.5". Sizes of dimensions need not be given."""
    sizes: Dict[str, int] = {}
    for tensor in described.adapter["tensors"]:
        for expression, size in zip(tensor.get("shape", ()), getattr(tensors.get(tensor["name"]), "shape", ())):
            sizes.setdefault(expression, size)
    words = []
    for parameter in described.adapter.get("parameters", ()):
        for field in parameter.get("fields", [{}]):
            name = ".".join(part for part in (parameter.get("name"), field.get("name")) if part)
            kind = field.get("type", parameter["type"])
            if not name or kind in ("pointer", "bytes"):
                continue
            argument = name.replace(".", "_")
            if argument in source:
                value = source.read(argument).item()
                taken.add(argument)
            elif name in sizes:
                value = sizes[name]
            else:
                source.fail("the call", f"has no {argument}, a number of the operator {described.name}")
            if not kind.startswith("float") and value != int(value):
                source.fail(argument, f"is {value}, which is no integer")
            words.append(f"{name}={value if kind.startswith('float') else int(value)}")
    return " ".join(words)
