"""The commands' flags as keyword arguments: `-` is written `_`, and a Python keyword gets a `_` after it (--from is from_)."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Type, TypedDict, TypeVar, Union, cast, get_type_hints

Path = Union[str, os.PathLike[str]]
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Files = Union[Path, Sequence[Path]]
_Words = Union[str, Sequence[str]]
_REPEATED = ("element", "operator")  # a flag for each entry; the entries of other lists are joined by commas


class Flags(TypedDict, total=False):
    timeout: Optional[float]  # seconds; not a flag of the command


class _CommonFlags(Flags, total=False):
    damaged: bool
    operator: Optional[_Files]
    threads: Optional[int]


class _CallFlags(_CommonFlags, total=False):
    invocation: Union[int, str, None]


class _ComparisonFlags(_CallFlags, total=False):
    atol: Optional[float]
    customary: bool
    reference: Optional[int]
    rtol: Optional[float]


class _ReplayFlags(_ComparisonFlags, total=False):
    block: Union[int, Sequence[int], None]
    device: Optional[str]
    device_memory: Union[int, str, None]
    float64_stages: Optional[_Words]
    kernel_digest: Optional[str]
    mode: Optional[_Words]
    poison: bool
    poison_folder: Optional[Path]
    repeat: Optional[int]
    seed: Optional[int]


class _FindingsFlags(TypedDict, total=False):
    baseline: Optional[Path]
    github: bool
    junit: Optional[Path]
    sarif: Optional[Path]
    tally: Optional[Path]
    write_baseline: Optional[Path]


class RunFlags(_ReplayFlags, _FindingsFlags, total=False):
    save_replays: Optional[Path]
    verbose: bool


class StagesFlags(_ReplayFlags, total=False):
    element: Optional[_Words]


class ReportFlags(_ReplayFlags, total=False):
    findings: Optional[int]
    order: bool
    stages: bool  # --no-stages if False
    stress: Optional[int]
    stress_json: Optional[Path]
    trend: bool


class _SimulationFlags(_CallFlags, total=False):
    against: Optional[str]
    atol: Optional[float]
    batch: Optional[int]
    criterion: Optional[str]
    draw: Optional[Mapping[str, str]]  # {"value": "normal(0,1)"}
    evaluation: Optional[str]
    every_element: bool
    heads: Optional[int]
    queries: Optional[int]
    rtol: Optional[float]
    runs: Optional[int]
    seed: Optional[int]


class StressFlags(_SimulationFlags, _FindingsFlags, total=False):
    confidence: Optional[float]
    curve_runs: Optional[int]
    least_runs: Optional[int]
    state: Optional[Path]
    verbose: bool
    width: Optional[float]


class AdviseFlags(_SimulationFlags, total=False):
    check_runs: Optional[int]
    markdown: bool
    patch: bool


class OrderFlags(_CallFlags, total=False):
    exhaustive: Optional[int]
    limit: Optional[float]
    list: Optional[int]
    moves: Optional[int]
    seconds_each: Optional[float]
    seed: Optional[int]


class MinimizeFlags(_ComparisonFlags, total=False):
    cause: Optional[str]
    device: Optional[str]
    element: Optional[str]
    force: bool
    from_scratch: bool
    repeat: Optional[int]
    trials: Optional[int]


class GradcheckFlags(_CallFlags, total=False):
    all: bool
    samples: Optional[int]
    seed: Optional[int]


class DiffFlags(_CommonFlags, total=False):
    page: Optional[Path]
    seed: Optional[int]
    slices: bool


class ExportFlags(_ComparisonFlags, total=False):
    anonymous: bool
    element: Optional[str]
    force: bool


class MakeSurveyFlags(Flags, total=False):
    from_: Optional[int]
    kernel: Optional[str]
    label: Optional[str]
    memory: Optional[int]
    no_neighbour: bool
    patience: Optional[float]
    poison: bool
    runs: Optional[int]
    seconds: Optional[float]
    to: Optional[int]


class ReadSurveyFlags(_FindingsFlags, total=False):
    all: bool


class SurveyFlags(MakeSurveyFlags, ReadSurveyFlags, total=False):
    pass


def refuse_unknown(owner: str, noun: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError for a name that is not known; the message has the nearest one, and all."""
    names = sorted(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            meant = f"; did you mean {near[0]}?" if near else "."
            raise TypeError(f"{owner} has no {noun} {name}{meant} It has {', '.join(names)}")


def takes(flags: Type[Any]) -> Callable[[_Function], _Function]:
    """Decorates a function of `**flags`, which then refuses other names, and whose help and completion show these."""
    hints = get_type_hints(flags)

    def decorate(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters.values()
        named = [entry.name for entry in parameters if entry.kind in (entry.POSITIONAL_OR_KEYWORD, entry.KEYWORD_ONLY)]

        @functools.wraps(function)
        def checked(*arguments: Any, **values: Any) -> Any:
            refuse_unknown(f"{function.__name__}()", "argument", values, [*named, *hints])
            return function(*arguments, **values)

        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hints[name]) for name in sorted(hints)]
        own = [entry for entry in parameters if entry.kind is not entry.VAR_KEYWORD]
        checked.__signature__ = inspect.Signature([*own, *added], return_annotation=function.__annotations__["return"])  # type: ignore[attr-defined]
        checked.__annotations__ = {**{name: hint for name, hint in function.__annotations__.items() if name != "flags"}, **hints}
        return cast(_Function, checked)

    return decorate


def only(flags: Type[Any], values: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the values of the names that these flags have."""
    return {name: value for name, value in values.items() if name in get_type_hints(flags)}


def words_of(values: Mapping[str, Any]) -> List[str]:
    """Returns {"atol": 1e-3, "damaged": True} as the command line has it."""
    words: List[str] = []
    for name, value in values.items():
        flag = f"--{name.rstrip('_').replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [word for key, entry in value.items() for word in (flag, f"{key}={entry}")]
        elif isinstance(value, (list, tuple)):
            entries = [str(os.fspath(entry) if isinstance(entry, os.PathLike) else entry) for entry in value]
            words += [word for entry in entries for word in (flag, entry)] if name in _REPEATED else [flag, ",".join(entries)]
        else:
            words += [flag, str(os.fspath(value) if isinstance(value, os.PathLike) else value)]
    return words
