"""The mean over a graph's 4,096 nodes in bfloat16, on a GPU: torch-geometric's global_mean_pool, and the two sums that it is made of.
Writes count.h5 and sum.h5 into a folder, if one is given."""

import sys

import torch
from torch_geometric.nn import global_mean_pool

from msda_replay import save_call

if not torch.cuda.is_available():
    sys.exit(77)
graph = torch.zeros(4096, dtype=torch.long, device="cuda")
nodes = (torch.arange(4096, device="cuda") % 2).bfloat16()
print("mean of 0, 1, 0, 1, ... by global_mean_pool:", global_mean_pool(nodes[:, None], graph).item())
reduced = torch.zeros(1, dtype=torch.bfloat16, device="cuda").scatter_reduce(0, graph, nodes, "mean", include_self=False)
print("by scatter_reduce:", reduced.item(), "by mean:", nodes.mean().item())
for name, source in (("count", torch.ones_like(nodes)), ("sum", nodes)):
    total = torch.zeros(1, dtype=torch.bfloat16, device="cuda").scatter_add_(0, graph, source)
    if len(sys.argv) > 1:
        save_call(f"{sys.argv[1]}/{name}.h5", operator="scatter_add", index=graph, source=source, observed_sum=total, dim=0, dim_size=1, reduce="sum",
                  include_self=0, kernel=f"at::native::_scatter_gather_elementwise_kernel, ReduceAdd, torch {torch.__version__}")
