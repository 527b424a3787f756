"""What `msda-replay run` found, by the schema docs/run.schema.json."""

from dataclasses import dataclass, field, fields
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, overload

from . import operators
from .answers import Answer
from .command import Said
from .flags import refuse_unknown
from .page import Page

_NOT_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_SHOWN = 10  # findings, by a repr


def number(value: Union[float, int, str]) -> float:
    """Returns a number of the JSON, which has texts for NaN and infinities."""
    return _NOT_NUMBERS[value] if isinstance(value, str) else float(value)


@dataclass(frozen=True)
class Finding:
    """An element out of tolerance (or `count` neighbours, from `index` on), with its cause (docs/causes.md) and evidence."""

    capture: str = field(repr=False)
    operator: str = field(repr=False)
    invocation: int
    tensor: str
    index: Tuple[int, ...]
    count: int
    observed: float
    expected: float
    float64: float
    against: str
    cause: str
    at_fault: str
    advisory: bool
    why: str = field(repr=False)
    evidence: Dict[str, Any] = field(repr=False)

    @property
    def difference(self) -> float:
        return self.observed - self.expected

    @property
    def name(self) -> str:
        """The name in flags and reports: grad_value[0,17,3,5]"""
        return f"{self.tensor}[{','.join(map(str, self.index))}]"

    @property
    def places(self) -> Dict[str, int]:
        """The index by the names of the dimensions."""
        return dict(zip(operators.dimensions_of(self.operator, self.tensor, len(self.index)), self.index))


class Findings(Sequence[Finding]):
    """The findings of a run; what counts most comes first."""

    def __init__(self, findings: List[Finding]):
        self._findings = findings

    @overload
    def __getitem__(self, place: int) -> Finding: ...

    @overload
    def __getitem__(self, place: slice) -> "Findings": ...

    def __getitem__(self, place: Union[int, slice]) -> Union[Finding, "Findings"]:
        found = self._findings[place]
        return Findings(found) if isinstance(found, list) else found

    def __len__(self) -> int:
        return len(self._findings)

    def where(self, **values: Any) -> "Findings":
        """Returns the findings whose fields have these values: where(cause="cell_boundary", advisory=False)."""
        refuse_unknown("a finding", "field", values, [*(entry.name for entry in fields(Finding)), "difference", "name"])
        return Findings([entry for entry in self if all(getattr(entry, name) == value for name, value in values.items())])

    def to_dataframe(self) -> Any:
        """Returns a pandas.DataFrame, a row a finding: its fields, and a column for each dimension."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("to_dataframe needs pandas: apt-get install python3-pandas, or pip install pandas",
                                      name=error.name) from None
        fields = ("invocation", "tensor", "index", "count", "observed", "expected", "float64", "difference", "against", "cause",
                  "at_fault", "advisory", "why", "evidence")
        table = pandas.DataFrame([[getattr(entry, name) for name in fields] for entry in self], columns=list(fields))
        places = [entry.places for entry in self]
        for name in dict.fromkeys(name for place in places for name in place):
            table.insert(table.columns.get_loc("count"), name, pandas.array([place.get(name) for place in places], "Int64"))
        return table

    def __repr__(self) -> str:
        rows = [("call", "element", "observed", "expected", "against", "cause", "at fault")]
        rows += [(str(finding.invocation), finding.name, f"{finding.observed:.9g}", f"{finding.expected:.9g}", finding.against, finding.cause,
                  finding.at_fault + " (advice)" * finding.advisory) for finding in self._findings[:_SHOWN]]
        widths = [max(map(len, column)) for column in zip(*rows)]
        more = [f"... {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([f"<{len(self)} finding{'s' * (len(self) != 1)}>", *(lines if len(self) else []), *more])


class RunResult(Answer):
    """What a run found."""

    verdict: Dict[str, Any]
    invocations: List[Dict[str, Any]]
    relaunched: Sequence[Dict[str, Any]] = ()
    not_replayed: Sequence[Dict[str, Any]] = ()
    baseline: Optional[Dict[str, Any]] = None

    def __init__(self, capture: str, said: Said, page: Callable[[], Page]):
        super().__init__(said, page)
        self.capture = capture

    @property
    def at_fault(self) -> str:
        return self.verdict["at_fault"]

    @property
    def summary(self) -> str:
        return self.verdict["summary"]

    @property
    def causes(self) -> Dict[str, int]:
        """Elements out of tolerance by cause; advice not counted."""
        return self.verdict["causes"]

    @property
    def within_tolerance(self) -> bool:
        return not self.causes

    def findings(self) -> Findings:
        """Returns the findings of all calls. The command keeps some of a large set alike: `json["invocations"][i]["judged"]` has all."""
        return Findings([self._finding(call, finding) for call in self.invocations for finding in call["findings"]])

    def _finding(self, call: Dict[str, Any], entry: Dict[str, Any]) -> Finding:
        values: Dict[str, Any] = {name: number(entry[name]) for name in ("observed", "expected", "float64")}
        texts = {name: entry[name] for name in ("tensor", "count", "against", "cause", "at_fault", "why", "evidence")}
        return Finding(capture=self.capture, operator=call["operator"], invocation=call["id"], index=tuple(entry["index"]),
                       advisory=entry.get("advisory", False), **values, **texts)

    def __repr__(self) -> str:
        return f"<run of {self.capture}: {self.summary}>"
