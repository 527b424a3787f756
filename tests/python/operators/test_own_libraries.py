"""Operators that a library answers for: the same as by expressions, and libraries that are refused."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

import numpy as np
import pytest
from conftest import REPLAY, SOURCE
from support.launches import CLIENT
from support.own_operators import CHANNELS, EXAMPLE, ROWS, SEGMENTS, call, random_call, summed  # noqa: F401
from support.recording import pytestmark as with_recorder
from support.recording import record
from support.report_page import read as read_page
from support.waiting import wait_until

from msda_replay import Invocation, read_capture, write_capture

EXAMPLES = SOURCE / "docs" / "own_operator"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def compiled(source, library, *flags):
    subprocess.run([COMPILER, "-O2", "-fPIC", "-shared", "-I", SOURCE, *flags, source, "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    compiled(EXAMPLES / "slope.c", folder / "libslope.so", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
    compiled(SOURCE / "tests" / "own" / "samples.c", folder / "libsamples.so", "-std=c99")
    compiled(SOURCE / "tests" / "own" / "segment_sum.c", folder / "libsegment_sum.so", "-std=gnu99", "-w")
    return folder


@pytest.fixture
def by_library(call, libraries, tmp_path):  # noqa: F811
    """The adapter file of the example by a library, which lies beside it."""
    mine = json.loads(json.dumps(EXAMPLE))
    mine["adapters"][0]["operator"] = {"name": "segment_sum", "library": "libsegment_sum.so"}
    shutil.copy(libraries / "libsegment_sum.so", tmp_path)
    (tmp_path / "by_library.json").write_text(json.dumps(mine))
    return tmp_path / "by_library.json"


def both_ways(replay, expect, command, capture, *arguments, files):
    """What a command gives for the operator by expressions and by a library, without the times it took."""
    result = []
    for file in files:
        text = replay(command, capture, "--operator", file, "--json", "-", *arguments, expect=expect).out
        result.append(json.loads(re.sub(r'"(seconds|wall_s|elapsed)": [0-9.e-]+', '"": 0', text)))
    return result


def test_run_gives_the_same_as_by_expressions(replay, call, by_library, tmp_path):  # noqa: F811
    source, segment, order = random_call()
    files = (tmp_path / "segment_sum.json", by_library)
    for result, expect, *arguments in (
            (None, 0), (None, 1, "--atol", "0", "--rtol", "0"), (None, 1, "--atol", "0", "--rtol", "0", "--repeat", "3"),
            (summed(source, segment, order[order != 5]), 1), (summed(source * np.float32(0.9), segment, order), 1)):
        by_expressions, another = both_ways(replay, expect, "run", call(result), *arguments, files=files)
        assert by_expressions == another and another["invocations"][0]["operator"] == "segment_sum"


def test_other_commands_give_the_same(replay, call, by_library, tmp_path):  # noqa: F811
    source, segment, order = random_call()
    files = (tmp_path / "segment_sum.json", by_library)
    capture = call()
    found, another = both_ways(replay, 0, "order", capture, files=files)
    assert found == another and "one order gives every recorded bit: 20 of 20" in replay("order", capture, "--operator", by_library, expect=0).out
    for against in ("float64", "deterministic"):
        found, another = both_ways(replay, 1, "stress", capture, "--against", against, "--runs", "8", "--atol", "1e-9", "--rtol", "0", files=files)
        assert found == another
    wrong = call(summed(source, segment, order[order != 5]))
    for i, file in enumerate(files):
        replay("minimize", wrong, "--operator", file, "-o", tmp_path / f"small{i}.h5", expect=0)
        page = replay("report", wrong, "--operator", file, "-o", tmp_path / f"{i}.html", expect=1)
        assert "segment_sum" in read_page(tmp_path / f"{i}.html").text and not page.err
    (small,), (another,) = (read_capture(tmp_path / f"small{i}.h5").invocations for i in (0, 1))
    assert small.inputs["source"].shape[1] == 1 and small.inputs["source"].shape[0] < ROWS
    for name in small.inputs:
        assert np.array_equal(small.inputs[name], another.inputs[name])
    assert "has no intermediate tensors" in replay("stages", wrong, "--operator", by_library, expect=3).err
    assert "has no forward pass" in replay("gradcheck", wrong, "--operator", by_library, expect=3).err


def test_exported(replay, call, by_library, tmp_path):  # noqa: F811
    """An archive holds the capture and what was found in it; a program that stands alone is made of built-in operators only."""
    source, segment, order = random_call()
    capture = call(summed(source, segment, order[order != 5]))
    for i, file in enumerate((tmp_path / "segment_sum.json", by_library)):
        replay("export", capture, "--operator", file, "--to", "zip", "-o", tmp_path / f"{i}.zip", expect=0)
        with zipfile.ZipFile(tmp_path / f"{i}.zip") as archive:
            names = {name.rpartition("/")[2]: name for name in archive.namelist()}
            archive.extract(next(name for short, name in names.items() if short.endswith(".h5")), tmp_path / str(i))
        (exported,) = (tmp_path / str(i)).rglob("*.h5")
        before, after = (json.loads(replay("run", entry, "--operator", file, "--json", "-", expect=1).out)["invocations"][0]
                         for entry in (capture, exported))
        assert before["findings"] == after["findings"] != [] and before["digests"] == after["digests"]
        replay("export", capture, "--operator", file, "--to", "tensorboard", "-o", tmp_path / f"events{i}", expect=0)
        for to, name in (("pytest", "no.py"), ("cpp", "no.cpp"), ("npz", "no.npz")):
            refused = replay("export", capture, "--operator", file, "--to", to, "-o", tmp_path / name, expect=2)
            assert f"segment_sum is an operator of your own, for which there is no --to {to}" in refused.err
            assert refused.err.count("\n") == 1 and not list(tmp_path.glob("no*"))


def samples(count=600, width=37, channels=4):
    """Samples of docs/own_operator/slope.c, a few on the boundaries of cells but for rounding, and its result in float32."""
    random = np.random.default_rng(2)
    x = random.random(count).astype(np.float32)
    x[:10] = (np.arange(3, 13) + 0.5) / width
    v, grad = (random.standard_normal((rows, channels)).astype(np.float32) for rows in (width, count))
    cell = np.floor(x * np.float32(width) - np.float32(0.5)).astype(int)
    exact = np.floor(x.astype(np.float64) * width - 0.5).astype(int)
    inside = (cell >= 0) & (cell + 1 < width)
    at = np.where(inside, cell, 0)
    grad_x = ((v[at + 1] - v[at]) * grad * np.float32(width)).sum(1, dtype=np.float32) * inside
    return Invocation({"x": x, "v": v, "grad": grad}, {"grad_x": grad_x}, "", kernel="_Z5slopeiiiPKfS0_S0_Pf", facts={
        "adapter": "slope", "operator": "slope", "scalars": f"n={count} channels={channels} width={width}"}), np.flatnonzero(cell != exact)


@pytest.fixture
def slope(libraries, tmp_path):
    for name in ("slope.json", "slope_by_expression.json"):
        shutil.copy(EXAMPLES / name, tmp_path)
    shutil.copy(libraries / "libslope.so", tmp_path)
    return tmp_path / "slope_by_expression.json", tmp_path / "slope.json"


def test_cells_of_the_example(replay, slope, tmp_path):
    invocation, boundaries = samples()
    write_capture(tmp_path / "a.h5", invocation)
    found, another = both_ways(replay, 1, "run", tmp_path / "a.h5", files=slope)
    assert found == another and found["verdict"]["causes"] == {"cell_boundary": len(boundaries)} and len(boundaries) > 2
    assert {finding["index"][0] for finding in another["invocations"][0]["findings"]} == set(boundaries)
    found, another = both_ways(replay, 1, "run", tmp_path / "a.h5", "--atol", "0", "--rtol", "0", files=slope)
    assert found == another and found["verdict"]["causes"].keys() == {"cell_boundary", "accumulation_order", "rounding", "ill_conditioned"}
    # Drawn samples lie in other cells, in each run.
    found, another = both_ways(replay, 0, "stress", tmp_path / "a.h5", "--against", "float64", "--runs", "20", files=slope)
    assert found == another


def test_wrong_values_of_the_example_are_shrunk(replay, slope, tmp_path):
    invocation, _ = samples()
    invocation.outputs["grad_x"][17] *= np.float32(1.5)
    write_capture(tmp_path / "a.h5", invocation)
    for i, file in enumerate(slope):
        replay("minimize", tmp_path / "a.h5", "--operator", file, "--element", "grad_x[17]", "-o", tmp_path / f"small{i}.h5", expect=0)
    (small,), (another,) = (read_capture(tmp_path / f"small{i}.h5").invocations for i in (0, 1))
    assert len(another.inputs["x"]) < 10
    for name in small.inputs:
        assert np.array_equal(small.inputs[name], another.inputs[name])


def test_fractions_and_what_an_output_held(replay, libraries, tmp_path):
    """y += alpha * interpolated v, right and with one sample's weights exchanged."""
    names = [("x", "input", "n"), ("v", "input", "width"), ("y", "inout", "n")]
    adapter = {"name": "samples", "kernel": "samples",
               "parameters": [{"name": "n", "type": "int32"}, {"name": "width", "type": "int32"}, {"name": "alpha", "type": "float32"}]
               + [{"name": name, "type": "pointer"} for name, _, _ in names],
               "tensors": [{"name": name, "role": role, "pointer": name, "type": "float32", "shape": [size]} for name, role, size in names]}
    by_expression = {"name": "samples", "outputs": [{
        "tensor": "y", "index": ["i"], "start": "y[i]", "where": ["p.cell >= 0", "p.cell + 1 < width"],
        "coordinates": [{"name": "p", "location": "x[i]", "size": "width", "value": "location * size - 0.5"}],
        "addends": "v[p.cell] * (1 - p.fraction) * alpha + v[p.cell + 1] * p.fraction * alpha"}]}
    files = (tmp_path / "by_expression.json", tmp_path / "by_library.json")
    for file, operator in zip(files, (by_expression, {"name": "samples", "library": str(libraries / "libsamples.so")})):
        file.write_text(json.dumps({**EXAMPLE, "adapters": [{**adapter, "operator": operator}]}))
    random, count, width, alpha = np.random.default_rng(4), 300, 23, 0.7
    x = random.random(count).astype(np.float32)
    x[:10] = (np.arange(3, 13) + 0.5) / width
    v, y = (random.standard_normal(size).astype(np.float32) for size in (width, count))
    at = x * np.float32(width) - np.float32(0.5)
    cell, fraction = np.floor(at).astype(int), at - np.floor(at)
    inside = (cell >= 0) & (cell + 1 < width)
    low = np.where(inside, cell, 0)
    result = y + (np.float32(alpha) * (v[low] * (1 - fraction) + v[low + 1] * fraction)) * inside
    wrong = result.copy()
    wrong[50] = y[50] + np.float32(alpha) * (v[low[50]] * fraction[50] + v[low[50] + 1] * (1 - fraction[50]))
    assert inside[50] and abs(wrong[50] - result[50]) > 1e-3
    for values, expect, causes in ((result, 0, set()), (wrong, 1, {"implementation_error"})):
        write_capture(tmp_path / "a.h5", Invocation({"x": x, "v": v, "y": y}, {"y": values.astype(np.float32)}, "", kernel="samples", facts={
            "adapter": "samples", "operator": "samples", "scalars": f"n={count} width={width} alpha={alpha}"}), overwrite=True)
        found, another = both_ways(replay, expect, "run", tmp_path / "a.h5", files=files)
        assert found == another and found["verdict"]["causes"].keys() == causes
        found, another = both_ways(replay, 1, "run", tmp_path / "a.h5", "--atol", "0", "--rtol", "0", files=files)
        assert found == another and len(found["invocations"][0]["findings"]) >= 50


