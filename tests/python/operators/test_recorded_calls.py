"""Calls that a kernel computed: `run` replays them, finds them right, and explains them to the last bit."""

import numpy as np
from support.operators import operator, type_of  # noqa: F401
from support.run_results import ROUNDING, causes_of, judged, mistakes_of  # noqa: F401

# Float16 moves a coordinate in each beyond a point of reflection: their kernel computes in it.
MOVED = ("3d-float16-bilinear-reflection-0", "3d-float16-bilinear-reflection-1")


def test_every_variant_has_gradients(operator):
    modes = {
        "msda": 3 * 9, "grid_sample": 3 * (3 * 3 * 2 + 2 * 3 * 2), "scatter_add": 3 * 12, "interpolate": 62, "roi_align": 2 * 6}
    assert len(operator.variants) == modes[operator.name]
    for variant, call in zip(operator.variants, operator.all_recorded()):
        for name, gradient in call.outputs.items():
            assert np.any(gradient) == ((operator.name, name) != ("grid_sample", "grad_grid") or "nearest" not in variant), variant


def test_they_are_within_tolerance(operator, judged):
    moved = operator.name == "grid_sample"
    for variant, call in zip(operator.variants, judged(operator.all_recorded(), expect=int(moved))):
        assert call["operator"] == operator.name and bool(call["dialect"]) == (operator.name == "msda")
        assert causes_of(call) == ({("grad_grid", "cell_boundary", "tolerance"): 1} if variant in MOVED else {}), variant


def test_replays_are_within_tolerance(operator, judged):
    """Every mode computes what the kernel did, but for kernels that compute in float16."""
    variants = [variant for variant in operator.variants if operator.name != "grid_sample" or type_of(variant) != "float16"]
    for variant, call in zip(variants, judged([operator.recorded(variant) for variant in variants], expect=0)):
        assert {"recorded", "deterministic", "atomic"} <= {comparison["observed"] for comparison in call["comparisons"]}
        assert all(comparison["mismatched"] == 0 for comparison in call["comparisons"]), variant


def test_rounding_explains_them_to_the_last_bit(operator, judged):
    """A tolerance of 0 asks for more than a type has."""
    for variant, call in zip(operator.variants, judged(operator.all_recorded(), "--atol", 0, "--rtol", 0)):
        assert {cause for _, cause, _ in causes_of(call)} <= ROUNDING, variant
        assert call["verdict"]["at_fault"] == ("tolerance" if causes_of(call) else "none"), variant


def test_float64_is_what_a_kernel_in_float64_gives(operator, judged):
    calls = operator.all_recorded("float64")
    for call in judged(calls, expect=0):
        compared = [entry for entry in call["comparisons"] if (entry["observed"], entry["expected"]) == ("recorded", "float64")]
        assert len(compared) == len(calls[0].outputs)
        assert all(entry["max_abs"] < 1e-13 for entry in compared)


def test_float64_is_exact(operator, judged, rng):
    """Beside gradients in longdouble that share no code with the project; and results that are a millionth off are not."""
    calls = [operator.random_call(conventions, rng, "float64") for conventions in operator.conventions for _ in range(operator.problems)]
    tolerance = ("--atol", 1e-12, "--rtol", 1e-11)
    assert all(causes_of(call) == {} for call in judged(calls, *tolerance, expect=0))
    seen, calls = 0, calls[::3]
    for call in calls:
        call.outputs = {name: gradient * (1 + 1e-6) for name, gradient in call.outputs.items()}
    for call, result in zip(calls, judged(calls, *tolerance)):
        wrong = {name for name, gradient in call.outputs.items() if np.any(gradient)}
        assert {name for name, _, _ in mistakes_of(result)} == wrong
        seen += bool(wrong)
    assert seen > 0.7 * len(calls)


def test_replays_have_digests_and_devices(operator, judged):
    calls = operator.all_recorded("float32")[:4]
    first, again = (judged(calls, "--mode", "deterministic,atomic", "--repeat", 5, expect=0) for _ in range(2))
    for entry, another in zip(first, again):
        assert entry["digests"] == another["digests"] and set(entry["digests"]) == {"deterministic", "atomic", "float64"}
        assert all(entry["repeats"]["deterministic"][name]["distinct"] == 1 for name in calls[0].outputs)
        assert all(entry["repeats"]["atomic"][name]["distinct"] == 1 for name in calls[0].outputs if name != operator.summed)
        assert set(entry["devices"]) >= {"deterministic", "atomic", "float64"} and all(devices == ["cpu"] for devices in entry["devices"].values())
    assert any(entry["repeats"]["atomic"][operator.summed]["distinct"] > 1 for entry in first)
