"""How libmsda enqueues its calls on a GPU, by their bits: calls that do not wait for one another, of several threads and on several
streams, within a capture into a CUDA graph and beside one, and after resets of the device. Each returns a line for every call whose
results are not the CPU's."""

import ctypes
import threading

from .compare import Placed
from .devices import OWN_STREAM
from .msda import LARGE, Problem

GLOBAL = 0  # capture mode: what may allocate is forbidden to all threads, except those in relaxed mode


class Calls:
    """Backward calls of many shapes, on device memory, and the CPU's results."""

    def __init__(self, cpu, gpu, seed, work, count=12):
        problems = [Problem(number, work, seed=seed) for number in range(count)]
        problems += [Problem(number, 0, seed=seed, size=LARGE[0]) for number in range(2 * (work >= 1_000_000))]  # divided in two
        self.calls = []
        for number, problem in enumerate(problems):
            arguments = problem, "backward", problem.results_of("backward"), "float64" if number % 5 == 4 else "deterministic"
            self.calls.append((problem, cpu.run(*arguments), Placed(gpu, *arguments)))

    def enqueue(self, rounds, stream_of):
        """All calls in turn, so often; `stream_of(i)`: the stream of the i-th."""
        for i in range(rounds * len(self.calls)):
            self.calls[i % len(self.calls)][2].enqueue(stream_of(i))

    def differing(self, what):
        found = []
        for number, (problem, ours, call) in enumerate(self.calls):
            names = problem.shapes_of("backward")
            if unlike := [name for name, a, b in zip(names, ours, call.fetch()) if a.tobytes() != b.tobytes()]:
                found.append(f"{what}, call {number}: {', '.join(unlike)}; {problem}")
        return found

    def free(self):
        for *_, call in self.calls:
            call.free()


def threads(cpu, gpu, rounds, work, count=12):
    """Four threads, each with a stream of its own: two are the threads' default streams, which have the same name."""
    streams = (1, 2, OWN_STREAM, OWN_STREAM)
    each, errors = [Calls(cpu, gpu, seed, work, count) for seed in range(4)], []

    def enqueue(number):
        try:
            gpu.device.wait()  # makes the context current
            each[number].enqueue(rounds, lambda _: streams[number])
            gpu.device.wait()  # a thread's default stream ends with it
        except RuntimeError as error:
            errors.append(str(error))

    for number in streams:
        gpu.device.stream(number)  # made before the threads need it
    started = [threading.Thread(target=enqueue, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    found = [line for number, calls in enumerate(each) for line in calls.differing(f"thread {number}")]
    for calls in each:
        calls.free()
    return found + errors


def streams(cpu, gpu, rounds, work, count=12):
    """One thread, two streams and the default stream in turn."""
    calls = Calls(cpu, gpu, 5, work, count)
    calls.enqueue(rounds, lambda i: (0, 1, 2)[i % 3])
    found = calls.differing("streams")
    calls.free()
    return found


def capture(cpu, gpu, rounds, work):
    """Calls on one stream into a graph, calls of other shapes beside it on another stream, and the graph's launches."""
    captured, beside, device = Calls(cpu, gpu, 6, work), Calls(cpu, gpu, 7, work), gpu.device
    stream, graph, instance = device.stream(1), ctypes.c_void_p(), ctypes.c_void_p()
    device.stream(2)
    device.do("cuStreamBeginCapture_v2", stream, GLOBAL)
    captured.enqueue(1, lambda _: 1)
    beside.enqueue(rounds, lambda _: 2)
    device.do("cuStreamEndCapture", stream, ctypes.byref(graph))
    device.do("cuGraphInstantiateWithFlags", ctypes.byref(instance), graph, ctypes.c_ulonglong(0))
    for _ in range(rounds):
        device.do("cuGraphLaunch", instance, stream)
    found = captured.differing("captured") + beside.differing("beside a capture")
    device.do("cuGraphExecDestroy", instance)
    device.do("cuGraphDestroy", graph)
    captured.free()
    beside.free()
    return found


def reset(cpu, gpu, rounds, work):
    """Resets of the device, and calls after each: its new context has the address of the one before."""
    found = []
    for number in range(4):
        calls = Calls(cpu, gpu, 8, work)
        calls.enqueue(rounds, lambda i: i % 2)
        found += calls.differing(f"after {number} resets")
        gpu.device.reset()
    return found
