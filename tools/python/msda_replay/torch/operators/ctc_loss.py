"""PyTorch's backward pass of ctc_loss."""

import torch

from ... import libmsda
from .. import calls, receipts
from . import Replaced

_MOST_LABELS = 8191  # of a target, in the kernels for GPUs
_run_backward = calls.Function("ctc_loss_backward", libmsda.CtcLossCall, host=("lengths",))


def _ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity=False
):
    if log_probs.is_cuda and log_alpha.shape[2] > 2 * _MOST_LABELS + 1:  # the CPU's kernels have the bits that the GPU's would
        first, losses = (grad.cpu(), log_probs.cpu(), targets.cpu()), (neg_log_likelihood.cpu(), log_alpha.cpu())
        found = _ctc_loss_backward(*first, input_lengths, target_lengths, *losses, blank, zero_infinity)
        return found.to(log_probs.device)
    grad_log_probs = torch.empty_like(log_probs, memory_format=torch.contiguous_format)
    inputs = {
        "log_probs": log_probs,
        "targets": targets,
        "lengths": torch.tensor([list(map(int, input_lengths)), list(map(int, target_lengths))], dtype=torch.int64),
        "neg_log_likelihood": neg_log_likelihood,
        "log_alpha": log_alpha.contiguous(),
    }
    arguments = {"grad_output": grad, "options": None, "grad_log_probs": grad_log_probs}
    _run_backward((blank, zero_infinity), inputs, arguments)
    options = {"blank": blank, "zero_infinity": zero_infinity}
    receipts.add("ctc_loss_backward", {**inputs, "grad_output": grad}, {"grad_log_probs": grad_log_probs}, options)
    return grad_log_probs


def _backward_of_tensors(grad, log_probs, targets, input_lengths, target_lengths, *others, **named):
    lengths = input_lengths.tolist(), target_lengths.tolist()
    return _ctc_loss_backward(grad, log_probs, targets, *lengths, *others, **named)


REPLACED = Replaced({
    "aten::_ctc_loss_backward": _ctc_loss_backward,
    "aten::_ctc_loss_backward.Tensor": _backward_of_tensors,
})  # fmt: skip
