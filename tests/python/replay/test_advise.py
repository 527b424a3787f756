"""msda-replay advise: what it advises makes simulated runs pass and still finds faults, and its patch is Python that does the same."""

import json
import operator

import numpy as np
import pytest
from conftest import SOURCE
from support import schemas
from support.library_test import as_library_tests_do, recorded  # noqa: F401
from support.own_operators import call as segment_sum  # noqa: F401 (a fixture)
from support.problems import backward
from support.operators import OPERATORS

from msda_replay import read_capture, write_capture
from msda_replay.importer import import_case


@pytest.fixture
def advise(replay):
    def run(capture, *options):
        result = replay("advise", capture, "--json", "-", *options, expect=0).json
        schemas.check(result, "advise")
        return result

    return run


class FakeTensor:
    """As much of a torch tensor as the patch uses, by NumPy: the tests run without PyTorch."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.device = "cpu"

    def double(self):
        return FakeTensor(self.array.astype(np.float64))

    def flip(self, axis):
        return FakeTensor(np.flip(self.array, axis))

    def round(self):
        return FakeTensor(np.round(self.array))

    def abs(self):
        return FakeTensor(np.abs(self.array))

    def any(self, axis):
        return FakeTensor(self.array.any(axis))

    def __getitem__(self, key):
        return FakeTensor(self.array[key.array if isinstance(key, FakeTensor) else key])

    def __invert__(self):
        return FakeTensor(~self.array)

    __array_ufunc__ = None  # NumPy's numbers leave operations with it to it


def by_numpy(operation):
    return lambda self, another: FakeTensor(operation(self.array, getattr(another, "array", another)))


for name in ("mul", "sub", "le", "add", "truediv"):
    setattr(FakeTensor, f"__{name}__", by_numpy(getattr(operator, name)))
FakeTensor.__rmul__ = FakeTensor.__mul__


class FakeTorch:
    float32 = np.float32
    finfo = np.finfo

    class testing:
        @staticmethod
        def assert_close(observed, expected, atol, rtol, check_dtype):
            np.testing.assert_array_less(np.abs(observed.array - expected.array), atol + rtol * np.abs(expected.array) + 1e-300)

    @staticmethod
    def as_tensor(value, device):
        return FakeTensor(value)


def patch_of(result):
    scope = {"torch": FakeTorch}
    exec(result["patch"].replace("import torch\n", ""), scope)  # noqa: S102
    return scope


@pytest.mark.long
def test_the_advice_holds(recorded, advise):  # noqa: F811
    result = advise(recorded, "--batch", 2, "--heads", 4, "--runs", 100, "--seed", 4)
    assert result["as_it_is"]["atol"] is None
    advised = result["advised"]
    assert advised["failure_probability"]["failures"] == 0 and advised["failure_probability"]["runs"] == 100
    assert 1 <= advised["units"] <= 8 and 1e-3 <= advised["atol"] < 0.1
    assert advised["mutation"]["score"] >= 0.95 and not result["blind_spots"]
    # The real failing element of this capture is left out, and little else.
    (call,) = read_capture(recorded).invocations
    inputs = call.inputs
    kept = patch_of(result)["away_from_cell_boundaries"](FakeTensor(inputs["sampling_locations"]), inputs["spatial_shapes"]).array
    assert not kept[0, 948, 0, 0, 2] and kept.mean() > 0.999


# Samples of the second level, 9 pixels high: a test of such samples fails.
NEAR_A_BOUNDARY = ("--draw", "sampling_locations=uniform(0.0555554,0.0555558)")


def test_the_patch_finds_faults(tmp_path, advise):
    path = as_library_tests_do(tmp_path, padding_mode="border")
    result = advise(path, "--runs", 50, "--check-runs", 200, *NEAR_A_BOUNDARY)
    assert result["as_it_is"]["failure_probability"]["runs"] == result["advised"]["runs"] == 50
    assert result["advised"]["failure_probability"]["runs"] == 200
    (call,) = read_capture(path).invocations
    inputs = call.inputs
    exact = backward(inputs, "border")
    scope = patch_of(result)

    def passes(gradients):
        try:
            scope["assert_gradients_close"]({name: FakeTensor(x) for name, x in gradients.items()},
                                            {name: FakeTensor(x) for name, x in exact.items()},
                                            FakeTensor(inputs["sampling_locations"]), inputs["spatial_shapes"])
        except AssertionError:
            return False
        return True

    assert passes({name: x.astype(np.float32).astype(np.float64) for name, x in exact.items()})
    for name in exact:
        for factor in (0, 1.1, -1, 0.9):
            assert not passes({**exact, name: exact[name] * factor}), (name, factor)


def test_markdown_and_patch(tmp_path, replay):
    path = as_library_tests_do(tmp_path)
    few = ("--runs", 20, *NEAR_A_BOUNDARY)
    text = replay("advise", path, *few, "--markdown", expect=0).out
    assert text.startswith("## ") and "| before | after |" in text and "```python" in text and "of 20 simulated runs" in text
    patch = replay("advise", path, *few, "--patch", expect=0).out
    assert patch in text
    compile(patch, "patch", "exec")
    assert "from 0 to" in replay("advise", path, "--check-runs", -1, expect=2).err
    assert "one of them" in replay("advise", path, "--markdown", "--patch", expect=2).err
    assert "with a tolerance" in replay("advise", path, "--criterion", "anchored:2", expect=2).err


def test_it_claims_what_its_runs_bear(tmp_path, replay, advise):
    """One run that passes shows no tail, no failure, and nothing that needs a mask or a pull request."""
    path = as_library_tests_do(tmp_path)
    result = advise(path, "--runs", 1, "--against", "float64")
    assert result["as_it_is"]["failure_probability"]["failures"] == 0
    assert result["as_it_is"]["atol"] is None and not result["as_it_is"]["extrapolated"] and not result["advised"]["extrapolated"]
    assert result["advised"]["units"] == 0 and result["advised"]["mask"] == "none"
    text = replay("advise", path, "--runs", 1, "--against", "float64", expect=0).out
    assert "1,000,000" not in text and "fails in 0.00 % (0.00 to 97.50) of 1 simulated run." in text
    assert "nothing has to be left out" in text
    refused = replay("advise", path, "--runs", 1, "--against", "float64", "--markdown", expect=3)
    assert "none of 1 simulated runs fails" in refused.err and not refused.out
    # 500 runs that need more than the tolerance do show it.
    tail = advise(path, "--runs", 500, "--check-runs", 1, "--atol", 1e-7, "--rtol", 0)
    assert tail["as_it_is"]["extrapolated"] and tail["as_it_is"]["atol"] > tail["as_it_is"]["seen_atol"] > 1e-7


@pytest.mark.parametrize("tolerance", [(), ("--atol", "1e-9", "--rtol", "0")])
@pytest.mark.parametrize("name, variant", [("scatter_add", "index_add-float32"), ("interpolate", "interpolate_bilinear_0_2d_1-float32"),
                                           ("roi_align", "roi_align_1_2-float32")])
def test_operators_without_cells_have_none(tmp_path, replay, advise, name, variant, tolerance):
    write_capture(tmp_path / "a.h5", OPERATORS[name].recorded(variant))
    result = advise(tmp_path / "a.h5", "--runs", 4, *tolerance)
    assert result["advised"]["units"] == 0 and result["advised"]["mask"] == "none"
    exact = {"g": np.ones(3)}
    patch_of(result)["assert_gradients_close"]({"g": FakeTensor(exact["g"])}, {"g": FakeTensor(exact["g"])})
    for words in ((), ("--markdown",)) if result["as_it_is"]["failure_probability"]["failures"] else ((),):
        text = replay("advise", tmp_path / "a.h5", "--runs", 4, *tolerance, *words, expect=0).out
        assert "boundary" not in text and "2^-23" not in text and "grid" not in text.split("```python")[-1], text


def test_it_says_that_it_simulates_another_kernel(replay, advise):
    """Sums in bfloat16 that stop at 256; the runs add in float32."""
    capture = SOURCE / "docs" / "findings" / "embedding_on_a_cpu.h5"
    result = advise(capture, "--runs", 2)
    assert result["as_it_is"]["recorded"]["elements"] > 0 and result["as_it_is"]["same_inputs"] == {"fails": False, "elements": 0}
    for command in ("stress", "advise"):
        text = replay(command, capture, "--runs", 2, expect=0).words
        assert "the simulated kernel is not the recorded one: the recorded results are out of tolerance" in text, text


def test_operators_of_ones_own_have_none_either(segment_sum, advise):  # noqa: F811
    capture = segment_sum()
    result = advise(capture, "--operator", capture.parent / "segment_sum.json", "--runs", 4)
    assert result["advised"]["mask"] == "none" and "grid" not in result["patch"]


def found_and_blind(result):
    score = result["advised"]["mutation"]
    return score["found"], len(result["blind_spots"]), score["kinds"]


def test_a_fault_is_found_or_a_blind_spot(tmp_path, advise):
    """One addend of very many is lost in few elements out of tolerance."""
    rng = np.random.default_rng(3)
    source = (rng.standard_normal((400, 16)) * np.exp(2 * rng.standard_normal((400, 1)))).astype(np.float32)
    np.savez(tmp_path / "case.npz", operator="scatter_add", source=source, index=np.zeros(400, np.int64), dim=0, dim_size=1,
             observed_sum=source.sum(0, keepdims=True))
    import_case(tmp_path / "case.npz", tmp_path / "case.h5")
    for atol in (1e-3, 1, 30):
        found, blind, kinds = found_and_blind(advise(tmp_path / "case.h5", "--runs", 2, "--atol", atol, "--rtol", 1e-6))
        assert found + blind == kinds, atol


def of_grid_sample(tmp_path, grid, size, **facts):
    rng = np.random.default_rng(4)
    width, height = size
    np.savez(tmp_path / "case.npz", operator="grid_sample", input=rng.standard_normal((1, 1, height, width)).astype(np.float32),
             grid=grid, grad_output=rng.standard_normal((1, 1, *grid.shape[1:3])).astype(np.float32),
             observed_grad_grid=np.zeros_like(grid), atol=1e-4, rtol=1e-3, align_corners=False, **facts)
    import_case(tmp_path / "case.npz", tmp_path / "case.h5", overwrite=True)
    return tmp_path / "case.h5"


@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_nearest_is_masked_at_ties(tmp_path, replay, padding):
    """Samples that land on another pixel add all they have to it: grad_output is what a test can leave out of them."""
    grid = np.random.default_rng(5).uniform(-1, 1, (1, 100, 100, 2)).astype(np.float32)
    path = of_grid_sample(tmp_path, grid, (400, 300), interpolation="nearest", padding_mode=padding)
    text = replay("advise", path, "--runs", 40, "--seed", 1, "--json", tmp_path / "a.json", expect=0).out
    assert text.startswith("Set grad_output to 0 for samples within") and "cell boundary" not in text
    result = json.loads((tmp_path / "a.json").read_text())
    schemas.check(result, "advise")
    advised = result["advised"]
    assert result["as_it_is"]["failure_probability"]["failures"] > 0 and advised["failure_probability"]["failures"] == 0
    assert advised["atol"] == 1e-4 and advised["mask"] == "grad_output" and advised["units"] >= 1
    assert advised["mutation"]["score"] == 1 and not result["blind_spots"]
    # Pixel centres are the middle of what is nearest to them; half integers are ties.
    kept = patch_of(result)["without_ties"]
    columns = np.arange(0, 400, 0.25)
    at = np.stack([(2 * columns + 1) / 400 - 1, np.full_like(columns, 1 / 300)], -1)[None, None]
    left = kept(FakeTensor(np.ones((1, 2, *at.shape[1:3]))), FakeTensor(at), (400, 300)).array
    assert np.array_equal(left[0, 0, 0] == 0, columns % 1 == 0.5) and np.array_equal(left[0, 0], left[0, 1])


def test_nothing_is_advised_that_compares_nothing(tmp_path, replay, advise):
    """Every sample on a cell boundary, as affine_grid has them: a mask would leave no gradient of grid."""
    axis = ((2 * np.arange(12) + 1) / 12 - 1).astype(np.float32)
    grid = np.stack(np.meshgrid(axis, axis), -1)[None]
    path = of_grid_sample(tmp_path, grid, (12, 12), interpolation="bilinear", padding_mode="zeros")
    result = advise(path, "--runs", 5, "--draw", "grid=resample")
    assert result["as_it_is"]["failure_probability"]["failures"] > 0 and not result["advised"]["sound"] and result["patch"] == ""
    assert replay("advise", path, "--runs", 5, "--draw", "grid=resample", expect=0).out.startswith("No tolerance")
    for flag in ("--patch", "--markdown"):
        assert "gradients of 0 would pass" in replay("advise", path, "--runs", 5, "--draw", "grid=resample", flag, expect=3).err
