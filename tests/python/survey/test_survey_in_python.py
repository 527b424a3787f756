"""msda_replay.survey: of functions, commands and kept surveys, on the stand-in CUDA driver."""

import ctypes
import os
import subprocess
import sys

import pytest
from conftest import BUILD, REPLAY
from support.cubins import make_cubin
from support.recording import environment, pytestmark  # noqa: F401

import msda_replay

SURVEY_CLIENT = BUILD / "stand_in" / "stand_in_survey_client"


@pytest.fixture(autouse=True)
def on_the_stand_in_driver(monkeypatch):
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MSDA_REPLAY", str(REPLAY))
    monkeypatch.setenv("MSDA_RECORD_HOOK", "driver")


def launch(image, name):
    """Called in the surveyed process."""
    driver = ctypes.CDLL(str(BUILD / "stand_in" / "libcuda.so.1"))
    context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
    results = [driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context),
               driver.cuModuleLoadData(ctypes.byref(module), image), driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()),
               driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4))]
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    results.append(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, pointers, None))
    assert results == [0] * 7
    assert not msda_replay.survey(launch, image, name)


def fail(number):
    raise ValueError(f"the number {number}")


@pytest.mark.parametrize("name, varied", [("survey_number", 1), ("survey_steady", 0)])
def test_a_function(name, varied):
    found = msda_replay.survey(launch, make_cubin([name], bytes(16)), name)
    (kernel,) = found
    assert (kernel.kernel, kernel.varied, kernel.varies, kernel.surveyed, kernel.launches) == (name, varied, varied == 1, 1, 1)
    assert found.varying == [kernel] * varied and found.capture is None
    assert repr(found) == f"<survey: {varied} of 1 kernels vary, in {varied} of 1 launches>"


def test_a_command_and_what_it_kept(tmp_path):
    found = msda_replay.survey([SURVEY_CLIENT, "drawn"], output=tmp_path / "a.h5", runs=3, no_neighbour=True)
    assert found[0].verdict == "order_only" and found[0].operation == "sum" and found[0].json["extra_launches"] == 15
    assert found[0].json["extra_beside"] == 0
    again = msda_replay.survey(tmp_path / "a.h5")
    assert again.json == found.json and again.capture == found.capture == str(tmp_path / "a.h5")
    done = subprocess.run([REPLAY, "survey", tmp_path / "a.h5"], capture_output=True, text=True)
    assert str(found) == str(again) == done.stdout.rstrip("\n") and found._repr_html_().startswith("<iframe")
    entry = msda_replay.survey([SURVEY_CLIENT, "sum"], kernel="fixed")
    assert [kernel.kernel for kernel in entry] == ["survey_fixed_sum"] and entry.capture is None
    assert "<td>survey_fixed_sum</td>" in entry._repr_html_()


def test_a_function_that_fails(tmp_path):
    with pytest.raises(msda_replay.CommandError, match="(?s)fail: .*ValueError: the number 7"):
        msda_replay.survey(fail, 7)
    with pytest.raises(msda_replay.CommandError, match="cannot be sent to another process: .*; survey a function of a module"):
        msda_replay.survey(lambda: None)
    with pytest.raises(msda_replay.CommandError, match="none.h5"):
        msda_replay.survey(tmp_path / "none.h5")


def test_a_function_of_a_script(tmp_path):
    """Such as a user writes: __main__ is imported in the surveyed process, but not run again."""
    script = tmp_path / "train.py"
    (tmp_path / "image").write_bytes(make_cubin(["survey_number"], bytes(16)))
    script.write_text(f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import msda_replay
from test_survey_in_python import launch

def step():
    launch(open({str(tmp_path / "image")!r}, "rb").read(), "survey_number")

if __name__ == "__main__":
    print([kernel.varied for kernel in msda_replay.survey(step)])
""")
    paths = os.pathsep.join([os.path.dirname(os.path.dirname(msda_replay.__file__)), *sys.path])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": paths})
    assert done.stdout == "[1]\n", done.stderr
