"""Seeds torch, draws, and prints the generators' states."""

import torch
from common import backward, make, show

torch.manual_seed(42)
show("draw.cpu", torch.rand(5))
show("draw.cuda", torch.rand(5, device="cuda"))
show("state.cpu", torch.get_rng_state())
show("state.cuda", torch.cuda.get_rng_state())
print("initial", torch.initial_seed(), torch.cuda.initial_seed())
show("call", backward(*make(1))[1])
show("state_after.cuda", torch.cuda.get_rng_state())
