"""The module that calls libmsda on PyTorch's tensors (tools/python/native), on tensors that stand in for PyTorch's."""

import ctypes
import importlib.util

import numpy as np
import pytest
from conftest import BUILD
from msda_replay import libmsda

LIBRARY = BUILD / "lib" / "msda_torch_calls.abi3.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="built without CUDA, or without Python.h")

STREAM = 0x5EED
GPU = 2  # the current one
Pointer = ctypes.c_void_p


class Array:
    """What is asked of a tensor, of an array of NumPy's. `device`: None for the CPU, or the number of a GPU."""

    def __init__(self, array, device=None, dtype=None):
        self.array, self.device = array, device
        self.dtype = dtype or array.dtype.name
        self.is_cpu, self.is_cuda, self.shape = device is None, device is not None, array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def get_device(self):
        return -1 if self.device is None else self.device


def on_gpu(array, **how):
    return Array(array, **{"device": GPU, **how})


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("msda_torch_calls", LIBRARY)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    loaded.use(libmsda.DTYPES, lambda: GPU, lambda device: STREAM + device)
    return loaded


class Called:
    """A C function of so many pointers, which keeps what it was called with. `structure`: what the first points to."""

    def __init__(self, structure, pointers, status=0):
        self.structure, self.calls = structure, []
        self.status = status
        self.function = ctypes.CFUNCTYPE(ctypes.c_int32, *[Pointer] * pointers)(self._call)
        self.address = ctypes.cast(self.function, Pointer).value

    def _call(self, call, *others):
        self.calls.append((self.structure.from_buffer_copy(ctypes.string_at(call, ctypes.sizeof(self.structure))), others))
        return self.status


def facts(tensor):
    return tensor.data, tensor.dtype, tuple(tensor.shape[: tensor.rank]), tuple(tensor.stride[: tensor.rank])


def facts_of(array):
    return array.data_ptr(), libmsda.DTYPES[array.dtype], array.shape, array.stride()


def address(function):
    return ctypes.cast(getattr(libmsda.library(), function), Pointer).value


def head(structure, *fields):
    first = next(name for name, type in structure._fields_ if type is libmsda.Tensor)
    return bytes(structure(*fields))[: getattr(structure, first).offset]


def rows(seed=0):
    """Sums, indices, rows of a source; and the sums after it, added up in float64."""
    rng = np.random.default_rng(seed)
    total, index, source = rng.normal(size=(5, 3)), rng.integers(0, 5, 40), rng.normal(size=(40, 3))
    expected = total.copy()
    np.add.at(expected, index, source)
    return total, index, source, expected


def test_a_call_on_the_cpu_is_libmsdas(module):
    total, index, source, expected = rows()
    status = module.run(address("msda_scatter_add"), 0, head(libmsda.ScatterCall, 0, 0, 1, -1), (Array(index), Array(source)), (None, Array(total)))
    assert status == 0
    np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_a_status_is_returned_and_the_message_is_this_threads(module):
    total, index, source, _ = rows()
    status = module.run(address("msda_scatter_add"), 0, head(libmsda.ScatterCall, 0, 7, 1, -1), (Array(index), Array(source)), (None, Array(total)))
    assert status == 1 and b"dim" in libmsda.library().msda_last_error()


def test_a_call_on_a_gpu_is_handed_the_tensors_and_the_current_stream(module):
    image, grid, output = (on_gpu(np.zeros(shape, np.float32)) for shape in ((2, 3, 4, 5), (2, 6, 7, 2), (2, 3, 6, 7)))
    gradient = on_gpu(np.zeros((2, 3, 5, 4), np.float32).transpose(0, 1, 3, 2))
    called = Called(libmsda.GridCall, 6)
    status = module.run(0, called.address, head(libmsda.GridCall, 1, 2, True), (image, grid), (output, None, gradient, None))
    assert status == 0
    [(call, (of_output, options, of_input, of_grid, stream))] = called.calls
    assert (call.interpolation, call.padding, call.align_corners) == (1, 2, 1)
    assert facts(call.input) == facts_of(image) and facts(call.grid) == facts_of(grid)
    assert options is None and of_grid is None and stream == STREAM + GPU and of_output != of_input


