"""run --poison: kernels written for the purpose, each with one defect or none, judged in many runs."""

import json

from .bench import expect, invocations_of, tail
from .registry import check

VERDICTS = {"race": "race", "reads_output": "reads_unwritten", "reads_scratch": "reads_unwritten",
            "order_only": "order_only", "none": "deterministic"}
SHARED = {"reads_shared": "reads_unwritten"}
# On whose contents y depends, where nothing else varies.
MEMORIES = {"reads_output": ["y"], "reads_scratch": ["parameter 3"], "reads_shared": ["shared memory"], "none": []}
ADAPTER = {
    "format": "msda-adapter", "version": 1,
    "adapters": [{
        "name": "poison", "kernel": "poison_",
        "parameters": [{"name": "count", "type": "int32"}] + [{"name": n, "type": "pointer"} for n in ("x", "y", "scratch")],
        "tensors": [{"name": "x", "role": "input", "pointer": "x", "type": "float32", "shape": ["count"]},
                    {"name": "y", "role": "output", "pointer": "y", "type": "float32", "shape": ["count"]}]}]}


def kernel_of(name):
    """"race" of "_Z11poison_raceiPKfPfS1_"."""
    return next(short for short in VERDICTS | SHARED if f"poison_{short}iPK" in name)


@check("poison", "run --poison: a race, reads of unwritten memory, sums in any order, and none of these, told apart", ["nvcc"])
def poison(bench):
    def judged(verdicts):
        adapter = bench.folder() / "poison.json"
        adapter.write_text(json.dumps(ADAPTER))
        done, capture = bench.record([bench.program("poison"), "--kernels", ",".join(verdicts)], ["--adapter", adapter])
        calls = invocations_of(capture, done)
        expect(len(calls) == len(verdicts), f"{len(calls)} of {len(verdicts)} launches are recorded: {tail(done.stderr)}")
        right, wrong = dict.fromkeys(verdicts, 0), {}
        for _ in range(bench.poison_runs):
            done = bench.replay("run", capture, "--mode", "original", "--poison", "--json", "-", expected=(0, 1))
            for one in json.loads(done.stdout)["relaunched"]:
                name, tensor = kernel_of(one["kernel"]), one["poison"]["tensors"]["y"]
                as_wanted = (one["poison"]["verdict"] == verdicts[name]
                             and MEMORIES.get(name, tensor["varies_across"]) == tensor["varies_across"])
                right[name] += as_wanted
                if not as_wanted:
                    wrong[name] = f"{one['poison']['verdict']}: {tensor['why']}"
        as_often = all(count == bench.poison_runs for count in right.values())
        expect(not wrong and as_often, f"of {bench.poison_runs} runs right are {right}; {wrong}")
        return f"{len(verdicts)} of {len(verdicts)} kernels", f"right in {bench.poison_runs} of {bench.poison_runs} runs"

    yield "verdicts", lambda: judged(VERDICTS)
    yield "shared memory", lambda: judged(SHARED)
