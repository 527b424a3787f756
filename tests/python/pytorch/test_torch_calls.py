"""The module that calls libmsda on PyTorch's tensors (tools/python/native), on tensors that stand in for PyTorch's."""

import ctypes
import importlib.util
import sys

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


class DLTensor(ctypes.Structure):
    """As dlpack.h has it."""

    _fields_ = [("data", Pointer), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", Pointer), ("strides", Pointer),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class Exchanged(Array):
    """A tensor of a class that DLPack's functions in C read, as PyTorch's are from 2.10 on: it is asked nothing else."""

    CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}

    def __init__(self, array, device=GPU, code=None, offset=0, device_type=None, lanes=1):
        super().__init__(array, device)
        self.shift = 0  # of the memory, where nobody looks at it
        self.code, self.offset, self.lanes = self.CODES[array.dtype.kind] if code is None else code, offset, lanes
        self.device_type = device_type or (1 if device is None else 2)

    def data_ptr(self):
        raise AssertionError("asked by Python's attributes")


class Unread(Exchanged):
    """A subclass, which may hold its memory in other ways."""


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
def read_exchanged(tensor, to):
    array, rank = tensor.array, tensor.array.ndim
    tensor.sizes = (ctypes.c_int64 * rank)(*array.shape), (ctypes.c_int64 * rank)(*tensor.stride())
    data, sizes = array.ctypes.data + tensor.shift - tensor.offset, [ctypes.addressof(size) for size in tensor.sizes]
    bits = 8 * array.itemsize
    to[0] = DLTensor(data, tensor.device_type, tensor.device or 0, rank, tensor.code, bits, tensor.lanes, *sizes, tensor.offset)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(Pointer))
def stream_of(device_type, device, to):
    to[0] = STREAM + 100 * device_type + device
    return 0


class ExchangeApi(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("others", Pointer * 4), ("read", Pointer), ("stream", Pointer)]


def capsule_of(api):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (Pointer, ctypes.c_char_p, Pointer)
    return new(ctypes.addressof(api), b"dlpack_exchange_api", None)


API = ExchangeApi(1, 3, (Pointer * 4)(), *(ctypes.cast(function, Pointer) for function in (read_exchanged, stream_of)))
LATER_API = ExchangeApi(2, 0, API.others, API.read, API.stream)
Exchanged.__dlpack_c_exchange_api__ = capsule_of(API)


class Later(Exchanged):
    """A library of another major version, whose functions are not these."""

    __dlpack_c_exchange_api__ = capsule_of(LATER_API)
    data_ptr = Array.data_ptr


class NoFunctions(Later):
    __dlpack_c_exchange_api__ = object()


def loaded(of_class):
    spec = importlib.util.spec_from_file_location("msda_torch_calls", LIBRARY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.use(libmsda.DTYPES, lambda: GPU, lambda device: STREAM + device, libmsda.check_status, of_class)
    return module


@pytest.fixture
def module():
    return loaded(Array)


@pytest.fixture
def exchanging():
    return loaded(Exchanged)


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
    """Calls that are left to msda_replay/torch/operators/scatter_add.py, by what they have."""
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
                      (0, 0, bytes(145), (array,), (None, array))):  # fmt: skip
        with pytest.raises(ValueError, match="no function of libmsda"):
            module.run(*arguments)
    with pytest.raises(TypeError):
        module.run(0, 0, b"", [array], (None, array))


def test_the_structures_of_all_functions_are_taken(module):
    """What they have before their tensors."""
    heads = {}
    for name, structure in vars(libmsda).items():
        if isinstance(structure, type) and issubclass(structure, ctypes.Structure):
            heads[name] = min((getattr(structure, field).offset for field, kind in structure._fields_ if kind is libmsda.Tensor), default=0)
    assert heads["MaxPoolCall"] == 144 and len(heads) > 5
    for size in heads.values():
        assert module.run(0, 0, bytes(size), (object(),), (None, None)) is None


class Otherwise:
    """The function for what is not plain."""

    def __init__(self):
        self.calls = []

    def __call__(self, *arguments, **keywords):
        self.calls.append((arguments, keywords))
        return "otherwise"


