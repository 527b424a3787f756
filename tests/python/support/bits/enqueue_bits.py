"""How libmsda enqueues its calls on a GPU, by their bits: calls that do not wait for one another, of several threads and on
several streams, within a capture into a CUDA graph and beside one, and after resets of the device. Needs NumPy and the CUDA
driver. Prints a line for each part and for each result that differs from the CPU's; exit status 1 if one does, 0 otherwise.
Without a GPU it says so and ends with 0."""

import ctypes
import sys
import threading

from bits_program import OWN_STREAM, Host, parser_of, run_parts
from operator_bits import GRADIENTS, LARGE, MODES, Placed, Problem, Side

PARTS = ("threads", "streams", "capture", "reset")
GLOBAL = 0  # capture mode: what may allocate is forbidden to all threads, except those in relaxed mode


class Calls:
    """Backward calls of many shapes, on device memory, and the CPU's results."""

    def __init__(self, cpu, gpu, seed, work, count=12):
        problems = [Problem(number, work, seed=seed) for number in range(count)]
        problems += [Problem(number, 0, seed=seed, size=LARGE[0]) for number in range(2 * (work >= 1_000_000))]  # divided in two
        self.calls = []
        for number, problem in enumerate(problems):
            results = [problem.result(problem.stage_shapes[stage]) for stage in GRADIENTS.values()]
            arguments = (problem, "backward", results, (MODES["float64" if number % 5 == 4 else "deterministic"], 0, 0, 0))
            self.calls.append((problem, cpu.run(*arguments), Placed(gpu, *arguments)))

    def __len__(self):
        return len(self.calls)

    def enqueue(self, rounds, stream_of):
        """All calls in turn, so often; `stream_of(i)`: the stream of the i-th."""
        for i in range(rounds * len(self.calls)):
            self.calls[i % len(self.calls)][2].enqueue(stream_of(i))

    def equal(self, what):
        """How many have the CPU's bits."""
        equal = 0
        for number, (problem, ours, call) in enumerate(self.calls):
            unlike = [name for name, a, b in zip(GRADIENTS, ours, call.fetch()) if a.tobytes() != b.tobytes()]
            equal += not unlike
            if unlike:
                print(f"{what}, call {number}: {', '.join(unlike)}; {problem}", flush=True)
        return equal

    def free(self):
        for *_, call in self.calls:
            call.free()


def threads(cpu, gpu, rounds, work, count=12):
    """Four threads, each with a stream of its own: two are the threads' default streams, which have the same name."""
    on = (1, 2, OWN_STREAM, OWN_STREAM)
    each, errors = [Calls(cpu, gpu, seed, work, count) for seed in range(4)], []

    def enqueue(number):
        try:
            gpu.device.wait()  # makes the context current
            each[number].enqueue(rounds, lambda _: on[number])
            gpu.device.wait()  # a thread's default stream ends with it
        except RuntimeError as error:
            errors.append(error)

    for number in on:
        gpu.device.stream(number)  # made before the threads need it
    of_threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(4)]
    for thread in of_threads:
        thread.start()
    for thread in of_threads:
        thread.join()
    equal, count = sum(calls.equal(f"thread {number}") for number, calls in enumerate(each)), sum(map(len, each))
    for calls in each:
        calls.free()
    for error in errors:
        print(error)
    return equal == count and not errors, f"threads: {equal} of {count} calls equal"


def streams(cpu, gpu, rounds, work, count=12):
    """One thread, two streams and the default stream in turn."""
    calls = Calls(cpu, gpu, 5, work, count)
    calls.enqueue(rounds, lambda i: (0, 1, 2)[i % 3])
    equal = calls.equal("streams")
    calls.free()
    return equal == len(calls), f"streams: {equal} of {len(calls)} calls equal"


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
    equal, count = captured.equal("captured") + beside.equal("beside a capture"), len(captured) + len(beside)
    device.do("cuGraphExecDestroy", instance)
    device.do("cuGraphDestroy", graph)
    captured.free()
    beside.free()
    return equal == count, f"capture: {equal} of {count} calls equal"


def reset(cpu, gpu, rounds, work):
    """Resets of the device, and calls after each: its new context has the address of the one before."""
    equal = count = 0
    for number in range(4):
        calls = Calls(cpu, gpu, 8, work)
        calls.enqueue(rounds, lambda i: i % 2)
        equal, count = equal + calls.equal(f"after {number} resets"), count + len(calls)
        gpu.device.reset()
    return equal == count, f"reset: {equal} of {count} calls equal"


def main():
    chosen = parser_of(__doc__, PARTS).parse_args()

    def parts(library, device, _):
        cpu, gpu = Side(library, Host()), Side(library, device)

        def run(part, rounds):
            if part in (capture, reset) and isinstance(device, Host):
                return True, f"{part.__name__}: skipped: not on a CPU"
            return part(cpu, gpu, rounds, 1_000_000)

        return {"threads": lambda: run(threads, 20), "streams": lambda: run(streams, 20), "capture": lambda: run(capture, 3),
                "reset": lambda: run(reset, 3)}

    return run_parts(chosen, parts)


if __name__ == "__main__":
    sys.exit(main())
