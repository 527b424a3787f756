"""What the Python programs of this folder share: what they print and save, and calls of grid_sample's backward kernel."""

import argparse
import hashlib
import pathlib

import numpy as np
import torch


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--phase", default="")
    parser.add_argument("--axes", type=int, default=2, choices=(2, 3))
    return parser.parse_args()


def as_array(tensor):
    return np.ascontiguousarray(tensor.detach().cpu().contiguous().numpy())


def show(name, tensor, save=None):
    """Prints a line with the tensor's digest; writes NAME.npy in the folder `save`."""
    array = as_array(tensor)
    print(name.rpartition(".")[0] or name, name.rpartition(".")[2], hashlib.sha1(array.tobytes()).hexdigest(), flush=True)
    if save is not None:
        np.save(save / f"{name}.npy", array)


def make(seed, channels=3, size=(9, 8), out=(7, 6), dtype=torch.float32):
    """Inputs of one backward call: grad_output, input, grid. The grid reaches over the border. 3D if the sizes are."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    grad_output, image = draw(2, channels, *out), draw(2, channels, *size)
    grid = torch.rand(2, *out, len(out), generator=generator) * 2.4 - 1.2
    return [tensor.to(dtype).cuda() for tensor in (grad_output, image, grid)]


def backward(grad_output, image, grid, padding=0, align_corners=False, interpolation=0):
    """PyTorch's kernel, on this thread. grad_input is summed by atomics, grad_grid is not."""
    kernel = getattr(torch.ops.aten, f"grid_sampler_{grid.shape[-1]}d_backward")
    return kernel(grad_output, image, grid, interpolation, padding, align_corners, [True, True])
