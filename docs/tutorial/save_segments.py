"""Runs the kernel on random numbers, and saves the call with what the kernel should compute."""

import msda_replay
import torch
from segment_sum import segment_sum


@msda_replay.operator
def sum_of_rows(out, source, segment, row, column):
    out[segment[row], column] += source[row, column]


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
source = torch.randn(1000, 16, device=device)
segment = torch.randint(20, (1000,), device=device).sort().values
out = segment_sum(source, segment, segments=20)
msda_replay.save_call("segments.h5", operator=sum_of_rows, source=source, segment=segment, observed_out=out, overwrite=True)
