"""msda-replay run on a GPU and on the CPU: the same findings, causes, exit status and deterministic bits."""

import json

import pytest
from conftest import GRADIENTS
from support.devices import MODES, compare, devices_of, made_capture, real_captures, run, same_everywhere
from support.gpu import gpus

pytestmark = pytest.mark.gpu


def test_real_captures(programs):
    for capture in real_captures(programs.folder()):
        compare(programs, capture)


@pytest.mark.parametrize("seed, sizes", list(enumerate([
    {}, {"batch": 3, "heads": 4, "channels": 33}, {"batch": 2, "heads": 3, "channels": 1, "points": 5},
    {"heads": 8, "channels": 32, "queries": 100, "levels": ((17, 13), (9, 7), (5, 3), (1, 1))}])))
def test_every_dialect_and_type(programs, seed, sizes):
    compare(programs, made_capture(programs.folder(), seed, 12, **sizes), "--repeat", 3)


def test_calls_in_parts(programs):
    capture = made_capture(programs.folder(), 9, 12, batch=3, heads=4, channels=16)
    results = [compare(programs, capture, "--device-memory", size) for size in ("300KiB", "1MiB", "64MiB")]
    done = programs.replay("run", capture, *MODES, "--device", "cuda", "--device-memory", 1000, expected=(3,))
    assert "one head of one batch needs" in done.stderr and done.stderr.count("\n") == 1
    _, auto = run(programs, capture, *MODES, "--device", "auto", "--device-memory", 1000)
    assert devices_of(auto) == {"cpu"}
    assert "one head" in auto["invocations"][0]["moved_to_cpu"]["deterministic"]
    assert same_everywhere(auto) == same_everywhere(results[0])


def test_mode_mixed(programs):
    capture = made_capture(programs.folder(), 10, 4, batch=2, heads=2)
    flags = ("--mode", "mixed", "--float64-stages", "pixel_coordinates,cell")
    status, cpu = run(programs, capture, *flags, "--device", "cpu")
    auto_status, auto = run(programs, capture, *flags, "--device", "auto")
    assert status == auto_status and same_everywhere(auto) == same_everywhere(cpu)
    done = programs.replay("run", capture, *flags, "--device", "cuda", "--json", "-", expected=(0, 1, 3))
    if done.returncode == 3:
        assert done.stderr.count("\n") == 1 and "mixed" in done.stderr
        assert devices_of(auto, "mixed") == {"cpu"}
    else:
        assert same_everywhere(json.loads(done.stdout)) == same_everywhere(cpu)


def test_several_gpus(programs):
    count, _ = gpus()
    if count < 2:
        pytest.skip("one GPU")
    large = made_capture(programs.folder(), 11, 1, batch=2, heads=8, channels=32, queries=5000, points=4,
                         levels=((100, 134), (50, 67), (25, 34), (13, 17)))
    # Enough runs that each GPU gets some, although starting takes time.
    _, everywhere = run(programs, large, *MODES, "--device", "cuda", "--repeat", 100 * count)
    assert devices_of(everywhere) == {f"cuda:{number}" for number in range(count)}
    repeats = everywhere["invocations"][0]["repeats"]["deterministic"]
    assert all(repeats[name]["distinct"] == 1 for name in GRADIENTS)
    last = f"cuda:{count - 1}"
    assert same_everywhere(compare(programs, large, device=last, expected_devices={last})) == same_everywhere(everywhere)
    done = programs.replay("run", large, "--device", f"cuda:{count}", expected=(3,))
    assert f"there is no device {count}" in done.stderr
    for capture in real_captures(programs.folder()):
        compare(programs, capture, "--repeat", 4)
        compare(programs, capture, device=last, expected_devices={last})
