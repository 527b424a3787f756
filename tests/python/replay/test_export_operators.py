"""msda-replay export of every operator: reproducers run on their own and fail with the element and the bits that `run` names, in every
variant; archives come back."""

import functools
import re
import runpy
import zipfile

import numpy as np
import pytest
from support.reproducers import RUN, SUFFIX, check_report, compile_together, export, finding_of, records, run_pytest, same_result  # noqa: F401
from support.operators import OPERATORS, type_of

from msda_replay import write_capture
from msda_replay.digest import digest
from msda_replay.importer import import_case

CASES = [variant for name in ("scatter_add", "interpolate", "roi_align") for variant in OPERATORS[name].variants]
# One for each operator, type of number and way of adding.
SOME = [next(case for case in CASES if re.search(part, case)) for part in (
    "^index_add", "float64.*scatter_add|scatter_add.*float64", "embedding_freq", "embedding_padding", "index_put", "mean", "interpolate_nearest_", "interpolate_nearest-exact",
    "interpolate_trilinear", "interpolate_bicubic", "roi_align_0.*float32", "roi_align_1.*float32", "roi_align_1.*float64")]


# The same of the operators that sample: of a gradient.
SAMPLED = [
    "2d-float32-bicubic-reflection-0/grad_grid", "2d-float32-bilinear-border-1/grad_input", "3d-float16-bilinear-zeros-0/grad_grid",
    "3d-float64-nearest-reflection-1/grad_input", "2d-float16-bicubic-border-0/grad_input", "deformable_detr-zeros-0-float32/grad_value"]
KERNEL = "k\u00e9rnel \U0001f642"


def operator_of(case):
    return next(row for row in OPERATORS.values() if case.split("/")[0] in row.variants)


def wrong_sign(case, path):
    """A capture of a case, VARIANT or VARIANT/GRADIENT, whose largest element has the wrong sign."""
    row, (variant, _, gradient) = operator_of(case), case.partition("/")
    call = row.recorded(variant)
    call.kernel = KERNEL
    values = call.outputs[gradient or row.summed].reshape(-1)
    values[np.argmax(np.abs(values))] *= -1
    write_capture(path, call, overwrite=True)
    return path


@pytest.mark.parametrize("case", CASES)
def test_every_variant_has_the_replays_bits(replay, export, tmp_path, case):
    """The reproducer's formulas, which are its own, give every bit of the replays, in every element."""
    capture = wrong_sign(case, tmp_path / "a.h5")
    call, finding = finding_of(replay, capture)
    export(capture, "pytest", tmp_path / "a.py")
    module = runpy.run_path(str(tmp_path / "a.py"))
    assert (module["TENSOR"], module["INDEX"]) == (finding["tensor"], tuple(finding["index"]))
    with pytest.raises(AssertionError) as failure:
        module["test_recorded_gradient"]()
    stored = type_of(case)
    check_report(str(failure.value), finding, stored, "float64")
    state = module["computed"].__globals__
    if operator_of(case).name == "roi_align":  # weights along an axis depend on the element's index along it only
        weights_along, axes = state["weights_along"], len(state["INDEX"])
        weights_at = functools.cache(lambda real, box, axis, _: weights_along(real, box, axis))
        state["weights_along"] = lambda real, box, axis: weights_at(real, box, axis, state["INDEX"][axes - 1 - axis])
    # Tensors of float64 are computed once, exactly: their sums in the order of mode deterministic are not of interest.
    modes = {"float64": np.float64, **({"deterministic": np.float32} if module["ARITHMETIC"] == "float32" else {})}
    for mode, real in modes.items():
        computed = np.zeros(module["TENSORS"][f"observed_{finding['tensor']}"].shape, real)
        for state["INDEX"] in np.ndindex(computed.shape):
            computed[state["INDEX"]] = module["computed"](operator_of(case).name, real)
        replayed = computed if mode == "float64" else computed.astype(stored)  # replays store the recorded type
        assert digest(replayed.tobytes()) == call["digests"][mode][finding["tensor"]], mode


@pytest.mark.parametrize("name, gradient", [(name, gradient) for name in ("msda", "grid_sample") for gradient in OPERATORS[name].gradients])
@pytest.mark.long
def test_samplers_in_every_variant(replay, export, tmp_path, name, gradient):
    """The same element, and what `run` says of it; the bits of the kernels' own type."""
    for variant in OPERATORS[name].variants:
        if not np.any(OPERATORS[name].recorded(variant).outputs[gradient]):
            continue
        capture = wrong_sign(f"{variant}/{gradient}", tmp_path / "a.h5")
        _, finding = finding_of(replay, capture)
        export(capture, "pytest", tmp_path / "a.py", "--force")
        module = runpy.run_path(str(tmp_path / "a.py"))
        assert (module["TENSOR"], module["INDEX"]) == (gradient, tuple(finding["index"])), variant
        with pytest.raises(AssertionError) as failure:
            module["test_recorded_gradient"]()
        check_report(str(failure.value), finding, type_of(variant), "float64")
        if name == "grid_sample":  # test_export.py has msda's bits
            element = f"{gradient}[{','.join(map(str, finding['index']))}]"
            (result,) = replay("stages", capture, "--element", element, "--json", "-").json["invocations"]
            narrow = result["elements"][0]["stages"][-1]["values"]["deterministic"]
            assert float(module["computed"](name, np.dtype(module["ARITHMETIC"]).type)) == narrow, variant


def steps_in(out):
    """What a reproducer prints step by step, as bits."""
    return set(re.findall(r"\((0x\w+)\)", out.split("why:")[1]))


