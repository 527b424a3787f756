"""pytest --msda where nothing is preloaded: the calls of PyTorch's operators, on a CPU."""

import functools
import re
import shutil

import pytest
from conftest import BUILD, SOURCE
from support.pytest_sessions import run_session, with_workers
from support.recording import pytestmark  # noqa: F401

pytest.importorskip("torch", reason="PyTorch is not installed here")

# Imported by the test, so that tests which need no PyTorch begin without it.
SAMPLED = """
    def sampled(seed):
        import torch
        torch.manual_seed(seed)
        image = torch.randn(2, 3, 8, 9, requires_grad=True)
        grid = (2.4 * torch.rand(2, 5, 6, 2) - 1.2).requires_grad_()
        torch.nn.functional.grid_sample(image, grid, align_corners=False).backward(torch.randn(2, 3, 5, 6))
        return image.grad, grid.grad
"""
THREE = SAMPLED + """
    def test_passes():
        sampled(0)

    def test_torch():
        from torch.testing import assert_close
        found = sampled(1)[0]
        expected = found.clone()
        expected[1, 2, 3, 4] += 1
        assert_close(found, expected, rtol=1e-3, atol=1e-4)

    def test_numpy():
        found = sampled(2)[1].numpy()
        expected = found.copy()
        expected[1, 2, 3, 1] += 1
        np.testing.assert_allclose(found, expected, rtol=1e-2)
"""


@pytest.fixture
def alone(tmp_path):
    """A session where there is no msda-record."""
    package = shutil.copytree(SOURCE / "tools" / "python", tmp_path / "package" / "tools" / "python")
    return functools.partial(run_session, tmp_path, package=package, MSDA_BUILD="", MSDA_REPLAY=BUILD / "bin" / "msda-replay", PATH="/usr/bin:/bin")


@pytest.fixture(params=["alone", "preloaded"])
def session(request, tmp_path):
    """A session where there is no msda-record, and one under it; no GPU is visible."""
    run = request.getfixturevalue("alone") if request.param == "alone" else functools.partial(run_session, tmp_path)
    run.keywords["CUDA_VISIBLE_DEVICES"] = ""
    return run


@pytest.mark.parametrize("workers", [0, 2], ids=["", "xdist"])
def test_failures_are_kept_and_explained(session, replay, workers):
    done = session(THREE, *(with_workers(workers) if workers else ()))
    assert done.status == 1 and "2 failed, 1 passed" in done.out, done.out + done.err
    assert set(done.captures) == {"test_it.py-test_torch.h5", "test_it.py-test_numpy.h5"}
    for name, tensor, index, tolerance in (
        ("test_torch", "grad_input", [1, 2, 3, 4], (1e-4, 1e-3)), ("test_numpy", "grad_grid", [1, 2, 3, 1], (0, 1e-2)),
    ):
        path = done.captures[f"test_it.py-{name}.h5"]
        replay("verify", path, expect=0)
        result = replay("run", path, "--json", "-", expect=1).json
        (finding,) = [finding for finding in result["invocations"][0]["findings"] if not finding.get("advisory")]
        assert (finding["tensor"], finding["index"], finding["against"]) == (tensor, index, "reference")
        assert result["verdict"]["at_fault"] == "reference"
        (call,) = done.invocations(path.name)
        assert (call.kernel, call.facts["label"]) == ("aten::grid_sampler_2d_backward", f"test_it.py::{name}")
        assert (call.atol, call.rtol) == tolerance and call.inputs["input"].shape == (2, 3, 8, 9)
        assert f"FAILED test_it.py::{name}\n  The reference is wrong, the recorded kernel right" in done.out


def test_the_header_says_what_is_recorded(alone, tmp_path):
    lines = "def test_it(): import torch"
    done = alone(lines)
    assert "msda-replay: recording PyTorch's operators; captures of failing tests in" in done.out
    assert "msda-replay: kernels are not recorded: msda-record is not found" in done.out and "= msda-replay =" not in done.out
    done = run_session(tmp_path, lines, CUDA_VISIBLE_DEVICES="")
    assert "msda-replay: recording kernels (by LD_PRELOAD) and PyTorch's operators; captures of" in done.out
    assert "not recorded" not in done.out


def test_tests_without_pytorch_stay_without(alone):
    done = alone("""
        def test_it():
            assert not [name for name in sys.modules if name.partition(".")[0] in ("torch", "h5py")]
    """)
    assert done.status == 0, done.out


