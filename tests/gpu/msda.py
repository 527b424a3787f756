"""msda-triton's backward in all four conventions and two types; prints how long the backward calls took, autotuner included."""

import itertools
import time

import torch
from common import arguments, show

try:
    from msda_triton.frontend import triton_multiscale_deformable_attention as attend
except ImportError:  # other versions; this one falls back to torch where Triton fails, which shows: nothing is recorded
    from msda_triton import multiscale_deformable_attention as attend

LEVELS = torch.tensor([[64, 64], [32, 32], [16, 16], [8, 8]])
B, Q, M, P, D = 1, 300, 4, 3, 32


def main():
    save, seconds = arguments().save, 0.0
    cases = itertools.product(("zeros", "border"), (False, True), (torch.float32, torch.float64))
    for number, (padding, align, dtype) in enumerate(cases):
        generator = torch.Generator().manual_seed(number)
        draw = lambda kind, *shape: kind(*shape, generator=generator).to(dtype).cuda()  # noqa: E731
        value = draw(torch.randn, B, int(LEVELS.prod(1).sum()), M, D).requires_grad_()
        locations = (draw(torch.rand, B, Q, M, len(LEVELS), P, 2) * 1.2 - 0.1).requires_grad_()
        weights = draw(torch.rand, B, Q, M, len(LEVELS), P).softmax(-1).detach().requires_grad_()
        grad_output, shapes = draw(torch.rand, B, Q, M, D), LEVELS.cuda()
        name = f"{number}-{padding}-{'align' if align else 'noalign'}-{str(dtype)[6:]}"
        print("case", name, flush=True)
        output = attend(value, shapes, locations, weights, padding, align)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        output.backward(grad_output)
        torch.cuda.synchronize()
        seconds += time.perf_counter() - begin
        for tensor, content in (
                ("value", value), ("spatial_shapes", shapes), ("sampling_locations", locations),
                ("attention_weights", weights), ("grad_output", grad_output), ("grad_value", value.grad),
                ("grad_sampling_locations", locations.grad), ("grad_attention_weights", weights.grad)):
            show(f"{name}.{tensor}", content, save)
    print("took", seconds)


main()
