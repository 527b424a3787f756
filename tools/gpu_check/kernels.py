"""Kernels of our own in C++: the Deformable DETR family, a user's kernel, streams, threads, graphs."""

import json
import re

from .bench import Skip, expect, expect_calls, invocations_of, recorder_lines, same, saved_tensors, tail
from .registry import check

VARIANTS = ("shm_blocksize_aware_reduce_v1", "shm_blocksize_aware_reduce_v2", "shm_reduce_v1", "shm_reduce_v2",
            "shm_reduce_v2_multi_blocks", "gm")
ORDER_DEPENDENT = ("grad_value",)
EAGER = {"CUDA_MODULE_LOADING": "EAGER"}  # loads code at the start: it cannot be loaded while a graph is captured


def variant_of(kernel):
    found = re.search(r"ms_deformable_col2im_gpu_kernel_(\w+?)I[fdN]", kernel)
    return found[1] if found else kernel


def expect_recorded(saved, calls, outputs=True):
    """Each call that the program saved is recorded once, with the very same tensors. Returns them by the saved name."""
    expect(len(calls) == len(saved), f"{len(calls)} invocations are recorded, {len(saved)} were launched")
    by_content = {(variant_of(call.kernel), call.inputs["value"].tobytes()): call for call in calls}
    found = {}
    for name, tensors in saved.items():
        call = by_content.get((name.split("-", 2)[2], tensors["value"].tobytes()))
        expect(call is not None, f"no invocation has the inputs of launch {name}")
        for tensor in call.inputs:
            same(call.inputs[tensor], tensors[tensor], f"{name}: inputs/{tensor}")
        for tensor in call.outputs if outputs else ():
            same(call.outputs[tensor], tensors[tensor], f"{name}: outputs/{tensor}")
        found[name] = call
    return found


def kernel_facts(capture, digest, function):
    import h5py

    with h5py.File(capture, "r") as file:
        expect(digest is not None and digest in file.get("kernels", {}), "its code is not in the capture")
        kernel = file["kernels"][digest]
        expect("image" in kernel and bytes(kernel["image"][:4]) == b"\x7fELF", "its image is no cubin")
        return dict(file["kernels"].get(f"{digest} {function}", kernel).attrs)


def expect_explained(bench, capture):
    """msda-replay run finds no implementation_error."""
    done = bench.replay("run", "--json", "-", capture, expected=(0, 1))
    verdict = json.loads(done.stdout)["verdict"]
    expect("implementation_error" not in verdict["causes"], f"msda-replay: {verdict['summary']}")
    return f"exit status {done.returncode}", verdict["summary"]


@check("variants", "six kernels of the Deformable DETR family, three types: outcome, tensors, code, replay", ["nvcc"])
def variants(bench):
    program = bench.program("col2im17")
    for kind in ("float", "double", "half"):
        command = [program, "--variant", "all", "--type", kind, "--seed", "3"]
        ordered = {}

        def in_order():  # launched in one thread, all results are the same bit for bit
            done, capture, saved_in = bench.outcome_kept([*command, "--ordered"])
            ordered.update(calls=invocations_of(capture, done), saved=saved_tensors(saved_in), capture=capture)
            return f"{len(ordered['calls'])} launches"

        yield f"{kind}, one thread", in_order
        for variant in VARIANTS:
            def as_launched(variant=variant):
                if not ordered:
                    raise Skip("the run above failed")
                mine = {name: tensors for name, tensors in ordered["saved"].items() if name.endswith("-" + variant)}
                expect(len(mine) == 1, "the program saved no such launch")
                found = expect_recorded(mine, [call for call in ordered["calls"] if variant_of(call.kernel) == variant])
                (call,) = found.values()
                expect(list(call.facts["grid"]) == [1, 1, 1] == list(call.facts["block"]), "other launch sizes")
                shared = 3 * call.inputs["value"].itemsize
                expect(call.facts["shared_bytes"] == shared, f"shared_bytes is {call.facts['shared_bytes']}, not {shared}")
                for tensor, before in call.outputs_before.items():
                    expect(not before.any(), f"outputs_before/{tensor} is not zero, as it was")
                facts = kernel_facts(ordered["capture"], call.facts.get("kernel_digest"), call.facts.get("kernel"))
                expect(facts.get("registers", 0) > 0, "the kernel's registers are missing")
                expect(facts.get("atomics", 0) > 0, f"atomics are {facts.get('atomics', 'missing')}")
                return f"{facts['registers']} registers", f"atomics: {facts['atomics']}"

            yield f"{kind}, {variant}", as_launched

        def in_parallel():
            done, capture, saved_in = bench.outcome_kept(command, unstable=ORDER_DEPENDENT)
            expect_recorded(saved_tensors(saved_in), invocations_of(capture, done))
            if kind == "half":  # its arithmetic is not that of a replay
                run = bench.replay("run", "--quiet", capture, expected=(0, 1))
                return "", f"msda-replay, for information: {tail(run.stdout, 1)}"
            return expect_explained(bench, capture)

        yield f"{kind}, all threads, replayed", in_parallel
    for hook in ("cupti", "driver"):
        def by_hook(hook=hook):
            done, capture, saved_in = bench.outcome_kept([program, "--variant", "all"], ["--hook", hook], ORDER_DEPENDENT)
            expect_recorded(saved_tensors(saved_in), invocations_of(capture, done))
            return "", tail("\n".join(line for line in recorder_lines(done) if "invocation" not in line))

        yield f"--hook {hook}", by_hook