def test_whose_calls_a_capture_has(session):
    done = session(SAMPLED + """
    OUTSIDE = sampled(100)

    @pytest.fixture(scope="module")
    def shared(): return sampled(1)

    @pytest.fixture
    def own():
        sampled(2)
        yield
        sampled(3)

    def test_first(shared): pass

    def test_second(shared, own):
        sampled(4)
        assert False
    """)
    (path,) = done.captures
    assert [call.facts["label"] for call in done.invocations(path)] == [
        "test_it.py::shared (module fixture)", "test_it.py::test_second (setup)", "test_it.py::test_second"]


def test_fail_on(session, tmp_path):
    wrong = SAMPLED + """
    def test_it():
        found = sampled(0)[0]
        found[0, 0, 0, 0] += 1  # what is recorded stays as it was
        np.testing.assert_allclose(found, sampled(0)[0], atol=2)
    def test_other():
        import torch
        torch.zeros(3, 2).index_add(0, torch.tensor([0, 2]), torch.ones(2, 2), alpha=2)
    def test_not_finite():
        import torch
        torch.zeros(3, 2).index_add(0, torch.tensor([0, 2]), torch.full((2, 2), float("nan")))
    """
    (tmp_path / "temporary").mkdir()
    done = session(wrong, "--msda-fail-on", "non_finite", TMPDIR=tmp_path / "temporary")
    assert done.status == 1 and "1 failed, 2 passed" in done.out and list(done.captures) == ["test_it.py-test_not_finite.h5"]
    assert "1 call not recorded: aten::index_add has an alpha that is not 1" in done.out
    assert not list((tmp_path / "temporary").glob("msda-*"))


def test_why_a_failing_test_has_no_capture(alone):
    done = alone("""
        def test_it():
            import torch
            torch.zeros(3, 2).index_add(0, torch.tensor([0, 2]), torch.ones(2, 2), alpha=2)
            torch.zeros(3, 2)[1] = 5
            assert False
    """)
    assert not done.captures
    assert re.search(r"= msda-replay =+\n1 call not recorded: aten::index_add has an alpha that is not 1\n"
                     r"1 failed without a call that is recorded\nto record one by hand, call in the test: msda_replay.save_call\(", done.out), done.out


def test_what_tests_do_with_modes_and_processes(session):
    """A fixture's own mode may outlive a test, and a forked process is not recorded."""
    done = session(SAMPLED + """
    @pytest.fixture(scope="module")
    def counted():
        from torch.utils._python_dispatch import TorchDispatchMode
        class Counting(TorchDispatchMode):
            calls = 0
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.calls += 1
                return func(*args, **(kwargs or {}))
        with Counting() as mode:
            yield mode

    def test_counts(counted):
        sampled(0)
        assert counted.calls > 3

    def test_forks(counted):
        child = os.fork()
        sampled(1)
        if not child:
            from msda_replay.recording.operator_calls import OperatorCalls
            import gc
            kept = [calls for calls in gc.get_objects() if isinstance(calls, OperatorCalls) and len(calls.invocations)]
            os._exit(len(kept))
        assert os.waitpid(child, 0)[1] == 0
        assert False, "the parent is recorded"

    def test_leaves_a_mode():
        from torch.utils._python_dispatch import TorchDispatchMode
        TorchDispatchMode.__torch_dispatch__ = lambda self, func, types, args=(), kwargs=None: func(*args, **(kwargs or {}))
        TorchDispatchMode().__enter__()
    """)
    assert "1 failed, 2 passed" in done.out and "the parent is recorded" in done.out, done.out + done.err
    assert len(done.invocations("test_it.py-test_forks.h5")) == 1


def test_a_pytest_in_a_test_records_nothing(alone, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "test_inner.py").write_text("import torch\ndef test_it():\n    torch.zeros(3, 2).index_add(0, torch.tensor([0]), torch.ones(1, 2))\n    assert False\n")
    done = alone("""
        def test_it():
            assert pytest.main(["-p", "msda_replay.pytest_plugin", "--msda", "inner"]) == 1
            assert False
    """)
    assert "nothing is recorded: this pytest runs in a test of another" in done.out
    assert [call.facts["label"] for call in done.invocations("test_it.py-test_it.h5")] == ["test_it.py::test_it"]
