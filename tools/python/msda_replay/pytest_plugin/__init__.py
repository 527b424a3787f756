"""pytest --msda: records the backward calls of the tests, keeps and explains those of failing tests. docs/pytest.md.

Loaded by the entry point pytest11 where the package is installed, otherwise by `-p msda_replay.pytest_plugin`. Imports
nothing heavy: every pytest on the machine may load it.
"""

from typing import Any

import pytest

from . import files, settings
from .recorder import Launch, Recorder, take_session

_WATCH: "pytest.StashKey[Any]" = pytest.StashKey()
_OBSTACLE: "pytest.StashKey[str]" = pytest.StashKey()
_SESSION: "pytest.StashKey[str]" = pytest.StashKey()
_RECORDS: "pytest.StashKey[bool]" = pytest.StashKey()


def pytest_addoption(parser):
    settings.add_options(parser)


def _watch(config):
    """Returns the watch of this session; made before conftest files import torch.testing."""
    from .assertions import Watch

    if _WATCH not in config.stash:
        config.stash[_WATCH] = Watch()
        config.stash[_WATCH].install()
    return config.stash[_WATCH]


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Starts pytest again with the recorder, before anything is captured or imported that would be twice."""
    options = early_config.known_args_namespace
    surveys = settings.surveys(early_config, options)
    if surveys or settings.is_on(early_config, options):
        if Recorder.loaded() is None:
            launch = Launch(early_config, settings.Settings.of(early_config, options).directory, surveys)
            if not launch.obstacle:
                launch.start_again()  # returns only if it failed
            early_config.stash[_OBSTACLE] = launch.obstacle  # pytest_configure says so
        elif not surveys:
            _watch(early_config)
        if session := take_session():
            early_config.stash[_SESSION] = session
            directory = settings.Settings.of(early_config, options).directory
            early_config.add_cleanup(lambda: files.remove_session(session, directory))  # also if pytest goes no further than this
    yield


def pytest_configure(config):
    config.addinivalue_line("markers", settings.MARKER)
    settings.check_that_something_is_checked(config)
    settings.check_one_mode(config)
    if settings.surveys(config, config.option):
        from .surveying import TestSurvey

        chosen = settings.Settings.of(config, config.option)
        recorder = Recorder.loaded()
        obstacle = "" if recorder is not None else config.stash.get(_OBSTACLE, "") or Launch(config, chosen.directory, True).obstacle
        config.pluginmanager.register(TestSurvey(chosen.directory, recorder, obstacle), "msda_survey")
    if not settings.is_on(config, config.option):
        return
    from .recording import TestRecording, Unjudged
    from .summary import Summary

    chosen = settings.Settings.of(config, config.option)
    recorder = Recorder.loaded()
    obstacle, is_worker = "", hasattr(config, "workerinput")
    if recorder is None:
        obstacle = "" if is_worker else config.stash.get(_OBSTACLE, "")  # a worker was not known as one then
        obstacle = obstacle or Launch(config, chosen.directory).obstacle
        obstacle = obstacle or "the plugin was loaded too late to start pytest again: load it by -p msda_replay.pytest_plugin"
    elif TestRecording.running:
        recorder, obstacle = None, "this pytest runs in a test of another, whose recording goes on"
    session = config.stash.get(_SESSION, None)
    if obstacle and chosen.fail_on and not is_worker:
        raise pytest.UsageError(f"--msda-fail-on: nothing is recorded: {obstacle}")
    if is_worker and obstacle:
        config.workeroutput["msda_obstacle"] = obstacle
        if chosen.fail_on:
            config.pluginmanager.register(Unjudged(obstacle), "msda_unjudged")
    if recorder is not None:
        TestRecording.running = True
        config.stash[_RECORDS] = True
        config.pluginmanager.register(TestRecording(config, chosen, recorder, _watch(config)), "msda_recording")
    if not is_worker:
        config.pluginmanager.register(Summary(config, chosen, obstacle, session), "msda_summary")


def pytest_runtest_setup(item):
    if settings.is_on(item.config, item.config.option):  # otherwise a marker of this name may be another plugin's
        settings.marker_of(item)


def pytest_unconfigure(config):
    if _RECORDS in config.stash:
        from .recording import TestRecording

        TestRecording.running = False
    if _WATCH in config.stash:
        config.stash[_WATCH].uninstall()
