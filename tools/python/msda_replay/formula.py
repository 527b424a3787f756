"""Formulas that a Python function of tensors, indices and numbers states: the function runs once on symbols, which take down what is done
with them."""

import inspect
import sys
from collections import Counter
from types import FrameType
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple

_FUNCTIONS = {"exp": "exp", "sqrt": "sqrt", "absolute": "abs", "fabs": "abs", "maximum": "max", "minimum": "min"}  # numpy's name: ours
_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "floor_divide": "//", "remainder": "%"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SAYABLE = "sums, products, quotients, comparisons, np.exp, np.sqrt, np.abs, np.minimum and np.maximum can be said"
_MOST_PATHS = 256


class _Function:
    """The function that is running on symbols: its source for messages, its statements and the conditions that they stand under."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.code = function, inspect.unwrap(function).__code__
        self.choices: List[bool] = []
        self.conditions: List[Tuple["Formula", bool]] = []
        self.statements: List[Tuple[int, "Formula", "Formula", Tuple[Tuple["Formula", bool], ...]]] = []

    def line(self) -> int:
        frame: Optional[FrameType] = sys._getframe()
        while frame is not None:
            if frame.f_code is self.code:
                return frame.f_lineno
            frame = frame.f_back
        return self.code.co_firstlineno

    def fail(self, what: str, line: Optional[int] = None) -> Any:
        raise ValueError(f"{self.code.co_filename}:{line or self.line()}: {what}")

    def decide(self, condition: "Formula") -> bool:
        for known, choice in self.conditions:
            if known.text() == condition.text():
                return choice
        number = len(self.conditions)
        if number == len(self.choices):
            self.choices.append(True)
        self.conditions.append((condition, self.choices[number]))
        return self.choices[number]


class Formula:
    """A node of a formula: `kind` is name, number, element, an operator, a comparison, or a function's name."""

    __iter__ = None  # otherwise Python would read elements 0, 1, 2, ... without end
    __array_priority__ = 1000

    def __init__(self, within: _Function, kind: str, *parts: Any):
        self.within, self.kind, self.parts, self.line = within, kind, parts, within.line()

    # What arithmetic gives.

    def _of(self, value: Any) -> "Formula":
        if isinstance(value, Formula):
            return value
        number: Any = value.item() if hasattr(value, "item") else value
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            self.within.fail(f"{value!r} is no number; {_SAYABLE}")
        return Formula(self.within, "number", number)

    def _with(self, kind: str, right: Any) -> "Formula":
        return Formula(self.within, kind, self, self._of(right))

    def _after(self, kind: str, left: Any) -> "Formula":
        return Formula(self.within, kind, self._of(left), self)

    def __add__(self, other): return self._with("+", other)
    def __sub__(self, other): return self._with("-", other)
    def __mul__(self, other): return self._with("*", other)
    def __truediv__(self, other): return self._with("/", other)
    def __floordiv__(self, other): return self._with("//", other)
    def __mod__(self, other): return self._with("%", other)
    def __radd__(self, other): return self._after("+", other)
    def __rsub__(self, other): return self._after("-", other)
    def __rmul__(self, other): return self._after("*", other)
    def __rtruediv__(self, other): return self._after("/", other)
    def __rfloordiv__(self, other): return self._after("//", other)
    def __rmod__(self, other): return self._after("%", other)
    def __neg__(self): return self._after("-", 0)
    def __abs__(self): return Formula(self.within, "abs", self)
    def __lt__(self, other): return self._with("<", other)
    def __le__(self, other): return self._with("<=", other)
    def __gt__(self, other): return self._with(">", other)
    def __ge__(self, other): return self._with(">=", other)
    def __eq__(self, other): return self._with("==", other)
    def __ne__(self, other): return self._with("!=", other)
    __hash__ = None  # type: ignore[assignment]

    def __iadd__(self, other):
        return Formula(self.within, "+=", self, self._of(other)) if self.kind == "element" else self + other

    def __isub__(self, other):
        return Formula(self.within, "+=", self, -self._of(other)) if self.kind == "element" else self - other

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        operands = [self._of(value) for value in inputs]
        if method == "__call__" and not options and ufunc.__name__ in _FUNCTIONS:
            return Formula(self.within, _FUNCTIONS[ufunc.__name__], *operands)
        if method == "__call__" and not options and ufunc.__name__ in _OPERATORS:
            return Formula(self.within, _OPERATORS[ufunc.__name__], *operands)
        return self.within.fail(f"np.{ufunc.__name__} cannot be said; {_SAYABLE}")

    # What statements give.

    def __bool__(self):
        if self.kind not in _OPPOSITE:
            self.within.fail(f"{self.text()} is no comparison; an `if` takes comparisons, joined by `and`")
        return self.within.decide(self)

    def __getitem__(self, key):
        if self.kind != "name":
            self.within.fail(f"{self.text()} is no tensor: only arguments have elements")
        at = () if key is Ellipsis else key if isinstance(key, tuple) else (key,)
        return Formula(self.within, "element", self.parts[0], *(self._of(index) for index in at))

    def __setitem__(self, key, value):
        target, value = self[key], self._of(value)
        if value.kind != "+=" or value.parts[0].text() != target.text():
            self.within.fail(f"{target.text()} is set; say what is added to it, by +=")
        self.within.statements.append((self.within.line(), target, value.parts[1], tuple(self.within.conditions)))

    def __index__(self):
        return self.within.fail(f"{self.text()} is used as a whole number of Python; a range over an index needs no loop: name the index")

    def __float__(self):
        return self.within.fail(f"{self.text()} is used as a number of Python; {_SAYABLE}")

    # What is said of it.

    def nodes(self):
        yield self
        for part in self.parts:
            if isinstance(part, Formula):
                yield from part.nodes()

    def names(self) -> Set[str]:
        return {node.parts[0] for node in self.nodes() if node.kind == "name"}

    def text(self, integers: bool = False, above: int = 0) -> str:
        """Returns the expression of an adapter file; `above`: how tightly what is around it binds."""
        if self.kind in ("name", "number"):
            return str(self.parts[0]) if self.kind == "name" or self.parts[0] >= 0 else f"({self.parts[0]!r})"
        if self.kind == "element":
            return f"{self.parts[0]}[{', '.join(index.text(integers=True) for index in self.parts[1:])}]"
        if self.kind in _FUNCTIONS.values():
            return f"{self.kind}({', '.join(part.text() for part in self.parts)})"
        if (self.kind == "//" and not integers) or (self.kind == "/" and integers):
            self.within.fail(f"{self.kind} stands between {'integers' if integers else 'real numbers'}; use {'//' if integers else '/'}", self.line)
        binds = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}.get(self.kind, 0)
        left, right = self.parts
        spelled = "/" if self.kind == "//" else self.kind
        if self.kind == "-" and left.kind == "number" and left.parts[0] == 0:
            text = f"-{right.text(integers, 2)}"
        else:
            text = f"{left.text(integers, binds)} {spelled} {right.text(integers, binds + 1)}"
        return f"({text})" if binds < above else text


