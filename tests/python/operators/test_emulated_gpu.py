"""Compares the CUDA kernels' results with the CPU's, bit for bit, with the host's fibers as the GPU's threads."""

import ctypes

import numpy as np
import pytest
from conftest import BUILD
from support.bits import ctc_loss, deform_conv2d, enqueued, grid_sample, interpolate, max_pool, msda, roi_align, roi_pool, scatter_add, separable
from support.bits.compare import Side, atomic, differences, modes, repeat
from support.bits.devices import Host, load
from support.bits.laid import Laid

from msda_replay import libmsda

LIBRARY = BUILD / "stand_in" / "libmsda_emulated.so"


class Emulated(Host):
    """Every call finds a new context: memory that another call has left, with plausible numbers, would hide that a kernel reads it unwritten."""

    prefix, needs_stream, name = "msda_cuda_", True, "emulated GPU"

    def stream(self, number):
        ctypes.c_int.in_dll(ctypes.CDLL(str(LIBRARY)), "emulated_gpu_context").value += 1
        return super().stream(number)


@pytest.fixture
def sides():
    if not LIBRARY.exists():
        pytest.skip("built without the CUDA toolkit, whose headers the kernels need, or with sanitizers")
    library = load(LIBRARY)
    return Side(library, Host()), Side(library, Emulated())


def test_bits_of_every_mode(sides):
    forks = ctypes.c_int.in_dll(sides[1].library, "emulated_gpu_forks")
    before = forks.value
    assert not modes(*sides, msda.Problem, 16, 60000)
    assert forks.value > before  # calls with heads whose sums are too many for the cache


def test_sums_of_atomic_additions(sides):
    assert not atomic(*sides, msda.Problem, 6, 60000)


@pytest.mark.parametrize("number", [3, 32, 90, 438])
def test_lists_long_and_short_of_levels_large_and_small(sides, number):
    problem = msda.Problem(number, 250000)
    gradients = problem.results_of("backward")
    assert not differences(*sides, problem, "backward", gradients, "deterministic")


def launches_of(sides, number, size, conventions=(0, 0, 0), kind="anywhere", mode="deterministic"):
    """Compares a call whose tensors lie in memory already, and so are not copied; returns how many launches it took."""
    class Drawn(msda.Problem):
        def locations(self, n):
            self.kind = kind
            return super().locations(n)

    problem = Drawn(number, 0, seed=23, size={"B": 2, "M": 2, **size})
    problem.conventions = conventions
    contents = (problem.rng.standard_normal, problem.locations, problem.rng.random, problem.rng.standard_normal)
    problem.inputs = {name: Laid("float32", laid.shape, problem.rng, numbers, contiguous=True)
                      for (name, laid), numbers in zip(problem.inputs.items(), contents)}
    gradients = [Laid("float32", problem.stage_shapes[stage], contiguous=True) for stage in msda.GRADIENTS.values()]
    launches = ctypes.c_int.in_dll(sides[1].library, "emulated_gpu_launches")
    before = launches.value
    assert not differences(*sides, problem, "backward", gradients, mode)
    return launches.value - before


# Lists of at most 1,280 samples; levels of one row or column, or of a single pixel.
ONE_LAUNCH = [{"B": 1, "Q": 320, "P": 4, "D": 32, "levels": [(20, 20), (7, 3)]}, {"Q": 50, "P": 3, "D": 30, "levels": [(1, 40), (40, 1), (1, 1)]},
              {"Q": 700, "P": 1, "D": 7, "levels": [(9, 11)]}]


@pytest.mark.parametrize("kind", ["anywhere", "one place", "crowded", "ties"])
@pytest.mark.parametrize("conventions", [(0, 0, 0), (1, 1, 0), (1, 1, 1), (2, 1, 0)])
def test_short_calls_in_one_launch(sides, conventions, kind):
    """Also crowded cells, whose runs are summed before the pixels are, and pixels that several corners of a cell reach."""
    for number, size in enumerate(ONE_LAUNCH):
        assert launches_of(sides, number, size, conventions, kind) == 1


def test_short_calls_in_one_launch_in_float64(sides):
    assert launches_of(sides, 7, ONE_LAUNCH[0], kind="crowded", mode="float64") == 1


