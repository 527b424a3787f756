"""Layers whose forward and backward passes are the Triton kernels of kernels.py on a GPU, and PyTorch's on a CPU."""

import torch

try:
    from . import kernels
except ImportError:  # no Triton: there is no GPU either, or the client says what is missing
    kernels = None

SHARE = 0.1  # that a dropout leaves out


def power_of_two(number):
    return 1 << (number - 1).bit_length()


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return kernels.matmul(x, weight.T)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        return kernels.matmul(grad, weight), kernels.matmul(grad.T, x)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, epsilon):
        rows, width = x.shape
        out, means, scales = torch.empty_like(x), x.new_empty(rows), x.new_empty(rows)
        kernels.layer_norm_forward[(rows,)](x, weight, bias, out, means, scales, width, epsilon, WIDTH=power_of_two(width))
        ctx.save_for_backward(x, weight, means, scales)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, means, scales = ctx.saved_tensors
        rows, width = x.shape
        grad, out = grad.contiguous(), torch.empty_like(x)
        of_weight, of_bias = torch.empty_like(weight), torch.empty_like(weight)
        kernels.layer_norm_backward[(rows,)](grad, x, weight, means, scales, out, width, WIDTH=power_of_two(width))
        kernels.layer_norm_weights[(width,)](grad, x, means, scales, of_weight, of_bias, rows, width, ROWS=128)
        return out, of_weight, of_bias, None


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out, width = torch.empty_like(x), x.shape[-1]
        kernels.softmax_forward[(x.numel() // width,)](x, out, width, WIDTH=power_of_two(width))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        grad, out, width = grad.contiguous(), torch.empty_like(y), y.shape[-1]
        kernels.softmax_backward[(y.numel() // width,)](grad, y, out, width, WIDTH=power_of_two(width))
        return out


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return kernels.along(kernels.gelu_forward, (x, torch.empty_like(x)))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return kernels.along(kernels.gelu_backward, (grad.contiguous(), x, torch.empty_like(x)))


class Dropout(torch.autograd.Function):
    """The seed is the next number of PyTorch's generator of the CPU, as Triton programs commonly draw it."""

    @staticmethod
    def forward(ctx, x):
        ctx.seed = int(torch.randint(2**31 - 1, ()))
        return kernels.along(kernels.random_dropout, (x, torch.empty_like(x)), SHARE, ctx.seed)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        return kernels.along(kernels.random_dropout, (grad, torch.empty_like(grad)), SHARE, ctx.seed)


def linear(x, weight, bias):
    """Returns the layer's result; x: rows and columns."""
    return (Linear.apply(x.contiguous(), weight) if x.is_cuda else x @ weight.T) + bias


def layer_norm(x, weight, bias, epsilon=1e-5):
    return LayerNorm.apply(x, weight, bias, epsilon) if x.is_cuda else torch.nn.functional.layer_norm(x, weight.shape, weight, bias, epsilon)


def softmax(x):
    return Softmax.apply(x.contiguous()) if x.is_cuda else x.softmax(-1)


def gelu(x):
    return Gelu.apply(x) if x.is_cuda else torch.nn.functional.gelu(x)


def dropout(x):
    return Dropout.apply(x.contiguous()) if x.is_cuda else torch.nn.functional.dropout(x, SHARE)
