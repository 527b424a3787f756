"""msda-replay diff: what differs, the first divergence in the order of execution, and batch invariance."""

import json
import sys

import h5py
import jsonschema
import numpy as np
import pytest
from conftest import SOURCE
from support.problems import backward, make_problem
from support.recording import record

from msda_replay import Invocation, read_capture, write_capture

SCHEMA = json.loads((SOURCE / "docs" / "diff.schema.json").read_text())


@pytest.fixture
def diff(replay):
    def run(a, b, *flags, expect):
        result = replay("diff", a, b, "--json", "-", *flags, expect=expect).json
        jsonschema.validate(result, SCHEMA)
        assert result["equal"] == (expect == 0)
        return result

    return run


def call_of(inputs, **changed):
    grads = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    return Invocation(inputs=inputs, outputs=grads, dialect=changed.pop("dialect", "deformable_detr"), **changed)


def test_equal_captures(diff, tmp_path, rng):
    calls = [call_of(make_problem(rng)) for _ in range(2)]
    for name in "ab":
        write_capture(tmp_path / f"{name}.h5", calls)
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)
    assert result["differences"] == [] and result["first"] is None
    assert result["compared"]["invocations"] == 2 and result["compared"]["tensors"] == 2 * 8
    result = diff(f"{tmp_path / 'a.h5'}:0", f"{tmp_path / 'a.h5'}:1", expect=1)
    assert {difference["section"] for difference in result["differences"]} == {"inputs", "outputs"}


def test_the_first_divergence_comes_first(diff, replay, tmp_path, rng):
    inputs = [make_problem(rng) for _ in range(3)]
    calls = [call_of(entry) for entry in inputs]
    write_capture(tmp_path / "a.h5", calls)
    # The second call's output drifts in one bit; of it the third one gets another input.
    outputs = {name: grad.copy() for name, grad in calls[1].outputs.items()}
    where = (0, 3, 1, 2)
    outputs["grad_value"][where] = np.nextafter(outputs["grad_value"][where], np.float32(np.inf))
    another = {**inputs[2], "value": inputs[2]["value"] * np.float32(2)}
    write_capture(tmp_path / "b.h5", [calls[0], Invocation(inputs=inputs[1], outputs=outputs, dialect="deformable_detr"), call_of(another)])
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)
    first = result["first"]
    assert (first["invocations"], first["section"], first["name"]) == ([1, 1], "outputs", "grad_value")
    assert first["elements"]["different"] == 1 and first["elements"]["first"] == list(where) and first["elements"]["max_ulp"] == 1
    assert first["elements"]["max_abs"] == pytest.approx(float(np.spacing(abs(calls[1].outputs["grad_value"][where]))), rel=1)
    later = [difference for difference in result["differences"] if difference["invocations"] == [2, 2]]
    assert later[0]["section"] == "inputs" and later[0]["name"] == "value" and result["vary_by_themselves"] == [[1, 1]]
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=1).out
    assert text.startswith("Different; the first divergence is in invocation 1, outputs: grad_value\n  invocation 1, outputs\n")