def in_place(module, status=0, by_elements=False, unless=()):
    """A replaced sum, what it calls, and what it leaves to Python."""
    called, otherwise, kept = Called(libmsda.ScatterCall, 4, status), Otherwise(), list(unless)
    return module.sum_in_place(called.address, otherwise, by_elements, kept), called, otherwise, kept


@pytest.mark.parametrize("of_class", [Array, Exchanged, Later, NoFunctions])
@pytest.mark.parametrize("by_elements", [False, True])
def test_a_replaced_sum_is_handed_over_and_returns_what_it_wrote_to(of_class, by_elements):
    total, index, source, _ = rows()
    index = index.astype(np.int32)
    if by_elements:
        index = np.lib.stride_tricks.as_strided(index, source.shape, (4, 0))
    add, called, otherwise, _ = in_place(loaded(of_class), by_elements=by_elements)
    tensors = [of_class(array, GPU) for array in (total, index, source)]
    assert add(tensors[0], -2, tensors[1], tensors[2]) is tensors[0]
    [(call, (options, _, stream))] = called.calls
    assert (call.scale, call.dim, call.include_self, call.padding) == (libmsda.SCATTER_SCALES["sum"], 0, 1, -1)
    given = [(array.ctypes.data, libmsda.DTYPES[array.dtype.name], array.shape, tensor.stride()) for array, tensor in zip((index, source), tensors[1:])]
    assert [facts(call.index), facts(call.source)] == given
    assert options is None and stream == STREAM + GPU + (200 if of_class is Exchanged else 0) and not otherwise.calls


def test_a_replaced_sum_counts_references(exchanging):
    tensors = [Exchanged(array) for array in rows()[:3]]
    add, called, _, _ = in_place(exchanging)
    before, counts = [sys.getrefcount(tensor) for tensor in tensors], exchanging.counts()
    for _ in range(20):
        add(tensors[0], 0, *tensors[1:])
    assert exchanging.counts() == (counts[0] + 20, *counts[1:])
    assert [sys.getrefcount(tensor) for tensor in tensors] == before and len(called.calls) == 20


def test_what_is_unusual_about_a_replaced_sum_is_left_to_python(exchanging):
    total, index, source, _ = rows()
    tensors = [Exchanged(array) for array in (total, index, source)]
    add, called, otherwise, unless = in_place(exchanging)
    plain_arguments = (tensors[0], 0, *tensors[1:])
    for arguments, keywords in (
        (plain_arguments, {"alpha": 2}), (plain_arguments[:3], {}), ((tensors[0], "0", *tensors[1:]), {}), ((tensors[0], 2, *tensors[1:]), {}),
        ((tensors[0], 0, tensors[1], Unread(source)), {}), ((tensors[0], 0, tensors[1], 5), {}),
        ((tensors[0], 0, tensors[1], Exchanged(source, device=GPU + 1)), {}), ((tensors[0], 0, tensors[1], Exchanged(source, device=None)), {}),
        ((tensors[0], 0, tensors[1], Exchanged(source, device_type=10)), {}), ((tensors[0], 0, tensors[1], Exchanged(source, lanes=2)), {}),
        ((tensors[0], 0, tensors[1], Exchanged(source, code=5)), {}), ([Exchanged(array, device=0) for array in (total, index, source)], {}),
        ((Exchanged(np.zeros((1,) * 8)), 0, tensors[1], Exchanged(np.zeros((40,) + (1,) * 7))), {})):  # fmt: skip
        assert add(*arguments, **keywords) == "otherwise"
        assert otherwise.calls.pop() == (tuple(arguments), keywords)
    unless.append("a receipt")
    assert add(*plain_arguments) == "otherwise" and not called.calls
    unless.clear()
    assert add(*plain_arguments) is tensors[0] and len(called.calls) == 1


def test_a_status_of_a_replaced_function_is_raised(exchanging):
    tensors = [Exchanged(array) for array in rows()[:3]]
    add, called, otherwise, _ = in_place(exchanging, status=2)
    with pytest.raises(ValueError):
        add(tensors[0], 0, *tensors[1:])
    assert len(called.calls) == 1 and not otherwise.calls