def refusal(replay, capture, file, fault=None, command="run", **options):
    import os

    printed = replay(command, capture, "--operator", file, expect=2, env={**os.environ, **({"MSDA_TEST_FAULT": fault} if fault else {})}, **options)
    assert printed.err.count("\n") == 1 and printed.err.startswith("msda-replay: ") and not printed.out, printed.err
    return printed.err


DESCRIPTIONS = {
    "another version": "has version 2 of kernels/own_operator.h, and this program version 1",
    "another name": "is the library of the operator other_sum, and adapter segment_sum names it for segment_sum",
    "no description": "msda_own_operator() returns null", "no name": "name is null", "no dimensions": "dimensions is null",
    "no tensors": "tensors is null", "no outputs": "outputs is null", "no addends": "addends is null",
    "no close": "only one of open and close is null", "-1 dimensions": "dimension_count is -1", "-1 tensors": "tensor_count is -1",
    "0 outputs": "output_count is 0", "absurdly many dimensions": "dimension_count is 1073741824",
    "absurdly many tensors": "tensor_count is 1073741824", "absurdly many outputs": "output_count is 1073741824",
    "absurdly many addends": "has 1073741824 addends of sum", "-1 addends": "has -1 addends of sum",
    "-1 coordinates": "has -1 coordinates of sum", "-1 over": "an output's over_count is -1", "9 channels": "an output's channel_count is 9",
    "over an axis of its own": "has in over of sum the dimension s, which is one of its axes", "over nothing": "the dimension 3; there are 3",
    "a channel that is none": "has in channels of sum the dimension r, which is none of its axes",
    "an output of nothing": "has no output for sum", "an output that is an input": "has no output for sum",
    "no name of a dimension": "a dimension's name is null", "two words": 'has a dimension named "two words"',
    "one name twice": "has two dimensions named s", "an endless name": "has a dimension named \"" + "x" * 64,
    "a pointer into nowhere": "crashes as it is loaded (Segmentation fault)", "an unknown tensor": "has a tensor sauce, which adapter segment_sum has not",
    "no name of a tensor": "a tensor's name is null", "a tensor twice": "has two tensors named source",
    "an unknown role": "has source in the role 3", "another role": "has source in another role than adapter segment_sum",
    "another type": "has segment of a floating-point type, and in adapter segment_sum it has type int32",
    "another rank": "has source of 1 dimensions, and in adapter segment_sum it has 2", "rank 9": "the rank of source is 9",
    "rank -1": "the rank of source is -1", "an axis of no dimension": "has an axis of source of the dimension 3",
    "an output's own axis": "has an axis of sum of the dimension -1", "axes of one dimension": "has two axes of sum of the same dimension",
    "a dimension without axes": "has the dimension r, of which no tensor has an axis", "no coordinates": "the function of these is null",
    "describing crashes": "crashes as it is loaded (Segmentation fault)", "describing aborts": "crashes as it is loaded (Aborted)",
    "describing exits": "ends its process as it is loaded (exit status 0)", "loading crashes": "crashes as it is loaded (Segmentation fault)",
    "loading exits": "ends its process as it is loaded", "describing overflows the stack": "crashes as it is loaded (Segmentation fault)",
}