def test_advice_on_the_first_call_that_differs(diff, replay, tmp_path, rng):
    """A call with equal inputs varies by itself, whatever the seed; other inputs come from what was not recorded. A library may be why, too."""
    ones, index = np.ones((4, 3), np.float32), np.zeros(4, np.int64)

    def write(name, inputs, result, library="2.11", seed=1):
        facts = {"reduce": "sum", "dim": 0, "dim_size": 2, "include_self": 0}
        call = Invocation({"index": index, "source": inputs}, {"sum": result}, "", kernel="aten::index_add", facts=facts)
        run = {"argv": ["python3", "train.py", f"{name}.h5"], "libraries": {"libtorch.so": library},
               "seeds": [{"source": "torch_cpu", "value": seed, "invocation": 0}]}
        later = [Invocation({"index": index, "source": inputs * n}, {"sum": result * n}, "", kernel="aten::index_add", facts=facts) for n in (2, 3, 4)]
        write_capture(tmp_path / f"{name}.h5", [call, *later], run=run, overwrite=True)

    write("a", ones, ones[:2])
    write("b", ones, ones[:2] * 2, seed=2)
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)
    assert result["advice"]["type"] == "torch.use_deterministic_algorithms(True)" and "its inputs are equal" in result["advice"]["why"]
    assert result["advice"]["next"] == f"msda-replay order {tmp_path / 'a.h5'} --invocation 0"
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=1).out
    assert "may be why" not in text and "argv" not in text and "\n  differs later\n    invocation 0, seeds, torch_cpu: 1 | 2\n" in text
    assert "\n  2 invocations more differ, too; --json has all\n" in text and "invocation 1, outputs" in text and "invocation 2, outputs" not in text
    assert result["vary_by_themselves"] == [[number, number] for number in range(4)]
    assert [f"invocation {number}, aten::index_add, varies by itself" in text for number in range(4)] == [False, True, True, True]
    write("b", ones * 2, ones[:2] * 2, seed=2)
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)
    assert "its inputs differ" in result["advice"]["why"] and not result["advice"]["type"] and result["vary_by_themselves"] == []
    assert "differs before, and may be why\n    invocation 0, seeds, torch_cpu: 1 | 2" in replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=1).out
    write("b", ones, ones[:2] * 2, library="2.12")
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)
    assert "advice" not in result and result["vary_by_themselves"] == []


def test_the_call_that_differs_is_named(diff, replay, tmp_path, rng):
    problem = make_problem(rng)
    call = call_of(problem)
    for name, factor in (("a", 1), ("b", 2)):
        outputs = {tensor: grad * np.float32(factor) for tensor, grad in call.outputs.items()}
        more = {"kernel": "_ZN3one3twoIfEEvPf", "facts": {"label": "Sequential.0"}}
        write_capture(tmp_path / f"{name}.h5", [Invocation(inputs=problem, outputs=outputs, dialect="deformable_detr", **more)])
    first = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)["first"]
    assert (first["kernel"], first["label"]) == ("_ZN3one3twoIfEEvPf", "Sequential.0")
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=1).out
    assert "\n  invocation 0, outputs of one::two<float>, Sequential.0\n" in text


def test_seeds_environment_and_libraries(diff, tmp_path, rng):
    call = call_of(make_problem(rng))
    run = {"argv": ["python3", "train.py"], "environment": {"CUDA_LAUNCH_BLOCKING": "1"}, "libraries": {"torch": "2.11"}, "gpu": "H200"}
    seeds = [{"source": "torch_cuda", "value": 1, "invocation": 0}, {"source": "libc", "value": 5, "invocation": 1}]
    write_capture(tmp_path / "a.h5", [call, call], run={**run, "seeds": seeds})
    another = [seeds[0], {**seeds[1], "value": 6}]
    write_capture(tmp_path / "b.h5", [call, call], run={**run, "seeds": another})
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)
    (only,) = result["notes"]  # the seed was set before the second call, and is reported once
    assert only == {"invocations": [1, 1], "section": "seeds", "name": "libc", "a": "5", "b": "6", "may_decide": True}
    write_capture(tmp_path / "c.h5", [call, call], run={**run, "libraries": {"torch": "2.12"}, "environment": {}, "seeds": seeds})
    result = diff(tmp_path / "a.h5", tmp_path / "c.h5", expect=0)
    assert [(note["section"], note["name"], note["a"], note["b"], note["may_decide"]) for note in result["notes"]] == [
        ("libraries", "torch", "2.11", "2.12", True), ("environment", "CUDA_LAUNCH_BLOCKING", "1", "", True)]