def put_by(module, status=0):
    called, otherwise = Called(libmsda.IndexPutCall, 2, status), Otherwise()
    return module.index_put_in_place(called.address, otherwise), called, otherwise


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64", "complex128", "bool"])
@pytest.mark.parametrize("indices", [lambda index: [index], lambda index: (index,)])
def test_rows_that_are_put_are_handed_over(exchanging, dtype, indices):
    to, values = np.zeros((5, 3, 2), dtype), np.ones((4, 3, 2), dtype)
    index = Exchanged(np.arange(8, dtype=np.int32)[::2])
    for more in ((), (False,)):
        put, called, otherwise = put_by(exchanging)
        self = Exchanged(to, offset=24)
        assert put(self, indices(index), Exchanged(values), *more) is self and not otherwise.calls
        [(call, (stream,))] = called.calls
        assert call.planes == 0 and exchanging.counts()[2] > 0
        assert (call.rows, call.count, call.row_bytes, call.values) == (to.ctypes.data, 5, 6 * to.itemsize, values.ctypes.data)
        assert facts(call.index) == (index.array.ctypes.data, libmsda.DTYPES["int32"], (4,), (2,)) and stream == STREAM + 200 + GPU


@pytest.mark.parametrize("rows, numbers, handed", [(2**20, 1, True), (2**20 + 1, 1, False), (2**21, 2**17, True), (2**31, 2**31 - 1, False)])
def test_tensors_beside_which_an_index_is_short_are_left_to_pytorch(exchanging, rows, numbers, handed):
    """Whose rows would need much more memory than the index. The arrays' memory is only said to be there."""
    memory = np.zeros(1, np.uint8)
    tall = lambda array, n: np.lib.stride_tricks.as_strided(array, (n,), (array.itemsize,))  # noqa: E731
    index, values = tall(np.zeros(1, np.int32), numbers), tall(np.zeros(1, np.uint8), numbers)
    put, called, otherwise = put_by(exchanging)
    far = Exchanged(tall(memory, rows))
    far.shift = 1 << 40  # from the others
    assert put(far, [Exchanged(index)], Exchanged(values)) is (far if handed else "otherwise")
    assert len(called.calls) == handed == (not otherwise.calls)


def test_what_is_unusual_about_rows_that_are_put_is_left_to_pytorch(exchanging):
    to, index, values = np.zeros((5, 3)), np.arange(4), np.ones((4, 3))
    memory = np.zeros(60)
    own, number = Exchanged(to), Exchanged(index)
    for self, indices, given, *more in (
        (own, [number], values, True), (own, [number, number], values), (own, [None, number], values), (own, [None], values), (own, [], values),
        (own, number, values), (own, [Exchanged(index > 2)], values), (own, [Exchanged(index[:, None])], values[:, None]),
        (own, [Exchanged(index.astype(np.uint8))], values), (own, [Exchanged(index, device=None)], values), (own, [Unread(index)], values),
        (own, [number], values.astype(np.float32)), (own, [number], values[:3]), (own, [number], values[:, :2]), (own, [number], values[0]),
        (own, [number], np.ones((4, 6))[:, ::2]), (own, [number], values.view(np.int64)), (own, [Exchanged(index[:0])], values[:0]),
        (own, [number], np.ones((1, 1, 1))), (own, [number], values[:1, :1]), (own, [number], np.ones(())), (Exchanged(np.zeros((3, 5)).T), [number], values), (Exchanged(to[:0]), [number], values),
        (Exchanged(np.zeros(())), [number], np.ones(())), (Exchanged(to, device=None), [number], values),
        (Exchanged(memory[:15].reshape(5, 3)), [number], memory[14:26].reshape(4, 3)),
        (Exchanged(memory[:15].reshape(5, 3)), [Exchanged(memory.view(np.int64)[14:18])], values)):  # fmt: skip
        put, called, otherwise = put_by(exchanging)
        arguments = (self, indices, Exchanged(given), *more)
        assert put(*arguments) == "otherwise" and not called.calls
        assert otherwise.calls == [(arguments, {})]
    put, called, otherwise = put_by(exchanging)
    assert put(own, [number], Exchanged(values, device=None)) == "otherwise" and put(own, [number], values=Exchanged(values)) == "otherwise"
    assert not called.calls


def test_a_replaced_function_needs_what_it_keeps(exchanging):
    for arguments in ((1, print, False), (1, print, 0, []), (1, print, False, ())):
        with pytest.raises(TypeError):
            exchanging.sum_in_place(*arguments)
    with pytest.raises(TypeError):
        exchanging.index_put_in_place(1)
