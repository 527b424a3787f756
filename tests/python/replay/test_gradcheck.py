"""msda-replay gradcheck: right gradients pass, planted faults fail, kinks pass where the naive check fails."""

import numpy as np
import pytest
from support.problems import backward, make_problem
from support.schemas import check

from msda_replay import Invocation, write_capture


@pytest.fixture
def gradcheck(replay, tmp_path):
    def run(inputs, grads, *flags, expect):
        call = Invocation(inputs=inputs, outputs=grads, dialect="deformable_detr")
        write_capture(tmp_path / "call.h5", call, overwrite=True)
        result = replay("gradcheck", tmp_path / "call.h5", "--json", "-", *flags, expect=expect).json
        check(result, "gradcheck")
        return {gradient["tensor"]: gradient for gradient in result["invocations"][0]["gradients"]}

    return run


def side(gradient, name):
    (found,) = (side for side in gradient["sides"] if side["side"] == name)
    return found


def one_place(name, change):
    def plant(grads, inputs):
        grads[name][(0, 5, 1, 1, 0, 0)[: grads[name].ndim]] = change(grads[name][(0, 5, 1, 1, 0, 0)[: grads[name].ndim]])
    return plant


def times(name, factor, where=np.s_[...]):
    def plant(grads, inputs):
        grads[name][where] *= factor
    return plant


def swap_axes(grads, inputs):
    grads["grad_sampling_locations"] = grads["grad_sampling_locations"][..., ::-1].copy()


def without_attention(grads, inputs):
    grads["grad_sampling_locations"] /= inputs["attention_weights"][..., None]


def of_align_corners(grads, inputs):
    size = inputs["spatial_shapes"][:, ::-1][None, None, None, :, None, :]
    grads["grad_sampling_locations"] *= ((size - 1) / size).astype(np.float32)


def without_last_channel(grads, inputs):
    less = {**inputs, "grad_output": inputs["grad_output"] * (np.arange(8) < 7)}
    grads["grad_attention_weights"] = backward(less)["grad_attention_weights"].astype(np.float32)


def without_a_query(grads, inputs):
    less = {**inputs, "grad_output": inputs["grad_output"] * (np.arange(20) != 4)[None, :, None, None]}
    grads["grad_value"] = backward(less)["grad_value"].astype(np.float32)


def neighbouring_pixels(grads, inputs):
    grads["grad_value"] = np.roll(grads["grad_value"], 1, axis=1)


FAULTS = {
    "sign": ("grad_sampling_locations", times("grad_sampling_locations", -1)),
    "x and y swapped": ("grad_sampling_locations", swap_axes),
    "no attention weight": ("grad_sampling_locations", without_attention),
    "size - 1 for size": ("grad_sampling_locations", of_align_corners),
    "0.1 percent of a level": ("grad_sampling_locations", times("grad_sampling_locations", 1.001, np.s_[:, :, :, 1])),
    "one element, the fourth digit": ("grad_sampling_locations", one_place("grad_sampling_locations", lambda x: x * 1.001 + 1e-3)),
    "a channel is missing": ("grad_attention_weights", without_last_channel),
    "twice": ("grad_attention_weights", times("grad_attention_weights", 2)),
    "NaN": ("grad_attention_weights", one_place("grad_attention_weights", lambda x: np.nan)),
    "a query's addends are missing": ("grad_value", without_a_query),
    "the neighbouring pixels": ("grad_value", neighbouring_pixels),
    "a head is never written": ("grad_value", times("grad_value", 0, np.s_[:, :, 1])),
}


def test_right_gradients_pass(gradcheck, rng):
    inputs = make_problem(rng)
    grads = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    for name, gradient in gradcheck(inputs, grads, "--all", expect=0).items():
        assert gradient["sampled"] == gradient["total"] == grads[name].size
        for which in ("float64", "recorded"):
            assert side(gradient, which)["failed"] == 0 and side(gradient, which)["checked"] == gradient["sampled"]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_fail(gradcheck, rng, fault):
    inputs = make_problem(rng)
    grads = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    tensor, plant = FAULTS[fault]
    plant(grads, inputs)
    printed = gradcheck(inputs, grads, "--all", expect=1)
    for name, gradient in printed.items():
        assert side(gradient, "float64")["failed"] == 0
        assert (side(gradient, "recorded")["failed"] > 0) == (name == tensor), name
    worst = side(printed[tensor], "recorded")["worst"]
    assert worst and all(entry["distance"] in ("NaN", "Infinity") or entry["distance"] > entry["bound"] for entry in worst)


def test_kinks_pass_where_the_naive_check_fails(gradcheck, rng):
    inputs = make_problem(rng, dtype=np.float64, levels=((4, 8),))
    sizes = np.array([8, 4])
    cells = rng.integers(0, sizes, inputs["sampling_locations"].shape)
    inputs["sampling_locations"] = (cells + 0.5) / sizes  # on pixel centres, exactly
    # The derivative from above, in every sample: the cell that begins there.
    grads = backward(inputs)
    result = gradcheck(inputs, grads, "--all", expect=0)["grad_sampling_locations"]
    assert result["at_kinks"] == result["total"] and side(result, "recorded")["failed"] == 0
    assert result["naive"]["failed_at_kinks"] > 0.9 * result["total"]
    grads["grad_sampling_locations"] += 100
    gradcheck(inputs, grads, "--all", expect=1)


def test_samples_and_seed(gradcheck, replay, rng, tmp_path):
    inputs = make_problem(rng, queries=200)
    grads = {name: grad.astype(np.float32) for name, grad in backward(inputs).items()}
    result = gradcheck(inputs, grads, "--samples", "50", "--seed", "3", expect=0)
    assert result["grad_attention_weights"]["sampled"] == 50
    assert 50 < result["grad_sampling_locations"]["sampled"] <= 100
    text = replay("gradcheck", tmp_path / "call.h5", expect=0).out
    assert "naive check" in text and "the gradients are the derivatives" in text
    for flags in (["--samples", "0"], ["--samples", "x"], ["--invocation", "7"]):
        replay("gradcheck", tmp_path / "call.h5", *flags, expect=2)
