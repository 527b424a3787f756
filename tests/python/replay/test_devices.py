"""--device and --device-memory of msda-replay without a GPU; gpu/test_gpu_devices.py has the same findings on one."""

import copy

import jsonschema
import pytest
from support import devices
from support.gpu import Programs
from support.original import SCHEMA, on_stand_in


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
    result = replay("run", demo_capture, "--json", "-", expect=1, env=env).json
    jsonschema.validate(result, SCHEMA)
    (call,) = result["invocations"]
    assert set(call["devices"]) == {"deterministic", "atomic", "float64", "grid_sample"}
    assert devices.devices_of(result) == {"cpu"} and "moved_to_cpu" not in call
    assert "on cpu" not in replay("run", demo_capture, expect=1, env=env).out
    same = replay("run", demo_capture, "--device", "cpu", "--device-memory", "1MiB", "--json", "-", expect=1).json
    assert devices.same_everywhere(same) == devices.same_everywhere(result)


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
def test_comparisons_of_devices_see_differences(tmp_path):
    programs = Programs(tmp_path)
    captures = [*devices.real_captures(tmp_path), devices.made_capture(tmp_path, 5, 12, batch=2, heads=3)]
    assert len(captures) == 3
    for capture in captures:
        _, first = devices.run(programs, capture, *devices.MODES, "--device", "cpu", "--seed", 1)
        _, second = devices.run(programs, capture, *devices.MODES, "--device", "cpu", "--seed", 2)
        assert first["invocations"][0]["digests"] and sum(len(call["findings"]) for call in first["invocations"]) > 0
        assert devices.same_everywhere(first) == devices.same_everywhere(second)  # another order of the same sums
        for change in (lambda call: call["digests"]["deterministic"].update(grad_value="xxh3-128:0"),
                       lambda call: call["findings"].append({}), lambda call: call["comparisons"][0].update(max_abs=-1),
                       lambda call: call["verdict"].update(at_fault="none and all")):
            second = copy.deepcopy(first)
            change(second["invocations"][-1])
            assert devices.same_everywhere(first) != devices.same_everywhere(second)
