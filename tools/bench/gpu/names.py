"""What the contenders are called, in tables and in the JSON."""

MSDA_TRITON = "msda-triton"
GRID_SAMPLE = "PyTorch grid_sample path"
DEFORMABLE_DETR = "Deformable DETR"
PEERS = (MSDA_TRITON, GRID_SAMPLE, DEFORMABLE_DETR)


def ours(mode, dialect="deformable_detr"):
    return mode if dialect == "deformable_detr" else f"{mode}, {dialect}"
