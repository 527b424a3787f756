"""Writes 900 of 1,024 rows of torch.empty by a copy on the device, and multiplies all of them: what the other rows hold decides."""

import json
import sys

ROWS, PACKED, WIDTH = 1024, 900, 64


def main():
    try:
        import torch
    except ImportError as error:
        print(f"unwritten_rows: {error.name} is not installed", file=sys.stderr)
        return 77
    generator = torch.Generator().manual_seed(0)
    above, x = (torch.randn(ROWS, WIDTH, generator=generator).cuda() for _ in range(2))
    gradient = torch.empty(ROWS, WIDTH, device="cuda")
    torch.mul(above[:PACKED], 0.5, out=gradient[:PACKED])
    weights = x.T @ gradient
    exact = x[:PACKED].T @ gradient[:PACKED]
    torch.cuda.synchronize()
    print(json.dumps({"rows": (ROWS - PACKED) * WIDTH, "shape": list(weights.shape), "exact": list(exact.shape)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
