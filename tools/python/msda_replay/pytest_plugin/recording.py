"""Records the tests of one process: a capture for each that fails."""

import collections
import functools
import itertools
import os
import pathlib
import time
from typing import Any, Deque, Dict, List

import pytest

from . import files
from .explain import command, explain, wrapped
from .recorder import RecorderError, TooSlowError
from .settings import marker_of


def _never_fails(function):
    """An error of the plugin never fails a test. One of the recorder ends the recording; any other, such as of a function that
    the test has replaced, costs the calls of this test."""

    @functools.wraps(function)
    def guarded(self, *args):
        if self.trouble or (self.lost and function.__name__ not in ("begin", "end")):
            return None
        try:
            return function(self, *args)
        except RecorderError as error:
            self.trouble = str(error)
        except TooSlowError as error:
            self.lost = str(error)
        except Exception as error:
            self.lost = f"{type(error).__name__}: {error}"
        return None

    return guarded


def fail_unjudged(report, why):
    """A check that silently checks nothing is worse than none."""
    if report.when == "call" and report.passed:
        report.outcome = "failed"
        report.longrepr = f"--msda-fail-on: the calls of this test could not be judged: {why}"


class Unjudged:
    """In place of the recording, with --msda-fail-on, in a worker of pytest-xdist that cannot record."""

    def __init__(self, obstacle):
        self.obstacle = obstacle

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self):
        outcome = yield
        fail_unjudged(outcome.get_result(), f"nothing is recorded: {self.obstacle}")


