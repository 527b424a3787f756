"""Surveys on the stand-in CUDA driver."""

import json
import subprocess

from conftest import BUILD, REPLAY
from support.recording import environment, record
from support.schemas import check

SURVEY_CLIENT = BUILD / "stand_in" / "stand_in_survey_client"


def plain(*words):
    return subprocess.run([SURVEY_CLIENT, *words], capture_output=True, text=True, timeout=60, env=environment()).stdout


def judged(capture):
    """What a survey found of each kernel, by its name."""
    printed = subprocess.run([REPLAY, "survey", capture, "--json", "-"], capture_output=True, text=True, timeout=60)
    result = json.loads(printed.stdout)
    check(result, "survey")
    assert printed.returncode == any(kernel["varied"] for kernel in result["kernels"])
    return {kernel["mangled"]: kernel for kernel in result["kernels"]}


def surveyed(capture, *words, options=(), **variables):
    """The same of the client; what it prints must be as without the survey."""
    done = record(SURVEY_CLIENT, *words, options=["--survey", "--hook", "driver", "-o", capture, *map(str, options)], **variables)
    assert (done.returncode, done.stdout) == (0, plain(*words)), done.stderr
    return judged(capture)


def check_extra(kernel):
    """Two extra launches of each, and 20 more of one that differed only beside other work, by chance."""
    more = kernel["extra_launches"] - 2 * kernel["surveyed"]
    assert more in ((0, 20, 40, 60, 80) if kernel["varied"] else (0,)), kernel


PROGRAM = """
import ctypes, sys
driver = getattr(ctypes, sys.argv[1])(sys.argv[2])
image = open(sys.argv[3], "rb").read()
def check(result):
    assert result == 0, result
def step(function, stream):
    check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (ctypes.c_void_p * 1)(ctypes.addressof(memory)), None))  # here
check(driver.cuInit(0))
context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
check(driver.cuModuleLoadData(ctypes.byref(module), image))
check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"survey_number"))
check(driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)))
step(function, None)
"""