def test_two_recordings_of_equal_runs_are_equal(diff, replay, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(f"import sys\nsys.path.insert(0, {str(SOURCE / 'tools' / 'bench')!r})\nfrom libmsda import Operator, make_inputs\n"
                       "Operator().backward(make_inputs(B=1, Q=8, M=2, P=2, D=4, levels=((5, 6),), seed=1))\n")
    for name in "ab":
        test = "train.py::test_step[0] (setup)" if name == "a" else "train.py::test_step[1] (call)"
        assert record(sys.executable, program, options=["-o", tmp_path / f"{name}.h5"], PYTEST_CURRENT_TEST=test).returncode == 0
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)
    assert result["compared"]["invocations"] == 1 and result["same_numbers"]
    # A capture may have calls of several tests: labels say which, and no variable has the first one's.
    assert result["notes"] == [] and "PYTEST_CURRENT_TEST" not in read_capture(tmp_path / "a.h5").run.get("environment", {})
    assert replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=0).out.startswith("Equal: 1 invocation, ")


def test_created_streams_have_no_number_of_their_own(diff, tmp_path, rng):
    call = call_of(make_problem(rng))
    for name, stream in (("a", 94512345600), ("b", 94999999999), ("c", 0)):
        call.facts["stream"] = stream
        write_capture(tmp_path / f"{name}.h5", call, run={"gpu": "H200", "host": name})
    assert [note["name"] for note in diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)["notes"]] == ["host"]
    assert [(note["name"], note["may_decide"]) for note in diff(tmp_path / "a.h5", tmp_path / "c.h5", expect=0)["notes"]] == [("host", False), ("stream", True)]


def test_other_facts_leave_captures_equal(diff, replay, tmp_path, rng):
    """What may decide numbers and did not, and what cannot."""
    ones = np.ones(3, np.float32)
    call = Invocation({"x": ones}, {"y": ones.copy()}, "", kernel="k", atol=1e-3, rtol=1e-2)

    def write(name, version, **changed):
        run = {"libraries": {"libtorch.so": f"/opt/{version}/libtorch.so", "libcudart.so.12": f"/opt/{version}/libcudart.so.12.4.127"},
               "environment": {"CUBLAS_WORKSPACE_CONFIG": f":4096:{version}", "TRITON_CACHE_DIR": version}, "gpu": "H200", "host": version}
        call.facts.update(shared_bytes=16, **changed)
        write_capture(tmp_path / f"{name}.h5", call, run=run, overwrite=True)
    write("a", "2.11", pointers="@0", other="1")
    write("b", "2.12", pointers="@8", other="2")
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)
    assert result["differences"] == [] and result["same_numbers"]
    assert {note["name"] for note in result["notes"] if note["may_decide"]} == {"libtorch.so", "CUBLAS_WORKSPACE_CONFIG", "other"}
    assert {note["name"] for note in result["notes"] if not note["may_decide"]} == {"libcudart.so.12", "TRITON_CACHE_DIR", "host", "pointers"}
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=0).out
    assert text.startswith("Equal: 1 invocation, 2 tensors") and "\n  differs, with the same numbers\n    libraries, libtorch.so: /opt/2.11/" in text
    call.outputs["y"][0] += 1
    write("b", "2.12", other="2")
    assert not diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)["same_numbers"]
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=1).out
    assert text.startswith("Different; the first divergence is in invocation 0, outputs: y\n")
    assert text.index("\n  differs before, and may be why\n    libraries, libtorch.so: ") < text.index("\n  invocation 0, outputs of k\n") and "\n  differs, and decides no number\n    machine, host: 2.11" in text


@pytest.mark.parametrize("a, b, may_decide", [
    ("/tmp/pytest-1/train.py --seed 3", "/tmp/pytest-2/train.py --seed 3", False),
    ("x --out=/tmp/tmpab12/o.json", "x --out=/var/tmp/q/o.json", False),
    ("x /tmp/tmpab12", "x /tmp/tmp_9z", False),
    ("/tmp/1/train.py", "/tmp/1/other.py", True),
    ("/data/1/train.py", "/data/2/train.py", True),
    ("x a/tmp/1/b", "x a/tmp/2/b", True),
    ("train.py --seed 3", "train.py --seed 4", True)])
