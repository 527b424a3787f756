"""Backward calls before, during and after torch.profiler; prints how many kernels of the program's own it saw."""

import collections
import json
import tempfile

import torch
from common import backward, make, show
from torch.profiler import ProfilerActivity, profile


def step(seed):
    result = backward(*make(seed))[1]
    a = torch.full((64, 64), 1.0 + seed, device="cuda")
    return result, (a @ a).relu().sum()


for seed in range(3):
    show(f"before-{seed}", step(seed)[0])
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    during = [step(10 + seed)[0] for seed in range(5)]
    torch.cuda.synchronize()
for seed, result in enumerate(during):
    show(f"during-{seed}", result)
for seed in range(3):
    show(f"after-{seed}", step(20 + seed)[0])
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    profiler.export_chrome_trace(file.name)
    with open(file.name) as trace:
        events = json.load(trace)["traceEvents"]
names = [event["name"] for event in events if event.get("cat") == "kernel" and not event["name"].startswith("msda_record_")]
print("kernels", len(names))
for name, count in sorted(collections.Counter(names).items()):
    print("kernel", count, name)
