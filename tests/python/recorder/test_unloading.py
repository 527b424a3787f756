"""Launches whose code, memory or context goes away in between, with handles that come again for another kernel: each call names the
kernel that the program launched, and holds what it launched it on."""

import subprocess

import pytest
from conftest import BUILD
from support.recording import environment, pytestmark, record  # noqa: F401

from msda_replay import read_capture

CLIENT = BUILD / "stand_in" / "stand_in_unloading_client"


def calls_of(tmp_path, mode, asynchronous):
    """The calls in the capture; the program runs as without the recorder, and has printed each of its launches."""
    plain = subprocess.run([CLIENT, mode], capture_output=True, text=True, timeout=60, env=environment())
    done = record(CLIENT, mode, options=["-o", tmp_path / "a.h5"], MSDA_STAND_IN_ASYNC=asynchronous)
    assert plain.returncode == 0 and (done.returncode, done.stdout) == (0, plain.stdout), done.stdout + done.stderr
    calls = read_capture(tmp_path / "a.h5").invocations
    launched = [(name, float(number)) for name, number in map(str.split, plain.stdout.splitlines())]
    assert [(call.kernel, call.inputs["value"].flat[0]) for call in calls] == launched
    return calls, done.stderr


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("mode", ["reloads", "unloads_65536_times"])
def test_a_handle_comes_again(tmp_path, mode, asynchronous):
    calls, errors = calls_of(tmp_path, mode, asynchronous)
    assert not any(call.facts.get("duplicates") for call in calls) and "not recorded" not in errors


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_another_context_gets_the_handle_before_the_old_one_is_gone(tmp_path, asynchronous):
    calls, errors = calls_of(tmp_path, "destroys_a_context", asynchronous)
    assert not any(call.facts.get("duplicates") for call in calls) and "not recorded" not in errors


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_measured_launches_whose_memory_another_thread_frees(tmp_path, asynchronous):
    """To look at their inputs then would be an error from which the program's context does not recover."""
    calls, errors = calls_of(tmp_path, "frees_what_was_measured", asynchronous)
    assert calls[0].facts["duplicates"] <= 3 and "they could not be checked" in errors


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_measured_launches_before_a_reset_are_counted(tmp_path, asynchronous):
    calls, errors = calls_of(tmp_path, "resets_the_device", asynchronous)
    assert [call.facts.get("duplicates", 0) for call in calls] == [3, 0] and "not recorded" not in errors
