"""msda_replay.save_call: a capture from a test's tensors, of NumPy or torch, and wrong ones refused by their names."""

import os
import zipfile

import h5py
import numpy as np
import pytest
from support.operators import archive_of, operator  # noqa: F401
from support.problems import backward, bfloat16, make_problem

from msda_replay import CaptureError, open_capture, read_capture, save_call
from msda_replay.importer import import_case
from msda_replay.operator_rows import ROWS


class Tensor:
    """What the package uses of torch.Tensor, on a device: numpy() works on the CPU only, without a gradient, and not on bfloat16."""

    def __init__(self, array, dtype=None, on_cpu=False, needs_grad=True):
        self.array, self.on_cpu, self.needs_grad = array, on_cpu, needs_grad
        self.dtype = dtype or f"torch.{array.dtype}"

    def detach(self):
        return Tensor(self.array, self.dtype, self.on_cpu, False)

    def cpu(self):
        return Tensor(self.array, self.dtype, True, self.needs_grad)

    def float(self):
        return Tensor(self.array.astype(np.float32), None, self.on_cpu, self.needs_grad)

    def numpy(self):
        if not self.on_cpu or self.needs_grad or self.dtype == "torch.bfloat16":
            raise TypeError("Can't convert this tensor to numpy")
        return self.array


@pytest.fixture
def call(rng):
    inputs = make_problem(rng)
    observed = {f"observed_{name}": array.astype(np.float32) for name, array in backward(inputs).items()}
    return {**inputs, **observed, "dialect": "deformable_detr", "padding_mode": "zeros", "align_corners": False, "atol": 1e-3, "rtol": 1e-2}


def is_tensor(value):
    return isinstance(value, np.ndarray)


@pytest.mark.parametrize("rank", [8, 11, 70])
def test_more_dimensions_than_the_operators_take(tmp_path, rank):
    """Rank 11 took minutes, to try all orders; NumPy itself has up to 32 or 64."""
    archive = tmp_path / "a.npz"
    shape = f"({', '.join(['1'] * rank)},)"
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 4
    np.savez(archive, operator="scatter_add", index=np.zeros(1, np.int64), dim=0)
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("source.npy", data)
        file.writestr("observed_sum.npy", data)
    with pytest.raises(CaptureError, match=f"a.npz: source has rank {rank}; operators take at most 7 dimensions"):
        import_case(archive, tmp_path / "a.h5")
    if rank <= 32:
        with pytest.raises(CaptureError, match=f"source has rank {rank}"):
            save_call(tmp_path / "a.h5", operator="scatter_add", index=np.zeros(1, np.int64), source=np.zeros((1,) * rank, np.float32))


def test_unknown_names_are_told_before_anything_else(tmp_path, call):
    call.pop("value")
    with pytest.raises(CaptureError, match="the call has no argument values; there are value"):
        save_call(tmp_path / "a.h5", **call, values=1)


def test_arrays(tmp_path, call, replay):
    save_call(tmp_path / "a.h5", **call, kernel="k", label="l", reference_grad_value=call["observed_grad_value"],
              before_grad_value=0 * call["observed_grad_value"], reference_dialect="grid_sample")
    replay("run", tmp_path / "a.h5", expect=0)
    (read,) = read_capture(tmp_path / "a.h5").invocations
    assert (read.dialect, read.kernel, read.facts["label"], read.atol, read.rtol) == ("deformable_detr", "k", "l", 1e-3, 1e-2)
    np.testing.assert_array_equal(read.inputs["value"], call["value"])
    np.testing.assert_array_equal(read.outputs["grad_value"], call["observed_grad_value"])
    assert read.results["reference"].dialect == "grid_sample" and not read.outputs_before["grad_value"].any()


def test_torch_tensors(tmp_path, call, replay):
    save_call(tmp_path / "a.h5", **{name: Tensor(value) if is_tensor(value) else value for name, value in call.items()})
    save_call(tmp_path / "b.h5", **call)
    a, b = (read_capture(tmp_path / name).invocations[0] for name in ("a.h5", "b.h5"))
    for name, array in b.inputs.items():
        np.testing.assert_array_equal(a.inputs[name], array)
    replay("run", tmp_path / "a.h5", expect=0)


def test_bfloat16_tensors(tmp_path, call, replay):
    """Written in two bytes an element, with the digest of these, and read as such by the command."""
    exact = {name: bfloat16(value) if is_tensor(value) and value.dtype == np.float32 else value for name, value in call.items()}
    exact["value"][0, 0, 0, 0] = -0.0
    inputs = {name: exact[name] for name in ("value", "spatial_shapes", "sampling_locations", "attention_weights", "grad_output")}
    exact.update({f"observed_{name}": bfloat16(array) for name, array in backward(inputs).items()})
    tensors = {name: Tensor(value, "torch.bfloat16" if value.dtype == np.float32 else None) if is_tensor(value) else value
               for name, value in exact.items()}
    save_call(tmp_path / "a.h5", **tensors)
    replay("verify", tmp_path / "a.h5", expect=0)
    replay("run", tmp_path / "a.h5", expect=0)
    with open_capture(tmp_path / "a.h5") as opened:
        assert opened[0].inputs["value"].type == "bfloat16" and opened[0].outputs["grad_value"].type == "bfloat16"
        np.testing.assert_array_equal(opened[0].inputs["value"][()], exact["value"])
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["invocations/000000/inputs/value"].id.get_storage_size() == 2 * exact["value"].size


