"""libmsda's functions for a GPU against those for the CPU, bit for bit; and, without a GPU, that a wrong bit would be found."""

import os

import pytest
from conftest import BUILD, WITH_GPUS
from support.bits import compare, ctc_loss, deform_conv2d, enqueued, grid_sample, interpolate, msda, roi_align, roi_pool, scatter_add, separable
from support.bits.devices import Gpu, Host, load
from support.bits.laid import GUARD
from support.gpu import SHARE, gpus, share_of

LIBRARY = BUILD / "lib" / "libmsda.so"
OPERATORS = {"msda": msda, "grid_sample": grid_sample, "scatter_add": scatter_add, "interpolate": interpolate, "roi_align": roi_align,
             "separable": separable,
             "roi_pool": roi_pool, "ctc_loss": ctc_loss, "deform_conv2d": deform_conv2d}
WORK, UNAVAILABLE = round(1_000_000 * min(SHARE, 1)), 4
of_each_operator = pytest.mark.parametrize("make", [pytest.param(module.Problem, id=name) for name, module in OPERATORS.items()])
of_those_that_add_atomically = pytest.mark.parametrize("make", [msda.Problem, grid_sample.Problem], ids=["msda", "grid_sample"])


@pytest.fixture(scope="module")
def cpu():
    return compare.Side(load(LIBRARY), Host())


@pytest.fixture(scope="module")
def gpu(cpu):
    """libmsda on the first GPU, in this process, which conftest.py hides it from."""
    os.environ.pop("CUDA_VISIBLE_DEVICES")
    os.environ.update({name: value for name, value in WITH_GPUS.items() if name == "CUDA_VISIBLE_DEVICES"})
    if not cpu.library.msda_cuda_device_count():
        pytest.skip(f"{LIBRARY} was built without CUDA")
    yield compare.Side(cpu.library, Gpu(0))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.mark.gpu
@of_each_operator
def test_bits(cpu, gpu, make):
    assert not compare.modes(cpu, gpu, make, share_of(500), WORK)


@pytest.mark.gpu
@of_each_operator
def test_repeated_runs(cpu, gpu, make):
    assert not compare.repeat(cpu, gpu, make, share_of(1000), 1_000_000)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["float64", "mixed"])
def test_repeated_runs_in_other_modes(cpu, gpu, mode):
    assert not compare.repeat(cpu, gpu, msda.Problem, share_of(100), 1_000_000, mode, 0b101010101)


@pytest.mark.gpu
@of_those_that_add_atomically
def test_atomic_additions(cpu, gpu, make):
    assert not compare.atomic(cpu, gpu, make, share_of(250), WORK)


@pytest.mark.gpu
def test_stages(cpu, gpu):
    assert not msda.stages(cpu, gpu, share_of(200), WORK)


@pytest.mark.gpu
def test_large_calls(cpu, gpu):
    assert not msda.large(cpu, gpu, msda.LARGE[:1] if SHARE < 1 else 3 * msda.LARGE)


@pytest.mark.gpu
def test_every_gpu(cpu, gpu):
    if gpus()[0] < 2:
        pytest.skip("one GPU")
    for number in range(gpus()[0]):
        side = compare.Side(gpu.library, Gpu(number))
        assert not compare.modes(cpu, side, msda.Problem, share_of(40), WORK)
        assert not msda.stages(cpu, side, share_of(40), WORK)


@pytest.mark.gpu
@pytest.mark.parametrize("part, rounds", [(enqueued.threads, 20), (enqueued.streams, 20), (enqueued.capture, 3), (enqueued.reset, 3)],
                         ids=lambda value: getattr(value, "__name__", ""))
def test_calls_that_do_not_wait(cpu, gpu, part, rounds):
    assert not part(cpu, gpu, rounds, 1_000_000)


# Without a GPU