def test_levels_may_be_on_the_host_and_their_starts_left_out(module):
    value, locations, weights = (on_gpu(np.zeros(shape, np.float32)) for shape in ((1, 6, 1, 4), (1, 2, 1, 1, 2, 2), (1, 2, 1, 1, 2)))
    shapes = Array(np.array([[2, 3]]))
    called = Called(libmsda.Call, 4)
    inputs = (value, (shapes,), None, locations, weights)
    assert module.run(0, called.address, head(libmsda.Call, 1, 0, 0), inputs, (None, on_gpu(np.zeros((1, 2, 1, 4), np.float32)))) == 0
    [(call, _)] = called.calls
    assert facts(call.spatial_shapes) == facts_of(shapes) and call.level_start_index.rank == 0
    assert call.level_start_index.dtype == libmsda.DTYPES["int64"] and facts(call.attention_weights) == facts_of(weights)
    for wrong in (shapes, (on_gpu(shapes.array),), (), (shapes, shapes)):
        assert module.run(0, called.address, head(libmsda.Call, 1, 0, 0), (value, wrong, None, locations, weights), (None, value)) is None
    assert len(called.calls) == 1


def test_the_status_of_a_failed_call_on_a_gpu_is_returned(module):
    total, index, source, _ = rows()
    called = Called(libmsda.ScatterCall, 4, status=5)
    assert module.scatter_add(called.address, on_gpu(total), 0, on_gpu(index), on_gpu(source), False) == 5


@pytest.mark.parametrize("by_elements", [False, True])
@pytest.mark.parametrize("dim, place", [(0, 0), (1, 1), (-1, 1), (-2, 0)])
def test_a_plain_sum_is_handed_over(module, by_elements, dim, place):
    source = np.zeros((40, 30), np.float32).T if place else np.zeros((40, 30), np.float32)
    total = np.zeros((5, 30) if place == 0 else (30, 5), np.float32)
    index = np.zeros(40, np.int32)
    if by_elements:  # as graph networks make it: the same number for all of a row
        index = np.lib.stride_tricks.as_strided(index, source.shape, (0, 4) if place else (4, 0))
    called = Called(libmsda.ScatterCall, 4)
    tensors = [on_gpu(array) for array in (total, index, source)]
    assert module.scatter_add(called.address, tensors[0], dim, tensors[1], tensors[2], by_elements) == 0
    [(call, (options, _, stream))] = called.calls
    assert (call.scale, call.dim, call.include_self, call.padding) == (libmsda.SCATTER_SCALES["sum"], place, 1, -1)
    assert facts(call.index) == facts_of(tensors[1]) and facts(call.source) == facts_of(tensors[2])
    assert options is None and stream == STREAM + GPU


def plain(**changed):
    """A call's tensors, some of them changed."""
    total, index, source, _ = rows()
    return {"total": on_gpu(total), "dim": 0, "index": on_gpu(index), "source": on_gpu(source), "by_elements": False, **changed}


