"""`run --mode original --poison`: kernels with a defect each, or none, launched again with other contents of unwritten memory."""

import json
import re
import resource
import subprocess

import h5py
import jsonschema
import numpy as np
import pytest
from conftest import REPLAY
from support.original import SCHEMA, on_stand_in
from support.original import launched as launched_known  # noqa: F401
from support.poisoned import COUNT, launched  # noqa: F401
from support.recording import pytestmark, record  # noqa: F401
from support.report_page import drawn
from support.schemas import check


@pytest.fixture
def poisoned(replay):
    """What `run --poison` says, by invocation, as JSON that the schema allows."""

    def run(capture, *arguments, expect, **variables):
        done = replay("run", capture, "--mode", "original", "--poison", "--json", "-", *arguments, expect=expect,
                      env=on_stand_in(**variables))
        jsonschema.validate(done.json, SCHEMA)
        result = done.json["invocations"] + done.json.get("relaunched", [])
        return [entry["poison"] for entry in sorted(result, key=lambda entry: entry["id"])]

    return run


VERDICTS = {
    "race": ("race", None), "reads_output": ("reads_unwritten", ["y"]), "reads_scratch": ("reads_unwritten", ["parameter 3"]),
    "reads_shared": ("reads_unwritten", ["shared memory"]), "reads_beside": ("reads_unwritten", ["beside the tensors"]),
    "order_only": ("order_only", []), "lost_updates": ("race", None), "adds": ("deterministic", []), "none": ("deterministic", []),
}


@pytest.mark.parametrize("kernel", VERDICTS)
def test_verdicts(launched, poisoned, kernel):
    verdict, memories = VERDICTS[kernel]
    capture = launched(kernel)
    for _ in range(3):  # the stand-in draws other orders of threads each time
        (result,) = poisoned(capture, expect=int(verdict in ("race", "reads_unwritten")))
        tensor = result["tensors"]["y"]
        assert (result["verdict"], tensor["verdict"], result["runs"]) == (verdict, verdict, 10)
        assert memories is None or tensor["varies_across"] == memories
        assert (tensor["varies_within"] > 0) == (verdict in ("race", "order_only")) == (tensor["spread"] > 0)
        assert (tensor["why"] == "") == (verdict == "deterministic") == ("example" not in tensor)


def test_what_is_told(launched, poisoned):
    settings = [(setting["memory"], setting["contents"]) for setting in poisoned(launched("none"), expect=0)[0]["settings"]]
    changed = ["zero", "nan", "pattern"]
    assert settings == [(None, "recorded")] + [(memory, contents) for memory in ("y", "parameter 3", "beside the tensors", "shared memory")
                                               for contents in changed]
    capture = launched("reads_scratch")
    with h5py.File(capture) as file:
        x = file["invocations/000000/inputs/x"][()]
    tensor = poisoned(capture, "--repeat", 3, expect=1)[0]["tensors"]["y"]
    assert tensor["across"] == COUNT // 4 and tensor["within"] == tensor["never_written"] == tensor["adds"] == 0
    values = {settings[value["setting"]]: (value["lowest"], value["highest"]) for value in tensor["example"]["values"]}
    assert tensor["example"]["index"] == [0] and len(values) == len(settings)
    as_pattern = float(np.frombuffer(b"\x45" * 4, np.float32)[0])
    assert values.pop(("parameter 3", "pattern")) == (as_pattern, as_pattern) and values.pop(("parameter 3", "nan")) == ("NaN", "NaN")
    assert set(values.values()) == {(0, 0)}  # scratch memory begins as zeros
    tensor = poisoned(launched("none"), expect=0)[0]["tensors"]["y"]
    assert tensor["never_written"] == COUNT // 2 and tensor["across"] == 0
    sums = poisoned(launched("order_only"), expect=0)[0]["tensors"]["y"]
    assert (sums["within"], sums["adds"], sums["never_written"]) == (4, 4, COUNT - 4) and 0 < sums["spread"] < 1e-4
    assert len(x) == COUNT


@pytest.mark.parametrize("kernel", ["none", "adds", "reads_output", "reads_scratch", "reads_shared"])
def test_results_kept_in_a_folder_give_the_same(launched, poisoned, tmp_path, kernel):
    capture, folder = launched(kernel), tmp_path / "kept"
    folder.mkdir()
    faulty = VERDICTS[kernel][0] == "reads_unwritten"
    in_memory, in_file = (poisoned(capture, *more, expect=int(faulty)) for more in ((), ("--poison-folder", folder)))
    assert in_file == in_memory and ("example" in in_file[0]["tensors"]["y"]) == faulty
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kernel", ["race", "order_only"])
def test_what_varies_is_kept_in_a_folder(launched, poisoned, tmp_path, kernel):
    (result,) = poisoned(launched(kernel), "--poison-folder", tmp_path, expect=int(kernel == "race"))
    tensor = result["tensors"]["y"]
    assert tensor["verdict"] == kernel and len(tensor["example"]["values"]) == 13
    assert any(value["lowest"] != value["highest"] for value in tensor["example"]["values"])


