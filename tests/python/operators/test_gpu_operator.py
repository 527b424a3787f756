"""The GPU's functions of libmsda, if there is a GPU, and the program that compares them with the CPU's."""

import ctypes
import subprocess
import sys

import pytest
from conftest import BUILD, SOURCE

sys.path[:0] = [str(SOURCE / "tools"), str(SOURCE / "tests" / "python" / "support" / "bits")]
import enqueue_bits  # noqa: E402
import grid_bits  # noqa: E402
import operator_bits as bits  # noqa: E402
from gpu_check.bench import gpu_missing  # noqa: E402

LIBRARY = BUILD / "lib" / "libmsda.so"
UNAVAILABLE = 4


def compare(*arguments):
    return subprocess.run([sys.executable, bits.__file__, "--library", LIBRARY, *arguments], capture_output=True, text=True)


@pytest.fixture
def library():
    library = ctypes.CDLL(str(LIBRARY))
    library.msda_last_error.restype = ctypes.c_char_p
    return library


@pytest.mark.skipif(bool(gpu_missing()), reason=f"no GPU here: {gpu_missing()}")
def test_bits_of_the_gpu():
    done = compare("--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout)
    assert done.stdout.splitlines()[:3] == [
        "modes: 40 of 40 problems equal", "atomic: 20 of 20 problems good", "stages: 40 of 40 problems equal"]


@pytest.mark.skipif(not gpu_missing(), reason="there is a GPU here")
def test_without_a_gpu(library):
    done = compare("--quick")
    assert done.returncode == 0 and done.stdout.startswith("skipped: ") and not done.stderr
    problem = bits.Problem(3, 1000)

    class Device(bits.Host):
        prefix, needs_stream = "msda_cuda_", True

    side = bits.Side(library, Device())
    for function, shapes in (("forward", [problem.output_shape]), ("stages", problem.stage_shapes),
                             ("backward", [problem.stage_shapes[stage] for stage in bits.GRADIENTS.values()])):
        for mode in (0, 3) if function == "backward" else (0,):
            with pytest.raises(RuntimeError, match=f"status {UNAVAILABLE}: (no GPU|this libmsda was built without)"):
                side.run(problem, function, [bits.Laid("float32", shape) for shape in shapes], (mode, 0, 0, 0))


def test_equal_bits_pass():
    done = compare("--quick", "--device", "host", "--problems", "24", "--stage-problems", "24")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "modes: 24 of 24 problems equal", "atomic: 12 of 12 problems good", "stages: 24 of 24 problems equal",
        "repeat: deterministic 20 runs, 1 digest, float64 2 runs, 1 digest, mixed 2 runs, 1 digest",
        "large: 2 of 2 problems equal", "devices: skipped: one GPU"]


