"""Multi-scale deformable attention, deterministic forward and backward."""

from collections.abc import Sequence
from typing import Optional

import torch
from torch.utils.weak import WeakIdKeyDictionary

from ... import libmsda
from .. import calls, receipts

_GRADIENTS = ("grad_value", "grad_sampling_locations", "grad_attention_weights")
_on_hosts = WeakIdKeyDictionary()  # spatial_shapes and level_start_index on a GPU: (version, copy)


def _on_host(name, sizes, value):
    # The C ABI wants the sizes of the levels on the host. Copying them waits for the GPU, and is not possible while a CUDA
    # graph is captured: models pass the same tensor again and again, so once is enough. What changes it past PyTorch's
    # count of versions (through .data, by another program's kernel, by a CUDA graph that is replayed) is not noticed.
    if sizes is None or sizes.device.type == "cpu":
        return sizes
    calls.check_together({"value": value, name: sizes})
    if sizes.is_inference():  # Its changes are not counted.
        return sizes.cpu()
    known = _on_hosts.get(sizes)
    if known is None or known[0] != sizes._version:
        known = _on_hosts[sizes] = (sizes._version, sizes.cpu())
    return known[1]


_HOST = ("spatial_shapes", "level_start_index")
_run_forward = calls.Function("forward", libmsda.Call, _HOST)
_run_backward = calls.Function("backward", libmsda.Call, _HOST)


def _conventions(dialect, padding_mode, align_corners):
    return libmsda.choice("dialect", libmsda.DIALECTS, dialect), libmsda.choice("padding_mode", libmsda.PADDINGS, padding_mode), align_corners


def _inputs(value, shapes, starts, locations, weights):
    return {"value": value, "spatial_shapes": _on_host("spatial_shapes", shapes, value),
            "level_start_index": _on_host("level_start_index", starts, value), "sampling_locations": locations,
            "attention_weights": weights}  # fmt: skip


@torch.library.custom_op("msda_replay::attention", mutates_args=())
def _attention(value: torch.Tensor, spatial_shapes: torch.Tensor, sampling_locations: torch.Tensor,
               attention_weights: torch.Tensor, dialect: str, padding_mode: str,
               align_corners: bool, level_start_index: Optional[torch.Tensor] = None) -> torch.Tensor:  # fmt: skip
    inputs = _inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)
    output = _empty_output(value, sampling_locations)
    _run_forward(_conventions(dialect, padding_mode, align_corners), inputs, {"options": None, "output": output})
    return output


def _empty_output(value, sampling_locations):
    batch, queries = sampling_locations.shape[:2]
    return value.new_empty((batch, queries, *value.shape[2:]))


@_attention.register_fake
def _(value, spatial_shapes, sampling_locations, attention_weights, dialect, padding_mode, align_corners,
      level_start_index=None):  # fmt: skip
    return _empty_output(value, sampling_locations)


@torch.library.custom_op("msda_replay::attention_backward", mutates_args=())
def _attention_backward(grad_output: torch.Tensor, value: torch.Tensor, spatial_shapes: torch.Tensor,
                        sampling_locations: torch.Tensor, attention_weights: torch.Tensor, dialect: str,
                        padding_mode: str, align_corners: bool, level_start_index: Optional[torch.Tensor],
                        wanted: Sequence[bool]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    inputs = _inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)
    gradients = _empty_gradients(wanted, value, sampling_locations, attention_weights)
    arguments = {"grad_output": grad_output, "options": None,
                 **{name: gradient if is_wanted else None for name, gradient, is_wanted in zip(_GRADIENTS, gradients, wanted)}}  # fmt: skip
    _run_backward(_conventions(dialect, padding_mode, align_corners), inputs, arguments)
    receipts.add(
        "attention_backward",
        {"grad_output": grad_output, "value": value, "spatial_shapes": inputs["spatial_shapes"],
         "sampling_locations": sampling_locations, "attention_weights": attention_weights},
        {name: gradient for name, gradient, is_wanted in zip(_GRADIENTS, gradients, wanted) if is_wanted},
        {"dialect": dialect, "padding_mode": padding_mode, "align_corners": align_corners},
    )  # fmt: skip
    return gradients


def _empty_gradients(wanted, *inputs):
    """Returns gradients; unwanted ones have no elements, because a custom operator cannot return None."""
    return tuple(tensor.new_empty(tensor.shape if is_wanted else 0)
                 for tensor, is_wanted in zip(inputs, wanted))  # fmt: skip


@_attention_backward.register_fake
def _(grad_output, value, spatial_shapes, sampling_locations, attention_weights, dialect, padding_mode, align_corners,
      level_start_index, wanted):  # fmt: skip
    return _empty_gradients(wanted, value, sampling_locations, attention_weights)


def _remember(ctx, inputs, output):
    *tensors, ctx.dialect, ctx.padding_mode, ctx.align_corners, starts = inputs
    ctx.save_for_backward(*tensors, starts)


def _differentiate(ctx, grad_output):
    value, shapes, locations, weights, starts = ctx.saved_tensors
    wanted = [ctx.needs_input_grad[place] for place in (0, 2, 3)]
    gradients = _attention_backward(
        grad_output, value, shapes, locations, weights, ctx.dialect, ctx.padding_mode, ctx.align_corners, starts, wanted
    )
    of_value, of_locations, of_weights = (entry if is_wanted else None for entry, is_wanted in zip(gradients, wanted))
    return of_value, None, of_locations, of_weights, None, None, None, None


_attention.register_autograd(_differentiate, setup_context=_remember)


def multi_scale_deformable_attention(value: torch.Tensor, spatial_shapes: torch.Tensor, level_start_index: Optional[torch.Tensor],
                                     sampling_locations: torch.Tensor, attention_weights: torch.Tensor,
                                     im2col_step: int = 64) -> torch.Tensor:  # fmt: skip
    """Deformable DETR's operator, with the arguments of its `MSDeformAttnFunction.apply`. Returns [B, Q, M*D].

    value [B,S,M,D], spatial_shapes [L,2] (height, width), sampling_locations [B,Q,M,L,P,2] (x, y) in [0,1],
    attention_weights [B,Q,M,L,P]. level_start_index is None or what follows from spatial_shapes, im2col_step changes nothing. The tensors may
    differ in type, as under autocast; each gradient has the type of its tensor. Raises ValueError and TypeError.
    """
    output = _attention(value, spatial_shapes, sampling_locations, attention_weights, "deformable_detr", "zeros", False,
                        level_start_index)  # fmt: skip
    return output.flatten(2)


def multiscale_deformable_attention(img: torch.Tensor, img_shapes: torch.Tensor, sampling_points: torch.Tensor,
                                    attention_weights: torch.Tensor, padding_mode: str = "border",
                                    align_corners: bool = False) -> torch.Tensor:  # fmt: skip
    """msda-triton's operator, with its arguments: tensors as above, in its conventions. Returns [B, Q, M, D]."""
    return _attention(img, img_shapes, sampling_points, attention_weights, "msda_triton", padding_mode, align_corners)
