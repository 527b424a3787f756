"""msda-record --stages: intermediate tensors beside the recorded ones, against NumPy."""

import pathlib
import re
import resource
import subprocess

import h5py
import numpy as np
import pytest
from support.launches import CLIENT
from support.problems import backward, make_problem, stages
from support.recording import FLAKY, PRELOAD, environment, pytestmark, record, target, wait_for  # noqa: F401

from msda_replay import read_capture
from msda_replay.digest import digest

STAGES = ("pixel_coordinates", "cell", "interpolation_weights", "corner_values", "sampled_value", "grad_attention_weights",
          "grad_sampling_locations", "value_contributions", "grad_value")
# Records the problem in argv[1] by msda_triton's conventions; argv[2] is the padding.
ONE_CALL = "Operator(1, int(sys.argv[2])).backward(dict(np.load(sys.argv[1])))"


def check_summary(summary, tensor, smallest_normal):
    """The attributes against NumPy's view of the tensor itself."""
    tensor = tensor.astype(np.float64)
    finite = np.isfinite(tensor)
    magnitudes = np.abs(tensor[finite])
    for name, expected in {
        "count": tensor.size, "finite": finite.sum(), "nan": np.isnan(tensor).sum(), "zeros": (tensor == 0).sum(),
        "positive_infinite": (tensor == np.inf).sum(), "negative_infinite": (tensor == -np.inf).sum(),
        "subnormal": ((magnitudes > 0) & (magnitudes < smallest_normal)).sum(),
    }.items():
        assert summary[name] == expected, name
    if not finite.any():
        assert not {"minimum", "maximum", "mean_magnitude", "largest_magnitude"} & set(summary)
        return
    for name, find in (("minimum", np.nanargmin), ("maximum", np.nanargmax)):
        flat = find(np.where(finite, tensor, np.nan))
        assert summary[name] == tensor.flat[flat]
        assert tuple(summary[f"{name}_index"]) == np.unravel_index(flat, tensor.shape)
    assert summary["largest_magnitude"] == magnitudes.max()
    assert summary["mean_magnitude"] == pytest.approx(magnitudes.mean(), rel=1e-12)


@pytest.fixture
def record_problem(tmp_path, target):  # noqa: F811
    """Records one call on the inputs given; returns the invocation, the capture's path and the recorder's output."""

    def run(inputs, how, padding=0):
        np.savez(tmp_path / "inputs.npz", **inputs)
        capture = tmp_path / f"{how}.h5"
        done = record(*target(ONE_CALL), str(tmp_path / "inputs.npz"), str(padding),
                      options=["-o", capture, "--force", "--stages", how])
        assert done.returncode == 0, done.stderr
        (call,) = read_capture(capture).invocations
        return call, capture, done.stderr

    return run


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
def test_full(replay, record_problem, rng, padding_mode):
    inputs = make_problem(rng, batch=2, queries=30)
    call, capture, _ = record_problem(inputs, "full", padding=int(padding_mode == "border"))
    assert (call.padding_mode, call.dialect) == (padding_mode, "msda_triton")
    assert set(call.stages) == set(call.stage_summaries) == set(STAGES)
    truth = stages(inputs, padding_mode)
    with h5py.File(capture) as file:
        group = file["invocations/000000/stages"]
        assert [d.label for d in group["value_contributions/full"].dims] == [
            "batch", "query", "head", "level", "point", "corner", "channel"]
        assert [d.label for d in group["grad_value/full"].dims] == ["batch", "pixel", "head", "channel"]
    for name in STAGES:
        stage, summary = call.stages[name], call.stage_summaries[name]
        assert stage.dtype == np.float32 and summary["arithmetic"] == "float32"
        np.testing.assert_allclose(stage, truth[name], rtol=1e-3, atol=1e-4, err_msg=name)
        check_summary(summary, stage, np.finfo(np.float32).tiny)
        beside = summary["float64"]
        assert beside["count"] == stage.size and beside["differing_finiteness"] == 0
        assert beside["mean_magnitude"] == pytest.approx(np.abs(truth[name]).mean(), rel=1e-12)
        apart = np.abs(stage - truth[name])
        assert beside["largest_absolute_difference"] == pytest.approx(apart.max(), rel=1e-6, abs=1e-15), name
        if apart.max() > 0:
            worst = tuple(beside["largest_absolute_difference_index"])
            assert apart[worst] == pytest.approx(apart.max(), rel=1e-6)
            relative = apart[truth[name] != 0] / np.abs(truth[name][truth[name] != 0])
            assert beside["largest_relative_difference"] == pytest.approx(relative.max(), rel=1e-6)
    # The recorded outputs are the last stages of the same arithmetic.
    for name in ("grad_attention_weights", "grad_sampling_locations", "grad_value"):
        assert call.stages[name].tobytes() == call.outputs[name].tobytes()
        np.testing.assert_allclose(call.outputs[name], backward(inputs, padding_mode)[name], rtol=1e-3, atol=1e-4)
    replay("verify", capture, expect=0)
    replay("run", capture, expect=0)