@pytest.mark.parametrize("part", [bits.modes, bits.stages])
def test_a_wrong_bit_is_found(library, part, capsys):
    class Wrong(bits.Host):
        """Every tenth result that is copied back has a wrong bit."""

        count = 0

        def to_host(self, pointer, data):
            self.count += 1
            if self.count % 10 == 0:
                data[len(data) // 2] ^= 1

    comparison = bits.Comparison(bits.Side(library, bits.Host()), bits.Side(library, Wrong()))
    assert " of 20 problems equal" in part(comparison, 20, 5000)
    told = capsys.readouterr().out.splitlines()
    wrong = comparison.gpu.device.count // 10
    assert wrong >= 5 and 0 < comparison.differing <= wrong and len(told) == comparison.differing
    assert all("conventions (" in line for line in told)


@pytest.mark.parametrize("part", [enqueue_bits.threads, enqueue_bits.streams])
def test_a_wrong_bit_of_calls_that_do_not_wait_is_found(library, part, capsys):
    class Wrong(bits.Host):
        """Results may have a wrong bit."""

        is_wrong = False

        def to_host(self, pointer, data):
            data[len(data) // 2] ^= self.is_wrong and len(data) > bits.GUARD

    count, device = 4 * (4 if part is enqueue_bits.threads else 1), Wrong()
    compared = lambda: part(bits.Side(library, bits.Host()), bits.Side(library, device), 2, 3000, 4)  # noqa: E731
    assert compared() == (True, f"{part.__name__}: {count} of {count} calls equal") and not capsys.readouterr().out
    device.is_wrong = True
    good, text = compared()
    assert not good and text == f"{part.__name__}: 0 of {count} calls equal"
    assert capsys.readouterr().out.count("grad_value") == count


@pytest.mark.skipif(bool(gpu_missing()), reason=f"no GPU here: {gpu_missing()}")
def test_calls_that_do_not_wait_on_the_gpu():
    done = subprocess.run([sys.executable, enqueue_bits.__file__, "--library", LIBRARY], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_sum_is_found(library, capsys):
    class Wrong(bits.Host):
        """Every fifth result begins with a wrong number."""

        count = 0

        def to_host(self, pointer, data):
            self.count += 1
            if self.count % 5 == 0 and len(data) >= 8 + bits.GUARD:
                data[:8] = 0x41

    comparison = bits.Comparison(bits.Side(library, bits.Host()), bits.Side(library, Wrong()))
    assert "atomic: 20 of 20" not in bits.atomic(comparison, 20, 5000)
    told = capsys.readouterr().out.splitlines()
    assert comparison.differing >= 8 and len(told) == comparison.differing
    assert any("grad_value: " in line and "beyond their bound" in line for line in told)
    assert any("grad_attention_weights; conventions (" in line for line in told)


def test_wrong_digests_are_found(library, capsys):
    class Unsteady(bits.Host):
        count = 0

        def to_host(self, pointer, data):
            self.count += 1
            data[0] ^= self.count == 7

    comparison = bits.Comparison(bits.Side(library, bits.Host()), bits.Side(library, Unsteady()))
    assert "deterministic 5 runs, 2 digests" in bits.repeat(comparison, 5, 200_000)
    assert comparison.differing == 1 and "the CPU's among them" in capsys.readouterr().out


def test_problems_are_of_every_kind():
    problems = [bits.Problem(number, 1_000_000) for number in range(500)]
    assert {p.D for p in problems} == {0, *bits.CHANNELS} and {p.conventions for p in problems} == set(bits.CONVENTIONS)
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


def compare_grid_sample(*arguments):
    return subprocess.run([sys.executable, grid_bits.__file__, "--library", LIBRARY, *arguments], capture_output=True, text=True)


@pytest.mark.skipif(bool(gpu_missing()), reason=f"no GPU here: {gpu_missing()}")
def test_bits_of_grid_sample_on_the_gpu():
    done = compare_grid_sample("--problems", "60", "--runs", "20")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not gpu_missing(), reason="there is a GPU here")
def test_grid_sample_without_a_gpu(library):
    done = compare_grid_sample()
    assert done.returncode == 0 and done.stdout.startswith("skipped: ") and not done.stderr

    class Device(bits.Host):
        prefix, needs_stream = "msda_cuda_", True

    problem = grid_bits.Problem(3, 1000)
    with pytest.raises(RuntimeError, match=f"status {UNAVAILABLE}: (no GPU|this libmsda was built without)"):
        grid_bits.Side(library, Device()).once(problem, [problem.result(name) for name in problem.results], "deterministic")


def test_equal_bits_of_grid_sample_pass():
    done = compare_grid_sample("--device", "host", "--problems", "24", "--runs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["modes: 24 of 24 problems equal", "atomic: 12 of 12 problems good",
                                        "repeat: 3 runs, 1 digest, the CPU's among them"]


def test_a_wrong_bit_of_grid_sample_is_found(library, capsys):
    class Wrong(bits.Host):
        """Every tenth result that is copied back has a wrong bit."""

        count = 0

        def to_host(self, pointer, data):
            self.count += 1
            if self.count % 10 == 0 and len(data) > bits.GUARD:
                data[0] ^= 1

    good, text = grid_bits.modes(grid_bits.Side(library, bits.Host()), grid_bits.Side(library, Wrong()), 24, 20000)
    assert not good and "24 of 24" not in text and "differ" in capsys.readouterr().out
