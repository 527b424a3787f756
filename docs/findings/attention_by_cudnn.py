"""The backward pass of scaled_dot_product_attention by cuDNN with a mask of ones, for lengths of 64 more than a multiple of 128, on a GPU
(sm_90): a query's gradient is NaN if the logarithm of the sum of its exponentials is below -88.7, as exp(0 - it) overflows float32."""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

if not torch.cuda.is_available():
    sys.exit(77)


def gradient(length, backend):
    """Of queries whose scores are all -120."""
    query = torch.full((1, 1, length, 64), 120**0.5 / 8**0.5, device="cuda", dtype=torch.bfloat16).requires_grad_()
    key, value = (-query).detach(), torch.randn(1, 1, length, 64, device="cuda", dtype=torch.bfloat16)
    mask = torch.ones(length, length, dtype=torch.bool, device="cuda")
    with sdpa_kernel(backend):
        return torch.autograd.grad(scaled_dot_product_attention(query, key, value, attn_mask=mask).float().sum(), query)[0]


for length in (128, 192, 256, 320, 384):
    by = {backend.name: int(gradient(length, backend).isnan().sum()) for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)}
    print(f"{length} queries and keys: NaN in the gradient of the queries: {by}")
