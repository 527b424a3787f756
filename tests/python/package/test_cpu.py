"""msda_replay.cpu: libmsda's backward pass on NumPy arrays, against closed forms."""

import numpy as np
import pytest

from msda_replay import cpu, libmsda

CONVENTIONS = {"dialect": "msda_triton", "padding_mode": "zeros"}


def one_sample(x, y, dtype=np.float64):
    """One query on a level of 2 rows and 3 columns, with one channel: pixel (row, column) has the value 10*row + column."""
    return {
        "value": np.array([0, 1, 2, 10, 11, 12], dtype).reshape(1, 6, 1, 1),
        "spatial_shapes": np.array([[2, 3]]),
        "sampling_locations": np.array([x, y], dtype).reshape(1, 1, 1, 1, 1, 2),
        "attention_weights": np.full((1, 1, 1, 1, 1), 0.5, dtype),
        "grad_output": np.full((1, 1, 1, 1), 4.0, dtype),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_one_sample(dtype):
    # x = 0.5*3 - 0.5 = 1, y = 0.5*2 - 0.5 = 0.5: between the rows, in column 1.
    got = cpu.backward(**one_sample(0.5, 0.5, dtype), **CONVENTIONS)
    assert got["grad_value"].reshape(2, 3).tolist() == [[0, 1, 0], [0, 1, 0]]  # 0.5*4 to two pixels, a half each
    assert got["grad_attention_weights"].item() == 4 * 6  # the sampled value is (1 + 11)/2
    # The value rises by 1 a column of 1/3, and by 10 a row of 1/2.
    assert got["grad_sampling_locations"].ravel().tolist() == [0.5 * 4 * 1 * 3, 0.5 * 4 * 10 * 2]
    assert all(gradient.dtype == dtype for gradient in got.values())


def test_align_corners_and_padding_are_passed_on():
    call = one_sample(0.5, 0.5)
    # x = 0.5*2 = 1, y = 0.5*1 = 0.5
    aligned = cpu.backward(**call, **CONVENTIONS, align_corners=True)
    assert aligned["grad_sampling_locations"].ravel().tolist() == [0.5 * 4 * 1 * 2, 0.5 * 4 * 10 * 1]
    outside = one_sample(-1.0, 0.25)
    assert not cpu.backward(**outside, **CONVENTIONS)["grad_value"].any()
    border = cpu.backward(**outside, dialect="msda_triton", padding_mode="border")["grad_value"]
    assert border.reshape(2, 3).tolist() == [[2, 0, 0], [0, 0, 0]]


def test_layout_and_byte_order_of_an_input_do_not_matter():
    call = one_sample(0.3, 0.7)
    plain = cpu.backward(**call, **CONVENTIONS)
    spread = np.zeros((1, 12, 1, 1))
    spread[:, ::2] = call["value"]
    for value in (spread[:, ::2], call["value"].astype(">f8")):
        got = cpu.backward(**{**call, "value": value}, **CONVENTIONS)
        assert all((got[name] == plain[name]).all() for name in plain)


@pytest.mark.parametrize("change, error, message", [
    ({"dialect": "torch"}, ValueError, "dialect: 'torch'; it must be one of deformable_detr"),
    ({"padding_mode": "reflect"}, ValueError, "padding_mode: 'reflect'"),
    ({"value": np.zeros((1, 6, 1, 1), np.complex64)}, TypeError, "value: complex64"),
    ({"value": np.zeros((1, 5, 1, 1))}, ValueError, "value"),
    ({"grad_output": np.zeros((1,) * 8)}, ValueError, "grad_output: 8 dimensions"),
    ({"threads": 2**32 + 1}, ValueError, "threads: 4294967297; it must be"),
    ({"threads": -1}, ValueError, "threads: -1; it must be from 0 to 2147483647"),
    ({"seed": 2**64}, ValueError, "seed: 18446744073709551616; it must be"),
    ({"seed": -1}, ValueError, "seed: -1"),
])  # fmt: skip
def test_what_cannot_be_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        cpu.backward(**{**one_sample(0.5, 0.5), **CONVENTIONS, **change})


@pytest.mark.parametrize("rank", range(libmsda.MAX_RANK + 1))
def test_a_tensor_of_any_rank(rank):
    shape, stride = [axis + 2 for axis in range(rank)], [-(10**12) * axis for axis in range(rank)]
    tensor, rest = libmsda.tensor_at(2**63 + 8, "int32", shape, stride), [0] * (libmsda.MAX_RANK - rank)
    assert (tensor.data, tensor.dtype, tensor.rank) == (2**63 + 8, libmsda.DTYPES["int32"], rank)
    assert ([*tensor.shape], [*tensor.stride]) == (shape + rest, stride + rest)