class Altered(Host):
    """Alters some of the results that are copied back: every `every`-th, or the one with the number `only`."""

    def __init__(self, every=0, only=0, alter=None):
        self.every, self.only, self.count = every, only, 0
        self.alter = alter or (lambda data: data.__setitem__(len(data) // 2, data[len(data) // 2] ^ 1))

    def to_host(self, pointer, data):
        self.count += 1
        if self.every and self.count % self.every == 0 or self.count == self.only:
            self.alter(data)


@pytest.fixture
def altered(cpu):
    return lambda **how: compare.Side(cpu.library, Altered(**how))


@of_each_operator
def test_without_a_gpu(cpu, make):
    if gpus()[0]:
        pytest.skip("there is a GPU here")

    class Device(Host):
        prefix, needs_stream = "msda_cuda_", True

    problem = make(3, 1000)
    for function, mode in [(function, "deterministic") for function in problem.functions] + (
            [("backward", "mixed"), ("stages", "mixed")] if make is msda.Problem else []):
        with pytest.raises(RuntimeError, match=f"status {UNAVAILABLE}: (no GPU|this libmsda was built without)"):
            compare.Side(cpu.library, Device()).run(problem, function, problem.results_of(function), mode)


@of_each_operator
def test_equal_bits_pass(cpu, make):
    same = compare.Side(cpu.library, Host())
    assert not compare.modes(cpu, same, make, 24, 40_000)
    assert not compare.repeat(cpu, same, make, 3, 1_000_000)


@of_those_that_add_atomically
def test_equal_sums_and_stages_pass(cpu, make):
    same = compare.Side(cpu.library, Host())
    assert not compare.atomic(cpu, same, make, 12, 40_000)
    assert make is not msda.Problem or not (msda.stages(cpu, same, 24, 40_000) + msda.large(cpu, same, msda.LARGE[:1]))


@pytest.mark.parametrize("part", [*(pytest.param(lambda *sides, make=module.Problem: compare.modes(*sides, make, 20, 5000), id=name)
                                    for name, module in OPERATORS.items()), pytest.param(lambda *sides: msda.stages(*sides, 20, 5000), id="stages")])
def test_a_wrong_bit_is_found(cpu, altered, part):
    side = altered(every=10)
    found = part(cpu, side)
    wrong = side.device.count // 10
    assert wrong >= 2 and 0 < len(found) <= wrong and all(" elements, the first at " in line for line in found)


@pytest.mark.parametrize("part", [enqueued.threads, enqueued.streams])
def test_a_wrong_bit_of_calls_that_do_not_wait_is_found(cpu, altered, part):
    side, count = altered(), 4 * (4 if part is enqueued.threads else 1)
    assert not part(cpu, side, 2, 3000, 4)
    side.device.every = 1
    found = part(cpu, side, 2, 3000, 4)
    assert len(found) == count and all("grad_value" in line for line in found)


def test_a_wrong_sum_is_found(cpu, altered):
    """Every fifth result begins with a wrong number."""
    def alter(data):
        if len(data) >= 8 + GUARD:
            data[:8] = 0x41

    found = compare.atomic(cpu, altered(every=5, alter=alter), msda.Problem, 20, 5000)
    assert len(found) >= 8
    assert any("grad_value: " in line and "beyond their bound" in line for line in found)
    assert any("grad_attention_weights; conventions (" in line for line in found)


def test_another_digest_is_found(cpu, altered):
    (line,) = compare.repeat(cpu, altered(only=7), msda.Problem, 5, 200_000)
    assert line.startswith("2 digests, the CPU's among them")


def test_problems_are_of_every_kind():
    problems = [msda.Problem(number, 1_000_000) for number in range(500)]
    assert {p.D for p in problems} == {0, *msda.CHANNELS} and {p.conventions for p in problems} == set(msda.CONVENTIONS)
    assert {p.dtype for p in problems} == {"float16", "bfloat16", "float32", "float64"}
    assert {p.kind for p in problems} == {"anywhere", "one place", "crowded", "ties"}
    assert any(len(p.levels) > 16 for p in problems) and any(len(p.levels) == 0 for p in problems)
    assert all(any(getattr(p, size) == 0 for p in problems) for size in "BQMPD")
    assert sum(p.is_strange for p in problems) > 50
    assert any(p.kind == "one place" and p.Q * p.P > 1024 for p in problems)  # three steps of the tree of runs
    # Lists that are grouped by one block or by many, of levels with few cells or more than a block's memory counts.
    assert {(p.Q * p.P > 4096, int(p.levels.prod(1).max(initial=0)) > 58000) for p in problems} == {
        (long, large) for long in (False, True) for large in (False, True)}
    layouts = [laid for p in problems for laid in p.inputs.values()]
    assert any(min(laid.strides) < 0 for laid in layouts) and any(0 in laid.strides for laid in layouts)
    assert any(laid.offset % 4 for laid in layouts)
