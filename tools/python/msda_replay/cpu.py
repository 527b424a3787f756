"""The operator on the CPU, on NumPy arrays, for tests and examples."""

import numpy as np

from . import libmsda


def _native(array):
    array = np.asarray(array)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def _tensor(name, array):
    strides = [stride // array.itemsize for stride in array.strides]
    return libmsda.tensor_at(array.ctypes.data, array.dtype.name, array.shape, strides, name)


def backward(value, spatial_shapes, sampling_locations, attention_weights, grad_output, *, dialect, padding_mode,
             align_corners=False, mode="deterministic", threads=0, seed=0):  # fmt: skip
    """Returns the gradients that msda_backward() computes (kernels/msda.h), in the type of each input.

    value [B,S,M,D], spatial_shapes [L,2] (height, width), sampling_locations [B,Q,M,L,P,2] (x, y) in [0,1],
    attention_weights [B,Q,M,L,P], grad_output [B,Q,M,D]; dialect: one of libmsda.DIALECTS; padding_mode: zeros or border;
    mode: deterministic, atomic (in the order that seed gives) or float64; threads: 0 is one a core. Returns grad_value,
    grad_sampling_locations, grad_attention_weights by name. Raises TypeError, ValueError, and FileNotFoundError where
    libmsda.so is not installed.
    """
    for name, number, most in (("threads", threads, 2**31 - 1), ("seed", seed, 2**64 - 1)):  # ctypes would wrap it
        if not 0 <= number <= most:
            raise ValueError(f"{name}: {number}; it must be from 0 to {most}")
    inputs = {
        "value": value, "spatial_shapes": spatial_shapes, "sampling_locations": sampling_locations,
        "attention_weights": attention_weights, "grad_output": grad_output,
    }  # fmt: skip
    inputs = {name: _native(array) for name, array in inputs.items()}
    tensors = {name: _tensor(name, array) for name, array in inputs.items()}
    call = libmsda.Call(
        libmsda.choice("dialect", libmsda.DIALECTS, dialect),
        libmsda.choice("padding_mode", libmsda.PADDINGS, padding_mode),
        bool(align_corners),
        tensors["value"],
        tensors["spatial_shapes"],
        libmsda.derived(),
        tensors["sampling_locations"],
        tensors["attention_weights"],
    )
    gradients = {
        f"grad_{name}": np.empty_like(inputs[name]) for name in ("value", "sampling_locations", "attention_weights")
    }
    options = libmsda.Options(libmsda.choice("mode", libmsda.MODES, mode), threads, seed)
    outputs = [_tensor(name, array) for name, array in gradients.items()]
    libmsda.run("msda_backward", call, tensors["grad_output"], options, *outputs)
    return gradients
