"""msda-replay list, show and stages."""

import ctypes
import re
import subprocess

import numpy as np
import pytest
from conftest import BUILD, DATA
from support.problems import backward, make_problem

from msda_replay import Invocation, Result, __version__, write_capture


@pytest.fixture
def capture(tmp_path, rng):
    """Two invocations with every fact there is."""
    invocations = []
    for i in range(2):
        inputs = make_problem(rng)
        outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
        facts = {"grid": [20, 1, 2], "block": [64, 1, 1], "duplicates": 4000 * i, "label": f"test_{i}", "shared_bytes": 128}
        invocations.append(Invocation(inputs, outputs, "msda_triton", kernel="bwd_kernel", facts=facts, atol=1e-3, rtol=1e-2))
    invocations[1].inputs["value"][0, 0, 0, :3] = [np.nan, np.inf, 0]
    invocations[1].results["other"] = Result({"grad_value": invocations[1].outputs["grad_value"]}, "", "msda_triton")
    run = {"argv": ["pytest", "-k", "backward"], "environment": {"PYTHONHASHSEED": "0"}, "libraries": {"triton": "3.6"},
           "gpu": "NVIDIA H200"}
    path = tmp_path / "a.h5"
    write_capture(path, invocations, run)
    return path


def test_show_leaves_out_what_an_older_recorder_set(replay, tmp_path, problem, rng):
    theirs = {"LD_LIBRARY_PATH": "/a:/b", "MSDA_CPU_ISA": "baseline", "CUDA_INJECTION64_PATH": "/opt/tool.so"}
    path = tmp_path / "a.h5"
    inputs = problem(rng)
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    write_capture(path, Invocation(inputs, outputs, "msda_triton"),
                  {"environment": {**theirs, "MSDA_RECORD_KEEP": "all", "LD_PRELOAD": "/x/libmsda_record.so:/y/mine.so"}})
    shown = replay("show", path, "--json", "-", expect=0).json["run"]["environment"]
    assert shown == {**theirs, "LD_PRELOAD": "/y/mine.so"}
    # The whole environment of this one is the recorder's.
    old = DATA / "v0.1" / "recorded.h5"
    assert replay("show", old, "--json", "-", expect=0).json["run"]["environment"] == {}
    assert not re.search("Environment|MSDA_RECORD|LD_PRELOAD|INJECTION", replay("show", old, expect=0).out)


def test_list(replay, capture, demo_capture):
    text = replay("list", capture, demo_capture, expect=0).out
    assert "2 invocations" in text and "1 invocation," in text
    assert "B1 S42 M2 D8 Q20 L2 P2" in text and "4000 duplicates" in text and "label test_1" in text and "with reference" in text
    result = replay("list", capture, demo_capture, "--json", "-", expect=0).json
    assert [len(file["invocations"]) for file in result] == [2, 1]
    assert result[0]["invocations"][1]["duplicates"] == 4000
    assert result[1]["invocations"][0]["results"] == [{"name": "reference", "role": "reference", "dialect": "grid_sample"}]


def test_show(replay, capture):
    result = replay("show", capture, "--json", "-", expect=0).json
    assert result["run"]["argv"] == ["pytest", "-k", "backward"]
    assert result["run"]["environment"] == {"PYTHONHASHSEED": "0"}
    assert result["run"]["facts"] == {"gpu": "NVIDIA H200"}
    second = result["invocations"][1]
    assert second["grid"] == [20, 1, 2] and second["label"] == "test_1" and second["tolerance"] == {"atol": 1e-3, "rtol": 1e-2}
    (value,) = [t for t in second["tensors"] if t["name"] == "value"]
    statistics = value["statistics"]
    assert (statistics["nan"], statistics["infinite"], statistics["zero"]) == (1, 1, 1)
    assert statistics["lowest"] < 0 < statistics["highest"]
    text = replay("show", capture, "--invocation", 1, expect=0).out
    for part in ("pytest -k backward", "PYTHONHASHSEED = 0", "triton = 3.6", "gpu = NVIDIA H200", "grid = 20 1 2", "1 nan", "1 infinite",
                 "results/other/grad_value", "inputs/value"):
        assert part in text, part
    assert re.search(r"spatial_shapes +int64 .*\n +from \d+ to \d+$", text, re.M) and not re.search(" = *$", text, re.M)
    assert "Invocation 0" not in text