@pytest.mark.parametrize("fault", DESCRIPTIONS)
def test_descriptions_that_are_refused(replay, call, by_library, fault):  # noqa: F811
    printed = refusal(replay, call(), by_library, fault)
    assert DESCRIPTIONS[fault] in printed and "libsegment_sum.so: " in printed and f"--operator {by_library}: " in printed


# A row outside is one of segment 9, which the first row of the drawn ones belongs to, and so on: the first element with a
# fault is named.
ANSWERS = {
    "a refused call": "the segments do not ascend??[31m", "a refused element": "sum[3,0]: segment 3 is not one of mine",
    "a row outside": r"sum[0,0]: reads source[", "a negative row": "sum[0,0]: reads source[-1,0], and its shape is [160, 8]",
    "a huge row": "reads source[9223372036854775807,0]", "a column outside": ",8], and its shape is [160, 8]",
    "no such tensor": "reads the tensor number 3; there are 3", "a negative tensor": "reads the tensor number -1",
    "an integer factor": "reads segment, which is no input of floating-point type", "an output as a factor": "reads sum, which is no input",
    "a weight of NaN": "has the weight nan", "an infinite weight": "has the weight inf", "a number twice": "has the addend of number 0 after that of 0",
    "a number beyond": "; they go from 0 to 159", "a start of its own": "has an addend of number -1; they go from 0 to 159",
    "a negative input_count": "has an addend of input_count -1", "five inputs": "has an addend of input_count 5",
    "a null addend": "gives add() a null addend", "sizes that contradict": "dimension c has size 160 in source and 8 in source",
    "another shape": "sum has shape [20, 8], and its dimensions the sizes [160, 8]", "open crashes": "crashes in open() (Segmentation fault)",
    "open exits": "ends its process in open() (exit status 0)", "addends crashes": "crashes in addends() (Segmentation fault)",
    "addends aborts": "crashes in addends() (Aborted)", "addends exits": "ends its process in addends()",
    "addends overflows the stack": "crashes in addends() (Segmentation fault)", "addends closes files": "ends its process in addends()",
    "a coordinate of nothing": "sum[0,0]: reads the tensor number -1", "no cells": "the size of a coordinate is 0",
    "a location outside": "sum[0,0]: reads source[160,0]", "a negative step_count": "the step_count of a coordinate is -1",
    "nine steps": "the step_count of a coordinate is 9", "no such operation": "a step of a coordinate has operation 4",
    "a division by zero": "a step of a coordinate divides by zero", "a step by NaN": "and operand nan",
    "coordinates crashes": "crashes in coordinates() (Segmentation fault)", "addends takes all memory": "crashes in addends() (Segmentation fault)",
}


