"""record: calls of PyTorch's operators on a CPU, as a capture holds them, and that the program does not notice."""

import json
import os
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from conftest import SOURCE

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

import msda_replay  # noqa: E402 (after PyTorch)
from support.torch_calls import CALLS, indices, random  # noqa: E402

from msda_replay import read_capture  # noqa: E402

def recorded(path, work, **how):
    with msda_replay.record(path, **how) as record:
        returned = work()
    return record, returned, read_capture(path).invocations


def verdicts(replay, path):
    done = replay("run", path, "--invocation", "all", "--json", "-", "--atol", "0", "--rtol", "0")
    return [invocation["verdict"] for invocation in json.loads(done.out)["invocations"]]


@pytest.mark.parametrize("name", CALLS)
def test_call_is_recorded_and_explained(name, tmp_path, replay):
    """The program gets what it gets without, the file holds that, and rounding explains its distance from float64."""
    work, facts = CALLS[name]
    torch.manual_seed(5)
    plain = work()
    torch.manual_seed(5)
    record, returned, (call,) = recorded(tmp_path / "x.h5", work)
    results = [tensor for tensor in (returned if isinstance(returned, tuple) else (returned,))]
    for mine, expected in zip(results, plain if isinstance(plain, tuple) else (plain,)):
        assert torch.equal(mine, expected)
    saved = [call.outputs[key].reshape(-1) for key in ("grad_input", "grad_grid", "sum") if key in call.outputs]
    assert len(saved) == len(results) and record.calls == 1
    for array, tensor in zip(saved, results):
        assert np.array_equal(array.astype(np.float64), tensor.detach().double().numpy().reshape(-1))
    assert facts.items() <= call.facts.items()
    (verdict,) = verdicts(replay, tmp_path / "x.h5")
    assert verdict["at_fault"] in ("none", "tolerance") and "implementation_error" not in verdict["causes"]


def test_wrong_results_are_named(tmp_path, replay, monkeypatch):
    """An operator of PyTorch that doubles an addend: the recorded side is at fault."""
    torch.manual_seed(5)
    _, _, (call,) = recorded(tmp_path / "x.h5", CALLS["index_add"][0])
    call.outputs["sum"][0, 0] += call.inputs["source"][0, 0]
    msda_replay.write_capture(tmp_path / "wrong.h5", call)
    (verdict,) = verdicts(replay, tmp_path / "wrong.h5")
    assert verdict["at_fault"] == "observed" and verdict["causes"].get("implementation_error") == 1


def test_labels_are_modules(tmp_path):
    class Inner(torch.nn.Module):
        def forward(self, rows):
            return rows.index_add(0, indices(4, 9), random(9, 2))

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.inner = torch.nn.Embedding(7, 2), Inner()

        def forward(self, words):
            return self.inner(self.words(words))

    model = Outer()
    _, _, calls = recorded(tmp_path / "x.h5", lambda: model(indices(7, 4)).sum().backward())
    assert [(call.kernel, call.facts["label"]) for call in calls] == [
        ("aten::index_add", "Outer.inner"),
        ("aten::embedding_dense_backward", "Outer.words"),
    ]


