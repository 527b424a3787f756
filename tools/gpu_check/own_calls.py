"""Recording of msda_cuda_backward, the GPU's backward pass of libmsda."""

import json

from .bench import Skip, expect, expect_calls, invocations_of, same, saved_tensors, tail
from .registry import check


@check("own-calls", "msda_cuda_backward of libmsda: each call once, bit for bit, and replayed with its bits", ["torch", "numpy"])
def own_calls(bench):
    library = bench.record_program.parent.parent / "lib" / "libmsda.so"
    if not library.exists():
        raise Skip(f"no {library}")
    target = bench.target("own_calls", "--library", library)
    # In the mode atomic grad_value varies; its line begins with the call's name.
    done, capture, folder = bench.outcome_kept(target, unstable=["grad_value"])
    saved, calls = saved_tensors(folder), invocations_of(capture, done)
    names = sorted(saved, key=lambda name: int(name.split("-")[0]))

    def count():
        statuses = [line.split()[-1] for line in done.stdout.splitlines() if " status " in line]
        expect(set(statuses) == {"0"}, f"calls fail: {statuses}")
        expect(len(calls) == len(names), f"{len(calls)} of {len(names)} calls are recorded: {tail(done.stderr)}")
        expect(calls[0].facts["duplicates"] == 1 and calls[0].facts["distinct_outputs"] == 1,
               "the first call came again with the same result, and is not counted so")
        return f"{len(calls)} calls"

    def equal():
        for call, name in zip(calls, names, strict=True):
            real = saved[name]
            expect(call.kernel == "msda_cuda_backward", f"{name}: kernel {call.kernel}")
            expect({**call.inputs, **call.outputs}.keys() == real.keys(), f"{name}: holds {sorted({**call.inputs, **call.outputs})}")
            for tensor, array in {**call.inputs, **call.outputs}.items():
                same(array, real[tensor], f"{name}: {tensor}")
            mode = name.rsplit("-", 1)[1]
            expect(call.facts["mode"] == mode, f"{name}: mode {call.facts['mode']}")
            expect("device" in call.facts and "stream" in call.facts, f"{name}: no device or no stream")
            if "-conventions" in name:
                dialect, padding, align = map(int, name.split("conventions")[1][:3])
                facts = (call.dialect, call.padding_mode, int(call.align_corners))
                expected = (("deformable_detr", "msda_triton", "grid_sample")[dialect], ("zeros", "border")[padding], align)
                expect(facts == expected, f"{name}: {facts}")
        return f"{len(calls)} calls"

    def replayed(device):
        def run():
            bench.replay("verify", capture)
            text = bench.replay("run", capture, "--device", device, "--json", "-", expected=(0, 1)).stdout
            stored = stored_digests(capture)
            compared = 0
            for found, call, name in zip(json.loads(text)["invocations"], calls, names, strict=True):
                if name.endswith("-deterministic"):
                    expect(not found["findings"], f"{name}: {found['findings'][:1]}")
                    for tensor in call.outputs:
                        digest = found["digests"]["deterministic"][tensor]
                        expect(digest == stored[found["id"]][tensor], f"{name}: {tensor} of the replay is {digest}")
                        compared += 1
            expect(compared > 0, "nothing is compared")
            return f"{compared} gradients"
        return run

    def digests_alone():
        done, digests, _ = bench.outcome_kept(target, ["--digest-only"], ["grad_value"])
        for one, whole in zip(invocations_of(digests, done), calls, strict=True):
            expect(not one.inputs and not one.outputs and one.digests, "tensors are kept, or there are no digests")
            for tensor in whole.inputs:
                expect(f"inputs/{tensor}" in one.digests, f"no digest of {tensor}")
        return f"{len(calls)} calls"

    def graph():
        done, captured, _ = bench.outcome_kept(bench.target("own_calls", "--library", library, "--phase", "graph"), saves=False)
        expect("1-graph-deterministic status 0" in done.stdout, f"the call cannot be captured: {tail(done.stdout)}")
        expect("being captured into a CUDA graph" in done.stderr, f"no warning about the graph: {tail(done.stderr)}")
        return expect_calls(1, captured, done)

    yield "every call once", count
    yield "tensors", equal
    yield "replay on the CPU", replayed("cpu")
    yield "replay on the GPU", replayed("cuda")
    yield "--digest-only", digests_alone
    yield "graph", graph


def stored_digests(capture):
    """By invocation number: the file's digests of the recorded gradients."""
    import h5py

    with h5py.File(capture, "r") as file:
        return {int(number): {name: text(tensor.attrs["digest"]) for name, tensor in invocation["outputs"].items()}
                for number, invocation in file["invocations"].items()}


def text(value):
    return value if isinstance(value, str) else value.decode()
