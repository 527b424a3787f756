"""Makes the calls of tests/python/support/torch_calls.py on a GPU, each labelled with its name where the program is recorded.

    python3 torch_calls.py [NAME...]"""

import ctypes
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from support import torch_calls  # noqa: E402 (after the path)


def main():
    torch_calls.device = "cuda"
    label = getattr(ctypes.CDLL(None), "msda_record_label", lambda name: None)
    for name in sys.argv[1:] or torch_calls.CALLS:
        torch.manual_seed(5)
        label(name.encode())
        torch_calls.CALLS[name][0]()
        torch.cuda.synchronize()


main()