def test_a_backward_pass_has_the_module_of_its_forward_call(tmp_path):
    """A module whose input's gradient is not complete yet is not the one that gathered it."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.middle = torch.nn.Linear(3, 3)

        def forward(self, rows, first, second):
            return torch.cat([rows[first], self.middle(rows)[second]])

    _, _, calls = recorded(tmp_path / "x.h5", lambda: Net()(random(4, 3).requires_grad_(), indices(4, 9), indices(4, 9)).sum().backward())
    assert [(call.kernel, call.facts["label"]) for call in calls] == [("aten::index_put", "Net")] * 2


def test_calls_have_their_lines_of_source(replay, tmp_path):
    """Also those of a backward pass, which distinguishes two gathers in one function."""
    def forward(rows):
        first = rows[indices(4, 9)]
        second = rows.index_select(0, indices(4, 9))
        return first.sum() + (second * second).sum()

    def work():
        forward(random(4, 2).requires_grad_()).backward()
        random(4, 2).index_add(0, indices(4, 9), random(9, 2))

    _, _, calls = recorded(tmp_path / "x.h5", work)
    at, own = (function.__code__.co_firstlineno for function in (forward, work))
    here = f"{os.path.relpath(__file__)}:"
    lines = [f"backward pass of {here}{at + 2} forward", f"backward pass of {here}{at + 1} forward", f"{here}{own + 2} work"]
    assert [(call.kernel, call.facts["source_line"]) for call in calls] == list(zip(["aten::index_add", "aten::index_put", "aten::index_add"], lines))
    outside = forward(random(4, 2).requires_grad_())
    assert not any("source_line" in call.facts for call in recorded(tmp_path / "y.h5", outside.backward)[2])
    listed, run = replay("list", tmp_path / "x.h5", expect=0).words, replay("run", tmp_path / "x.h5", "--verbose", expect=0).words
    assert all(line in listed and line in run for line in lines)
    calls[0].outputs["sum"][0, 0] += 1
    msda_replay.write_capture(tmp_path / "z.h5", calls)
    assert f"of aten::index_add, {lines[0]} " in replay("diff", tmp_path / "x.h5", tmp_path / "z.h5", expect=1).words
    assert replay("diff", tmp_path / "x.h5", tmp_path / "z.h5", "--json", "-", expect=1).json["first"]["source_line"] == lines[0]
    replay("export", tmp_path / "x.h5", "--invocation", 0, "--to", "zip", "--anonymous", "-o", tmp_path / "x.zip", expect=0)
    assert b"test_torch_record" not in b"".join(map(zipfile.ZipFile(tmp_path / "x.zip").read, zipfile.ZipFile(tmp_path / "x.zip").namelist()))


@pytest.mark.parametrize("module, name", [(torch._C._autograd, "_get_sequence_nr"), (torch._C, "_current_autograd_node")])
def test_calls_have_no_lines_where_pytorch_does_not_say_them(module, name, monkeypatch, tmp_path):
    monkeypatch.delattr(module, name)
    _, _, (call,) = recorded(tmp_path / "x.h5", CALLS["rows"][0])
    assert "source_line" not in call.facts


def test_what_is_left_out_is_said(tmp_path):
    def work():
        random(6, 5).index_add(1, indices(5, 40), random(6, 40), alpha=2)
        random(6, 5).scatter_reduce(0, indices(6, 30, 5), random(30, 5), "amax")
        random(6).index_put((indices(6, 3),), random(3))  # an assignment, which is no sum
        random(6, 5).index_put((indices(2, 6) == 0,), random(5), accumulate=True)

    with pytest.warns(UserWarning, match="no call of an operator that msda-replay knows"):
        record, _, calls = recorded(tmp_path / "x.h5", work)
    assert calls == [] and dict(record.left_out) == {
        "aten::index_add has an alpha that is not 1": 1,
        "aten::scatter_reduce reduces by amax": 1,
        "aten::index_put has other indices than integers of adjacent dimensions": 1,
    }


def test_memory_is_bounded(tmp_path):
    def work():
        for _ in range(5):
            torch.zeros(6, 5).index_add(0, indices(6, 30), random(30, 5))

    each = 4 * (30 * 5 + 2 * 6 * 5) + 8 * 30
    record, _, calls = recorded(tmp_path / "x.h5", work, max_bytes=2 * each + 9)
    assert len(calls) == 2 and dict(record.left_out) == {"aten::index_add needs more memory than max_bytes leaves": 3}


def test_exception_of_the_program_keeps_the_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with msda_replay.record(tmp_path / "x.h5"):
            CALLS["index_add"][0]()
            1 / 0  # noqa: B018 (the program's mistake)
    assert len(read_capture(tmp_path / "x.h5").invocations) == 1


def test_existing_file_is_kept(tmp_path):
    recorded(tmp_path / "x.h5", CALLS["index_add"][0])
    with pytest.raises(msda_replay.CaptureError, match="exists"):
        with msda_replay.record(tmp_path / "x.h5"):
            raise AssertionError("the program began")
    recorded(tmp_path / "x.h5", CALLS["rows"][0], overwrite=True)


def test_trouble_of_the_recorder_is_not_the_programs(tmp_path, monkeypatch):
    from msda_replay.recording import operator_calls

    monkeypatch.setattr(operator_calls, "_copied", lambda tensor: 1 / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record, returned, calls = recorded(tmp_path / "x.h5", CALLS["rows"][0])
    assert returned.shape == (8, 3) and calls == []
    assert dict(record.left_out) == {"aten::index_put could not be read: ZeroDivisionError: division by zero": 1}


def test_nothing_is_computed_while_a_graph_is_captured(tmp_path, monkeypatch):
    """Not even what is needed to see whether the call can be recorded."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.warns(UserWarning, match="is captured in a CUDA graph"):
        record, _, calls = recorded(tmp_path / "x.h5", lambda: random(6).index_put((indices(6, 3),), random(3)))
    assert calls == [] and record.left_out == {"aten::index_put is captured in a CUDA graph": 1}