def test_summary_of_what_is_not_finite(record_problem, rng):
    inputs = make_problem(rng)
    inputs["value"][0, 0, 0, :4] = [np.nan, np.inf, -np.inf, 1e-40]
    inputs["grad_output"][0, 3] *= 1e-39  # its contributions are subnormal in float32, and not in float64
    inputs["grad_output"][0, 4] = 1e38    # these overflow
    inputs["sampling_locations"][0, 5, 0, 0, 0] = [np.nan, 0.5]
    inputs["sampling_locations"][0, 6, 0, 0, :] = 0.75 / inputs["spatial_shapes"][0, ::-1]  # reads pixel 0
    inputs["attention_weights"][0, 4] = 50
    summaries = record_problem(inputs, "summary")[0].stage_summaries
    assert set(summaries) == set(STAGES)
    full = record_problem(inputs, "full")[0]
    for name in STAGES:
        check_summary(summaries[name], full.stages[name], np.finfo(np.float32).tiny)
        assert str(full.stage_summaries[name]) == str(summaries[name]), name  # text, for the arrays in it
    values = summaries["corner_values"]
    assert values["nan"] > 0 and values["positive_infinite"] == values["negative_infinite"] == values["nan"]
    assert values["subnormal"] > 0 and values["float64"]["subnormal"] == 0
    contributions = summaries["value_contributions"]
    assert contributions["subnormal"] > 0 and contributions["float64"]["subnormal"] == 0
    assert contributions["positive_infinite"] > 0 and contributions["float64"]["positive_infinite"] == 0
    assert contributions["float64"]["differing_finiteness"] >= contributions["positive_infinite"]


def test_summary_leaves_no_tensors(replay, record_problem, rng):
    call, capture, _ = record_problem(make_problem(rng), "summary")
    assert call.stages == {} and set(call.stage_summaries) == set(STAGES)
    (listed,) = replay("list", capture, "--json", "-", expect=0).json[0]["invocations"]
    assert listed["stages"] == "summary"
    assert "stages summary" in replay("list", capture, expect=0).words
    (shown,) = replay("show", capture, "--json", "-", expect=0).json["invocations"]
    assert [stage["stage"] for stage in shown["stages"]] == list(STAGES)  # in their order
    for stage in shown["stages"]:
        summary = call.stage_summaries[stage["stage"]]
        for name in ("count", "zeros", "maximum", "mean_magnitude"):
            assert stage[name] == summary[name]
            assert stage["float64"][name] == summary["float64"][name]
        assert stage["minimum_index"] == list(summary["minimum_index"])
        assert stage["float64"]["largest_absolute_difference"] == summary["float64"]["largest_absolute_difference"]
    text = replay("show", capture, expect=0).out
    assert "stage, in float32" in text and "from float64" in text
    assert all(f"    {name} " in text for name in STAGES)


def change_stage(capture, name, index, by):
    """Another number, with the digest that belongs to it: not damage, but another tensor."""
    with h5py.File(capture, "r+") as file:
        dataset = file[f"invocations/000000/stages/{name}/full"]
        data = dataset[()]
        data[index] += by
        dataset[...] = data
        dataset.attrs["digest"] = digest(data.tobytes())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("how", ["full", "summary"])