class Statement:
    """One `target[...] += value` under conditions, all of which hold."""

    def __init__(self, line: int, target: Formula, value: Formula, conditions: List[Formula]):
        self.line, self.target, self.value, self.conditions = line, target, value, conditions


def _common(within: _Function, line: int, paths: Set[FrozenSet[Tuple[str, bool]]]) -> FrozenSet[Tuple[str, bool]]:
    """Returns the conditions of a statement, of those of each path through the function on which it is reached."""
    while len(paths) > 1:
        # Two paths that differ in how a single condition turned out: it does not matter.
        pairs = [(first, second) for first in paths for second in paths
                 if len(first ^ second) == 2 and len({text for text, _ in first ^ second}) == 1]
        if not pairs:
            within.fail("is reached under conditions that are joined by `or` or `else`; say it once, under conditions joined by `and`", line)
        paths = (paths - set(pairs[0])) | {pairs[0][0] & pairs[0][1]}
    return next(iter(paths))


class _Reached:
    """A statement, and the conditions of each path through the function on which it is reached."""

    def __init__(self, target: Formula, value: Formula):
        self.target, self.value = target, value
        self.paths: Set[FrozenSet[Tuple[str, bool]]] = set()


def statements_of(function: Callable[..., Any]) -> Tuple[_Function, List[Statement]]:
    """Runs the function on symbols, once for each way its conditions may turn out. Raises ValueError, which names the line."""
    within = _Function(function)
    symbols = [Formula(within, "name", name) for name in inspect.signature(function).parameters]
    reached: Dict[Tuple[int, str, str, int], _Reached] = {}  # by line, texts, and how often they were there before, as in a loop
    conditions: Dict[str, Formula] = {}
    for _ in range(_MOST_PATHS):
        within.conditions, within.statements = [], []
        function(*symbols)
        seen: Counter[Tuple[int, str, str]] = Counter()
        for line, target, value, under in within.statements:
            where = (line, target.text(), value.text())
            seen[where] += 1
            conditions.update((condition.text(), condition) for condition, _ in under)
            statement = reached.setdefault((*where, seen[where]), _Reached(target, value))
            statement.paths.add(frozenset((condition.text(), holds) for condition, holds in under))
        while within.choices and not within.choices[-1]:
            within.choices.pop()
        if not within.choices:
            return within, [_statement(within, line, entry, conditions) for (line, *_), entry in reached.items()]
        within.choices[-1] = False
    return within.fail(f"has more than {_MOST_PATHS} ways through its conditions", within.code.co_firstlineno)


def _statement(within: _Function, line: int, reached: _Reached, conditions: Dict[str, Formula]) -> Statement:
    order = list(conditions)
    held = []
    for text, holds in sorted(_common(within, line, reached.paths), key=lambda entry: order.index(entry[0])):
        node = conditions[text]
        held.append(node if holds else Formula(within, _OPPOSITE[node.kind], *node.parts))
    return Statement(line, reached.target, reached.value, held)
