"""A backward call outside a graph, one while torch.cuda.graph captures, a replay, and one outside again."""

import torch
from common import backward, make, show

first, second, third = make(1), make(2), make(3)
show("before", backward(*first)[1])
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):  # torch wants a warm-up
    backward(*second)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    outputs = backward(*second)
graph.replay()
torch.cuda.synchronize()
show("replayed", outputs[1])
show("after", backward(*third)[1])