def test_stages_shows_what_was_recorded(replay, record_problem, rng, how, dtype):
    inputs = make_problem(rng, dtype=dtype)
    call, capture, _ = record_problem(inputs, how)
    (result,) = replay("stages", capture, "--json", "-", expect=0).json["invocations"]
    assert [stage["stage"] for stage in result["summary"]] == list(STAGES)
    truth = stages(inputs)
    for stage in result["summary"]:
        shown, summary = stage["recorded"], call.stage_summaries[stage["stage"]]
        for name, its in (("count", "count"), ("nan", "nan"), ("zero", "zeros"), ("lowest", "minimum"), ("highest", "maximum")):
            assert shown[name] == summary[its], (stage["stage"], name)
        assert shown["max_abs"] == (summary["float64"]["largest_absolute_difference"] if dtype != np.float64 else 0)
        if how == "full":
            apart = np.abs(call.stages[stage["stage"]] - truth[stage["stage"]]).max()
            assert shown["max_abs"] == pytest.approx(apart, rel=1e-6, abs=1e-12)
            assert shown["from_deterministic"] == {"differing": 0, "max_abs": 0, "max_ulp": 0, "differing_finiteness": 0}
        elif dtype == np.float16 and stage["stage"] == "grad_value":
            assert "differs_in" not in shown  # the replay rounds its result to float16
        else:
            assert shown["differs_in"] == []
    text = replay("stages", capture, expect=0).out
    assert len(re.findall(r"^    recorded +\d+ .*\n +equal to the replay", text, re.M)) == (
        8 if (how, dtype) == ("summary", np.float16) else 9)


def test_stages_of_an_element_beside_the_recorded_ones(replay, record_problem, rng):
    call, capture, _ = record_problem(make_problem(rng), "full")
    b, q, m, l, p, axis = 0, 3, 1, 1, 0, 1
    sample, component = (b, q, m, l, p), {"x": 0, "y": 1, "": (), "y0,x0": 0, "y0,x1": 1, "y1,x0": 2, "y1,x1": 3}
    elements = [f"grad_sampling_locations[{b},{q},{m},{l},{p},{axis}]", f"grad_attention_weights[{b},{q},{m},{l},{p}]"]
    options = [option for element in elements for option in ("--element", element)]
    seen = set()
    for element in replay("stages", capture, *options, "--json", "-", expect=0).json["invocations"][0]["elements"]:
        assert element["first_drift"] is None
        for row in element["stages"]:
            assert list(row["values"]) == ["recorded", "msda_triton", "grid_sample", "float64"]
            channel = re.fullmatch(r"(?:(.*) )?channel (\d+), the worst", row["component"])
            place = () if not row["component"] else (component[row["component"]],) if not channel else (
                *([component[channel[1]]] if channel[1] else []), int(channel[2]))
            assert row["values"]["recorded"] == call.stages[row["stage"]][sample + place], row
            seen.add(row["stage"])
    assert seen == set(STAGES) - {"value_contributions", "grad_value"}

    s, d = 5, 3
    (element,) = replay("stages", capture, "--element", f"grad_value[0,{s},{m},{d}]", "--json", "-", expect=0).json["invocations"][0]["elements"]
    assert element["stages"][-1]["values"]["recorded"] == call.stages["grad_value"][0, s, m, d]
    for row in element["stages"][:-1]:
        query, point, corner = re.fullmatch(r"query (\d+), point (\d+), corner (.*)", row["component"]).groups()
        place = (0, int(query), m, 0, int(point), component[corner], d)
        assert row["values"]["recorded"] == call.stages["value_contributions"][place]
    text = replay("stages", capture, "--element", elements[0], expect=0).out
    assert re.search(r"^ +recorded +msda_triton +grid_sample +float64$", text, re.M)


