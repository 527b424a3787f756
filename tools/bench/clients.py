"""What the measured clients share: options, digests, and the line of JSON that a client prints; exit status 77, with the reason on
standard error, where PyTorch, a model's library or the device is missing."""

import argparse
import hashlib
import json
import os
import sys

SKIPPED = 77


def options_of(what, models, steps=None):
    """Returns the options of a client. `steps`: how many there are by default."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=tuple(models))
    parser.add_argument("--steps", type=int, default=steps, help="training steps" + (f" ({steps})" if steps else ""))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", type=int, help="side of the images")
    return parser


def bytes_of(torch, tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()


def digest_of(torch, tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(bytes_of(torch, tensor))
    return digest.hexdigest()


def machine_of(torch, library, device):
    machine = {"PyTorch": torch.__version__, library.__name__: library.__version__}
    if device == "cuda":
        machine = {"GPU": torch.cuda.get_device_name(), "CUDA": torch.version.cuda, **machine}
    return machine


def ended(chosen, train):
    """Prints what `train(torch)` returns, and returns the client's exit status."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch

        if chosen.device == "cuda" and not torch.cuda.is_available():
            raise ImportError("no GPU that PyTorch can use")
        found = train(torch)
    except ImportError as error:
        print("client:", f"{error.name} is not installed" if error.name else " ".join(str(error).split()), file=sys.stderr)
        return SKIPPED
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(found), flush=True)
    return 0
