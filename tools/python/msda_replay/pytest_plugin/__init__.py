"""pytest --msda: records the backward calls of the tests, keeps and explains those of failing tests. docs/pytest.md.

Loaded by the entry point pytest11 where the package is installed, otherwise by `-p msda_replay.pytest_plugin`. Imports
nothing heavy: every pytest on the machine may load it.
"""

from typing import Any

import pytest

from . import files, settings
from .recorder import Launch, Recorder, take_session

_RECORDERS: "pytest.StashKey[Any]" = pytest.StashKey()
_WATCH: "pytest.StashKey[Any]" = pytest.StashKey()
_OBSTACLE: "pytest.StashKey[str]" = pytest.StashKey()
_SESSION: "pytest.StashKey[str]" = pytest.StashKey()


def pytest_addoption(parser):
    settings.add_options(parser)


def _recorders(config):
    """Returns those of this session; they and its watch are made before conftest files import torch and torch.testing."""
    from .assertions import Watch
    from .recorders import Recorders
    from .recording import TestRecording

    if _RECORDERS not in config.stash:
        config.stash[_RECORDERS] = recorders = Recorders(record=not TestRecording.running)
        config.stash[_WATCH] = Watch()
        if recorders:
            config.stash[_WATCH].install()
            for clean_up in (config.stash[_WATCH].uninstall, recorders.close):  # also if pytest goes no further than this
                config.add_cleanup(clean_up)
    return config.stash[_RECORDERS]


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
        if not surveys:
            _recorders(early_config)
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
    recorders, is_worker = _recorders(config), hasattr(config, "workerinput")
    obstacle = ""
    if TestRecording.running:
        obstacle = "this pytest runs in a test of another, whose recording goes on"
    elif recorders.preloaded is None:
        obstacle = "" if is_worker else config.stash.get(_OBSTACLE, "")  # a worker was not known as one then
        obstacle = obstacle or Launch(config, chosen.directory).obstacle
        obstacle = obstacle or "the plugin was loaded too late to start pytest again: load it by -p msda_replay.pytest_plugin"
    if chosen.fail_on and not recorders and not is_worker:
        raise pytest.UsageError(f"--msda-fail-on: nothing is recorded: {obstacle}")
    if is_worker and obstacle:
        config.workeroutput["msda_obstacle"] = obstacle
        if chosen.fail_on and not recorders:
            config.pluginmanager.register(Unjudged(obstacle), "msda_unjudged")
    if recorders:
        TestRecording.running = True
        config.pluginmanager.register(TestRecording(config, chosen, recorders, config.stash[_WATCH]), "msda_recording")
    if not is_worker:
        session = config.stash.get(_SESSION, None)
        config.pluginmanager.register(Summary(config, chosen, recorders, obstacle, session), "msda_summary")


def pytest_runtest_setup(item):
    if settings.is_on(item.config, item.config.option):  # otherwise a marker of this name may be another plugin's
        settings.marker_of(item)


def pytest_unconfigure(config):
    if config.stash.get(_RECORDERS, None):
        from .recording import TestRecording

        TestRecording.running = False