def test_recorded_stages_that_drift(replay, record_problem, rng):
    call, capture, _ = record_problem(make_problem(rng), "full")
    index = (0, 3, 1, 1, 0, 1)
    change_stage(capture, "pixel_coordinates", index, 1)
    out = replay("stages", capture, "--element", "grad_sampling_locations[0,3,1,1,0,1]", expect=0).out
    assert "first drift: pixel_coordinates" in out
    (row,) = re.findall(r"^    pixel_coordinates, y  <- drifts\n(.*)$", out, re.M)
    assert f" {call.stages['pixel_coordinates'][index] + 1:.9g} " in row
    (result,) = replay("stages", capture, "--json", "-", expect=0).json["invocations"]
    drift = {stage["stage"]: stage["recorded"]["from_deterministic"] for stage in result["summary"]}
    assert drift["pixel_coordinates"]["differing"] == 1
    assert drift["pixel_coordinates"]["max_abs"] == pytest.approx(1, rel=1e-6) and drift["pixel_coordinates"]["max_ulp"] > 1000
    assert all(drift[name]["differing"] == 0 for name in STAGES if name != "pixel_coordinates")
    (apart,) = re.findall(r"  1 number differs from the replay, by up to (\S+) \(\d+ ULP\)$", replay("stages", capture, expect=0).out, re.M)
    assert float(apart) == pytest.approx(1, rel=1e-6)


def test_recorded_summaries_that_drift(replay, record_problem, rng):
    _, capture, _ = record_problem(make_problem(rng), "summary")
    with h5py.File(capture, "r+") as file:
        summary = file["invocations/000000/stages/sampled_value"].attrs
        summary["minimum"], summary["zeros"] = summary["minimum"] - 1, 7
    (result,) = replay("stages", capture, "--json", "-", expect=0).json["invocations"]
    differs = {stage["stage"]: stage["recorded"]["differs_in"] for stage in result["summary"]}
    assert differs == {name: ["zero", "lowest"] if name == "sampled_value" else [] for name in STAGES}
    assert "  differs from the replay in zero, lowest" in replay("stages", capture, expect=0).out


def test_altered_and_ill_fitting_stages(replay, record_problem, rng):
    _, capture, _ = record_problem(make_problem(rng), "full")
    name = "/invocations/000000/stages/sampled_value/full"
    with h5py.File(capture, "r+") as file:
        file[name][0, 3, 1, 0, 0, 2] += 1
    for options in ((), ("--json", "-"), ("--element", "grad_value[0,5,1,3]")):
        done = replay("stages", capture, *options, expect=2)
        assert done.out == "" and done.err.count("\n") == 1 and name in done.err and "--damaged" in done.err
    (result,) = replay("stages", capture, "--damaged", "--json", "-", expect=0).json["invocations"]
    assert result["altered"] == [name]
    assert name in replay("run", capture, expect=2).err
    with h5py.File(capture, "r+") as file:
        short = file[name][:, 1:]
        del file[name]
        file[name] = short
    done = replay("stages", capture, expect=2)
    assert done.err.count("\n") == 1 and f"{name} has {short.size} numbers" in done.err


def test_damage_is_found(replay, record_problem, rng):
    _, capture, _ = record_problem(make_problem(rng), "full")
    shown = replay("show", capture, expect=0).out
    assert "stages/value_contributions/full" in shown
    with h5py.File(capture, "r+") as file:
        file["invocations/000000/stages/sampled_value/full"][0, 3, 1, 0, 0, 2] += 1
    error = replay("verify", capture, expect=2).err
    assert "1 of" in error and "/invocations/000000/stages/sampled_value/full is damaged" in error


