"""The backward pass of an embedding in bfloat16, on a CPU, where one token comes 2,087 times. Writes a capture, if its name is given."""

import sys

import torch

from msda_replay import save_call

torch.manual_seed(0)
tokens = torch.randint(0, 50, (4096,))
tokens[::2] = 7
table = torch.nn.Embedding(50, 4).bfloat16()
rows = table(tokens)
grad_rows = torch.rand_like(rows)
rows.backward(grad_rows)
print("gradient of token 7:", table.weight.grad[7].tolist())
print("in float64:         ", grad_rows.double()[tokens == 7].sum(0).tolist())
if len(sys.argv) > 1:
    save_call(sys.argv[1], operator="scatter_add", index=tokens, source=grad_rows, observed_sum=table.weight.grad, dim=0,
              dim_size=50, reduce="sum", include_self=0, kernel=f"aten::embedding_dense_backward, CPU, torch {torch.__version__}")