@pytest.mark.parametrize("size", [
    {"B": 1, "Q": 321, "P": 4, "D": 32, "levels": [(20, 20), (7, 3)]}, {"Q": 20, "P": 4, "D": 36, "levels": [(6, 5)]},
    {"B": 1, "M": 1, "Q": 3, "P": 2, "D": 4, "levels": [(1, 33000)]},  # no block's memory has room for the cells of a row
])
def test_calls_that_take_several_launches(sides, size):
    for kind in ("anywhere", "one place"):
        assert launches_of(sides, 1, size, kind=kind) > 1


@pytest.mark.parametrize("batches, launches", [(3, 2), (5, 4)])
def test_long_sums_of_a_short_atomic_call_are_cleared_while_the_first_are_added_to(sides, batches, launches):
    """Each pixel gets one addend at most, so that the order of additions is none."""
    forks = ctypes.c_int.in_dll(sides[1].library, "emulated_gpu_forks")
    before = forks.value
    assert launches_of(sides, 5, {"B": batches, "Q": 1, "P": 1, "D": 32, "levels": [(170, 170)]}, mode="atomic") == launches
    assert forks.value == before + (launches == 4)


@pytest.mark.parametrize("channels", [16, 30])
def test_threads_beyond_the_last_channel_add_zeros(sides, channels):
    for D in (32, channels):  # of the first call NaN is left in the blocks' shared memory
        problem = msda.Problem(2, 0, size={"B": 1, "Q": 50, "M": 2, "P": 2, "D": D, "levels": [(5, 6)]})
        numbers = {name: np.random.default_rng(D).random for name in problem.inputs}
        if D == 32:
            numbers["grad_output"] = lambda n: np.full(n, np.nan)
        problem.inputs = {name: Laid("float32", laid.shape, contents=lambda n, name=name: numbers[name](n))
                          for name, laid in problem.inputs.items()}
        if channels % 4:  # rows that are not aligned have a kernel of their own: both take that
            at_one = problem.inputs["grad_output"]
            at_one.memory = np.concatenate([np.zeros(4, np.uint8), at_one.memory])
            at_one.offset = 1
        gradients = [Laid("float32", problem.stage_shapes[stage]) for stage in msda.GRADIENTS.values()]
        assert not differences(*sides, problem, "backward", gradients, "deterministic")


class EmulatedStreams(Emulated):
    def stream(self, number):
        return ctypes.c_void_p(number % 100)


@pytest.mark.parametrize("part", [enqueued.threads, enqueued.streams])
def test_calls_of_several_threads_and_streams(sides, part):
    library = sides[1].library
    launches = ctypes.c_int.in_dll(library, "emulated_gpu_graph_launches")
    before = launches.value
    count = 3 * (4 if part is enqueued.threads else 1)
    assert not part(sides[0], Side(library, EmulatedStreams()), 9, 3000, 3)
    assert launches.value - before > count


def test_calls_that_are_captured(sides):
    captures = ctypes.c_int.in_dll(sides[1].library, "emulated_gpu_captures")
    launches = ctypes.c_int.in_dll(sides[1].library, "emulated_gpu_graph_launches")
    before, captures.value = launches.value, 1
    try:
        assert not modes(*sides, msda.Problem, 8, 10000)
    finally:
        captures.value = 0
    assert launches.value == before


def test_says_what_it_does_not_have(sides):
    problem = msda.Problem(3, 1000)
    with pytest.raises(RuntimeError, match="the emulated GPU has no stages"):
        sides[1].run(problem, "stages", problem.results_of("stages"), "deterministic")


def test_grid_sample(sides):
    assert not modes(*sides, grid_sample.Problem, 60, 60000)


def same_gradients(sides, samples, side, channels, kind):
    """Compares calls on two images, whose gradients are in memory already. Returns how many launches one took."""
    problem = grid_sample.Problem(1, 1000, finite=True)
    problem.axes, problem.conventions, problem.N, problem.C, problem.kind, problem.dtype = 2, (grid_sample.BILINEAR, 0, 0), 2, channels, kind, "float32"
    problem.sides, problem.shape, problem.mixes_types = (side, side), (1, samples), False
    inputs = {"input": ((2, channels, side, side), problem.rng.standard_normal), "grid": ((2, 1, samples, 2), problem.locations),
              "grad_output": ((2, channels, 1, samples), problem.rng.standard_normal)}  # fmt: skip
    problem.inputs = {name: Laid("float32", shape, problem.rng, numbers, contiguous=True) for name, (shape, numbers) in inputs.items()}
    results = [Laid("float32", shape, contiguous=True) for shape in problem.shapes_of("grid_sample_backward").values()]
    launches = ctypes.c_int.in_dll(sides[1].library, "emulated_gpu_launches")
    before = launches.value
    assert not differences(*sides, problem, "grid_sample_backward", results, "deterministic")
    return launches.value - before