def test_cuda_is_not_begun(tmp_path, monkeypatch):
    """A program on the CPU must not get a context of the GPU, as it could then not fork."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: 1 / 0)
    record, _, calls = recorded(tmp_path / "x.h5", CALLS["index_add"][0])
    assert len(calls) == 1 and record.left_out == {}


def test_the_gpu_is_named(tmp_path, monkeypatch):
    """As the preloaded recorder names it, if the program uses one."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with msda_replay.record(tmp_path / "x.h5"):
        torch.zeros(6, 5).index_add(0, torch.zeros(1, dtype=int), torch.ones(1, 5))
    assert read_capture(tmp_path / "x.h5").run["gpu"] == "NVIDIA H200"


def test_tensors_without_data_are_left_out(tmp_path):
    from torch._subclasses.fake_tensor import FakeTensorMode

    def work():
        with FakeTensorMode():
            return torch.zeros(6, 5).index_add(0, torch.zeros(3, dtype=torch.int64), torch.zeros(3, 5))

    _, _, calls = recorded(tmp_path / "x.h5", lambda: (work(), CALLS["index_add"][0]()))
    assert len(calls) == 1


def test_a_file_that_cannot_be_written_hides_no_exception(tmp_path, monkeypatch):
    from msda_replay.recording import operator_calls

    def full(*_):
        raise msda_replay.CaptureError("x.h5: no room")

    monkeypatch.setattr(operator_calls, "write_capture", full)
    with pytest.warns(UserWarning, match="no room"), pytest.raises(ZeroDivisionError):
        with msda_replay.record(tmp_path / "x.h5"):
            CALLS["index_add"][0]()
            1 / 0  # noqa: B018 (the program's mistake)
    with pytest.raises(msda_replay.CaptureError, match="no room"):
        recorded(tmp_path / "y.h5", CALLS["index_add"][0])


def test_compiled_functions_stay_compiled(tmp_path):
    """The program would get other bits if recording had torch.compile fall back to PyTorch's own kernels."""
    if not hasattr(torch.utils._python_dispatch.TorchDispatchMode, "ignore_compile_internals"):
        pytest.skip("this PyTorch compiles nothing below a dispatch mode")
    compiled = []

    @torch.compile(backend=lambda graph, inputs: compiled.append(graph) or graph.forward)
    def step(rows):
        return 2 * rows

    recorded(tmp_path / "x.h5", lambda: (step(random(4, 3)), CALLS["index_add"][0]()))
    assert len(compiled) == 1


def test_operators_of_higher_order_run(tmp_path):
    """PyTorch refuses them below a mode that does not say what to do with them."""
    if not hasattr(torch.utils._python_dispatch.TorchDispatchMode, "supports_higher_order_operators"):
        pytest.skip("this PyTorch has no such operators below a dispatch mode")
    rows = random(4, 3)

    def work():
        CALLS["index_add"][0]()
        return torch.cond(rows.sum() > -100, lambda x: 2 * x, lambda x: 3 * x, (rows,))

    _, doubled, calls = recorded(tmp_path / "x.h5", work)
    assert torch.equal(doubled, 2 * rows) and len(calls) == 1


def test_recording_leaves_torch_compile_alone(tmp_path):
    """Importing msda_replay.torch changes what torch.compile compiles."""
    code = "import sys, torch, msda_replay\nwith msda_replay.record(sys.argv[1]): torch.zeros(6, 5).index_add(0, torch.zeros(1, dtype=int), torch.ones(1, 5))\n"
    done = subprocess.run([sys.executable, "-c", code + "print('msda_replay.torch' in sys.modules)", tmp_path / "x.h5"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(SOURCE / "tools" / "python")})
    assert done.stdout == "False\n", done.stderr


