"""What an operator's definition computes, in float64 with NumPy: every point of every sum is tried, in no particular order."""

import ast
import math
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

_MOST_POINTS = 1 << 27
_FUNCTIONS: Dict[str, Callable[..., Any]] = {"exp": np.exp, "sqrt": np.sqrt, "abs": np.abs, "min": np.minimum, "max": np.maximum}
_COMPARISONS: Dict[type, Callable[..., Any]] = {
    ast.Eq: np.equal, ast.NotEq: np.not_equal, ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal}


def _truncated(left: Any, right: Any) -> Any:
    """Divides as C does."""
    quotient = np.abs(left) // np.abs(right)
    return np.where((left < 0) != (right < 0), -quotient, quotient)


def _is_integer(value: Any) -> bool:
    return np.issubdtype(np.asarray(value).dtype, np.integer)


class _Points:
    """The values of names at all points of a sum together; `holds`: at which points the conditions so far hold."""

    def __init__(self, names: Mapping[str, Any], tensors: Mapping[str, np.ndarray]):
        self.names, self.tensors, self.holds = names, tensors, np.asarray(True)

    def value(self, text: str) -> Any:
        return self._of(ast.parse(text.strip(), mode="eval").body)

    def condition(self, text: str) -> None:
        compared = ast.parse(text.strip(), mode="eval").body
        assert isinstance(compared, ast.Compare)
        integers = not self._has_reals(compared)
        left, right = self._of(compared.left, integers), self._of(compared.comparators[0], integers)
        self.holds = self.holds & _COMPARISONS[type(compared.ops[0])](left, right)

    def _has_reals(self, compared: ast.AST) -> bool:
        """Returns whether a comparison is one of real numbers: by a decimal, a function, or a name or a tensor of real numbers."""
        names = {ast.unparse(node) for node in ast.walk(compared) if isinstance(node, (ast.Name, ast.Attribute))}
        return any(isinstance(node, ast.Call) or (isinstance(node, ast.Constant) and isinstance(node.value, float)) for node in ast.walk(compared)) or any(
            not _is_integer(values[name]) for values in (self.names, self.tensors) for name in names & values.keys())

    def _of(self, node: ast.AST, integers: bool = False) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.names[ast.unparse(node)]
        if isinstance(node, ast.Subscript):
            return self._element(ast.unparse(node.value), node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "int":
            return self._of(node.args[0], integers=True)
        if isinstance(node, ast.Call):
            return _FUNCTIONS[ast.unparse(node.func)](*(self._of(argument, integers) for argument in node.args))
        if isinstance(node, ast.UnaryOp):
            return -self._of(node.operand, integers)
        assert isinstance(node, ast.BinOp)
        left, right = self._of(node.left, integers), self._of(node.right, integers)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Mod):
            return left - _truncated(left, right) * right
        if integers and _is_integer(left) and _is_integer(right):
            return _truncated(left, right)
        with np.errstate(divide="ignore", invalid="ignore"):  # at points where conditions do not hold
            return np.true_divide(left, right)

    def _element(self, name: str, at: Sequence[ast.AST]) -> Any:
        tensor, places = self.tensors[name], []
        if not tensor.ndim:  # one that the call does not have
            return tensor
        for index, size in zip(at, self.tensors[name].shape):
            place = np.asarray(self._of(index, integers=True))
            if np.any(self.holds & ((place < 0) | (place >= size))):
                raise ValueError(f"an index of {name}, {ast.unparse(index)}, lies outside of its {size} elements")
            places.append(np.clip(place, 0, size - 1))
        return tensor[tuple(places)] if tensor.size else np.float64(0)


def _expressions(described: Mapping[str, Any]) -> Iterator[str]:
    for entry in (*described.get("stages", ()), *described["outputs"]):
        yield from entry.get("where", ())
        yield from (entry[key] for key in ("value", "start", "addends") if key in entry)


def _extents(described: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Dict[str, int]:
    """Returns the sizes of the indices that stand alone in a dimension of a tensor."""
    found: Dict[str, int] = {}
    for text in _expressions(described):
        for side in text.replace("==", "<").replace("!=", "<").replace("=", "").replace(">", "<").split("<"):
            for node in ast.walk(ast.parse(side.strip(), mode="eval")):
                if not isinstance(node, ast.Subscript) or ast.unparse(node.value) not in tensors:
                    continue
                at = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                found.update((index.id, size) for index, size in zip(at, tensors[ast.unparse(node.value)].shape) if isinstance(index, ast.Name))
    return found


def _coordinates(entry: Mapping[str, Any], names: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Dict[str, Any]:
    """Returns the cells and the fractions of an output's coordinates, by the names that expressions have for them."""
    found = {}
    for coordinate in entry.get("coordinates", ()):
        own = {key: _Points(names, tensors).value(str(coordinate[key])) for key in ("location", "size")}
        at = _Points({**names, **own}, tensors).value(coordinate["value"])
        cell = np.floor(at)
        found.update({f"{coordinate['name']}.cell": cell.astype(np.int64), f"{coordinate['name']}.fraction": at - cell})
    return found


def evaluate(adapter: Mapping[str, Any], tensors: Mapping[str, Any], numbers: Mapping[str, Any],
             shapes: Mapping[str, Tuple[int, ...]]) -> Dict[str, np.ndarray]:
    """Returns the outputs in float64; `shapes`: theirs, from which the sizes of indices follow that no input has."""
    described = adapter["operator"]
    if "outputs" not in described:
        raise ValueError(f"{described['name']} has a library, which Python does not evaluate; msda-replay does")
    optional = [tensor["name"] for tensor in adapter["tensors"] if "if" in tensor]
    known = {name: np.asarray(1.0) for name in optional}
    known.update((name, np.asarray(value, None if _is_integer(value) else np.float64)) for name, value in tensors.items())
    sizes: Dict[str, int] = {}
    for output in described["outputs"]:
        sizes.update(zip(output["index"], shapes.get(output["tensor"], ())))
    sizes.update(_extents(described, known))
    sizes.update((name, int(_Points(numbers, {}).value(str(text)))) for name, text in described.get("sizes", {}).items())
    results = {}
    for entry in (*described.get("stages", ()), *described["outputs"]):
        axes: List[str] = [*entry["index"], *entry.get("over", ())]
        missing = [name for name in axes if name not in sizes]
        if missing:
            raise ValueError(f"the size of {', '.join(missing)} is not known; give the shape of {entry.get('tensor', entry.get('name'))}")
        shape = tuple(sizes[name] for name in axes)
        if math.prod(shape) > _MOST_POINTS:
            raise ValueError(f"{entry.get('tensor', entry.get('name'))} has {math.prod(shape)} points to try; {_MOST_POINTS} are tried at most")
        grids = dict(zip(axes, np.ogrid[tuple(slice(size) for size in shape)]))
        points = _Points({**numbers, **grids, **_coordinates(entry, {**numbers, **grids}, known)}, known)
        for condition in entry.get("where", ()):
            points.condition(condition)
        values = np.where(np.broadcast_to(points.holds, shape), points.value(entry.get("value", entry.get("addends"))), 0.0)
        result = values.sum(axis=tuple(range(len(entry["index"]), len(axes))))
        if "start" in entry:
            begin = dict(zip(entry["index"], np.ogrid[tuple(slice(size) for size in result.shape)]))
            result = result + _Points({**numbers, **begin}, known).value(entry["start"])
        name = entry.get("tensor", entry.get("name"))
        results[name] = result
        if "value" in entry:
            known[name] = result
    return {output["tensor"]: results[output["tensor"]] for output in described["outputs"]}