@check("streams", "streams, threads, launches in flight, equal launches, a loop that never waits", ["nvcc"])
def streams(bench):
    program = bench.program("col2im17")

    def recorded(*arguments):
        done, capture, saved_in = bench.outcome_kept([program, *arguments], unstable=ORDER_DEPENDENT)
        saved = saved_tensors(saved_in)
        return saved, expect_recorded(saved, invocations_of(capture, done), outputs="--repeat" not in arguments)

    def counted(*arguments):
        return lambda: f"{len(recorded(*arguments)[1])} launches"

    yield "two streams", counted("--launches", "8", "--streams", "2", "--in-flight")
    yield "two threads at once", counted("--launches", "8", "--threads", "2", "--in-flight")
    yield "two threads, two streams each", counted("--launches", "8", "--threads", "2", "--streams", "2", "--in-flight")
    yield "many in flight", counted("--launches", "200", "--streams", "4", "--in-flight")

    def repeated():
        saved, calls = recorded("--launches", "3", "--repeat", "50")
        for name, call in calls.items():
            expect(call.facts.get("duplicates") == 49, f"{call.facts.get('duplicates')} duplicates of 49 are counted")
            for tensor in ("grad_sampling_locations", "grad_attention_weights"):
                same(call.outputs[tensor], saved[name][tensor], f"{name}: outputs/{tensor}")
        return "49 duplicates each"

    yield "equal launches", repeated
    yield "contents change, no waits", counted("--loop", "--launches", "64")


@check("graphs", "launches while a graph is captured", ["nvcc"])
def graphs(bench):
    program = bench.program("col2im17")

    def captured():
        done, capture, _ = bench.outcome_kept([program, "--graph"], unstable=ORDER_DEPENDENT, **EAGER)
        expect("captured into a CUDA graph" in done.stderr, f"no warning says that it is not recorded: {tail(done.stderr)}")
        expect(not capture.exists() or not invocations_of(capture), "it is recorded, although it must not be")

    def elsewhere():
        command = [program, "--global-capture"]
        try:
            bench.run(command, **EAGER)
        except Exception as error:
            raise Skip(f"the program fails without the recorder too: {error}") from None
        done, capture, saved_in = bench.outcome_kept(command, unstable=ORDER_DEPENDENT, **EAGER)
        lines = tail("\n".join(recorder_lines(done)))
        if not capture.exists():
            return "not recorded", lines
        expect_recorded(saved_tensors(saved_in), invocations_of(capture, done))
        return "recorded", lines

    yield "of the same stream", captured
    yield "by another thread, in global mode", elsewhere

    def torch_graph():
        bench.require("torch")
        done, capture, _ = bench.outcome_kept(bench.target("graph"), saves=False)
        expect("captured into a CUDA graph" in done.stderr, f"no warning says that it is not recorded: {tail(done.stderr)}")
        return expect_calls(3, capture, done) + " outside the graph"

    yield "torch.cuda.graph", torch_graph


SCALE_ADD = {
    "format": "msda-adapter", "version": 1,
    "adapters": [{
        "name": "scale_add", "kernel": "^_Z9scale_addi5ScalePKfPfPh$",
        "parameters": [
            {"name": "rows", "type": "int32"},
            {"name": "scale", "type": "bytes", "size": 8, "fields": [
                {"name": "columns", "offset": 0, "type": "int32"}, {"name": "alpha", "offset": 4, "type": "float32"}]},
            {"name": "x", "type": "pointer"}, {"name": "y", "type": "pointer"}, {"name": "positive", "type": "pointer"}],
        "conditions": ["rows * scale.columns <= grid.x * block.x"],
        "tensors": [
            {"name": "x", "role": "input", "pointer": "x", "type": "float32", "shape": ["rows", "scale.columns"]},
            {"name": "y", "role": "inout", "pointer": "y", "type": "float32", "shape": ["rows", "scale.columns"]},
            {"name": "positive", "role": "output", "pointer": "positive", "type": "uint8",
             "shape": ["rows", "scale.columns"]}],
    }],
}


@check("user-adapter", "a kernel known from a JSON file, with an inout tensor, launched in clusters", ["nvcc"])
def user_adapter(bench):
    def recorded():
        adapter = bench.folder() / "scale_add.json"
        adapter.write_text(json.dumps(SCALE_ADD))
        done, capture, saved_in = bench.outcome_kept([bench.program("scale_add")], ["--adapter", adapter])
        saved, calls = saved_tensors(saved_in), invocations_of(capture, done)
        expect(len(calls) == len(saved) == 3, f"{len(calls)} invocations of {len(saved)} launches")
        clusters = int(re.search(r"clusters (\d+)", done.stdout)[1])
        for call, (name, real) in zip(calls, saved.items()):
            same(call.inputs["x"], real["x"], f"{name}: x")
            same(call.inputs["y"], real["y_before"], f"{name}: inputs/y")
            same(call.outputs_before["y"], real["y_before"], f"{name}: outputs_before/y")
            same(call.outputs["y"], real["y"], f"{name}: outputs/y")
            same(call.outputs["positive"], real["positive"], f"{name}: positive")
            rows = real["x"].shape[0]
            expect(call.facts["scalars"] == f"rows={rows} scale.columns=5 scale.alpha=0.5", call.facts["scalars"])
            expect(call.facts.get("cluster_x", 0) == clusters, f"cluster_x is {call.facts.get('cluster_x')}, not {clusters}")
        return f"{len(calls)} launches", f"clusters of {clusters}" if clusters else "no clusters on this device"

    yield "scale_add", recorded
