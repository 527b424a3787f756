"""Records two runs of the training."""

import msda_replay
import torch
from train import train

for capture in ("a.h5", "b.h5"):
    torch.manual_seed(0)
    with msda_replay.record(capture):
        train(steps=10)
