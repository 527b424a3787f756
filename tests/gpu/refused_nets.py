"""A small net for each operator that PyTorch refuses under use_deterministic_algorithms(True), trained with msda_replay.torch.deterministic().

    python3 refused_nets.py [--steps 10] [--nets max_pool3d,...] [--device cuda|cpu]

Prints a line of JSON for each net: what PyTorch says to a step without the context ("alone"), what it says within it ("refused"), the losses
of one run, and whether two runs from the same weights ended with equal ones, bit for bit ("equal"). A net whose library is missing has "skipped"."""

import argparse
import json
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded

import torch
import torch.nn.functional as F
from torch import nn

import msda_replay.torch

KERNEL, STRIDE = 3, 2  # windows that overlap: several outputs send their gradients to one input


def images(rank, channels=6, side=None):
    return torch.randn(2, channels, *[side or {1: 200, 2: 24, 3: 10}[rank]] * rank)


def convolved(rank, after, channels=6, side=None):
    """A convolution, the operator, and a number for each of its channels; the operator's gradient reaches the convolution."""
    model = [nn.Conv1d, nn.Conv2d, nn.Conv3d][rank - 1](channels, channels, 3, padding=1)
    return model, images(rank, channels, side), lambda model, input: after(model(input)).square().mean()


def unpooled(rank):
    pool, unpool = getattr(F, f"max_pool{rank}d"), getattr(F, f"max_unpool{rank}d")

    def after(features):
        values, places = pool(features, KERNEL, STRIDE, return_indices=True)
        return unpool(values * 2, places, KERNEL, STRIDE, output_size=features.shape[2:])

    return convolved(rank, after)


def segmented():
    classes = torch.randint(6, (2, 24, 24))
    return nn.Conv2d(6, 6, 3, padding=1), images(2), lambda model, input: F.cross_entropy(model(input), classes.to(input.device))


def spoken():
    texts, lengths = torch.randint(1, 20, (4, 50)), torch.tensor([50, 40, 30, 9])

    def loss(model, input):
        scores = model(input).permute(2, 0, 1).log_softmax(2)
        return F.ctc_loss(scores, texts.to(input.device), torch.full((4,), len(scores)), lengths)

    return nn.Conv1d(8, 20, 3, padding=1), torch.randn(4, 8, 300), loss


def bagged(mode):
    tokens = torch.randint(50, (64, 20))
    return nn.EmbeddingBag(50, 16, mode=mode), torch.randn(64, 16), lambda model, input: (model(tokens.to(input.device)) * input).sum()


def scored(after):
    """A linear layer, and a loss by an operator of its rows."""
    return nn.Linear(16, 16), torch.randn(4000, 16), lambda model, input: after(model(input)).square().mean()


def put(accumulate):
    index = torch.randint(300, (4000 * 16,))
    return scored(lambda rows: torch.zeros(300, device=rows.device).put_(index.to(rows.device), rows.flatten(), accumulate=accumulate) / 200)


def counted(weights_of):
    """A loss scaled by numbers that an operator without a gradient counts."""
    return nn.Linear(16, 16), torch.randn(4000, 16), lambda model, input: (model(input).mean(0) * weights_of(model(input).detach())).sum()


def bins(rows):
    return torch.histc(rows, 16, -2, 2) / rows.numel()


def frequencies(rows):
    index = torch.arange(len(rows), device=rows.device) % 16
    return torch.bincount(index, rows[:, 0].abs().clamp(max=2), 16).to(rows.dtype) / len(rows)


def reduced(how):
    """Numbers near 1, of which products stay near 1."""
    index = torch.randint(50, (4000, 16))
    return scored(lambda rows: torch.ones(50, 16, device=rows.device).scatter_reduce(0, index.to(rows.device), rows / 10 + 1, how) / (80 if how == "sum" else 1))


def sampled(mode):
    grid = torch.rand(2, 24, 24, 2) * 2.4 - 1.2
    return convolved(2, lambda features: F.grid_sample(features, grid.to(features.device), mode=mode, align_corners=False))


def resized(rank, mode):
    return convolved(rank, lambda features: F.interpolate(features, scale_factor=1.7, mode=mode))


def padded(rank, mode):
    return convolved(rank, lambda features: F.pad(features, (2,) * 2 * rank, mode))


def pooled(name, rank, *arguments):
    return convolved(rank, lambda features: getattr(F, f"{name}{rank}d")(features, *arguments))


def fractional(rank):
    samples = torch.rand(2, 6, rank)
    function = getattr(F, f"fractional_max_pool{rank}d")
    return convolved(rank, lambda features: function(features, 3, 5, _random_samples=samples.to(features)))


def of_boxes(name, channels, *arguments):
    import torchvision

    corner = torch.rand(40, 2) * 12
    boxes = torch.cat([torch.randint(2, (40, 1)).float(), corner, corner + torch.rand(40, 2) * 12 + 1], 1)
    function = getattr(torchvision.ops, name)
    return convolved(2, lambda features: function(features, boxes.to(features), *arguments), channels)