def test_float64_and_float16(record_problem, rng):
    inputs = make_problem(rng, dtype=np.float64)
    call, _, _ = record_problem(inputs, "full")
    truth = stages(inputs)
    for name in STAGES:
        assert call.stages[name].dtype == np.float64 and call.stage_summaries[name]["arithmetic"] == "float64"
        assert "float64" not in call.stage_summaries[name]  # it is that itself
        np.testing.assert_allclose(call.stages[name], truth[name], rtol=1e-9, atol=1e-12)
        check_summary(call.stage_summaries[name], call.stages[name], np.finfo(np.float64).tiny)
    inputs = make_problem(rng, dtype=np.float16)
    call, _, _ = record_problem(inputs, "full")
    truth = stages(inputs)
    for name in STAGES:
        assert call.stages[name].dtype == np.float32  # float16 is storage only
        near = np.abs(truth["pixel_coordinates"] - np.round(truth["pixel_coordinates"])).min() < 1e-5
        assert not near
        np.testing.assert_allclose(call.stages[name], truth[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("keep", ["all", "last:2"])
def test_launches(replay, tmp_path, keep):
    """For a kernel whose outputs decide the conventions, and for calls with counted duplicates."""
    capture = tmp_path / "a.h5"
    arguments = ["--kernel", "triton", "--launches", "6", "--repeat", "2", "--seed", "1"]
    plain = subprocess.run([CLIENT, *arguments], capture_output=True, text=True, env=environment())
    done = record(CLIENT, *arguments, options=["-o", capture, "--stages", "full", "--keep", keep])
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    invocations = read_capture(capture).invocations
    assert len(invocations) == (3 if keep == "all" else 2)
    for call in invocations:
        truth = stages(call.inputs, call.padding_mode)
        for name in ("sampled_value", "value_contributions", "grad_value"):
            np.testing.assert_allclose(call.stages[name], truth[name], rtol=1e-2, atol=1e-3)
    replay("verify", capture, expect=0)


def test_settings(tmp_path):
    capture = tmp_path / "a.h5"
    done = record(FLAKY, options=["-o", capture, "--stages", "some"])
    assert done.returncode == 2 and done.stdout == "" and not capture.exists()
    assert "--stages" in done.stderr and "summary" in done.stderr
    # By the variable only: one warning, and no stages.
    alone = subprocess.run([FLAKY, "--seed", "3"], capture_output=True, text=True, env=environment())
    for value, lines in (("some", 1), ("none", 0), ("summary", 0)):
        done = subprocess.run([FLAKY, "--seed", "3"], capture_output=True, text=True,
                              env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_STAGES=value))
        assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
        assert done.stderr.count("\n") == lines and ("MSDA_RECORD_STAGES=some" in done.stderr) == (lines == 1)
        wait_for(capture)
        first = read_capture(capture).invocations[0]
        assert set(first.stage_summaries) == (set(STAGES) if value == "summary" else set()) and not first.stages
        capture.unlink()


def test_recover(replay, tmp_path, target):  # noqa: F811
    capture = tmp_path / "a.h5"
    command = target("op.backward(make_inputs(**small))")
    subprocess.run(command, env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER="/bin/true"))
    spool = pathlib.Path(f"{capture}.spool")
    replay("recover", spool, "-o", capture, expect=0)
    assert not read_capture(capture).invocations[0].stage_summaries
    replay("recover", spool, "-o", capture, "--force", "--stages", "full", expect=0)
    (call,) = read_capture(capture).invocations
    assert set(call.stages) == set(STAGES)
    assert call.stages["grad_value"].tobytes() == call.outputs["grad_value"].tobytes()
    assert "none" in replay("recover", spool, "-o", capture, "--force", "--stages", "some", expect=2).err


@pytest.mark.parametrize("room, with_stages", [(8_000_000, 0), (25_000_000, 1)])
def test_a_disk_without_room(replay, tmp_path, room, with_stages):
    """Stages that do not fit are left out; the calls are complete. A limit on file sizes simulates a full disk."""
    capture = tmp_path / "a.h5"
    subprocess.run([FLAKY, "--seed", "3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER="/bin/true"))
    out = replay("recover", f"{capture}.spool", "-o", capture, "--stages", "full", expect=0,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))).words
    assert f"{2 - with_stages} call" in out and "without stages: no room on the disk for the 15 MiB that they take" in out
    replay("verify", capture, expect=0)
    invocations = read_capture(capture).invocations
    assert [len(call.outputs) for call in invocations] == [3, 3]
    assert [len(call.stages) for call in invocations] == [9 * with_stages, 0]
    assert capture.stat().st_size < room
