"""Operators of one's own: definitions in the form of an adapter file, from a Python function or from JSON, and captures of their calls."""

import inspect
import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .formula import Formula, Statement, statements_of

_Json = Dict[str, Any]


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

    def float64(self, shapes: Optional[Mapping[str, Tuple[int, ...]]] = None, **call: Any) -> Dict[str, Any]:
        """Returns what it computes of inputs and numbers, in float64 (every point is tried: for small calls). `shapes`: of the outputs,
        where an index of one is no index of an input. Raises ValueError."""
        from .evaluate import evaluate

        names = {tensor["name"] for tensor in self.adapter["tensors"]}
        return evaluate(self.adapter, {name: value for name, value in call.items() if name in names},
                        {name: value for name, value in call.items() if name not in names}, shapes or {})

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
    `loss[...] += ...` says of which sum the outputs, each named grad_ and then as an input, are the derivatives.

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
        conditions = [condition for statement in self.statements for condition in statement.conditions]
        for condition in conditions * len(conditions):  # what makes a comparison one of reals may be known from another one only
            if self._is_real(condition):
                self._take_reals(condition)
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
        """Returns whether a tensor or a number holds integers: if it stands in brackets, or is compared with integers and nothing else."""
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
        loss: _Json = {}
        for target in self.targets:
            entry, statements = self._sum(target)
            if target in self.stages:
                stages.append({"name": target, **entry, "value": self._value(statements)})
                continue
            if not self.ranks[target]:
                if loss or target in self.adds_to:
                    self.fail("has two sums without an index; the loss is the only one")
                loss = {"loss": {**{key: part for key, part in entry.items() if key != "index"}, "addends": self._value(statements)}}
                continue
            channels = [name for name in self.channels if name in entry["index"]]
            extra: _Json = {**({"channels": channels} if channels else {}),
                     **({"start": f"{target}[{', '.join(entry['index'])}]"} if target in self.adds_to else {})}
            outputs.append({"tensor": target, **entry, **extra, "addends": self._value(statements)})
        if not outputs:
            self.fail("every tensor that it sums up is read again, so that none is an output")
        return {"name": self.name, **({"sizes": self.sizes} if self.sizes else {}), **({"stages": stages} if stages else {}),
                "outputs": outputs, **loss}

    def adapter(self) -> _Json:
        op = self.operator()
        tensors = []
        for name in self.arguments:
            if not self.ranks.get(name) or name in self.stages:
                continue
            role = "input" if name not in self.targets else "inout" if name in self.adds_to else "output"
            is_integer = role == "input" and self.is_integer(name)
            tensors.append({"name": name, "role": role, "type": "int64" if is_integer else "float32", "rank": self.ranks[name]})
        numbers = [{"name": name, "type": "int64" if self.is_integer(name) else "float64"} for name in self._numbers()]
        return {"name": self.name, **({"parameters": numbers} if numbers else {}), "tensors": tensors, "operator": op}
