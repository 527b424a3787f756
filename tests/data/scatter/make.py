"""Makes torch_cpu.npz: what PyTorch and torchvision compute on the CPU. python3 make.py, with torch 2.11 and torchvision 0.26."""

import numpy as np
import torch
import torchvision

TYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
kept = {}


def keep(case, **tensors):
    for name, tensor in tensors.items():
        kept[f"{case}/{name}"] = tensor.detach().numpy() if torch.is_tensor(tensor) else np.asarray(tensor)


def scatter(kind, dtype):
    torch.manual_seed(1)
    index, source, before = torch.randint(0, 12, (60,)), torch.randn(60, 4).to(dtype), torch.randn(12, 4).to(dtype)
    rows = dict(index=index, source=source, before_sum=before)
    keep(f"index_add-{kind}", sum=before.clone().index_add_(0, index, source), **rows)
    keep(f"index_put-{kind}", sum=before.clone().index_put_((index - 12 * (index % 2),), source, accumulate=True),
         **{**rows, "index": index - 12 * (index % 2)}, wraps_negative=1)
    middle, inner = torch.randn(3, 20, 4).to(dtype), torch.randn(3, 7, 4).to(dtype)
    into = torch.randint(0, 7, (20,))
    keep(f"index_add_dim1-{kind}", sum=inner.clone().index_add_(1, into, middle), index=into, source=middle, before_sum=inner, dim=1)
    where = torch.randint(0, 7, (3, 20, 4))
    keep(f"scatter_add-{kind}", sum=inner.clone().scatter_add_(1, where, middle), index=where, source=middle, before_sum=inner, dim=1)
    for reduce in ("sum", "mean"):
        for include in (True, False):
            into = inner.clone().scatter_reduce_(1, where, middle, reduce, include_self=include)
            keep(f"scatter_reduce_{reduce}_{int(include)}-{kind}", sum=into, index=where, source=middle, self=inner, dim=1, reduce=reduce,
                 include_self=int(include))
    gathered = torch.randn(3, 7, 4).to(dtype).requires_grad_()
    gathered.gather(1, where).backward(middle)
    keep(f"gather_backward-{kind}", sum=gathered.grad, index=where, source=middle, dim=1)
    for name, padding, frequency in (("embedding", None, False), ("embedding_padding", 3, False), ("embedding_freq", None, True)):
        table = torch.randn(12, 4).to(dtype).requires_grad_()
        torch.nn.functional.embedding(index, table, padding_idx=padding, scale_grad_by_freq=frequency).backward(source)
        keep(f"{name}-{kind}", sum=table.grad, index=index, source=source, scale_grad_by_freq=int(frequency),
             **({} if padding is None else {"padding_idx": padding}))


def interpolate(kind, dtype):
    torch.manual_seed(2)
    cases = [(mode, align, 2) for mode in ("bilinear", "bicubic") for align in (False, True)]
    cases += [("linear", False, 1), ("linear", True, 1), ("trilinear", False, 3), ("trilinear", True, 3)]
    cases += [(mode, None, axes) for mode in ("nearest", "nearest-exact") for axes in (1, 2, 3)]
    sizes = {1: [(7, 21), (9, 4)], 2: [((5, 7), (15, 9)), ((8, 9), (3, 13))], 3: [((3, 4, 2), (5, 12, 3))]}
    for mode, align, axes in cases:
        flags = {} if align is None else {"align_corners": align}
        for number, (inside, outside) in enumerate(sizes[axes][: None if kind == "float32" else 1]):
            image = torch.randn(1, 2, *np.atleast_1d(inside).tolist()).to(dtype).requires_grad_()
            size = np.atleast_1d(outside).tolist()
            output = torch.nn.functional.interpolate(image, size=size, mode=mode, **flags)
            grad = torch.randn_like(output)
            output.backward(grad)
            keep(f"interpolate_{mode}_{int(bool(align))}_{axes}d_{number}-{kind}", grad_output=grad, grad_input=image.grad, mode=mode,
                 align_corners=int(bool(align)))
        if align is not True and kind == "float32":
            image = torch.randn(1, 2, *(4, 5, 3)[:axes]).to(dtype).requires_grad_()
            output = torch.nn.functional.interpolate(image, scale_factor=1.7, mode=mode, **flags)
            grad = torch.randn_like(output)
            output.backward(grad)
            scales = {f"scale_{name}": 1.7 for name in ("depth", "height", "width")[3 - axes:]}
            keep(f"interpolate_{mode}_0_{axes}d_scale-{kind}", grad_output=grad, grad_input=image.grad, mode=mode, align_corners=0, **scales)


def roi_align(kind, dtype):
    torch.manual_seed(3)
    corners = torch.rand(6, 2) * torch.tensor([40.0, 30.0]) - 4
    boxes = torch.cat([torch.randint(0, 2, (6, 1)).float(), corners, corners + torch.rand(6, 2) * 30], 1).to(dtype)
    for aligned in (False, True):
        for ratio in (0, 2, 3):
            image = torch.zeros(2, 2, 15, 20).to(dtype).requires_grad_()  # of which the gradient does not depend
            output = torchvision.ops.roi_align(image, boxes, (3, 4), 0.5, ratio, aligned)
            grad = torch.randn_like(output)
            output.backward(grad)
            keep(f"roi_align_{int(aligned)}_{ratio}-{kind}", input=image, boxes=boxes, grad_output=grad, grad_input=image.grad,
                 spatial_scale=0.5, sampling_ratio=ratio, aligned=int(aligned))


for kind, dtype in TYPES.items():
    scatter(kind, dtype)
    interpolate(kind, dtype)
    if kind != "float16":  # not on the CPU
        roi_align(kind, dtype)
np.savez_compressed("torch_cpu.npz", **kept)