@pytest.mark.parametrize("samples, side", [(17000, 40), (17000, 16), (17000, 8), (17000, 4), (17000, 1), (170000, 16), (1500, 4), (1500, 9)])
def test_small_images_with_many_samples(sides, samples, side):
    """As a detector's encoder has them. Threads, warps or blocks sort and sum a pixel's addends, by how many there are."""
    same_gradients(sides, samples, side, 3, "anywhere")


@pytest.mark.parametrize("kind", ["anywhere", "one place", "crowded"])
@pytest.mark.parametrize("samples, side", [(1200, 80), (1200, 20), (1200, 4), (1200, 1), (700, 61), (1, 5)])
def test_short_calls_are_summed_up_by_the_blocks_that_group(sides, samples, side, kind):
    """As a detector's decoder has them; then one kernel combines the coordinates' gradients. The last channels are five."""
    assert same_gradients(sides, samples, side, 13, kind) == 2


def test_atomic_additions_of_grid_sample(sides):
    assert not atomic(*sides, grid_sample.Problem, 20, 30000)


def test_repeated_grid_sample(sides):
    assert not repeat(*sides, grid_sample.Problem, 3, 100000)


@pytest.mark.parametrize("conventions, mode", [((grid_sample.BICUBIC, 0, 0), "deterministic"), ((0, 0, 0), "mixed")])
def test_what_grid_sample_does_not_have_on_a_gpu(sides, conventions, mode):
    problem = next(problem for problem in map(lambda number: grid_sample.Problem(number, 1000), range(50)) if problem.axes == 2)
    problem.conventions = conventions
    with pytest.raises(RuntimeError, match="status 4: the GPU's kernels .* the CPU's have"):
        sides[1].run(problem, "grid_sample_backward", problem.results_of("grid_sample_backward"), mode)


def test_scatter_add(sides):
    assert not modes(*sides, scatter_add.Problem, 100, 60000)


def test_long_lists_of_scatter_add(sides):
    assert not repeat(*sides, scatter_add.Problem, 2, 500_000)


@pytest.mark.parametrize("n", [300, 5000, 20000])
@pytest.mark.parametrize("dtype, padding", [("int32", 3), ("int64", 3), ("int64", -9), ("int64", 5 - 2**32), ("int64", 2**32 + 5)])
def test_numbers_that_name_no_row_are_left_out(sides, n, dtype, padding):
    """Also those of 64 bits whose lower half would name a row. On the CPU, which refuses them, padding takes their place."""
    rng, rows, channels = np.random.default_rng(n), 40, 8
    index, source, is_none = rng.integers(4, rows, n), rng.standard_normal(n * channels), rng.random(n) < 0.3
    none = [-1, -9, rows, 2**31 - 1] + ([2**31 + 5, 2**32 + 5, 5 - 2**32, 2**62 + 5] if dtype == "int64" else [])
    sums = []
    for side, left_out, of_none in zip(sides, (3, padding), (3, rng.choice(none, n))):
        problem = scatter_add.Problem(1, 100, finite=True)
        problem.scale, problem.dim, problem.include_self, problem.padding = scatter_add.SUM, 0, 0, left_out
        problem.inputs = {"index": Laid(dtype, (n,), contents=lambda _: np.where(is_none, of_none, index)),
                          "source": Laid("float32", (n, channels), contents=lambda _: source)}
        sums += side.run(problem, "scatter_add", [Laid("float32", (rows, channels))], "deterministic")
    assert sums[0].tobytes() == sums[1].tobytes()


def test_a_repeated_call_asks_cuda_little(sides):
    """Within a program's other work each function of CUDA's costs a short call some of its time."""
    library, rng, n, rows, channels = sides[1].library, np.random.default_rng(1), 20000, 3000, 8
    calls, exchanges, graphs = (ctypes.c_int.in_dll(library, f"emulated_gpu_{name}") for name in ("calls", "exchanges", "graph_launches"))
    problem = scatter_add.Problem(1, 100, finite=True)
    problem.scale, problem.dim, problem.include_self, problem.padding = scatter_add.SUM, 0, 0, -1
    problem.inputs = {"index": Laid("int64", (n,), contents=lambda _: rng.integers(0, rows, n)),
                      "source": Laid("float32", (n, channels), contents=lambda _: rng.standard_normal(n * channels))}
    sums = Laid("float32", (rows, channels))
    (call,) = problem.call(lambda laid: laid.at(laid.memory.ctypes.data), "scatter_add")
    for _ in range(2):
        before = calls.value, exchanges.value, graphs.value
        assert library.msda_cuda_scatter_add(ctypes.byref(call), None, ctypes.byref(sums.at(sums.memory.ctypes.data)), None) == 0
    # Is the stream captured, the device, the context, its number, the stream's number, and the launch of three kernels.
    assert (calls.value, exchanges.value, graphs.value) == (before[0] + 6, before[1], before[2] + 1)


