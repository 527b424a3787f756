"""torchvision's backward pass of deform_conv2d: libmsda's but for the matrix products, which are PyTorch's."""

import torch

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_IMAGES = 32  # whose columns are in memory at a time, as in torchvision
_run_backward = calls.Function("deform_conv2d_backward", libmsda.DeformCall)


def _backward_of_images(grad, input, weight, offset, mask, fields, weight_groups):
    """Returns the gradients of the input, the weight, the offset and the mask, of a few images."""
    kernel, N = weight.shape[2:], len(input)
    rows = grad.reshape(N, weight_groups, len(weight) // weight_groups, grad.shape[2] * grad.shape[3])
    grad_columns = weight.reshape(weight_groups, rows.shape[2], -1).transpose(1, 2) @ rows
    columns = grad.new_empty(N, input.shape[1], kernel.numel(), rows.shape[3])
    inputs = {"input": input, "offset": offset, "mask": mask, "grad_columns": grad_columns.view(columns.shape)}
    results = {
        "grad_input": torch.empty_like(input),
        "grad_offset": torch.empty_like(offset),
        "grad_mask": None if mask is None else torch.empty_like(mask),
        "columns": columns,
    }
    _run_backward(fields, inputs, {"options": None, **results})
    grad_weight = (rows @ columns.view(grad_columns.shape).transpose(2, 3)).sum(0).view(weight.shape)
    return results["grad_input"], grad_weight, results["grad_offset"], results["grad_mask"]


def _deform_conv2d_backward(
    grad, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask
):
    fields = (tuple(weight.shape[2:]), (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), offset_groups)
    of_images = [tensor.contiguous().split(_IMAGES) for tensor in (grad, input, offset)]
    masks = mask.contiguous().split(_IMAGES) if use_mask else [None] * len(of_images[0])
    parts = [_backward_of_images(of_grad, image, weight, offsets, of_mask, fields, groups)
             for of_grad, image, offsets, of_mask in zip(*of_images, masks)]  # fmt: skip
    grad_input, grad_offset = (torch.cat([part[i] for part in parts]) if len(parts) > 1 else parts[0][i] for i in (0, 2))
    grad_weight = parts[0][1]
    for part in parts[1:]:
        grad_weight = grad_weight + part[1]
    grad_mask = torch.cat([part[3] for part in parts]) if use_mask else torch.zeros_like(mask)
    grad_bias = torch.ones_like(bias) * grad.sum((0, 2, 3))
    inputs = {"grad_output": grad, "input": input, "weight": weight, "offset": offset, **({"mask": mask} if use_mask else {})}
    outputs = {"grad_input": grad_input, "grad_weight": grad_weight, "grad_offset": grad_offset}
    options = dict(zip(("kernel", "stride", "padding", "dilation"), map(list, fields[:4])), groups=groups, offset_groups=offset_groups)
    receipts.add("deform_conv2d_backward", inputs, {**outputs, **({"grad_mask": grad_mask} if use_mask else {})}, options)
    return grad_input, grad_weight, grad_offset, grad_mask, grad_bias


REPLACED = Replaced({"torchvision::_deform_conv2d_backward": _deform_conv2d_backward})