def test_a_probe_keeps_a_tensor_for_diff(tmp_path, replay):
    """It is the first that differs, before the call; the program notices nothing, and without a recording nothing is kept."""
    weight = torch.ones(4, 3, requires_grad=True)
    assert msda_replay.probe("batch", weight) is weight
    for name, factor in (("a", 1.0), ("b", 1.5)):
        batch = torch.full((4, 3), factor)

        def work(batch=batch):
            noisy = msda_replay.probe("after the noise", msda_replay.probe("batch", batch) * weight)
            torch.zeros(2, 3).index_add(0, torch.tensor([0, 1, 1, 0]), noisy).sum().backward()
            return weight.grad

        *_, calls = recorded(tmp_path / f"{name}.h5", work)
        assert [(call.kernel, call.facts.get("label")) for call in calls[:2]] == [("msda_replay.probe", "batch"), ("msda_replay.probe", "after the noise")]
        np.testing.assert_array_equal(calls[0].inputs["value"], batch.numpy())
        assert calls[2].kernel == "aten::index_add"
    first = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", "--json", "-", expect=1).json["first"]
    assert (first["kernel"], first["label"], first["section"]) == ("msda_replay.probe", "batch", "inputs")
    done = replay("run", tmp_path / "a.h5", expect=0).out
    assert "Invocation 0: not replayed: it is a value of the program, kept for diff" in done


def test_a_probe_keeps_any_value(tmp_path, replay, monkeypatch):
    """Two files are equal only where the values are; what cannot be kept is warned of, and never the program's error."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    first = {"mask": torch.tensor([True, False]), "image": torch.arange(6, dtype=torch.uint8), "spectrum": torch.ones(2, dtype=torch.complex64),
           "array": np.arange(3.0), "seed": 7, "rate": 0.5, "names": ["a", "b"], "generator": torch.Generator().manual_seed(1)}
    second = {"mask": torch.tensor([True, True]), "image": torch.ones(6, dtype=torch.uint8), "spectrum": torch.zeros(2, dtype=torch.complex64),
           "array": np.arange(3.0) + 1, "seed": 8, "rate": 0.25, "names": ["b", "a"], "generator": torch.Generator().manual_seed(2)}
    for file, values in (("a", first), ("same", first), ("b", second)):
        with msda_replay.record(tmp_path / f"{file}.h5") as recording:
            for name, value in values.items():
                assert msda_replay.probe(name, value) is value
        assert recording.calls == len(values) and not recording.left_out
    replay("diff", tmp_path / "a.h5", tmp_path / "same.h5", expect=0)
    differences = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", "--json", "-", expect=1).json
    assert {difference["label"] for difference in differences["differences"]} == set(first)
    assert "what it is made of is why" in differences["advice"]["why"]
    assert replay("show", tmp_path / "a.h5", "--json", "-", expect=0).json["run"]["environment"]["PYTHONHASHSEED"] == "0"
    with pytest.warns(UserWarning, match=r"not kept: msda_replay.probe\('thing'\) could not be read: ValueError: its text has an address"):
        with msda_replay.record(tmp_path / "x.h5"):
            msda_replay.probe("thing", object())
            msda_replay.probe("seed", 1)


def test_calls_that_are_left_out_are_named_by_diff(tmp_path, replay):
    """They may be what differs first: here an index by a mask."""
    for name, factor in (("a", 1.0), ("b", 2.0)):
        with msda_replay.record(tmp_path / f"{name}.h5"):
            columns = torch.ones(2, 3, requires_grad=True)
            (columns[:, torch.tensor([True, True, False])] * factor).sum().backward()
            torch.zeros(2, 3).index_add(0, torch.tensor([0, 1]), columns.grad)
    why = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", "--json", "-", expect=1).json["advice"]["why"]
    assert "; not recorded, and maybe why: 1 x aten::index_put has other indices than integers of adjacent dimensions" in why


def test_a_label_that_fails_is_no_error_of_the_program():
    from msda_replay.recording.operator_calls import OperatorCalls

    def label():
        raise RuntimeError("no label")

    seen = OperatorCalls(label)
    with seen:
        torch.zeros(3, 2).index_add(0, torch.tensor([0, 2]), torch.ones(2, 2))
    assert not seen.invocations and list(seen.left_out.values()) == [1]
