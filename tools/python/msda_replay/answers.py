"""What the commands answer: an attribute for each key of a command's JSON, whose schema in docs/ says what it means."""

from typing import Any, Callable, Dict, List, Optional, Sequence

from .command import CommandError, Said
from .page import Page, table

_Object = Dict[str, Any]


class Answer:
    """What a command found. `json` is all of it, `str()` the text that the command prints, `messages` are its warnings. A notebook
    shows the page of `report`, or a table if there is none. Several captures, or those of another kind, may have other keys."""

    schema: str
    version: str

    def __init__(self, said: Said, page: Optional[Callable[[], Page]] = None):
        self.json, self.messages = said.json, said.messages
        self._text, self._page = said.text, page
        vars(self).update(said.json)

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def _repr_html_(self) -> str:
        shown = {name: value for name, value in self.json.items() if name not in Answer.__annotations__}
        if self._page:
            try:
                return self._page()._repr_html_()
            except CommandError as error:  # no page shows it, or the capture is gone
                return table({"page": str(error), **shown})
        return table(shown)


class _SimulatedTest(Answer):
    capture: str
    invocation: int
    operator: str
    observed: str
    against: str
    evaluation: _Object
    criterion: _Object
    slices: int
    slice: str
    seed: int
    inputs: _Object


class StressResult(_SimulatedTest):
    content: str = ""
    failure_probability: _Object
    confidence: float
    elements_out_of_tolerance: int
    by_cause: _Object
    by_tensor: _Object
    by_source: _Object
    curve: Optional[_Object] = None
    baseline: Optional[_Object] = None
    examples: List[_Object]
    interrupted: bool


class AdviseResult(_SimulatedTest):
    as_it_is: _Object
    advised: _Object
    blind_spots: List[_Object]
    patch: str


class OrderResult(Answer):
    capture: str
    summary: _Object
    invocations: List[_Object]
    not_read: List[_Object]


class MinimizeResult(Answer):
    capture: str
    output: str
    invocation: int
    operator: str
    cause: str
    at_fault: str
    against: str
    advisory: bool
    element: _Object
    headline: bool
    sizes: _Object
    recorded_sizes: _Object
    images: List[Any]
    recorded_images: List[Any]
    numbers: _Object
    replayed: List[_Object]
    trials: int
    seconds: float
    resumed: bool
    finished: bool
    altered: List[Any]


class GradcheckResult(Answer):
    capture: str
    passed: bool
    seed: int
    naive: _Object
    invocations: List[_Object]
    not_checked: List[_Object]


class StagesResult(Answer):
    capture: str
    invocations: List[_Object]
    not_replayed: Sequence[_Object] = ()


class DiffResult(Answer):
    kind: str
    a: str
    b: str
    equal: bool
    first: Optional[_Object]
    notes: List[_Object]
    compared: _Object


class ExportResult(Answer):
    capture: str
    to: str
    output: str
    files: List[str]
    members: List[Any]
    invocations: List[int]
    finding: Optional[_Object]
    left_out: List[Any]
    altered: List[Any]


class ExplainResult(Answer):
    words: List[_Object]