@pytest.mark.parametrize("fault", ANSWERS)
def test_answers_that_are_refused(replay, call, by_library, fault):  # noqa: F811
    printed = refusal(replay, call(), by_library, fault)
    assert ANSWERS[fault] in printed
    assert ("a.h5: " in printed and "operator segment_sum: " in printed) or "libsegment_sum.so: " in printed


@pytest.mark.long
@pytest.mark.parametrize("fault", ["addends loops", "no end of addends"])
def test_addends_without_end(replay, call, by_library, fault):  # noqa: F811
    """A library is ended after 10 s of computing time or, on a busy machine, 20 s: tests/own/ distinguishes the two."""
    printed = refusal(replay, call(), by_library, fault)
    assert re.search(r"does not (come to an end within 10 s of computing time|answer within 20 s) in addends\(\)", printed)


def test_a_crash_when_all_is_said(replay, call, by_library):  # noqa: F811
    """The answers were good."""
    import os

    replay("run", call(), "--operator", by_library, expect=0, env={**os.environ, "MSDA_TEST_FAULT": "close crashes"})


@pytest.mark.parametrize("command", ["run", "order", "stress", "list", "diff"])
def test_every_command_refuses(replay, call, by_library, command):  # noqa: F811
    capture = call()
    more = [capture] if command == "diff" else []
    import os

    printed = replay(command, capture, *more, "--operator", by_library, expect=2, env={**os.environ, "MSDA_TEST_FAULT": "describing crashes"})
    assert printed.err.count("\n") == 1 and "crashes as it is loaded" in printed.err


