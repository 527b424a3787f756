"""Backward calls of torch.nn.functional.grid_sample."""

from . import Described

INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def described(call, interpolation, padding, align_corners, wants):
    def results(returned):
        return {name: tensor for name, tensor, wanted in zip(("grad_input", "grad_grid"), returned, wants) if wanted}

    facts = {"interpolation": INTERPOLATIONS[interpolation], "padding_mode": PADDINGS[padding], "align_corners": bool(align_corners)}
    return Described({name: call[name] for name in ("input", "grid", "grad_output")}, facts, results)


def native(call):
    return described(call, call["interpolation_mode"], call["padding_mode"], call["align_corners"], call["output_mask"])


def cudnn(call):
    return described({**call, "input": call["self"]}, 0, 0, True, (True, True))


CALLS = {
    "aten::grid_sampler_2d_backward": native,
    "aten::grid_sampler_3d_backward": native,
    "aten::cudnn_grid_sampler_backward": cudnn,
}
