"""pytest --msda-survey: names the tests whose launches vary. docs/pytest.md."""

import os
import shlex

import pytest

from ..programs import name_in_shell


class TestSurvey:
    """The surveys of one process. A test's reports carry what its launches did to the process that sums up."""

    __test__ = False

    def __init__(self, directory, recorder, obstacle):
        self.directory, self.recorder, self.obstacle = directory, recorder, obstacle
        self.before = {}  # by kernel, what the survey had found before this phase of a test
        self.found = []  # (outcome, node id, launches, kernels) of each test with launches; launches: surveyed, all
        self.processes = set()  # whose launches varied: with xdist its workers

    def counts(self):
        return (self.recorder.survey() if self.recorder is not None else None) or {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self):
        self.before = self.counts()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item):
        outcome = yield
        report, now = outcome.get_result(), self.counts()
        since = {name: [count - earlier for count, earlier in zip(counts, self.before.get(name, (0, 0, 0)))] for name, counts in now.items()}
        self.before = now
        launches = [sum(counts[place] for counts in since.values()) for place in (1, 2)]
        if launches[1]:
            report.msda_survey = os.getpid(), launches, {name: counts[:2] for name, counts in since.items() if counts[0]}

    def pytest_report_header(self):
        return f"msda-replay: nothing is surveyed: {self.obstacle}" if self.obstacle else f"msda-replay: a survey; kept in {self.directory}"

    def pytest_runtest_logreport(self, report):
        process, launches, kernels = getattr(report, "msda_survey", (None, None, {}))
        if launches:
            self.found.append((report.outcome, report.nodeid, launches, kernels))
        if kernels:
            self.processes.add(process)
        if kernels:
            report.sections.append(("msda-replay survey", "\n".join(self.lines_of(kernels))))

    @staticmethod
    def lines_of(kernels):
        for name, (varied, surveyed) in sorted(kernels.items(), key=lambda entry: -entry[1][0]):
            yield f"{varied} of {surveyed} launches varied: {name[:200]}"

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("msda-replay survey")
        write = terminalreporter.write_line
        if self.obstacle:
            write(f"nothing was surveyed: {self.obstacle}", yellow=True)
            return
        varying = [entry for entry in self.found if entry[3]]
        for outcome, nodeid, _, kernels in varying:
            write(f"{outcome.upper()} {nodeid}", yellow=True)
            for line in self.lines_of(kernels):
                write(f"  {line}")
        surveyed, launches = (sum(entry[2][place] for entry in self.found) for place in (0, 1))
        write(f"{len({entry[1] for entry in varying})} of {len({entry[1] for entry in self.found})} tests with launches have launches that vary; "
              f"{surveyed} of {launches} launches surveyed")
        for process in sorted(self.processes):
            path = os.path.join(self.directory, f"survey-{process}.h5")
            write(f"when pytest has ended: {name_in_shell('msda-replay')} survey {shlex.quote(path)}", bold=True)