def unusual():
    """Calls that are left to msda_replay/torch/scatter.py, by what they have."""
    total, index, source, _ = rows()
    memory = np.zeros((50, 3))
    wide = np.zeros((1,) * 8)
    yield "everything on the CPU", plain(total=Array(total), index=Array(index), source=Array(source))
    yield "an index on the CPU", plain(index=Array(index))
    yield "a source on another GPU", plain(source=on_gpu(source, device=GPU + 1))
    yield "a GPU that is not the current one", plain(total=on_gpu(total, device=0), index=on_gpu(index, device=0), source=on_gpu(source, device=0))
    yield "a source of another type", plain(source=on_gpu(source.astype(np.float32)))
    yield "an index of floats", plain(index=on_gpu(index.astype(np.float64)))
    yield "an unknown type", plain(total=on_gpu(total, dtype="complex64"), source=on_gpu(source, dtype="complex64"))
    yield "sums of integers", plain(total=on_gpu(total.astype(np.int64)), source=on_gpu(source.astype(np.int64)))
    yield "too few dimensions", plain(total=on_gpu(np.zeros(5)))
    yield "no dimension", plain(total=on_gpu(np.zeros(())), index=on_gpu(np.zeros((), np.int64)), source=on_gpu(np.zeros(())))
    yield "too many dimensions", plain(total=on_gpu(wide), index=on_gpu(np.zeros(1, np.int64)), source=on_gpu(wide))
    yield "a dim beyond", plain(dim=2)
    yield "a dim before", plain(dim=-3)
    yield "an index of two dimensions for rows", plain(index=on_gpu(index[:, None]))
    yield "an index of one for elements", plain(by_elements=True)
    yield "an index that is too short", plain(index=on_gpu(index[:-1]))
    yield "an index for elements that is smaller", plain(by_elements=True, index=on_gpu(np.zeros((40, 2), np.int64)))
    yield "rows of other lengths", plain(total=on_gpu(total[:, :2]))
    yield "no rows", plain(index=on_gpu(index[:0]), source=on_gpu(source[:0]))
    yield "no sums", plain(total=on_gpu(total[:0]))
    yield "sums that are one in memory", plain(total=on_gpu(np.broadcast_to(total[:1], total.shape)))
    yield "sums whose windows meet", plain(total=on_gpu(np.lib.stride_tricks.sliding_window_view(np.zeros(7), 3)))
    yield "a source that lies in the sums", plain(total=on_gpu(memory[:5]), source=on_gpu(memory[4:44]))
    yield "an index that lies in the sums", plain(total=on_gpu(total), index=on_gpu(total.view(np.int64)[:, 0]), source=on_gpu(source[:5]))
    yield "no tensor", plain(source=None)


@pytest.mark.parametrize("tensors", [pytest.param(tensors, id=what) for what, tensors in unusual()])
def test_an_unusual_sum_is_not_handed_over(module, tensors):
    called = Called(libmsda.ScatterCall, 4)
    assert module.scatter_add(called.address, *tensors.values()) is None
    assert not called.calls


def test_sums_beside_their_source_are_handed_over(module):
    memory = np.zeros((50, 3))
    called = Called(libmsda.ScatterCall, 4)
    assert module.scatter_add(called.address, *plain(total=on_gpu(memory[:5]), source=on_gpu(memory[5:45])).values()) == 0


@pytest.mark.parametrize("total", [np.zeros((3, 5)).T, np.zeros((10, 3))[::2], np.zeros((5, 6))[:, ::2], np.zeros((5, 1, 3))[:, 0]])
def test_sums_of_any_strides_without_overlap_are_handed_over(module, total):
    called = Called(libmsda.ScatterCall, 4)
    assert module.scatter_add(called.address, *plain(total=on_gpu(total)).values()) == 0


class Raising(Array):
    """A tensor that has no memory of its own, as sparse ones."""

    def __init__(self, what):
        super().__init__(np.zeros((40, 3)), GPU)
        self.what = what

    def data_ptr(self):
        if self.what == "data_ptr":
            raise RuntimeError("no storage")
        return super().data_ptr()

    def stride(self):
        raise RuntimeError("no strides")


@pytest.mark.parametrize("what", ["data_ptr", "stride"])
def test_a_tensor_that_raises_is_not_handed_over(module, what):
    called = Called(libmsda.ScatterCall, 4)
    assert module.scatter_add(called.address, *plain(source=Raising(what)).values()) is None
    assert module.run(0, called.address, head(libmsda.ScatterCall, 0, 0, 1, -1), (Raising(what),), (None, None)) is None


def test_calls_that_no_function_has_are_refused(module):
    array = Array(np.zeros(3))
    for arguments in ((0, 0, b"", (array,), (None,)), (0, 0, b"", (array,), (None,) * 6), (0, 0, b"", (array,) * 6, (None, array)),
                      (0, 0, bytes(65), (array,), (None, array))):  # fmt: skip
        with pytest.raises(ValueError, match="no function of libmsda"):
            module.run(*arguments)
    with pytest.raises(TypeError):
        module.run(0, 0, b"", [array], (None, array))