def test_folders_without_room(launched, replay, tmp_path):
    """What the disk does not take is known before the first launch."""
    capture = launched("none")
    assert "--poison-folder: is for the results of --poison; add --poison" in replay(
        "run", capture, "--poison-folder", tmp_path, expect=2, env=on_stand_in()).err
    missing = replay("run", capture, "--poison", "--poison-folder", tmp_path / "no", expect=2, env=on_stand_in())
    assert re.fullmatch(r"msda-replay: --poison-folder .*/no: cannot keep \S+ GiB there: No such file or directory; .*\n", missing.err)
    room = 2 * 13 * 4 * COUNT  # the lowest and the highest result of each setting

    def run_with(most):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # noqa: E731
        # Python ignores SIGXFSZ, and so does what it starts.
        return subprocess.run([REPLAY, "run", capture, "--poison", "--poison-folder", tmp_path], capture_output=True, text=True, timeout=120,
                              env=on_stand_in(), preexec_fn=limit, restore_signals=False)

    full = run_with(room - 1)
    assert full.returncode == 2 and "cannot keep" in full.stderr and "File too large; name a folder on a larger disk" in full.stderr
    assert run_with(room).returncode == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".cubin", ".h5", ".json"]


def test_text_and_exit_status(launched, replay):
    def text(kernel, expect):
        return replay("run", launched(kernel), "--mode", "original", "--poison", expect=expect, env=on_stand_in())

    done = text("reads_output", 1)
    assert "  poison: reads_unwritten: 13 settings, 10 launches in each\n" in done.out
    assert " y reads_unwritten: 256 of 256 elements depend on what y held before the launch " in done.words
    assert re.search(r"^ +\[0\]: -?\d\S+ as recorded, NaN with y NaN$", done.out, re.M)
    assert " y race: 256 of 256 elements differ between equal launches, " in text("race", 1).words
    printed = text("none", 0).out
    assert "  poison: deterministic: " in printed and re.search(r"^    y +deterministic$", printed, re.M) and "it never writes 128 elements" in printed
    assert printed.startswith("Launched with other contents of unwritten memory: 1 deterministic.\n")
    assert "it adds to 256 elements, which were zero when it was recorded" in text("adds", 0).words


def test_what_is_added_to(launched, poisoned):
    """A sum into a buffer that the caller has set to zero is none of a kernel's faults; into any other buffer it is."""
    capture = launched("adds")
    with h5py.File(capture, "r+") as file:
        file["invocations/000000/outputs_before/y"][3:5] = 7
    (result,) = poisoned(capture, "--damaged", expect=1)
    tensor = result["tensors"]["y"]
    assert tensor["verdict"] == "reads_unwritten" and tensor["varies_across"] == ["y"]
    assert (tensor["across"], tensor["adds"], tensor["adds_to_nonzero"], tensor["example"]["index"]) == (2, COUNT, 2, [3])


@pytest.mark.parametrize("kernel, facts, verdict, why", [
    ("order_only", {"float_atomics": 0, "atomics": 0}, "race", "and the kernel has no atomics"),
    ("order_only", {"float_atomics": 0, "atomics": 1}, "order_only", "the addends are not known"),  # tickets, for example
    ("order_only", {"float_atomics": 2, "atomics": 2}, "order_only", "the addends are not known"),
    ("last_block", {"float_atomics": 0, "atomics": 0}, "race", "and the kernel has no atomics"),
    ("last_block", None, "race", "also where the kernel does not add to what was there"),
    ("last_block", {"float_atomics": 2, "atomics": 3}, "order_only", "the addends are not known"),
    ("last_block", {"float_atomics": 0, "atomics": 1}, "order_only", "the addends are not known"),
    ("race", {"float_atomics": 2, "atomics": 2}, "race", "does not add to what was there: a race, or an order that the kernel's atomics decide"),
    ("race", {"float_atomics": 2, "atomics": 2, "shared_atomics": 2}, "race", "more than rounding explains: a race, or an order"),
    ("lost_updates", {"float_atomics": 2, "atomics": 2}, "race", "differ between equal launches, "),
])
def test_atomics_of_the_code(launched, poisoned, kernel, facts, verdict, why):
    (result,) = poisoned(launched(kernel, atomics=facts), expect=int(verdict == "race"))
    tensor = result["tensors"]["y"]
    assert tensor["verdict"] == verdict and why in tensor["why"]
    assert ("nor whether" in tensor["why"]) == (facts is None and verdict == "order_only")


def test_a_kernel_that_faults(launched, poisoned, replay):
    capture = launched("faults", launches=2)
    for result in poisoned(capture, expect=1):
        assert result["verdict"] == "reads_unwritten" and result["tensors"]["y"]["verdict"] == "deterministic"
        failed = {(setting["memory"], setting["contents"]): setting for setting in result["settings"] if setting["state"] != "ran"}
        assert set(failed) == {("parameter 3", "pattern"), ("parameter 3", "nan")}
        assert all("an illegal memory access was encountered" in entry["message"] for entry in failed.values())
        assert len(result["settings"]) == 13
    out = replay("run", capture, "--mode", "original", "--poison", expect=1, env=on_stand_in()).words
    assert re.search(r" with parameter 3 pattern the kernel faulted: .*\(CUDA error 700\) ", out)