class TestRecording:
    """Between tests nothing is recorded; what a test does is labelled with its node id.

    The calls so far can be taken out of each recorder as a capture of their own, a part. A test's capture is made of its parts,
    and of those of the fixtures with a wider scope that it uses, which may have been set up for an earlier test.
    """

    __test__ = False
    running = False  # in this process: a test may run a pytest of its own in it, which must leave the labels of this one alone

    def __init__(self, config, settings, recorders, watch):
        self.config, self.settings, self.recorders, self.watch = config, settings, recorders, watch
        watch.eager = bool(settings.fail_on or settings.keep_all or settings.keep_last)
        self.trouble, self.warning = "", ""
        self.lost = ""  # why the calls of this test are
        self.untaken = ""  # a capture that could not be renamed: the recorder needs the name for the next
        self.in_teardown = False
        self.owners: List[List[Any]] = [[]]  # of the calls from now on: lists of parts; the test's, then those of fixtures being set up
        self.notes = []  # what the test's assertions compared
        self.fixtures = {}  # fixture definition -> its parts
        self.torn_down = {}  # the same, of those that the teardown of this test has ended: their finalizers may yet fail it
        self.attempts: Dict[str, int] = collections.Counter()
        self.passing: Deque[Any] = collections.deque()  # captures of passing tests that are kept
        self.failed_attempts = {}  # node id -> fingerprints of its kept captures, their paths and properties
        self.parts_taken = 0

    # The phases of a test.

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        self.begin(item)
        yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        self.label(item, "call")
        self.watch.notes = None if self.trouble else self.notes
        yield
        self.watch.notes = None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        self.label(item, "teardown")
        self.in_teardown = True
        yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item):
        outcome = yield
        report = outcome.get_result()
        self.judge(item, report)
        if self.settings.fail_on and (self.trouble or self.lost):
            fail_unjudged(report, f"recording ended early: {self.trouble}" if self.trouble else self.lost)
        if report.failed or self.settings.fail_on:
            report.msda_left_out = self.recorders.take_left_out()
        if report.when == "teardown":
            self.end()
        report.msda_trouble = [said for said in (
            self.trouble and f"recording ended early: {self.trouble}", self.lost and f"{item.nodeid}: its calls are lost: {self.lost}",
            self.warning) if said]
        self.warning = ""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        is_wide = fixturedef.scope != "function"
        if is_wide:
            self.enter_fixture(fixturedef)
        yield
        if is_wide:
            self.leave_fixture(fixturedef)

    def pytest_fixture_post_finalizer(self, fixturedef):
        parts = self.fixtures.pop(fixturedef, [])
        if parts and self.in_teardown:
            self.torn_down[fixturedef] = parts
        else:
            self.remove(parts)

    # What they do.

    @_never_fails
    def begin(self, item):
        self.recorders.discard()  # calls outside of tests cannot be named
        self.owners, self.notes, self.kept, self.lost, self.in_teardown = [[]], [], False, "", False
        self.attempts[item.nodeid] += 1
        self.item, self.since = item, time.time()
        self.label(item, "setup")
        try:
            self.marker = marker_of(item)
        except pytest.fail.Exception:  # the test will fail by it
            self.marker = {}

    def attempt(self, item):
        """From 1 on for a test that may be run again, by pytest-rerunfailures or otherwise; else 0."""
        number = max(getattr(item, "execution_count", 0), self.attempts[item.nodeid])
        return number if number > 1 or hasattr(item, "execution_count") else 0

    def label(self, item, phase):
        about = [f"attempt {self.attempt(item)}"] if self.attempt(item) else []
        about += [phase] if phase != "call" else []
        self.recorders.label(f"{item.nodeid} ({', '.join(about)})" if about else item.nodeid)

    @_never_fails
    def enter_fixture(self, fixturedef):
        self.take()
        self.owners.append([])
        name = "::".join(filter(None, (fixturedef.baseid, fixturedef.argname)))
        self.recorders.label(f"{name} ({fixturedef.scope} fixture)")

    @_never_fails
    def leave_fixture(self, fixturedef):
        self.take()
        parts = self.owners.pop()
        if parts:
            self.fixtures[fixturedef] = parts
        if len(self.owners) == 1:
            self.label(self.item, "setup")

    def take(self):
        """Takes the calls so far out of the recorders."""
        for path in self.recorders.complete():
            self.untaken = path
            self.parts_taken += 1
            part = f"{path}.part-{self.parts_taken}"
            files.rename(path, part)
            self.untaken = ""
            self.owners[-1].append(part)

    @_never_fails
    def judge(self, item, report):
        """Keeps the calls of a test that has failed, or is to be kept anyway."""
        failed = report.failed
        if failed:
            self.keep(item, report)
        elif report.when == "call" and report.passed and self.settings.fail_on:
            self.fail_by_cause(item, report)
        elif report.when == "teardown" and not self.kept and (self.settings.keep_all or self.settings.keep_last):
            self.keep_passing(item, report)

    @_never_fails
    def end(self):
        self.recorders.discard()
        self.recorders.label(None)
        self.remove([*self.owners[0], *self.of_children(wait=False), *itertools.chain(*self.torn_down.values()), self.untaken])
        self.owners, self.notes, self.torn_down, self.in_teardown = [[]], [], {}, False

    def of_children(self, wait):
        """Returns the captures of processes that this test started and that have ended."""
        folder = files.session_folder()
        since = self.since - 1  # the file system's clock is coarse
        return [path for path in (files.of_ended_processes(folder, wait, since) if folder else [])
                if files.test_of(files.label_of(path)) == self.item.nodeid]

    @staticmethod
    def remove(parts):
        for part in parts:
            if os.path.exists(part):
                os.unlink(part)

    def capture(self, item):
        """Returns the capture of the test's calls so far, None if there are none; and what the assertions said about them."""
        self.take()
        of_fixtures = [part for fixturedef, parts in {**self.fixtures, **self.torn_down}.items() for part in parts
                       if fixturedef.argname in item.fixturenames and files.is_below(item.nodeid, fixturedef.baseid)]
        self.owners[0] += map(str, self.of_children(wait=True))
        parts = of_fixtures + self.owners[0]
        if not parts:
            return None, None
        from .attach import Attached, attach, join

        whole = parts[0]
        if of_fixtures or len(parts) > 1:
            whole = f"{parts[0]}.whole"
            join(parts, whole)
        try:
            return whole, attach(whole, self.notes, self.marker)
        except Exception as error:  # a full disk, for example: the calls are worth keeping without it
            self.warning = f"{item.nodeid}: tolerance and reference are not in its capture: {error}"
            return whole, Attached()

    def keep(self, item, report):
        whole, attached = self.capture(item)
        if whole is None:
            return
        self.drop_equal_attempts(item, files.fingerprint(whole))
        self.add_to_report(item, report, files.keep(whole, self.settings.directory, self.name(item)), attached)
        self.remove(self.owners[0])  # what follows, in the teardown, is another capture's
        self.owners = [[]]

    def drop_equal_attempts(self, item, fingerprint):
        """Keeps only the last of the attempts that failed with the same numbers."""
        for path, properties, earlier in self.failed_attempts.get(item.nodeid, []):
            if earlier == fingerprint and path.exists() and self.attempt(item) > 1:
                path.unlink()
                item.user_properties[:] = [pair for pair in item.user_properties if pair not in properties]
        self.fingerprint = fingerprint

    def name(self, item):
        return files.name_of(item.nodeid, self.attempt(item))

    def add_to_report(self, item, report, path, attached, explanation=None):
        explanation = explanation or explain(path)
        explanation.headline = attached.headline(explanation.headline)
        opens = command(path, self.config.invocation_params.dir)
        lines = [explanation.headline or f"not explained: {explanation.trouble}"]
        if explanation.finding:
            lines.append(explanation.finding)
        if attached.by:
            lines.append(f"tolerance and reference as {' and '.join(attached.by)} had them")
        elif report.failed and "atol" not in self.marker:
            lines.append("what the test compared was not seen; it is by numpy.testing.assert_allclose and torch.testing.assert_close, "
                         "not by allclose; or give @pytest.mark.msda(atol=..., rtol=...)")
        lines.append(opens)
        self.note(item, report, path, explanation, opens)
        report.sections.append(("msda-replay", "\n".join(map(wrapped, lines[:-1])) + f"\n{opens}"))
        if explanation.headline:
            from .attach import note_verdict

            note_verdict(path, explanation.headline)

    def note(self, item, report, path, explanation, opens):
        """For the summary and for JUnit: attributes and properties reach the process that reports."""
        self.kept = True
        attempt = self.attempt(item)
        report.msda = {"capture": str(path), "headline": explanation.headline or f"not explained: {explanation.trouble}",
                       "command": opens, "attempt": attempt}
        properties = [("msda_capture", str(path))]
        if explanation.headline:
            properties.append(("msda_verdict", explanation.headline))
        if explanation.causes:
            properties.append(("msda_causes", ", ".join(f"{cause}: {count}" for cause, count in explanation.causes.items())))
        item.user_properties.extend(properties)
        report.user_properties.extend(properties)
        self.failed_attempts.setdefault(item.nodeid, []).append((pathlib.Path(path), properties, self.fingerprint))

    def fail_by_cause(self, item, report):
        whole, attached = self.capture(item)
        if whole is None:
            return
        explanation = explain(whole)
        causes = explanation.causes_without(attached.otherwise_judged)
        found = sorted(self.settings.fail_on & set(causes))
        if not found and explanation.headline:
            if whole not in self.owners[0]:
                os.unlink(whole)
            return
        self.drop_equal_attempts(item, files.fingerprint(whole))
        path = files.keep(whole, self.settings.directory, self.name(item))
        report.outcome = "failed"
        report.longrepr = (
            f"--msda-fail-on: {', '.join(f'{causes[cause]} elements by {cause}' for cause in found)}"
            if found else f"--msda-fail-on: the calls of this test could not be judged: {explanation.trouble}")
        self.add_to_report(item, report, path, attached, explanation)

    def keep_passing(self, item, report):
        whole, _ = self.capture(item)
        if whole is None:
            return
        path = files.keep(whole, self.settings.directory, self.name(item))
        item.user_properties.append(("msda_capture", str(path)))
        report.user_properties.append(("msda_capture", str(path)))
        report.msda_passing = str(path)
        self.passing.append(pathlib.Path(path))
        while self.settings.keep_last and len(self.passing) > self.settings.keep_last:
            self.passing.popleft().unlink(missing_ok=True)
