"""What the session ends with: the section msda-replay, and what crashed workers left behind."""

import collections
import os
import shutil
from typing import Dict, Iterator, Tuple

import pytest

from ..operator_rows import ROWS
from . import files
from .explain import command, explain, wrapped

_Line = Tuple[str, Dict[str, bool]]  # and its markup


class Summary:
    """The summary of the process that reports: with xdist the one that starts the workers."""

    def __init__(self, config, settings, recorders, obstacle, session):
        self.config, self.settings, self.recorders, self.obstacle, self.session = config, settings, recorders, obstacle, session
        self.kept, self.passing, self.troubles, self.interrupted = [], [], [], []
        self.failed_without = 0
        self.left_out: Dict[str, int] = collections.Counter()
        self.adopt_earlier_sessions()

    def pytest_report_header(self):
        if not self.recorders:
            return f"msda-replay: nothing is recorded: {self.obstacle}"
        kernels = [f"msda-replay: kernels are not recorded: {self.obstacle}"] if self.obstacle else []
        return [self.settings.describe(self.recorders.describe()), *kernels]

    def pytest_runtest_logreport(self, report):
        if hasattr(report, "msda"):
            is_error = report.failed and report.when in ("setup", "teardown")  # pytest's word for what fails beside the test itself
            self.kept.append(("error" if is_error else report.outcome, report.nodeid, report.msda))
        elif report.failed:
            self.failed_without += 1
        if hasattr(report, "msda_passing"):
            self.passing.append(report.msda_passing)
        self.left_out.update(getattr(report, "msda_left_out", {}))
        self.troubles += [trouble for trouble in getattr(report, "msda_trouble", ()) if trouble not in self.troubles]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        obstacle = getattr(node, "workeroutput", {}).get("msda_obstacle")
        if obstacle and not self.obstacle:
            self.troubles.append(f"{node.gateway.id}: {obstacle}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem, report):
        """A worker has crashed in a test: what it had recorded of it is complete, because the writer outlives it."""
        if self.session is None:
            return
        try:
            for path in files.of_ended_processes(self.session, wait=True):
                if files.test_of(files.label_of(path)) == crashitem:
                    self.keep_crashed(path, crashitem, report)
        except Exception as error:  # pytest goes on
            self.troubles.append(f"{crashitem}: what its worker had recorded cannot be kept: {error}")

    def keep_crashed(self, path, nodeid, report):
        path = files.keep(path, self.settings.directory, files.name_of(nodeid, 0))
        explanation, opens = explain(path), command(path, self.config.invocation_params.dir)
        headline = explanation.headline or f"not explained: {explanation.trouble}"
        report.msda = {"capture": str(path), "headline": headline, "command": opens, "attempt": 0}
        report.user_properties.append(("msda_capture", str(path)))
        said = [wrapped(text) for text in (headline, explanation.finding) if text]
        report.sections.append(("msda-replay", "\n".join([*said, opens])))

    def adopt_earlier_sessions(self):
        """Keeps what pytests left behind that were killed while they recorded into the same folder."""
        try:
            folders = list(self.settings.directory.glob(".session-*"))
        except OSError:  # too long a name
            return
        for folder in folders:
            with files.abandoned(folder) as is_abandoned:
                if is_abandoned:
                    self.adopt(folder)

    def adopt(self, folder):
        try:
            for path in files.of_ended_processes(folder, wait=False):
                test = files.test_of(files.label_of(path))
                if test:
                    kept = files.keep(path, self.settings.directory, files.name_of(test, 0))
                    self.interrupted.append((test, command(kept, self.config.invocation_params.dir)))
            if not list(folder.glob("*.spool")) and not files.holds_captures_of_the_living(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except Exception as error:  # this session goes on
            self.troubles.append(f"{folder}: left behind by an earlier session, and cannot be read: {error}")

    def pytest_terminal_summary(self, terminalreporter):
        write = terminalreporter.write_line
        lines = [*self.lines_of_kept(shutil.get_terminal_size().columns), *self.lines_of_the_rest()]
        if lines:
            terminalreporter.section("msda-replay")
            for line, markup in lines:
                write(line, **markup)

    def lines_of_kept(self, width: int) -> Iterator[_Line]:
        for outcome, nodeid, kept in self.kept:
            if not os.path.exists(kept["capture"]):  # a later attempt failed with the same numbers
                continue
            attempt = f" (attempt {kept['attempt']})" if kept["attempt"] else ""
            color = {"yellow": True} if outcome == "rerun" else {"red": True}
            yield f"{outcome.upper()} {nodeid}{attempt}", color
            for line in wrapped(kept["headline"], max(width - 2, 40)).splitlines():
                yield f"  {line}", {}
            yield f"  {kept['command']}", {"bold": True}

    def lines_of_the_rest(self) -> Iterator[_Line]:
        if not self.recorders:
            yield f"nothing was recorded: {self.obstacle}", {"yellow": True}
        for trouble in self.troubles:
            yield trouble, {"yellow": True}
        for test, opens in self.interrupted:
            yield f"an earlier session was interrupted in {test}", {"yellow": True}
            yield f"  {opens}", {"bold": True}
        passing = [path for path in self.passing if os.path.exists(path)]
        if passing:
            yield f"captures of {len(passing)} passing test{'s' * (len(passing) != 1)} in {self.settings.directory}", {}
        if self.recorders:
            yield from self.lines_of_what_is_missing()

    def lines_of_what_is_missing(self) -> Iterator[_Line]:
        for reason, count in self.left_out.items():
            yield f"{count} call{'s' * (count != 1)} not recorded: {reason}", {}
        if not self.failed_without:
            return
        why = ": msda-replay doctor -- python3 -m pytest ... says why" if self.recorders.preloaded and not self.kept else ""
        yield f"{self.failed_without} failed without a call that is recorded{why}", {}
        if not self.kept:
            if self.recorders.leave_out_the_cpu:
                yield "operators of PyTorch on a CPU are recorded if no GPU is visible: CUDA_VISIBLE_DEVICES= python3 -m pytest --msda ...", {}
            yield f'to record one by hand, call in the test: msda_replay.save_call("call.h5", operator="{list(ROWS)[1]}", ...)', {}

    def pytest_unconfigure(self):
        if self.session is not None:
            files.of_ended_processes(self.session, wait=True)  # their writers must not find the folder gone
            files.remove_session(self.session, self.settings.directory)
