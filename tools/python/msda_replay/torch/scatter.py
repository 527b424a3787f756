"""PyTorch's and torchvision's sums that scatter, by libmsda: kernels to put in place of theirs."""

import torch

from .. import libmsda
from . import calls, receipts

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_MOST_BINS = 32  # of ROIAlign's kernels for GPUs


def _add(operator, total, dim, index, source, include_self=True, padding=-1, scale="sum"):
    """Adds the source's rows to those of `total`."""
    calls.check_together({"self": total, "index": index, "source": source})
    call = libmsda.ScatterCall(
        libmsda.SCATTER_SCALES[scale],
        dim,
        include_self,
        padding,
        calls.described("index", index),
        calls.described("source", source),
    )
    held = {"self": total.clone()} if include_self and receipts.are_kept() else {}
    calls.run("scatter_add", total, call, None, calls.described("self", total))
    options = {"dim": dim, "include_self": include_self, "padding": padding, "scale": scale}
    receipts.add(operator, {**held, "index": index, "source": source}, {"sum": total}, options)


def _dimension(dim, tensor):
    size = max(tensor.dim(), 1)
    if not -size <= dim < size:
        raise IndexError(f"dim is {dim}, of a tensor with {tensor.dim()} dimensions")
    return dim % size


def _check_types(operator, tensor, source):
    if tensor.dtype != source.dtype:
        raise RuntimeError(f"{operator}: self is {tensor.dtype}, the source {source.dtype}; they must be of one type")


def _with_dimensions(*tensors):
    return [tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors]


def _index_add_(self, dim, index, source, *, alpha=1):
    _check_types("index_add", self, source)
    dim, index = _dimension(dim, self), index.reshape(-1)
    rows, source = _with_dimensions(self, source if alpha == 1 else source * alpha)
    if self.dtype in _FLOATS:
        _add("index_add", rows, dim, index, source)
    elif self.is_complex():
        _index_add_(torch.view_as_real(rows), dim, index, torch.view_as_real(source))
    else:  # sums of integers have no order
        rows.movedim(dim, 0).index_put_((index,), source.movedim(dim, 0), accumulate=True)
    return self


def _index_add(self, dim, index, source, *, alpha=1):
    return _index_add_(self.clone(), dim, index, source, alpha=alpha)


def _index_add_out(self, dim, index, source, *, alpha=1, out):
    if out is not self:
        out.resize_(self.shape).copy_(self)
    return _index_add_(out, dim, index, source, alpha=alpha)


def _scatter_add_(self, dim, index, src):
    _check_types("scatter_add", self, src)
    dim = _dimension(dim, self)
    if index.numel() == 0:
        return self
    rows, index, source = _with_dimensions(self, index, src)
    for axis, size in enumerate(index.shape):  # which may be smaller than the others
        source = source.narrow(axis, 0, size)
        rows = rows if axis == dim else rows.narrow(axis, 0, size)
    if self.dtype in _FLOATS:
        _add("scatter_add", rows, dim, index, source)
    else:
        places = [
            torch.arange(size, device=index.device).reshape([-1 if i == axis else 1 for i in range(index.dim())])
            for axis, size in enumerate(index.shape)
        ]
        places[dim] = index
        rows.index_put_(tuple(places), source, accumulate=True)
    return self


def _scatter_add(self, dim, index, src):
    return _scatter_add_(self.clone(), dim, index, src)


def _scatter_add_out(self, dim, index, src, *, out):
    if out is not self:
        out.resize_(self.shape).copy_(self)
    return _scatter_add_(out, dim, index, src)


def _embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    source = grad_output.reshape(-1, grad_output.shape[-1])
    total = torch.empty(num_weights, source.shape[1], dtype=source.dtype, device=source.device)
    scale = "by_frequency" if scale_grad_by_freq else "sum"
    _add("embedding_dense_backward", total, 0, indices.reshape(-1), source, False, padding_idx, scale)
    return total


def _interpolate_backward(mode):
    def backward(grad_output, output_size, input_size, align_corners, *scales):
        call = libmsda.InterpolateCall(libmsda.RESIZES[mode], align_corners)
        for axis, scale in enumerate(reversed(scales)):
            call.scale[axis] = scale or 0
        call.grad_output = calls.described("grad_output", grad_output)
        grad_input = torch.empty(input_size, dtype=grad_output.dtype, device=grad_output.device)
        calls.run("interpolate_backward", grad_output, call, None, calls.described("grad_input", grad_input))
        options = {"mode": mode, "input_size": list(input_size), "align_corners": align_corners, "scales": list(scales)}
        receipts.add("interpolate_backward", {"grad_output": grad_output}, {"grad_input": grad_input}, options)
        return grad_input

    return backward


def _roi_align_backward(grad, rois, spatial_scale, rows, columns, N, C, H, W, sampling_ratio, aligned):
    if grad.is_cuda and max(rows, columns) > _MOST_BINS:  # the CPU's kernels have the bits that the GPU's would
        sizes = (spatial_scale, rows, columns, N, C, H, W, sampling_ratio, aligned)
        return _roi_align_backward(grad.cpu(), rois.cpu(), *sizes).to(grad.device)
    calls.check_together({"grad": grad, "rois": rois})
    boxes, grad_output = calls.described("rois", rois), calls.described("grad", grad)
    call = libmsda.RoiAlignCall(spatial_scale, sampling_ratio, aligned, boxes, grad_output)
    grad_input = torch.empty(N, C, H, W, dtype=grad.dtype, device=grad.device)
    calls.run("roi_align_backward", grad, call, None, calls.described("grad_input", grad_input))
    options = {"spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio, "aligned": aligned}
    receipts.add("roi_align_backward", {"boxes": rois, "grad_output": grad}, {"grad_input": grad_input}, options)
    return grad_input


REPLACED = {
    "aten::index_add": _index_add,
    "aten::index_add_": _index_add_,
    "aten::index_add.out": _index_add_out,
    "aten::scatter_add": _scatter_add,
    "aten::scatter_add_": _scatter_add_,
    "aten::scatter_add.out": _scatter_add_out,
    "aten::embedding_dense_backward": _embedding_dense_backward,
    "aten::upsample_linear1d_backward": _interpolate_backward("linear"),
    "aten::upsample_bilinear2d_backward": _interpolate_backward("linear"),
    "aten::upsample_trilinear3d_backward": _interpolate_backward("linear"),
    "aten::upsample_bicubic2d_backward": _interpolate_backward("cubic"),
    "torchvision::_roi_align_backward": _roi_align_backward,
}
