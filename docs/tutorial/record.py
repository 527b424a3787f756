"""Records the training in a capture: python3 record.py FILE"""

import sys

import msda_replay
import torch
from train import train

torch.manual_seed(0)
with msda_replay.record(sys.argv[1]):
    train(steps=10)
