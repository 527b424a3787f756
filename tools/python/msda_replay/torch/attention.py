"""Multi-scale deformable attention, deterministic forward and backward."""

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .. import libmsda
from . import calls, receipts

_shapes_on_host = WeakIdKeyDictionary()  # spatial_shapes on a GPU: (version, copy)


def _on_host(spatial_shapes):
    # The C ABI wants the sizes of the levels on the host. Copying them waits for the GPU, and is not possible while a CUDA
    # graph is captured: models pass the same tensor again and again, so once is enough.
    if not spatial_shapes.is_cuda:
        return spatial_shapes
    if spatial_shapes.is_inference():  # It does not tell when it changes.
        return spatial_shapes.cpu()
    known = _shapes_on_host.get(spatial_shapes)
    if known is None or known[0] != spatial_shapes._version:
        known = _shapes_on_host[spatial_shapes] = (spatial_shapes._version, spatial_shapes.cpu())
    return known[1]


def _call(value, shapes, locations, weights, dialect, padding_mode, align_corners):
    calls.check_together({"value": value, "sampling_locations": locations, "attention_weights": weights})
    return libmsda.Call(
        libmsda.choice("dialect", libmsda.DIALECTS, dialect),
        libmsda.choice("padding_mode", libmsda.PADDINGS, padding_mode),
        align_corners,
        calls.described("value", value),
        calls.described("spatial_shapes", shapes),
        libmsda.derived(),
        calls.described("sampling_locations", locations),
        calls.described("attention_weights", weights),
    )


@torch.library.custom_op("msda_replay::attention", mutates_args=())
def _attention(value: torch.Tensor, spatial_shapes: torch.Tensor, sampling_locations: torch.Tensor,
               attention_weights: torch.Tensor, dialect: str, padding_mode: str,
               align_corners: bool) -> torch.Tensor:  # fmt: skip
    shapes = _on_host(spatial_shapes)
    call = _call(value, shapes, sampling_locations, attention_weights, dialect, padding_mode, align_corners)
    output = _empty_output(value, sampling_locations)
    calls.run("forward", value, call, None, calls.described("output", output))
    return output


def _empty_output(value, sampling_locations):
    batch, queries = sampling_locations.shape[:2]
    return value.new_empty((batch, queries, *value.shape[2:]))


@_attention.register_fake
def _(value, spatial_shapes, sampling_locations, attention_weights, dialect, padding_mode, align_corners):
    return _empty_output(value, sampling_locations)


@torch.library.custom_op("msda_replay::attention_backward", mutates_args=())
def _attention_backward(grad_output: torch.Tensor, value: torch.Tensor, spatial_shapes: torch.Tensor,
                        sampling_locations: torch.Tensor, attention_weights: torch.Tensor, dialect: str,
                        padding_mode: str, align_corners: bool
                        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    shapes = _on_host(spatial_shapes)
    call = _call(value, shapes, sampling_locations, attention_weights, dialect, padding_mode, align_corners)
    gradients = _empty_gradients(value, sampling_locations, attention_weights)
    names = ("grad_value", "grad_sampling_locations", "grad_attention_weights")
    outputs = [calls.described(name, gradient) for name, gradient in zip(names, gradients)]
    calls.run("backward", value, call, calls.described("grad_output", grad_output), None, *outputs)
    receipts.add(
        "attention_backward",
        {"grad_output": grad_output, "value": value, "spatial_shapes": shapes, "sampling_locations": sampling_locations,
         "attention_weights": attention_weights},
        dict(zip(names, gradients)),
    )  # fmt: skip
    return gradients


def _empty_gradients(*inputs):
    return tuple(torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in inputs)


@_attention_backward.register_fake
def _(grad_output, value, spatial_shapes, sampling_locations, attention_weights, dialect, padding_mode, align_corners):
    return _empty_gradients(value, sampling_locations, attention_weights)


def _remember(ctx, inputs, output):
    *tensors, ctx.dialect, ctx.padding_mode, ctx.align_corners = inputs
    ctx.save_for_backward(*tensors)


def _differentiate(ctx, grad_output):
    value, shapes, locations, weights = ctx.saved_tensors
    gradients = _attention_backward(
        grad_output, value, shapes, locations, weights, ctx.dialect, ctx.padding_mode, ctx.align_corners
    )
    return gradients[0], None, gradients[1], gradients[2], None, None, None


_attention.register_autograd(_differentiate, setup_context=_remember)


def multi_scale_deformable_attention(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                     im2col_step=64):  # fmt: skip
    """Deformable DETR's operator, with the arguments of its `MSDeformAttnFunction.apply`. Returns [B, Q, M*D].

    value [B,S,M,D], spatial_shapes [L,2] (height, width), sampling_locations [B,Q,M,L,P,2] (x, y) in [0,1],
    attention_weights [B,Q,M,L,P]. level_start_index is derived from spatial_shapes, im2col_step changes nothing. The tensors may
    differ in type, as under autocast; each gradient has the type of its tensor. Raises ValueError and TypeError.
    """
    output = _attention(value, spatial_shapes, sampling_locations, attention_weights, "deformable_detr", "zeros", False)
    return output.flatten(2)


def multiscale_deformable_attention(img, img_shapes, sampling_points, attention_weights, padding_mode="border",
                                    align_corners=False):  # fmt: skip
    """msda-triton's operator, with its arguments: tensors as above, in its conventions. Returns [B, Q, M, D]."""
    return _attention(img, img_shapes, sampling_points, attention_weights, "msda_triton", padding_mode, align_corners)