def test_paths_of_temporary_files_decide_nothing(diff, tmp_path, rng, a, b, may_decide):
    call = call_of(make_problem(rng))
    for name, words in (("a", a), ("b", b)):
        write_capture(tmp_path / f"{name}.h5", call, run={"argv": words.split()})
    (note,) = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)["notes"]
    assert (note["section"], note["may_decide"]) == ("arguments", may_decide)


def test_what_was_in_a_buffer_before_is_a_note(diff, tmp_path, rng):
    call = call_of(make_problem(rng))
    for name, left_over in (("a", 0), ("b", 7)):
        call.outputs_before = {"grad_value": np.full_like(call.outputs["grad_value"], left_over)}
        write_capture(tmp_path / f"{name}.h5", call)
    (note,) = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)["notes"]
    assert (note["section"], note["name"], note["may_decide"]) == ("outputs_before", "grad_value", True)
    assert note["elements"]["different"] == note["elements"]["total"] == call.outputs["grad_value"].size


def test_calls_of_several_threads_have_no_order(diff, tmp_path, rng):
    """Each call finds its partner by its numbers; one that differs, by its inputs."""
    calls = [call_of(make_problem(rng, queries=4 + i % 2)) for i in range(6)]

    def write(name, order, threads):
        for i, thread in enumerate(threads):
            calls[i].facts["thread"] = thread
        write_capture(tmp_path / f"{name}.h5", [calls[i] for i in order], overwrite=True)
    write("a", range(6), [1, 2, 1, 2, 1, 2])
    write("b", [1, 0, 2, 3, 5, 4], [8, 9, 8, 9, 8, 9])
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)
    assert result["compared"]["invocations"] == 6
    assert [(note["section"], note["a"], note["b"], note["may_decide"]) for note in result["notes"]] == [("order", "0 1 2 3 4 5", "1 0 2 3 5 4", False)]
    write("b", [2, 1, 0, 3, 4, 5], [8, 9, 8, 9, 8, 9])  # the first thread's first two calls are exchanged
    assert [(note["section"], note["may_decide"]) for note in diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)["notes"]] == [("order", True)]
    calls[4].outputs["grad_value"][0, 0] += 1
    write("b", [1, 0, 4, 2, 3, 5], [8, 9, 8, 9, 8, 9])
    (entry,) = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)["differences"]
    assert (entry["invocations"], entry["name"]) == ([4, 2], "grad_value")
    write("b", [1, 0, 2, 3, 5], [8, 9, 8, 9, 8, 9])
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)
    assert (result["only_a"], result["only_b"], result["differences"]) == ([4], [], [])
    # In one thread the order counts.
    write("a", range(6), [1] * 6)
    write("b", [1, 0, 2, 3, 4, 5], [8] * 6)
    assert diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)["first"]["invocations"] == [0, 0]


def test_results_of_calls_that_are_recorded_once(diff, tmp_path, rng):
    """Repetitions of a call with the same inputs gave one result in one run, two in the other."""
    call = call_of(make_problem(rng))
    for name, facts in (("a", {}), ("b", {"duplicates": 5, "distinct_outputs": 1}), ("c", {"duplicates": 5, "distinct_outputs": 2})):
        call.facts.update(facts)
        write_capture(tmp_path / f"{name}.h5", call)
    assert diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=0)["notes"] == []
    assert diff(tmp_path / "b.h5", tmp_path / "c.h5", expect=1)["differences"] == [
        {"invocations": [0, 0], "section": "outputs", "name": "distinct_outputs", "a": "1", "b": "2"}]


