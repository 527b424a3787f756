"""The backward pass of embedding_bag with scale_grad_by_freq, on a CPU: the bag 7, 7, 7, 2, 9. Writes a capture, if its name is given."""

import sys

import torch

from msda_replay import save_call

torch.manual_seed(0)
tokens, offsets = torch.tensor([7, 7, 7, 2, 9, 9, 4]), torch.tensor([0, 5])
table = torch.nn.EmbeddingBag(12, 2, mode="sum", scale_grad_by_freq=True)
bags = table(tokens, offsets)
grad_bags = torch.ones_like(bags)
bags.backward(grad_bags)
print("how often each token comes:", {token: int((tokens == token).sum()) for token in sorted(set(tokens.tolist()))})
print("their gradients, of ones:  ", {token: round(float(table.weight.grad[token, 0]), 4) for token in sorted(set(tokens.tolist()))})
if len(sys.argv) > 1:
    bag_of = torch.bucketize(torch.arange(len(tokens)), offsets, right=True) - 1
    save_call(sys.argv[1], operator="scatter_add", index=tokens, source=grad_bags[bag_of], observed_sum=table.weight.grad, dim=0,
              dim_size=12, reduce="sum", include_self=0, scale_grad_by_freq=1,
              kernel=f"aten::_embedding_bag_dense_backward, CPU, torch {torch.__version__}")
