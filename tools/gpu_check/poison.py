"""run --poison: kernels written for the purpose, each with one defect or none, judged in many runs."""

import json

from .bench import expect, invocations_of, tail
from .registry import check

VERDICTS = {"race": "race", "reads_output": "reads_unwritten", "reads_scratch": "reads_unwritten",
            "reads_shared": "reads_unwritten", "order_only": "order_only", "none": "deterministic"}
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
    return next(short for short in VERDICTS if f"poison_{short}iPK" in name)


@check("poison", "run --poison: a race, reads of unwritten memory, sums in any order, and none of these, told apart", ["nvcc"])
def poison(bench):
    def all_right():
        adapter = bench.folder() / "poison.json"
        adapter.write_text(json.dumps(ADAPTER))
        done, capture = bench.record([bench.program("poison")], ["--adapter", adapter])
        calls = invocations_of(capture, done)
        expect(len(calls) == len(VERDICTS), f"{len(calls)} of {len(VERDICTS)} launches are recorded: {tail(done.stderr)}")
        right, wrong = dict.fromkeys(VERDICTS, 0), {}
        for _ in range(bench.poison_runs):
            done = bench.replay("run", capture, "--mode", "original", "--poison", "--json", "-", expected=(1,))
            for one in json.loads(done.stdout)["relaunched"]:
                name, tensor = kernel_of(one["kernel"]), one["poison"]["tensors"]["y"]
                as_wanted = (one["poison"]["verdict"] == VERDICTS[name]
                             and MEMORIES.get(name, tensor["varies_across"]) == tensor["varies_across"])
                right[name] += as_wanted
                if not as_wanted:
                    wrong[name] = f"{one['poison']['verdict']}: {tensor['why']}"
        expect(not wrong, f"right in {right} of {bench.poison_runs} runs; {wrong}")
        return f"{len(VERDICTS)} of {len(VERDICTS)} kernels", f"right in {bench.poison_runs} of {bench.poison_runs} runs"

    yield "verdicts", all_right