def test_lists_and_numbers(tmp_path, call):
    save_call(tmp_path / "a.h5", **{**call, "spatial_shapes": [(6, 5), (3, 4)]})
    with open_capture(tmp_path / "a.h5") as opened:
        assert opened[0].inputs["spatial_shapes"][()].tolist() == [[6, 5], [3, 4]]


def test_every_operator(operator, tmp_path, replay):
    members = archive_of(operator.recorded(operator.typed("float32")[-1]), operator.name)
    save_call(tmp_path / "a.h5", **{name: Tensor(value) if is_tensor(value) else value for name, value in members.items()})
    replay("run", tmp_path / "a.h5", expect=0)


def flat_heads(call):
    call["value"] = call["value"].reshape(1, 42, 16)


def transposed(call):
    call["value"] = call["value"].transpose(0, 2, 1, 3)


def width_first(call):
    call["spatial_shapes"] = call["spatial_shapes"] + [[1, 0], [0, 0]]


REFUSALS = [
    (flat_heads, "value has rank 3, not 4: batch, pixel, head, channel = (B, S, M, D); its shape is (1, 42, 16); if heads and channels "
                 "are one dimension, divide it: .reshape(*shape[:2], heads, -1)"),
    (transposed, "value has 42 in dimension head, not the 2 of sampling_locations; it should be batch, pixel, head, channel = "
                 "(B, S, M, D); its shape is (1, 2, 42, 8): with .transpose(0, 2, 1, 3) it fits"),
    (width_first, "spatial_shapes has levels of 47 pixels together, value has 42 in dimension pixel; give the (height, width)"),
    (lambda call: call.update(spatial_shapes=-call["spatial_shapes"]), "spatial_shapes has a level of -6 x -5"),
    (lambda call: call.update(spatial_shapes=[(6.0, 5.0), (3.0, 4.0)]), "spatial_shapes has type float64, not int32, int64; save it with "
                                                                        ".astype(numpy.int64)"),
    (lambda call: call.update(level_start_index=np.array([0, 31])), "level_start_index is not [0, 30], where the levels"),
    (lambda call: call.update(value=call["value"].astype(np.int64)), "value has type int64, not float16, float32, float64, bfloat16; save it as the "
                                                                     "type that the kernel was given"),
    (lambda call: call.update(observed_grad_value=None), "observed_grad_value is None: leave it out, or give its value; call backward()"),
    (lambda call: call.update(value="text"), "value has type <U4"),
    (lambda call: call.update(value=object()), "value is object, not a tensor"),
    (lambda call: call.update(value=[[1], [2, 3]]), "value"),
    (lambda call: call.update(valeu=1), "the call has no argument valeu; there are value, "),
    (lambda call: call.pop("grad_output"), "the call has no grad_output"),
    (lambda call: call.pop("rtol"), "the call has only one of atol and rtol"),
    (lambda call: call.update(padding_mode="wrap"), "padding_mode is 'wrap', it should be one of zeros, border"),
    (lambda call: call.update(dialect="detr"), "dialect is 'detr', it should be one of deformable_detr, msda_triton, grid_sample"),
]


@pytest.mark.parametrize("change, message", REFUSALS, ids=[message[:40] for _, message in REFUSALS])
def test_refusals(tmp_path, call, change, message):
    change(call)
    with pytest.raises(CaptureError) as raised:
        save_call(tmp_path / "a.h5", **call)
    assert str(raised.value).startswith(f"{tmp_path / 'a.h5'}: {message}")
    assert "\n" not in str(raised.value) and os.listdir(tmp_path) == []


def test_a_tensor_that_numpy_cannot_have(tmp_path, call):
    class Sparse(Tensor):
        def detach(self):
            raise RuntimeError("sparse tensors have no strides\nmore")

    call["value"] = Sparse(call["value"])
    with pytest.raises(CaptureError, match="value cannot be made a NumPy array: sparse tensors have no strides$"):
        save_call(tmp_path / "a.h5", **call)


def test_bfloat16_as_savez_writes_it(tmp_path, call):
    """numpy.savez writes ml_dtypes' bfloat16 as two bytes without a meaning: they are the number's bits."""
    from msda_replay.__main__ import main

    bits = (call["value"].astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    np.savez(tmp_path / "a.npz", **{**call, "value": bits.view("V2")})
    assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0
    widened = (bits.astype(np.uint32) << 16).view(np.float32)
    assert (read_capture(tmp_path / "a.h5").invocations[0].inputs["value"] == widened).all()


def test_replaces_nothing_unasked(tmp_path, call):
    save_call(tmp_path / "a.h5", **call)
    with pytest.raises(CaptureError, match="exists"):
        save_call(tmp_path / "a.h5", **call)
    save_call(tmp_path / "a.h5", **call, overwrite=True)


def test_an_operator_that_is_none_of_these_may_be_ones_own(tmp_path):
    with pytest.raises(CaptureError, match="operator is 'softmax_scatter', it should be one of .*for one of your own give what @msda_replay.operator"):
        save_call(tmp_path / "a.h5", operator="softmax_scatter", source=np.ones(3))
    np.savez(tmp_path / "a.npz", operator="softmax_scatter")  # an archive cannot have one
    with pytest.raises(CaptureError, match=f"{list(ROWS)[-1]}$"):
        import_case(tmp_path / "a.npz", tmp_path / "b.h5")
