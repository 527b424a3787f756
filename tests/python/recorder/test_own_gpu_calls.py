"""Recording of msda_cuda_backward, on the stand-in driver and a libmsda whose GPU side computes on its memory
(tests/stand_in_msda). Programs save what they read back from the device; captures are compared with that."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import BUILD, GRADIENTS, SOURCE, said
from support.launches import described
from support.recording import environment, pytestmark, record  # noqa: F401

from msda_replay import read_capture

LINKED = BUILD / "stand_in" / "stand_in_msda_linked"
LIBRARY = BUILD / "stand_in" / "libstand_in_msda.so"
INPUTS = ("value", "spatial_shapes", "sampling_locations", "attention_weights", "grad_output")

PRELUDE = f"""
import errno, sys, os, threading
sys.path.insert(0, {str(SOURCE / 'tools' / 'bench')!r})
import ctypes, numpy as np
from libmsda import Call, Options, make_inputs, tensor_at, DETERMINISTIC, ATOMIC, FLOAT64
small = dict(B=1, Q=8, M=2, P=2, D=4, levels=((5, 6), (3, 2)))
cuda = ctypes.CDLL({str(BUILD / 'stand_in' / 'libcuda.so.1')!r})
msda = ctypes.CDLL({str(LIBRARY)!r}, use_errno=True)
u64 = ctypes.c_uint64
context = ctypes.c_void_p()