@pytest.mark.parametrize("module", [interpolate, roi_align, roi_pool, ctc_loss, deform_conv2d])
def test_gathers(sides, module):
    assert not modes(*sides, module.Problem, 60, 20000)


@pytest.mark.parametrize("pooling", roi_pool.ROI_POOLINGS)
@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_pooled_planes_of_several_tiles_and_batches(sides, pooling, stored):
    """A plane of two tiles; boxes whose pixels take more than one batch's memory."""
    rng, K, image = np.random.default_rng(8), 40, (3, 1 << 12 if pooling == "roi_pool" else 1 << 17)
    problem = roi_pool.Problem(1, 100, finite=True)
    problem.pooling, problem.spatial_scale, problem.ratio = pooling, 1, 2
    first = rng.random((K, 2)) * [image[1], 3] * 0.9
    boxes = np.concatenate([np.zeros((K, 1)), first, first + rng.random((K, 2)) * [60, 2]], axis=1)
    channels, shape = (2, (K, 2, 2, 16)) if pooling == "roi_pool" else (2 * 16, (K, 1, 2, 16))
    problem.inputs = {"boxes": Laid("float32", (K, 5), contents=lambda n: boxes.reshape(-1)),
                      "grad_output": Laid("float32", shape, contents=rng.standard_normal),
                      "indices": Laid("int32", shape, contents=lambda n: rng.integers(-1, image[0] * image[1], n), contiguous=True)}
    result = Laid(stored, (1, channels, *image))
    (ours,), (theirs,) = (side.run(problem, "roi_pool_backward", [result], "deterministic") for side in sides)
    assert ours.tobytes() == theirs.tobytes() and np.count_nonzero(ours.view(result.stored)) > 200


def test_pooling_and_padding(sides):
    assert not modes(*sides, separable.Problem, 500, 4000)


@pytest.mark.parametrize("labels, dtype", [(700, "float32"), (2000, "float32"), (3500, "float32"), (2000, "float64")])
def test_targets_of_which_a_thread_has_several_positions(sides, labels, dtype):
    """Steps that fit a block's memory, and that do not."""
    problem = ctc_loss.Problem(1, 100)
    problem.T, problem.B, problem.C, problem.positions, problem.blank = 3, 2, 5, 2 * labels + 1, 2
    rng, log = problem.rng, lambda n: -5 * problem.rng.random(n)
    problem.lengths = Laid("int64", (2, 2), contents=lambda n: np.array([3, 2, labels, labels - 1]), contiguous=True)
    contents = {"log_probs": ((3, 2, 5), log), "targets": ((2, labels), lambda n: rng.integers(0, 5, n)), "neg_log_likelihood": ((2,), rng.random),
                "log_alpha": ((2, 3, 2 * labels + 1), log), "grad_output": ((2,), rng.standard_normal)}  # fmt: skip
    problem.inputs = {name: Laid("int64" if name == "targets" else dtype, shape, contents=numbers, contiguous=True)
                      for name, (shape, numbers) in contents.items()}
    assert not differences(*sides, problem, "ctc_loss_backward", problem.results_of("ctc_loss_backward", dtype), "deterministic")


def test_targets_that_the_gpu_has_not(sides):
    problem = ctc_loss.Problem(1, 100)
    problem.T, problem.B, problem.C, problem.positions, problem.blank = 1, 1, 2, 2 * 8192 + 1, 0
    problem.lengths = Laid("int64", (2, 1), contents=lambda n: np.array([1, 8192]), contiguous=True)
    shapes = {"log_probs": (1, 1, 2), "targets": (8192,), "neg_log_likelihood": (1,), "log_alpha": (1, 1, 2 * 8192 + 1), "grad_output": (1,)}
    problem.inputs = {name: Laid("int32" if name == "targets" else "float32", shape, contents=np.zeros) for name, shape in shapes.items()}
    with pytest.raises(RuntimeError, match="status 4: the GPU's kernels take targets of at most 8191 labels"):
        sides[1].run(problem, "ctc_loss_backward", problem.results_of("ctc_loss_backward", "float32"), "deterministic")