def test_files_that_are_no_libraries(replay, call, by_library, tmp_path):  # noqa: F811
    capture, library = call(), tmp_path / "libsegment_sum.so"
    library.write_text("not a library\n")
    assert "cannot be loaded: " in refusal(replay, capture, by_library)
    library.write_bytes(b"\x7fELF" + bytes(60))
    assert "cannot be loaded: " in refusal(replay, capture, by_library)
    whole = (compiled(EXAMPLES / "slope.c", tmp_path / "whole.so")).read_bytes()
    library.write_bytes(whole[:len(whole) // 2])
    assert "libsegment_sum.so: " in refusal(replay, capture, by_library)
    (tmp_path / "empty.c").write_text("int unrelated(void) { return 0; }\n")
    compiled(tmp_path / "empty.c", library)
    assert "exports no function msda_own_operator" in refusal(replay, capture, by_library)
    (tmp_path / "empty.c").write_text("int elsewhere(void); const void* msda_own_operator(void) { return elsewhere() ? 0 : \"\"; }\n")
    compiled(tmp_path / "empty.c", library)
    assert "undefined symbol: elsewhere" in refusal(replay, capture, by_library)
    library.unlink()
    assert "libsegment_sum.so: No such file or directory; compile the library" in refusal(replay, capture, by_library)
    library.mkdir()
    assert "is not a file" in refusal(replay, capture, by_library)


@pytest.mark.parametrize("value, why", [
    ({"library": "a.so"}, 'has no "name"'), ({"name": "segment_sum", "library": ""}, "is no path"), ({"name": "segment_sum", "library": 3}, "is not a text"),
    ({"name": "segment_sum", "library": "a\nb"}, "is no path"), ({"name": "msda", "library": "a.so"}, "is built in"),
    ({"name": "segment_sum", "library": "a.so", "outputs": []}, 'has the unknown key "outputs"; there are name, library'),
])
def test_keys_that_are_refused(replay, call, tmp_path, value, why):  # noqa: F811
    mine = json.loads(json.dumps(EXAMPLE))
    mine["adapters"][0]["operator"] = value
    (tmp_path / "bad.json").write_text(json.dumps(mine))
    assert why in refusal(replay, call(), tmp_path / "bad.json")


@with_recorder
@pytest.mark.parametrize("killed", [False, True])
def test_its_processes_end_with_the_command(replay, call, by_library, tmp_path, killed):  # noqa: F811
    """Also that of a shell, which the library left without a word, and where the command is killed."""
    listed = tmp_path / "list"
    fault = {**os.environ, "MSDA_TEST_FAULT": "open starts processes", "MSDA_TEST_LIST": str(listed)}
    command = subprocess.Popen([REPLAY, "run", call(), "--operator", by_library, *(["--repeat", "9999"] if killed else [])], env=fault,
                               stdout=subprocess.DEVNULL)

    def started():
        return listed.read_text().split() if listed.exists() else []

    wait_until(lambda: len(started()) == 5)
    if killed:
        command.kill()
    command.wait(timeout=60)

    def runs(process):
        try:
            return pathlib.Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    wait_until(lambda: not any(map(runs, started())))


def test_the_recorder_loads_no_library(libraries, replay, tmp_path):
    text = (SOURCE / "docs" / "user-adapters.md").read_text()
    mine = json.loads(re.search(r"```json\n(.*?)```", text, re.S)[1])
    mine["adapters"][0]["operator"] = {"name": "segment_sum", "library": str(libraries / "libsegment_sum.so")}
    (tmp_path / "adapter.json").write_text(json.dumps(mine))
    mark = tmp_path / "loaded"
    done = record(CLIENT, "--kernel", "scale_add", "--launches", "1", options=["-o", tmp_path / "a.h5", "--adapter", tmp_path / "adapter.json"],
                  MSDA_TEST_MARK=str(mark))
    assert done.returncode == 0, done.stderr
    assert not mark.exists() and {invocation.facts["operator"] for invocation in read_capture(tmp_path / "a.h5").invocations} == {"segment_sum"}
    # The mark is one that the library leaves.
    import os

    refused = replay("run", tmp_path / "a.h5", "--operator", tmp_path / "adapter.json", expect=2, env={**os.environ, "MSDA_TEST_MARK": str(mark)})
    assert mark.exists() and "has a tensor source, which adapter scale_add has not" in refused.err