def do(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name


def enter():
    do("cuInit", 0)
    do("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    do("cuCtxSetCurrent", context)


def stream():
    handle = ctypes.c_void_p()
    do("cuStreamCreate", ctypes.byref(handle), 1)
    return handle


class Device:
    # A copy of an array, which may be a view of another, with its strides and all that lies between its elements.
    def __init__(self, array):
        self.array, base = array, array if array.base is None else array.base
        self.base = base
        self.memory = u64()
        do("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(max(base.nbytes, 1)))
        do("cuMemcpyHtoD_v2", self.memory, ctypes.c_void_p(base.ctypes.data), ctypes.c_size_t(base.nbytes))
        self.tensor = tensor_at(self.memory.value + array.ctypes.data - base.ctypes.data if array.size else None, array.dtype.name,
                                array.shape, [stride // array.itemsize for stride in array.strides])

    def read(self):
        base = np.empty_like(self.base)
        do("cuMemcpyDtoH_v2", ctypes.c_void_p(base.ctypes.data), self.memory, ctypes.c_size_t(base.nbytes))
        array = self.array
        return np.ndarray(array.shape, array.dtype, base, array.ctypes.data - self.base.ctypes.data, array.strides).copy()


def host(array):
    return tensor_at(array.ctypes.data, array.dtype.name, array.shape, [s // array.itemsize for s in array.strides])


def begin(inputs, on=None, mode=None, want=("value", "sampling_locations", "attention_weights"), laid=lambda a: a, conventions=(1, 1, 0),
          starts=None, stages=0):
    # The status, and a function that waits and gives all tensors.
    put = {{name: Device(laid(inputs[name])) for name in inputs if name != "spatial_shapes"}}
    got = {{name: Device(laid(np.full_like(inputs[name], 7))) for name in want}}
    shapes, starts = inputs["spatial_shapes"], np.zeros((), np.int64) if starts is None else starts
    call = Call(*conventions, put["value"].tensor, host(shapes), host(starts), put["sampling_locations"].tensor,
                put["attention_weights"].tensor)
    results = [ctypes.byref(got[name].tensor) if name in got else None for name in ("value", "sampling_locations", "attention_weights")]
    options = None if mode is None else ctypes.byref(Options(mode, 0, 0, stages))
    ctypes.set_errno(33)
    status = msda.msda_cuda_backward(ctypes.byref(call), ctypes.byref(put["grad_output"].tensor), options, *results, on)
    # Where two threads make a static local of the called library at once, the one that waits is left EAGAIN, recorder or not.
    assert ctypes.get_errno() == 33 or (threading.active_count() > 1 and ctypes.get_errno() == errno.EAGAIN), ctypes.get_errno()

    def end():
        do("cuStreamSynchronize", on)
        return {{**{{name: device.read() for name, device in put.items()}}, "spatial_shapes": shapes,
                 **{{"grad_" + name: device.read() for name, device in got.items()}}}}

    return status, end


def backward(inputs, **how):
    status, end = begin(inputs, **how)
    assert status == 0, status
    return end()
"""


@pytest.fixture
def target(tmp_path):
    """A Python program that finds msda_cuda_backward by dlsym; `save(NAME=...)` leaves tensors for the test."""
    path = tmp_path / "target.py"

    def make(body, entered=True):
        path.write_text(PRELUDE + f"\ndef save(name, tensors): np.savez({str(tmp_path)!r} + '/' + name + '.npz', **tensors)\n"
                        + ("enter()\n" if entered else "") + textwrap.dedent(body))
        return [sys.executable, str(path)]

    make.saved = lambda name: np.load(tmp_path / f"{name}.npz")
    return make


def same(call, truth, outputs=GRADIENTS):
    assert set(call.outputs) == set(outputs) and set(call.inputs) >= set(INPUTS)
    for name, array in {**call.inputs, **call.outputs}.items():
        assert array.dtype == truth[name].dtype and array.shape == truth[name].shape, name
        assert array.tobytes() == truth[name].tobytes(), name


def test_a_program_that_is_linked(replay, tmp_path):
    capture, alone, recorded = (tmp_path / name for name in ("a.h5", "alone", "recorded"))
    alone.mkdir()
    recorded.mkdir()
    plain = subprocess.run([LINKED, alone], capture_output=True, text=True, env=environment())
    done = record(LINKED, recorded, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert (done.returncode, done.stdout) == (0, plain.stdout) and plain.stdout == "status 0 errno 33\n" * 2
    assert said(done.stderr) == f"msda-record: {capture}: 2 invocations\n"
    for number, call in enumerate(read_capture(capture).invocations):
        for name, array in {**call.inputs, **call.outputs}.items():
            if name == "spatial_shapes":
                assert array.tolist() == [[5, 6], [1, 5]]
            else:
                truth = (recorded / f"{number}.{name}").read_bytes()
                assert array.tobytes() == truth == (alone / f"{number}.{name}").read_bytes(), name
        assert len(call.inputs) == 5 and len(call.outputs) == 3
        assert (call.dialect, call.padding_mode, call.align_corners) == ("deformable_detr", "zeros", False)
    assert replay("verify", capture, expect=0)
    for invocation in replay("run", capture, "--json", "-", expect=0).json["invocations"]:
        assert invocation["findings"] == []


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_what_a_call_through_dlsym_leaves(replay, tmp_path, target, asynchronous):
    capture = tmp_path / "a.h5"
    command = target("""
        recorder = ctypes.CDLL(None)
        if hasattr(recorder, "msda_record_label"): recorder.msda_record_label(b"first")
        on, inputs = stream(), make_inputs(**small)
        save("first", backward(inputs, on=on))
        for _ in range(4): backward(inputs, on=stream())      # the same again, wherever: counted
        backward(inputs, on=on, mode=DETERMINISTIC)           # which is the default
        save("second", backward(make_inputs(**small, seed=5), mode=FLOAT64, starts=np.array([0, 30], np.int32)))
        backward(inputs, on=on, mode=FLOAT64)                 # another mode is another call
        backward(inputs, on=on, mode=3, stages=256)
        print("stream", on.value, "kernels", msda.stand_in_msda_kernels())
    """)
    plain = subprocess.run(command, capture_output=True, text=True, env=environment())
    done = record(*command, options=["-o", capture], MSDA_STAND_IN_ASYNC=asynchronous)
    assert done.returncode == 0, done.stderr
    first, second, third, mixed = read_capture(capture).invocations
    same(first, target.saved("first"))
    assert {**first.inputs}.keys() == set(INPUTS)
    truth = dict(target.saved("second"))
    same(second, {**truth, "level_start_index": np.array([0, 30], np.int32)})
    assert "level_start_index" in second.inputs
    assert first.kernel == second.kernel == "msda_cuda_backward" and first.facts["label"] == "first"
    assert (first.dialect, first.padding_mode, first.align_corners) == ("msda_triton", "border", False)
    # The double's kernels ran, and the launch hooks did not record them.
    assert "kernels 45" in done.stdout and "kernels 45" in plain.stdout
    assert first.facts["stream"] == int(done.stdout.split()[1]) != 0 and second.facts["stream"] == 0
    assert [call.facts["device"] for call in (first, second)] == [0, 0]
    assert [call.facts["mode"] for call in (first, second, third, mixed)] == ["deterministic", "float64", "float64", "mixed"]
    assert mixed.facts["float64_stages"] == 256 and "float64_stages" not in first.facts
    assert (first.facts["duplicates"], first.facts["distinct_outputs"]) == (5, 1)
    replay("verify", capture, expect=0)
    listed = replay("list", capture, expect=0).out
    assert listed.count("msda_cuda_backward") == 4
    assert "msda_cuda_backward" in replay("show", capture, expect=0).out
    result = replay("run", capture, "--invocation", 0, "--json", "-", expect=0).json["invocations"][0]
    assert result["findings"] == []
    replay("run", capture, expect=0)


def test_tensors_with_strides(replay, tmp_path, target):
    """Any layout: transposed, reversed, every second element, stride 0; in the capture in row-major order."""
    capture = tmp_path / "a.h5"
    command = target("""
        def transposed(array): return np.ascontiguousarray(array.T).T
        def backwards(array): return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
        def gaps(array):
            wide = np.full(array.shape[:-1] + (2 * array.shape[-1] + 3,), 99, array.dtype)
            wide[..., 1:-2:2] = array
            return wide[..., 1:-2:2]
        for i, laid in enumerate((transposed, backwards, gaps)):
            save(str(i), backward(make_inputs(**small, seed=i), laid=laid, on=stream()))
        inputs = make_inputs(**small, seed=9)
        single = np.full(1, 0.25, np.float32)
        inputs["attention_weights"] = np.lib.stride_tricks.as_strided(single, inputs["attention_weights"].shape, (0,) * 5)
        inputs["attention_weights"] = np.ndarray(inputs["attention_weights"].shape, np.float32, single, 0, (0,) * 5)
        save("3", backward(inputs, want=("value", "sampling_locations")))
    """)
    done = record(*command, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert done.returncode == 0 and said(done.stderr) == f"msda-record: {capture}: 4 invocations\n"
    invocations = read_capture(capture).invocations
    for number, call in enumerate(invocations):
        same(call, target.saved(str(number)), GRADIENTS[:2] if number == 3 else GRADIENTS)
    replay("run", capture, expect=0)


def test_outputs_that_are_not_wanted(replay, tmp_path, target):
    """The requested outputs distinguish calls: a later one is no repetition, and nothing is nondeterministic."""
    capture = tmp_path / "a.h5"
    command = target("""
        inputs = make_inputs(**small)
        save("0", backward(inputs, want=("sampling_locations",)))
        save("1", backward(inputs))
        backward(inputs, want=())
        backward(inputs, want=("sampling_locations",))
    """)
    done = record(*command, options=["-o", capture])
    assert done.returncode == 0, done.stderr
    invocations = read_capture(capture).invocations
    assert [sorted(call.outputs) for call in invocations][:2] == [["grad_sampling_locations"], sorted(GRADIENTS)]
    same(invocations[0], target.saved("0"), GRADIENTS[1:2])
    same(invocations[1], target.saved("1"))
    assert (invocations[0].facts["duplicates"], invocations[0].facts["distinct_outputs"]) == (1, 1)
    replay("run", capture, "--invocation", 0, expect=0)


def test_calls_that_fail_or_cannot_be_read(tmp_path, target):
    """The status is the call's own, nothing is recorded, and a good call after them is."""
    capture = tmp_path / "a.h5"
    command = target("""
        inputs = make_inputs(**small)
        print("status", begin(inputs, conventions=(0, 1, 0))[0], begin(inputs, conventions=(77, 0, 0))[0], begin(inputs, mode=9)[0])
        wrong = dict(inputs, grad_output=inputs["grad_output"][:, :-1].copy())
        print("status", begin(wrong)[0], msda.msda_cuda_backward(*[None] * 7))
        strange = dict(inputs)
        backward(inputs, want=("value",))
        # Memory of the host's own, which the double reads, and a GPU would not.
        elsewhere = Device.__init__
        def on_host(self, array):
            elsewhere(self, array)
            if array is inputs["value"]: self.tensor.data = array.ctypes.data
        Device.__init__ = on_host
        print("status", begin(inputs)[0])
    """)
    plain = subprocess.run(command, capture_output=True, text=True, env=environment())
    done = record(*command, options=["-o", capture])
    assert (done.returncode, done.stdout) == (0, plain.stdout) and plain.stdout.startswith("status 1 1 1\nstatus 1 1\n"), done.stderr
    (call,) = read_capture(capture).invocations
    assert list(call.outputs) == ["grad_value"]
    assert said(done.stderr) == ("msda-record: kernel msda_cuda_backward is not recorded: value does not lie in device memory from end to end\n"
                           f"msda-record: {capture}: 1 invocation\n")


def test_a_stream_that_is_captured(tmp_path, target):
    """The call goes into the graph unrecorded, and the capture stays whole, also one of another thread's."""
    capture = tmp_path / "a.h5"
    command = target("""
        inputs, on, second = make_inputs(**small), stream(), stream()
        backward(make_inputs(**small, seed=1))
        tensors = begin(inputs, on=second)
        do("cuStreamSynchronize", second)
        ready = [Device(inputs[name]) for name in ("value", "sampling_locations", "attention_weights", "grad_output")]
        results = [Device(inputs[name]) for name in ("value", "sampling_locations", "attention_weights")]
        starts = np.zeros((), np.int64)
        call = Call(1, 1, 0, ready[0].tensor, host(inputs["spatial_shapes"]), host(starts), ready[1].tensor, ready[2].tensor)
        do("cuStreamBeginCapture_v2", on, 0)
        status = msda.msda_cuda_backward(ctypes.byref(call), ctypes.byref(ready[3].tensor), None,
                                         *[ctypes.byref(result.tensor) for result in results], on)
        graph = ctypes.c_void_p()
        print("status", status, cuda.cuStreamEndCapture(on, ctypes.byref(graph)), bool(graph))
    """)
    plain = subprocess.run(command, capture_output=True, text=True, env=environment())
    done = record(*command, options=["-o", capture])
    assert (done.returncode, done.stdout) == (0, plain.stdout) and plain.stdout == "status 0 0 True\n", done.stderr
    assert "kernel msda_cuda_backward is not recorded: its stream is being captured into a CUDA graph" in done.stderr
    assert len(read_capture(capture).invocations) == 2


@pytest.mark.long
def test_a_stream_that_does_not_come_forward(tmp_path, target):
    """The recorder waits for ten seconds, not longer; the call itself goes on."""
    capture = tmp_path / "a.h5"
    command = target("""
        inputs, on, gate = make_inputs(**small), stream(), threading.Event()
        hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait() and None)
        do("cuLaunchHostFunc", on, hold, None)
        threading.Timer(12, gate.set).start()
        save("late", backward(inputs, on=on))
        save("next", backward(make_inputs(**small, seed=5), on=on))
    """)
    done = record(*command, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert done.returncode == 0, done.stderr
    assert said(done.stderr) == ("msda-record: kernel msda_cuda_backward is not recorded: its stream did not finish its earlier work within 10 s, or failed\n"
                           f"msda-record: {capture}: 1 invocation\n")
    same(read_capture(capture).invocations[0], target.saved("next"))
    late = target.saved("late")
    subprocess.run(target("save('alone', backward(make_inputs(**small)))"), check=True, env=environment())
    assert all(array.tobytes() == late[name].tobytes() for name, array in target.saved("alone").items())


def test_threads(tmp_path, target):
    """Two threads, a stream each; then one that has not used CUDA, whose call takes the first device's context."""
    capture = tmp_path / "a.h5"
    command = target("""
        def work(number):
            enter()
            on = stream()
            for i in range(10): save(f"{number}-{i}", backward(make_inputs(**small, seed=100 * number + i), on=on))
        threads = [threading.Thread(target=work, args=[i]) for i in range(2)]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
        # Put there and read back by this thread, called by another.
        inputs, result = make_inputs(**small, seed=999), []
        ready = {name: Device(array) for name, array in inputs.items()}
        gradient = Device(np.full_like(inputs["value"], 7))
        starts = np.zeros((), np.int64)
        call = Call(1, 1, 0, ready["value"].tensor, host(inputs["spatial_shapes"]), host(starts),
                    ready["sampling_locations"].tensor, ready["attention_weights"].tensor)
        def bare():
            result.append(msda.msda_cuda_backward(ctypes.byref(call), ctypes.byref(ready["grad_output"].tensor), None,
                                                  ctypes.byref(gradient.tensor), None, None, None))
        thread = threading.Thread(target=bare)
        thread.start(); thread.join()
        assert result == [0]
        do("cuCtxSynchronize")
        save("bare", dict(inputs, grad_value=gradient.read()))
    """)
    done = record(*command, options=["-o", capture], MSDA_STAND_IN_ASYNC=1)
    assert done.returncode == 0 and said(done.stderr) == f"msda-record: {capture}: 21 invocations\n", done.stderr
    truths = {(truth := target.saved(f"{number}-{i}"))["value"].tobytes(): truth for number in range(2) for i in range(10)}
    *calls, last = read_capture(capture).invocations
    assert {call.inputs["value"].tobytes() for call in calls} == set(truths)
    for call in calls:
        same(call, truths[call.inputs["value"].tobytes()])
    assert len({call.facts["thread"] for call in calls}) == 2 == len({call.facts["stream"] for call in calls})
    same(last, target.saved("bare"), GRADIENTS[:1])


def test_options_of_the_recorder(replay, tmp_path, target):
    command = target("""
        for seed in range(4): backward(make_inputs(**small, seed=seed), on=stream())
        import ctypes.util
        ctypes.CDLL(None).srand(77)
        backward(make_inputs(**small, seed=3), on=stream())
    """)
    whole = tmp_path / "whole.h5"
    record(*command, options=["-o", whole, "--stages", "summary"])
    capture = read_capture(whole)
    invocations = capture.invocations
    assert len(invocations) == 4 and invocations[3].facts["duplicates"] == 1
    assert "grad_value" in replay("show", whole, "--invocation", 0, expect=0).out
    assert 77 in [int(seed["value"]) for seed in capture.run["seeds"]]
    done = record(*command, options=["-o", tmp_path / "k.h5", "--kernel", "col2im"])
    assert "no call was recorded" in done.stderr
    done = record(*command, options=["-o", tmp_path / "k.h5", "--kernel", "msda_cuda"])
    assert "4 invocations" in done.stderr
    record(*command, options=["-o", tmp_path / "last.h5", "--keep", "last:2"])
    assert [call.inputs["value"].tobytes() for call in read_capture(tmp_path / "last.h5").invocations] == [
        call.inputs["value"].tobytes() for call in invocations[2:]]
    done = record(*command, options=["-o", tmp_path / "max.h5", "--max-bytes", "20000"])
    assert "MSDA_RECORD_MAX_BYTES is reached" in done.stderr
    record(*command, options=["-o", tmp_path / "digests.h5", "--digest-only"])
    for call, full in zip(read_capture(tmp_path / "digests.h5").invocations, invocations, strict=True):
        assert not call.inputs and not call.outputs
        assert call.digests == {f"{section}/{name}": described(array) for section in ("inputs", "outputs")
                                for name, array in getattr(full, section).items()}


def test_nondeterminism_shows(tmp_path, target):
    """Only in the mode atomic, the double adds in another order every time."""
    capture = tmp_path / "a.h5"
    command = target("""
        inputs = make_inputs(**dict(small, Q=400, levels=((1, 1), (1, 2))))
        for _ in range(3): backward(inputs)
        for _ in range(12): backward(inputs, mode=ATOMIC)
    """)
    record(*command, options=["-o", capture])
    ordered, call = read_capture(capture).invocations
    assert (ordered.facts["duplicates"], ordered.facts["distinct_outputs"]) == (2, 1)
    assert (call.facts["mode"], call.facts["duplicates"]) == ("atomic", 11) and call.facts["distinct_outputs"] > 1


def test_where_only_a_plugin_has_libmsda(tmp_path, target):
    """Then the real function is not behind the recorder's in the order of symbols; here that of the CPU."""
    capture = tmp_path / "a.h5"
    command = target(f"""
        plugin = ctypes.CDLL({str(BUILD / 'stand_in' / 'libstand_in_msda_plugin.so')!r})
        inputs, starts = make_inputs(**small), np.zeros((), np.int64)
        tensors = {{name: host(array) for name, array in inputs.items()}}
        call = Call(1, 1, 0, tensors["value"], tensors["spatial_shapes"], host(starts), tensors["sampling_locations"],
                    tensors["attention_weights"])
        gradient = np.full_like(inputs["value"], 7)
        print(plugin.plugin_backward(ctypes.byref(call), ctypes.byref(tensors["grad_output"]), ctypes.byref(host(gradient))))
        save("one", dict(inputs, grad_value=gradient))
    """, entered=False)
    text = (tmp_path / "target.py").read_text()
    (tmp_path / "target.py").write_text(re.sub(r"^msda = ctypes.CDLL.*$", "", text, count=1, flags=re.M))
    done = record(*command, options=["-o", capture])
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    (call,) = read_capture(capture).invocations
    assert call.kernel == "msda_backward"
    same(call, target.saved("one"), GRADIENTS[:1])


def test_where_there_is_no_driver(tmp_path, target):
    """The double loads the driver in the first call; before that the recorder cannot copy."""
    capture = tmp_path / "a.h5"
    command = target("""
        empty = make_inputs(**dict(small, B=0))
        tensors = {name: tensor_at(None, array.dtype.name, array.shape, [1] * array.ndim) for name, array in empty.items()}
        shapes, starts = empty["spatial_shapes"], np.zeros((), np.int64)
        call = Call(1, 1, 0, tensors["value"], host(shapes), host(starts), tensors["sampling_locations"], tensors["attention_weights"])
        results = [ctypes.byref(tensors[name]) for name in ("value", "sampling_locations", "attention_weights")]
        print(msda.msda_cuda_backward(ctypes.byref(call), ctypes.byref(tensors["grad_output"]), None, *results, None))
        cuda = ctypes.CDLL("libcuda.so.1")
        enter()
        save("one", backward(make_inputs(**small)))
    """, entered=False)
    text = (tmp_path / "target.py").read_text()
    (tmp_path / "target.py").write_text(re.sub(r"^cuda = ctypes.CDLL\(.*libcuda.*$", "", text, count=1, flags=re.M))
    done = record(*command, options=["-o", capture], LD_LIBRARY_PATH=BUILD / "stand_in")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert "kernel msda_cuda_backward is not recorded: the process had not loaded the CUDA driver before it" in done.stderr
    (call,) = read_capture(capture).invocations
    same(call, target.saved("one"))