def doubled(number, work):
    """Nearest pixels of an image that was enlarged twice: they have a kernel of their own."""
    problem = interpolate.Problem(number, work)
    problem.mode, problem.scale = number % 2, [2.0, 2.0] if number % 3 == 0 else [0.0, 0.0]
    problem.N, problem.C = int(problem.rng.integers(1, 3)), int(problem.rng.integers(1, 4))
    sides = [int(side) for side in problem.rng.integers(1, 30, 2)]
    problem.inputs = {"grad_output": problem.laid((problem.N, problem.C, *(2 * side for side in sides)), problem.rng.standard_normal)}
    problem.image = sides
    return problem


def test_images_enlarged_twice(sides):
    assert not modes(*sides, doubled, 60, 1000)


def same_of_boxes(sides, corners, C, bins, image, stored):
    """Compares a call of one image, of boxes with `corners` in pixels; returns the result."""
    rng, K = np.random.default_rng(5), len(corners)
    problem = roi_align.Problem(1, 100, finite=True)
    problem.spatial_scale, problem.ratio, problem.aligned = 1, 2, 0
    boxes = np.concatenate([np.zeros((K, 1)), corners], axis=1)
    problem.inputs = {"boxes": Laid("float32", (K, 5), contents=lambda n: boxes.reshape(-1)),
                      "grad_output": Laid("float32", (K, C, *bins), contents=rng.standard_normal)}
    result = Laid(stored, (1, C, *image))
    (ours,), (theirs,) = (side.run(problem, "roi_align_backward", [result], "deterministic") for side in sides)
    assert ours.tobytes() == theirs.tobytes()
    return ours.view(result.stored)


@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_boxes_whose_tables_take_several_batches(sides, stored):
    rng, K = np.random.default_rng(6), 70
    left = rng.random(K) * 60
    corners = np.stack([left, np.zeros(K), left + rng.random(K) * 300, np.ones(K)], axis=1)
    sums = same_of_boxes(sides, corners, 1, (1, 32), (1, 1 << 14), stored)
    assert np.count_nonzero(sums) > 200


@pytest.mark.parametrize("bins", [(2, 3), (14, 14)])
def test_boxes_of_enough_channels_to_take_tiles_of_eight_rows(sides, bins):
    rng, K, image = np.random.default_rng(7), 12, np.array([40, 17])
    first = (rng.random((K, 2)) - 0.2) * image
    corners = np.concatenate([first, first + rng.random((K, 2)) * image], axis=1)
    sums = same_of_boxes(sides, corners, 1500, bins, image[::-1], "float32")
    assert np.count_nonzero(sums) > sums.size / 2


def test_bins_that_the_gpu_has_not(sides):
    problem = roi_align.Problem(1, 100)
    problem.inputs["grad_output"] = Laid("float32", (problem.K, problem.C, 1, 33), contents=np.zeros)
    with pytest.raises(RuntimeError, match="status 4: the GPU's kernels have at most 32 bins"):
        sides[1].run(problem, "roi_align_backward", problem.results_of("roi_align_backward", "float32"), "deterministic")


def test_max_pool_sums_as_scatter_add(sides):
    many = 0
    for number in range(200):
        problem = max_pool.Problem(number)
        ours, theirs = (problem.run(side.library, side is sides[1]) for side in sides)
        assert ours.tobytes() == theirs.tobytes(), problem
        many += problem.most > 32
    assert many > 10  # sums of more than one run


