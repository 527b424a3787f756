"""The plugin's options, each with an ini twin, and the marker msda."""

import pathlib
import re
from dataclasses import dataclass
from typing import FrozenSet

import pytest

from ..operator_rows import DIALECTS

CAUSES = (
    "non_finite", "uninitialized_output", "cell_boundary", "border_clamp", "stopped_sum", "accumulation_order", "rounding",
    "ill_conditioned", "reduced_precision", "implementation_error",
)
MARKER = "msda(atol=X, rtol=X, reference=DIALECT): the tolerance of the test, and the conventions of what it compares with"


def add_options(parser):
    group = parser.getgroup("msda-replay", "recording of backward calls (msda-replay)")
    group.addoption("--msda", action="store_true", default=None,
                    help="record the backward calls of the tests, keep those of failing tests, and explain them")
    group.addoption("--msda-dir", metavar="DIR", help="folder of the captures; default: msda-captures in the root folder")
    group.addoption("--msda-keep", metavar="failed|all|last:N",
                    help="whose captures to keep: failing tests' (default), all tests', or the last N tests' besides the failing ones'")
    group.addoption("--msda-fail-on", metavar="CAUSE,...",
                    help=f"fail a passing test whose calls have a finding of these causes: {', '.join(CAUSES)}")
    group.addoption("--msda-survey", action="store_true", default=None,
                    help="run each launch of each kernel again, and name the tests whose launches vary")
    parser.addini("msda_survey", "as --msda-survey", type="bool", default=False)
    parser.addini("msda", "as --msda", type="bool", default=False)
    parser.addini("msda_dir", "as --msda-dir; relative to the root folder")
    parser.addini("msda_keep", "as --msda-keep")
    parser.addini("msda_fail_on", "as --msda-fail-on")


def _given(config, options, name):
    """Returns the option, or else its ini twin."""
    value = getattr(options, name, None)
    return value if value is not None else config.getini(name)


def _runs_tests(options):
    return not any(getattr(options, name, False) for name in ("help", "version", "collectonly", "showfixtures", "markers"))


def is_on(config, options):
    return bool(_given(config, options, "msda")) and _runs_tests(options)


def surveys(config, options):
    """Returns whether launches are surveyed; calls are not recorded then."""
    return bool(_given(config, options, "msda_survey")) and _runs_tests(options)


def check_one_mode(config):
    if is_on(config, config.option) and surveys(config, config.option):
        raise pytest.UsageError("--msda and --msda-survey: a survey records no calls; run pytest once with each")


def check_that_something_is_checked(config):
    """A check without a recording would pass whatever the tests compute. The ini twin may be meant for other runs."""
    if getattr(config.option, "msda_fail_on", None) and not _given(config, config.option, "msda"):
        raise pytest.UsageError("--msda-fail-on: nothing is recorded without --msda: add it, or msda = true in the ini file")


def _directory(config, options):
    if options.msda_dir:
        return pathlib.Path(config.invocation_params.dir, options.msda_dir)
    return pathlib.Path(config.rootpath, config.getini("msda_dir") or "msda-captures")


@dataclass(frozen=True)
class Settings:
    directory: pathlib.Path
    keep_all: bool = False
    keep_last: int = 0  # passing tests, besides the failing ones
    fail_on: FrozenSet[str] = frozenset()

    @classmethod
    def of(cls, config, options):
        keep = _given(config, options, "msda_keep") or "failed"
        last = re.fullmatch(r"last:([1-9]\d{0,8})", keep)
        if keep not in ("failed", "all") and not last:
            raise pytest.UsageError(f"--msda-keep: {keep!r} is not failed, all or last:N with N from 1 on")
        causes = [cause.strip() for cause in (_given(config, options, "msda_fail_on") or "").split(",") if cause.strip()]
        for cause in causes:
            if cause not in CAUSES:
                raise pytest.UsageError(f"--msda-fail-on: {cause!r} is no cause; there are {', '.join(CAUSES)}")
        return cls(_directory(config, options), keep == "all", int(last.group(1)) if last else 0, frozenset(causes))

    def describe(self, recorded):
        """Returns the line for the header; `recorded` says what is recorded."""
        whose = "all tests" if self.keep_all else "failing tests"
        if self.keep_last:
            whose += f" and of the last {self.keep_last}"
        text = f"msda-replay: recording {recorded}; captures of {whose} in {self.directory}"
        return text + (f"; fails on {', '.join(sorted(self.fail_on))}" if self.fail_on else "")


def marker_of(item):
    """Returns the keywords of the test's nearest marker msda. Fails the test, in its setup, if they are wrong."""
    mark = item.get_closest_marker("msda")
    if mark is None:
        return {}
    given = dict(mark.kwargs)
    unknown = sorted(set(given) - {"atol", "rtol", "reference"})
    wrong = [key for key in ("atol", "rtol") if key in given and not _is_tolerance(given[key])]
    if mark.args or unknown:
        trouble = f"takes atol, rtol and reference by name, not {', '.join(map(repr, mark.args or unknown))}"
    elif ("atol" in given) != ("rtol" in given):
        trouble = "atol and rtol go together"
    elif wrong:
        trouble = f"{wrong[0]}={given[wrong[0]]!r} is not a finite number from 0 on"
    elif given.get("reference", DIALECTS[0]) not in DIALECTS:
        trouble = f"reference={given['reference']!r} is not one of {', '.join(DIALECTS)}"
    else:
        return given
    return pytest.fail(f"marker msda: {trouble}", pytrace=False)


def _is_tolerance(value):
    return isinstance(value, (int, float)) and 0 <= value < float("inf")
