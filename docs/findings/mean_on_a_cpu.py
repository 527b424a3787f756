"""index_reduce with mean in float16, on a CPU, of more rows than float16 can count. Writes a capture, if its name is given."""

import warnings

import sys

import torch

from msda_replay import save_call

warnings.filterwarnings("ignore", message="index_reduce")
graphs = torch.zeros(4096, dtype=torch.long)
nodes = (torch.arange(4096) % 2).half()
mean = torch.zeros(1).half().index_reduce(0, graphs, nodes, "mean", include_self=False)
print("mean of 0, 1, 0, 1, ...:", mean.item(), "by scatter_reduce:",
      torch.zeros(1).half().scatter_reduce(0, graphs, nodes, "mean", include_self=False).item())
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="scatter_add", index=graphs, source=nodes, observed_sum=mean, dim=0, dim_size=1, reduce="mean",
              include_self=0, kernel=f"aten::index_reduce, CPU, torch {torch.__version__}")
