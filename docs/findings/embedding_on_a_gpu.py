"""The backward pass of an embedding and index_add of the same rows, on a GPU: how many results there are in 1,000 runs. Under msda-record
one call of each is enough: --once."""

import hashlib
import sys

import torch

if not torch.cuda.is_available():
    sys.exit(77)
torch.manual_seed(0)
tokens = torch.randint(0, 500, (1500,), device="cuda")
rows = torch.randn(1500, 8, device="cuda")


def embedding():
    table = torch.zeros(500, 8, device="cuda", requires_grad=True)
    torch.nn.functional.embedding(tokens, table).backward(rows)
    return table.grad


def index_add():
    return torch.zeros(500, 8, device="cuda").index_add_(0, tokens, rows)


runs = 1 if "--once" in sys.argv else 1000
for call in (embedding, index_add):
    results = {hashlib.sha1(call().cpu().numpy().tobytes()).hexdigest() for _ in range(runs)}
    print(f"{call.__name__}: {len(results)} results in {runs:,} runs")