@pytest.mark.long
def test_a_kernel_that_never_ends(launched, poisoned):
    (result,) = poisoned(launched("hangs"), expect=1)
    assert result["verdict"] == "reads_unwritten"
    assert [(setting["memory"], setting["contents"], setting["state"]) for setting in result["settings"] if setting["state"] != "ran"] == [
        ("parameter 3", "nan", "hung")]


def test_kernels_of_the_operator(launched_known, poisoned):  # noqa: F811
    capture = launched_known("col2im17", "--launches", 2)
    for result in poisoned(capture, expect=0):
        assert {tensor["verdict"] for tensor in result["tensors"].values()} == {"deterministic"} and len(result["tensors"]) == 3
        assert result["tensors"]["grad_value"]["adds"] > 0 == result["tensors"]["grad_sampling_locations"]["adds"]
    result = poisoned(capture, "--invocation", "0", expect=0, MSDA_STAND_IN_UNORDERED=1)[0]
    assert {name: tensor["verdict"] for name, tensor in result["tensors"].items()} == {
        "grad_value": "order_only", "grad_sampling_locations": "deterministic", "grad_attention_weights": "deterministic"}


def test_inputs_and_integers_are_left_alone(launched_known, poisoned):  # noqa: F811
    for result in poisoned(launched_known("scale_add"), expect=0):  # y is inout, positive uint8
        assert {setting["memory"] for setting in result["settings"]} == {None, "beside the tensors", "shared memory"}
        assert {tensor["verdict"] for tensor in result["tensors"].values()} == {"deterministic"}


def test_tensors_between_each_other(launched_known, poisoned):  # noqa: F811
    for result in poisoned(launched_known("whereabouts"), expect=0):
        assert result["verdict"] == "deterministic"


def test_flags_and_captures_that_cannot(launched, replay):
    capture = launched("none")

    def printed(*arguments, expect, **rest):
        done = replay("run", capture, "--poison", *arguments, expect=expect, env=on_stand_in(), **rest)
        assert done.err.count("\n") == 1 and done.out == ""
        return done.err

    assert "--poison is for mode original" in printed("--mode", "deterministic", expect=2)
    assert "needs a CUDA device" in printed("--device", "cpu", expect=3)
    assert "there is no device 1" in printed("--device", "cuda:1", expect=3)
    assert "parameter 3 points to memory that no adapter describes; --poison takes it" in replay(
        "run", capture, "--mode", "original", expect=3, env=on_stand_in()).err
    for text in ("", "24:", "24:0", "8:64", "x:y 24", "24:-4", f"24:{1 << 64}"):
        with h5py.File(capture, "r+") as file:
            attributes = file["invocations/000000"].attrs
            assert text or attributes["unknown_extents"] == f"24:{4 * COUNT}"
            attributes["unknown_extents"] = text
        assert "does not say how large it is" in printed(expect=3)
    assert "relaunch-poisoned" not in replay("--help", expect=0).out


def test_many_captures(launched, replay, tmp_path):
    captures, table = [launched("none"), launched("race")], tmp_path / "all.json"
    done = replay("run", *captures, "--mode", "original", "--poison", "--json", table, expect=1, env=on_stand_in())
    said = "Launched with other contents of unwritten memory: 1 "
    assert f" {captures[0]}: {said}deterministic. {captures[1]}: {said}race." in done.words
    joined = json.loads(table.read_text())
    check(joined, "run-many")
    assert [capture["poison"] for capture in joined["captures"]] == [f"{said}deterministic.", f"{said}race."]


def test_the_page_tells_it(launched, launched_known, replay, tmp_path):  # noqa: F811
    """A kernel of no operator, and one of the operator's, with a race: nothing of them is green."""
    capture = launched("race")
    replay("report", capture, "-o", tmp_path / "race.html", "--mode", "original", "--poison", expect=1, env=on_stand_in())
    page = drawn(tmp_path / "race.html")
    assert '<header class="top error">' in page and ">Faulty<" in page and "poison: race" in page and "chip good" not in page
    done = replay("report", launched("none"), capture, "-o", tmp_path / "pages", "--mode", "original", "--poison", "--json", "-", expect=1,
                  env=on_stand_in())
    assert done.json["verdict"]["grade"] == "wrong"
    assert "1 capture with a race or reads of unwritten memory." in done.json["verdict"]["summary"]
    index = drawn(tmp_path / "pages" / "index.html")
    assert '<header class="top error">' in index and ">Faulty<" in index and "Nothing is out of tolerance." not in index
    for kernel, grade in (("race", 31), ("none", 33)):
        coloured = replay("run", launched(kernel), "--mode", "original", "--poison", "--color", "always", env=on_stand_in()).out
        assert coloured.startswith(f"\x1b[1;{grade}m"), coloured[:40]