def deformed():
    from torchvision.ops import DeformConv2d

    offsets, masks = torch.randn(2, 18, 24, 24), torch.rand(2, 9, 24, 24)
    net = nn.ModuleList([nn.Conv2d(6, 6, 3, padding=1), DeformConv2d(6, 6, 3, padding=1)])
    return net, images(2), lambda model, input: model[1](model[0](input), offsets.to(input), masks.to(input)).square().mean()


NETS = {
    "avg_pool3d": lambda: pooled("avg_pool", 3, KERNEL, STRIDE),
    "adaptive_avg_pool2d": lambda: pooled("adaptive_avg_pool", 2, 7),
    "adaptive_avg_pool3d": lambda: pooled("adaptive_avg_pool", 3, 7),
    "max_pool3d": lambda: pooled("max_pool", 3, KERNEL, STRIDE),
    "adaptive_max_pool2d": lambda: pooled("adaptive_max_pool", 2, 7),
    "adaptive_max_pool3d": lambda: pooled("adaptive_max_pool", 3, 7),
    "fractional_max_pool2d": lambda: fractional(2),
    "fractional_max_pool3d": lambda: fractional(3),
    **{f"max_unpool{rank}d": lambda rank=rank: unpooled(rank) for rank in (1, 2, 3)},
    **{f"interpolate_{mode}": lambda rank=rank, mode=mode: resized(rank, mode)
       for rank, mode in ((1, "linear"), (2, "bilinear"), (2, "bicubic"), (3, "trilinear"))},
    **{f"{mode}_pad{rank}d": lambda rank=rank, mode=mode: padded(rank, {"reflection": "reflect", "replication": "replicate"}[mode])
       for mode in ("reflection", "replication") for rank in (1, 2, 3)},
    "nll_loss2d": segmented,
    "ctc_loss": spoken,
    **{f"embedding_bag_{mode}": lambda mode=mode: bagged(mode) for mode in ("sum", "mean", "max")},
    "put": lambda: put(False),
    "put_accumulate": lambda: put(True),
    "histc": lambda: counted(bins),
    "bincount": lambda: counted(frequencies),
    "kthvalue": lambda: scored(lambda rows: rows.kthvalue(1000, 0).values),
    "median": lambda: scored(lambda rows: rows.median(0).values),
    "cumsum": lambda: scored(lambda rows: rows.cumsum(0) / 100),
    **{f"scatter_reduce_{how}": lambda how=how: reduced(how) for how in ("sum", "mean", "amax", "amin", "prod")},
    **{f"grid_sample_{mode}": lambda mode=mode: sampled(mode) for mode in ("bilinear", "nearest", "bicubic")},
    "roi_align": lambda: of_boxes("roi_align", 6, 7),
    "roi_pool": lambda: of_boxes("roi_pool", 6, 7),
    "ps_roi_align": lambda: of_boxes("ps_roi_align", 18, 3),
    "ps_roi_pool": lambda: of_boxes("ps_roi_pool", 18, 3),
    "deform_conv2d": deformed,
}  # fmt: skip


def refusal(call):
    """Returns what PyTorch says where it refuses, and "" where it does not."""
    try:
        call()
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        return " ".join(str(error).split())[:120]
    return ""


class Run:
    """A net from weights that are the same each time."""

    def __init__(self, make, device):
        torch.manual_seed(0)
        model, input, self.loss = make()
        self.model, self.input = model.to(device), input.to(device)
        self.optimizer, self.losses = torch.optim.SGD(self.model.parameters(), lr=0.01), []

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.model, self.input)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item().hex())

    def end(self):
        return [*self.losses, *(tensor.cpu().numpy().tobytes() for tensor in self.model.state_dict().values())]


def trained(make, chosen):
    run = Run(make, chosen.device)
    for _ in range(chosen.steps):
        run.step()
    return run.end()


def report_of(make, chosen):
    try:
        alone = refusal(lambda: Run(make, chosen.device).step())
    except ImportError as error:
        return {"skipped": str(error)}
    with msda_replay.torch.deterministic(devices=(chosen.device,)):
        refused = refusal(lambda: Run(make, chosen.device).step())
        runs = [] if refused else [trained(make, chosen) for _ in range(2)]
    return {"alone": alone, "refused": refused, "equal": len(runs) == 2 and runs[0] == runs[1], "losses": runs[0][: chosen.steps] if runs else []}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--nets", type=lambda names: names.split(","), default=list(NETS))
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    torch.use_deterministic_algorithms(True)
    for name in chosen.nets:
        print(json.dumps({"net": name, **report_of(NETS[name], chosen)}), flush=True)


if __name__ == "__main__":
    main()
