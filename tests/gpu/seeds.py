"""Seeds torch, draws, and prints the generators' states."""

import torch
from common import backward, make, tell

torch.manual_seed(42)
tell("draw.cpu", torch.rand(5))
tell("draw.cuda", torch.rand(5, device="cuda"))
tell("state.cpu", torch.get_rng_state())
tell("state.cuda", torch.cuda.get_rng_state())
print("initial", torch.initial_seed(), torch.cuda.initial_seed())
tell("call", backward(*make(1))[1])
tell("state_after.cuda", torch.cuda.get_rng_state())