def test_conventions_sizes_and_missing_calls(diff, tmp_path, rng):
    inputs, larger = make_problem(rng), make_problem(rng, queries=21)
    write_capture(tmp_path / "a.h5", [call_of(inputs), call_of(inputs)])
    write_capture(tmp_path / "b.h5", [call_of(larger, dialect="msda_triton", align_corners=True)])
    result = diff(tmp_path / "a.h5", tmp_path / "b.h5", expect=1)
    assert result["only_a"] == [1] and result["only_b"] == []
    by_name = {(difference["section"], difference["name"]): difference for difference in result["differences"]}
    by_name.update({(note["section"], note["name"]): note for note in result["notes"]})
    assert by_name["conventions", "dialect"]["b"] == "msda_triton" and by_name["conventions", "align_corners"]["a"] == "false"
    assert "20" in by_name["inputs", "grad_output"]["a"] and "elements" not in by_name["inputs", "grad_output"]
    assert result["first"]["section"] == "inputs"


def test_bad_operands(replay, tmp_path, rng):
    write_capture(tmp_path / "a.h5", [call_of(make_problem(rng))] * 2)
    for b, words in ((tmp_path / "no.h5", "no.h5"), (f"{tmp_path / 'a.h5'}:7", "7"), (f"{tmp_path / 'a.h5'}:x", "x")):
        assert words in replay("diff", tmp_path / "a.h5", b, expect=2).err
    err = replay("diff", tmp_path / "a.h5", tmp_path / "a.h5", "--slices", expect=2).err
    assert f"{tmp_path / 'a.h5'}: has 2 invocations, and --slices compares one: name one, as FILE:0\n" in err


def test_nothing_to_compare(replay, tmp_path):
    for name in "ab":
        write_capture(tmp_path / f"{name}.h5", [])
    err = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=2).err
    assert f"{tmp_path / 'a.h5'} and {tmp_path / 'b.h5'}: hold no calls to compare; msda-replay doctor" in err


def only_batch(inputs, b):
    return {name: array if name == "spatial_shapes" else array[b: b + 1] for name, array in inputs.items()}


def test_slices_of_damaged_data_name_the_capture(replay, tmp_path, rng):
    whole, damaged = tmp_path / "whole.h5", tmp_path / "damaged.h5"
    for path in (whole, damaged):
        write_capture(path, call_of(make_problem(rng)))
    with h5py.File(damaged, "r+") as file:
        file["invocations/000000/inputs/value"][0, 0, 0, 0] += 1
    assert replay("diff", whole, damaged, "--slices", expect=2).err.startswith(f"msda-replay: {damaged}: damaged, so there is no verdict")


def test_slices(diff, tmp_path, rng):
    inputs = make_problem(rng, batch=3, queries=60)
    write_capture(tmp_path / "whole.h5", call_of(inputs))
    alone = call_of(only_batch(inputs, 2))
    write_capture(tmp_path / "alone.h5", alone)
    result = diff(tmp_path / "whole.h5", tmp_path / "alone.h5", "--slices", expect=0)
    (pair,) = result["slices"]["equal_batches"]
    assert (pair["a"], pair["b"]) == (2, 0) and {gradient["different"] for gradient in pair["gradients"]} == {0}
    modes = {entry["mode"]: entry for entry in result["slices"]["replayed_a"]}
    assert modes["deterministic"] == {"mode": "deterministic", "batches": 3, "different": []}
    # The order of atomic additions is drawn for each batch by its number: batch 0 keeps its own.
    assert 0 not in modes["atomic"]["different"] and modes["atomic"]["different"]
    alone.outputs["grad_attention_weights"][0, 1] += 1
    write_capture(tmp_path / "alone.h5", alone, overwrite=True)
    result = diff(tmp_path / "whole.h5", tmp_path / "alone.h5", "--slices", expect=1)
    different = {gradient["tensor"]: gradient["different"] for gradient in result["slices"]["equal_batches"][0]["gradients"]}
    assert different == {"grad_value": 0, "grad_sampling_locations": 0, "grad_attention_weights": 2 * 2 * 2}