def test_stages_of_a_finding(replay, demo_capture):
    result = replay("stages", demo_capture, "--json", "-", expect=0).json["invocations"][0]
    summary = {stage["stage"]: stage for stage in result["summary"]}
    assert len(summary) == 9
    assert summary["cell"]["max_abs"] == 0
    assert summary["corner_values"]["deterministic"]["count"] == 1000 * 4 * 3 * 4 * 32
    assert summary["grad_sampling_locations"]["max_abs"] > 0
    (element,) = result["elements"]
    assert (element["tensor"], element["index"]) == ("grad_sampling_locations", [0, 948, 0, 0, 2, 0])
    assert element["first_drift"] == "cell"
    rows = {(row["stage"], row["component"]): row for row in element["stages"]}
    assert rows["cell", "x"]["values"] == {"recorded": None, "msda_triton": 2, "grid_sample": 3, "float64": 2}
    assert rows["cell", "y"]["drifts"] is False
    text = replay("stages", demo_capture, expect=0).out
    assert "first drift: cell" in text and "pixel_coordinates" in text


def test_stages_of_chosen_elements(replay, capture, rng):
    elements = ("grad_value[0,5,1,3]", "grad_attention_weights[0,3,1,1,0]", "grad_sampling_locations[0,3,1,1,0,1]")
    arguments = [argument for element in elements for argument in ("--element", element)]
    result = replay("stages", capture, "--invocation", 0, *arguments, "--json", "-", expect=0).json["invocations"][0]
    assert "summary" not in result
    assert [e["first_drift"] for e in result["elements"]] == [None] * 3
    value = result["elements"][0]["stages"]
    contributions = [row["values"]["float64"] for row in value if row["stage"] == "value_contributions"]
    assert value[-1]["stage"] == "grad_value"
    assert value[-1]["values"]["float64"] == pytest.approx(sum(contributions), rel=1e-12)


def test_stages_agree_with_the_outputs(replay, capture):
    from msda_replay import read_capture

    outputs = read_capture(capture).invocations[0].outputs
    for name, index in (("grad_attention_weights", (0, 7, 0, 1, 1)), ("grad_sampling_locations", (0, 7, 0, 1, 1, 0)),
                        ("grad_value", (0, 8, 1, 2))):
        element = f"{name}[{','.join(map(str, index))}]"
        result = replay("stages", capture, "--invocation", 0, "--element", element, "--json", "-", expect=0).json
        last = result["invocations"][0]["elements"][0]["stages"][-1]
        assert last["values"]["float64"] == pytest.approx(float(outputs[name][index]), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("program", ["msda-replay", "msda-record"])
def test_version(program):
    """The version, and what the program was built with, as far as its build folder and its libraries show it."""
    done = subprocess.run([BUILD / "bin" / program, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    cache = (BUILD / "CMakeCache.txt").read_text()
    assert first == f"{program} {__version__}"
    assert re.search("CMAKE_PROJECT_VERSION:STATIC=(.*)", cache)[1] == __version__, "CMake was not run again after the version changed"
    facts = dict(line.split(": ", 1) for line in rest)
    assert list(facts) == ["compiler", "CUDA", "HDF5", "CUPTI", "recorder's hooks", *(["MPI", "libzip"] if program == "msda-replay" else [])]
    compiler = re.search("CMAKE_CXX_COMPILER:.*=(.*)", cache)[1]
    printed = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    name, number = facts["compiler"].split()[:2]
    assert number in printed and (name == "Clang") == ("clang" in printed)
    assert facts["CUDA"].startswith("built without") == ("MSDA_CUDA:BOOL=ON" not in cache)
    linked = subprocess.run(["ldd", BUILD / "bin" / program], capture_output=True, text=True).stdout
    library = ctypes.CDLL(re.search(r"=> (\S*libhdf5(?:_serial)?\.so\S*)", linked)[1])
    numbers = [ctypes.c_uint() for _ in range(3)]
    library.H5get_libversion(*map(ctypes.byref, numbers))
    assert facts["HDF5"] == ".".join(str(number.value) for number in numbers)
    assert "CUDA driver API" in facts["recorder's hooks"] and "libcupti.so.13" in facts["CUPTI"]
    if program == "msda-replay":
        assert facts["MPI"] == ("built with" if (BUILD / "lib" / "libmsda_mpi.so").exists() else "built without")
        assert facts["libzip"] == ("built with" if "libzip" in linked else "built without")