def test_outputs_that_choose_a_pixel_outside_of_their_windows_are_left_out(sides):
    problem = max_pool.Problem(0)
    problem.sides, problem.pixels = [(8, 4, 2, 1, 0, 2), (1, 1, 1, 1, 0, 1), (1, 1, 1, 1, 0, 1)], 8
    problem.indices = Laid("int64", (1, 4, 1), contents=lambda n: np.array([1, 1, -1, 8]), contiguous=True)
    problem.inputs = {"grad_output": Laid("float32", (1, 4, 1), contents=np.ones)}
    problem.dtype, problem.result = "float32", Laid("float32", (1, 8, 1))
    assert problem.run(sides[1].library, True)[:32].view(np.float32).tolist() == [0, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("change, message", [
    ({"pixels": -1}, "negative"), ({"per": 0}, "step per 0"), ({"span": 0}, "empty window"), ({"pixels": 2**62}, "larger than the GPU"),
    ({"per": 2**60}, "larger than the GPU"), ({"outputs": 5}, "grad_output has shape")])  # fmt: skip
def test_images_that_cannot_be_pooled_are_refused(sides, change, message):
    names = ("pixels", "outputs", "step", "per", "before", "span")
    problem, sane = max_pool.Problem(3), dict(zip(names, (8, 4, 2, 1, 0, 2)))
    problem.sides = [tuple({**sane, **change}.values()), (1, 1, 1, 1, 0, 1), (1, 1, 1, 1, 0, 1)]
    with pytest.raises(AssertionError, match=message):
        problem.run(sides[1].library, True)


def put_rows(library, rows, index, values, /, **changed):
    """The status."""
    described = libmsda.tensor_at(index.ctypes.data, index.dtype.name, index.shape, tuple(step // index.itemsize for step in index.strides))
    call = libmsda.IndexPutCall(rows.ctypes.data, len(rows), rows[0].nbytes, values.ctypes.data, described)
    for field, value in changed.items():
        setattr(call, field, value)
    return library.msda_cuda_index_put(ctypes.byref(call), None)


@pytest.mark.parametrize("n", [1, 40, 300, 5000])  # which a group of threads looks through, or no group
@pytest.mark.parametrize("dtype, shape, begin", [
    ("uint8", (), 0), ("uint8", (3,), 1), ("float16", (5,), 0), ("float32", (7,), 0), ("float64", (4,), 0), ("complex128", (), 0), ("float32", (9, 4), 0),
    ("float32", (700,), 1), ("uint8", (50,), 0),
])
def test_of_rows_with_the_same_index_the_last_stays(sides, n, dtype, shape, begin):
    rng, count, size = np.random.default_rng(n), 60, int(np.prod(shape))
    index = rng.integers(-count - 3, count + 3, 2 * n)[::2] if n % 3 else rng.integers(0, count, n, dtype=np.int32)
    values = rng.integers(0, 250, begin + n * size).astype(dtype)[begin:].reshape(n, *shape)
    rows, expected = (np.full(begin + count * size, 251, dtype)[begin:].reshape(count, *shape) for _ in range(2))
    for j, number in enumerate(index):
        if -count <= number < count:
            expected[number] = values[j]
    assert put_rows(sides[1].library, rows, index, values) == 0
    assert rows.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [1, 7, 900])
def test_rows_are_put_in_the_plane_of_their_index(sides, n):
    rng, planes, count = np.random.default_rng(n), 3, 20
    index, values = rng.integers(-count - 3, count + 3, planes * n), rng.standard_normal(planes * n)
    rows, expected = np.zeros((planes * count, 1)), np.zeros((planes, count))
    for j, number in enumerate(index):
        if -count <= number < count:
            expected[j // n, number] = values[j]
    assert put_rows(sides[1].library, rows, index, values, planes=planes) == 0
    assert rows.tobytes() == expected.tobytes()


def test_rows_that_cannot_be_put_are_refused(sides):
    library = sides[1].library
    rows, index, values = np.zeros((4, 3), np.float32), np.arange(2), np.ones((2, 3), np.float32)
    for changed, why in (({"count": -1}, "negative"), ({"row_bytes": -4}, "negative"), ({"rows": None}, "null"), ({"values": None}, "null"), ({"planes": 3}, "planes"), ({"planes": -1}, "planes"),
                         ({"index": libmsda.tensor_at(index.ctypes.data, "float32", (2,), (1,))}, "int32 or int64"),
                         ({"index": libmsda.tensor_at(index.ctypes.data, "int64", (2, 1), (1, 1))}, "index"),
                         ({"index": libmsda.tensor_at(index.ctypes.data, "int64", (-1,), (1,))}, "index"),
                         ({"index": libmsda.tensor_at(None, "int64", (2,), (1,))}, "index")):  # fmt: skip
        assert put_rows(library, rows, index, values, **changed) == 1 and why in library.msda_last_error().decode()
    assert put_rows(library, rows, index, values, count=2**31) == 4
    assert library.msda_cuda_index_put(None, None) == 1
    for changed in ({"count": 0, "rows": None}, {"row_bytes": 0, "values": None}):
        assert put_rows(library, rows, index, values, **changed) == 0
    assert not rows.any()
