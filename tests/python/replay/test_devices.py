"""--device and --device-memory of msda-replay: messages without a GPU; with one, the same findings as on the CPU."""

import copy
import subprocess
import sys

import jsonschema
import pytest
from conftest import BUILD, SOURCE, WITH_GPUS
from support.original import SCHEMA, on_stand_in

sys.path.insert(0, str(SOURCE / "tools"))
from gpu_check import bench as benches  # noqa: E402
from gpu_check import devices  # noqa: E402


def why_no_gpu():
    code = f"import sys; sys.path.insert(0, {str(SOURCE / 'tools')!r}); from gpu_check.bench import gpu_missing; print(gpu_missing())"
    return subprocess.run([sys.executable, "-c", code], env=WITH_GPUS, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def bench(tmp_path):
    return benches.Bench(BUILD / "bin", sys.executable, tmp_path)


def test_without_a_gpu(replay, demo_capture):
    for device in ("cuda", "cuda:0", "cuda:7"):
        for mode in ("deterministic", "deterministic,original", "atomic", "float64", None):
            done = replay("run", demo_capture, "--device", device, *(["--mode", mode] if mode else []), expect=3)
            assert done.out == "" and done.err.count("\n") == 1
            assert f"{demo_capture}: " in done.err and f"--device {device}: " in done.err
            assert "original" in (mode or "") or "; use --device cpu" in done.err
        done = replay("stages", demo_capture, "--device", device, expect=3)
        assert f"--device {device}: " in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("environment", [None, "stand-in"])
def test_auto_without_a_usable_gpu_is_the_cpu(replay, demo_capture, environment):
    """The stand-in is a driver on which the library's own kernels do not run."""
    env = on_stand_in() if environment else None
    told = replay("run", demo_capture, "--json", "-", expect=1, env=env).json
    jsonschema.validate(told, SCHEMA)
    (call,) = told["invocations"]
    assert set(call["devices"]) == {"deterministic", "atomic", "float64", "grid_sample"}
    assert devices.devices_of(told) == {"cpu"} and "moved_to_cpu" not in call
    assert "on cpu" not in replay("run", demo_capture, expect=1, env=env).out
    same = replay("run", demo_capture, "--device", "cpu", "--device-memory", "1MiB", "--json", "-", expect=1).json
    assert devices.same_everywhere(same) == devices.same_everywhere(told)


def test_a_driver_without_the_operator_is_told(replay, demo_capture):
    done = replay("run", demo_capture, "--device", "cuda", expect=3, env=on_stand_in())
    assert done.err.count("\n") == 1 and "no GPU can be used here" in done.err or "without the CUDA toolkit" in done.err
    done = replay("run", demo_capture, "--device", "cuda:1", expect=3, env=on_stand_in())
    assert "there is no device 1: the CUDA driver has 1" in done.err


def test_memory_is_a_size(replay, demo_capture):
    for size in ("x", "1x", "-1", "1.5.2", ""):
        done = replay("run", demo_capture, "--device", "cpu", "--device-memory", size)
        assert done.status == 2 and "--device-memory" in done.err, size
    for size in ("0", "500000", "2GiB", "64 MB"):
        replay("run", demo_capture, "--device", "cpu", "--quiet", "--device-memory", size, expect=1)


@pytest.mark.long
def test_the_check_for_gpus_sees_differences(bench):
    captures = [*devices.real_captures(bench), devices.made_capture(bench, 5, 12, batch=2, heads=3)]
    assert len(captures) == 3
    for capture in captures:
        _, one = devices.run(bench, capture, *devices.MODES, "--device", "cpu", "--seed", 1)
        _, other = devices.run(bench, capture, *devices.MODES, "--device", "cpu", "--seed", 2)
        assert one["invocations"][0]["digests"] and sum(len(call["findings"]) for call in one["invocations"]) > 0
        assert devices.same_everywhere(one) == devices.same_everywhere(other)  # another order of the same sums
        for change in (lambda call: call["digests"]["deterministic"].update(grad_value="xxh3-128:0"),
                       lambda call: call["findings"].append({}), lambda call: call["comparisons"][0].update(max_abs=-1),
                       lambda call: call["verdict"].update(at_fault="none and all")):
            other = copy.deepcopy(one)
            change(other["invocations"][-1])
            assert devices.same_everywhere(one) != devices.same_everywhere(other)
    with pytest.raises(benches.Failed, match="ended with 3"):
        devices.compared(bench, captures[0])


def test_on_a_gpu_as_on_the_cpu():
    """The whole check; a machine without a GPU skips it."""
    if why := why_no_gpu():
        pytest.skip(f"no GPU here: {why}")
    done = subprocess.run([sys.executable, SOURCE / "tools" / "gpu-check", "--bin", BUILD / "bin", "--only", "devices"],
                          env=WITH_GPUS, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