@pytest.fixture(scope="module")
def reproducers(request, export, tmp_path_factory):
    """The captures of the cases that are run here, and their programs."""
    folder = tmp_path_factory.mktemp("programs")
    chosen = [item.callspec.params["case"] for item in request.session.items if "reproducers" in item.fixturenames]
    captures = {case: wrong_sign(case, folder / f"{case.replace('/', '_')}.h5") for case in chosen}
    return captures, compile_together(export, captures, folder)


@pytest.mark.parametrize("case", [*(case if "float32" in case else pytest.param(case, marks=pytest.mark.long) for case in SOME), *SAMPLED])
def test_programs(replay, export, reproducers, tmp_path, case):
    captures, run_program_of = reproducers
    _, finding = finding_of(replay, captures[case])
    stored = type_of(case)
    export(captures[case], "pytest", tmp_path / "test_a.py")
    said = run_pytest(tmp_path / "test_a.py", 1), run_program_of(case, 1)
    for out in said:
        check_report(out, finding, stored, "float64")
    script, program = map(steps_in, said)
    assert program <= script and (program == script or case.endswith("grad_grid"))  # whose program leaves out the fractions


@pytest.mark.parametrize("case", [*CASES, *OPERATORS["msda"].variants[::5], *OPERATORS["grid_sample"].variants[::7]])
def test_archives_come_back(replay, export, tmp_path, case):
    capture = wrong_sign(case, tmp_path / "a.h5")
    export(capture, "npz", tmp_path / "a.npz")
    import_case(tmp_path / "a.npz", tmp_path / "b.h5")
    (result,) = same_result(replay, capture, tmp_path / "b.h5")["invocations"]
    assert result["findings"] and result["kernel"] == KERNEL


@pytest.mark.parametrize("case", [SOME[0], SOME[4], SOME[8], SOME[10], *SAMPLED[1::4]])
def test_issues_and_events(replay, export, tmp_path, case):
    capture = wrong_sign(case, tmp_path / "a.h5")
    result = export(capture, "zip", tmp_path / "a.zip", "--anonymous")
    assert "test_reproducer.py" in result["members"]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(tmp_path / "issue")
    _, finding = finding_of(replay, capture)
    stored = type_of(case)
    check_report(run_pytest(tmp_path / "issue" / "test_reproducer.py", 1), finding, stored, "float64")
    (path,) = export(capture, "tensorboard", tmp_path / "logs")["files"]
    events = b"".join(records(open(path, "rb").read()))
    assert f"{operator_of(case).summed}/recorded against float64/error".encode() in events


def test_buffers_and_references_go_along(replay, export, tmp_path):
    """A sum that begins with what its buffer held, and a reference; a NaN among them, so that tensors are beside the source."""
    index, source = np.array([2, 0, 2, 5]), np.float32([[1, 2], [3, 4], [5, 6], [7, np.nan]])
    before = np.arange(12, dtype=np.float32).reshape(6, 2)
    right = before.copy()
    np.add.at(right, index, source)
    wrong = right.copy()
    wrong[2, 1] += 1
    np.savez(tmp_path / "a.npz", operator="scatter_add", index=index, source=source, before_sum=before, observed_sum=wrong,
             reference_sum=right, dim_size=6)
    import_case(tmp_path / "a.npz", tmp_path / "a.h5")
    for to in ("pytest", "cpp"):
        result = export(tmp_path / "a.h5", to, tmp_path / f"test_a{SUFFIX[to]}", "--element", "sum[2,1]")
        assert len(result["files"]) == 2
        out = RUN[to](tmp_path / f"test_a{SUFFIX[to]}", 1)
        assert "sum[2,1] is out of tolerance" in out and "recorded: 14 (" in out.replace("14.0", "14") and "reference: 13 (" in out.replace("13.0", "13")
    export(tmp_path / "a.h5", "npz", tmp_path / "b.npz")
    import_case(tmp_path / "b.npz", tmp_path / "b.h5")
    same_result(replay, tmp_path / "a.h5", tmp_path / "b.h5")


def test_another_element(replay, export, tmp_path):
    call = OPERATORS["scatter_add"].recorded(SOME[0])
    gradient = call.outputs["sum"]
    gradient.reshape(-1)[[1, 4]] += [1, 2]
    write_capture(tmp_path / "a.h5", call)
    _, first = finding_of(replay, tmp_path / "a.h5")
    call = replay("run", tmp_path / "a.h5", "--json", "-").json["invocations"][0]
    (another,) = [finding for finding in call["findings"] if finding["index"] != first["index"]]
    element = f"sum[{','.join(map(str, another['index']))}]"
    for to in ("pytest", "cpp"):
        result = export(tmp_path / "a.h5", to, tmp_path / f"test_a{SUFFIX[to]}", "--element", element)
        assert result["finding"]["index"] == another["index"]
        check_report(RUN[to](tmp_path / f"test_a{SUFFIX[to]}", 1), another, str(gradient.dtype), "float64")
        assert f"Here: {element}" in (tmp_path / f"test_a{SUFFIX[to]}").read_text()

    def refused(*flags, to="pytest"):
        return replay("export", tmp_path / "a.h5", "--to", to, "-o", tmp_path / "b.py", *flags, expect=2).err

    assert "--element sum[0,2]: it is within tolerance" in refused("--element", "sum[0,2]")
    assert "no such tensor" in refused("--element", "mean[0,0]") and "indices within" in refused("--element", "sum[0]")
    assert "--element is for --to pytest, cpp and zip" in refused("--element", element, to="npz")
    assert not (tmp_path / "b.py").exists()
