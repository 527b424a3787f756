"""The importer and save_call ask for conventions that nobody states, and say what fits the observed gradients."""

import itertools

import numpy as np
import pytest
from conftest import DATA
from support.operators import OPERATORS, archive_of
from support.problems import backward, make_problem

from msda_replay import CaptureError, open_capture, save_call
from msda_replay.__main__ import main

CONVENTIONS = ("dialect", "padding_mode", "align_corners")


@pytest.fixture
def inputs(rng):
    """Some samples lie near the edges, where the paddings differ."""
    inputs = make_problem(rng, queries=60)
    near = rng.random(inputs["sampling_locations"].shape) < 0.2
    inputs["sampling_locations"][near] = rng.uniform(0.01, 0.04, near.sum())
    return inputs


def archive(path, inputs, padding_mode="zeros", align_corners=False, **stated):
    observed = {f"observed_{name}": array.astype(np.float32) for name, array in backward(inputs, padding_mode, align_corners).items()}
    np.savez(path, **inputs, **observed, **stated)
    return str(path)


@pytest.fixture
def asked(tmp_path, capsys):
    """Imports an archive that leaves something open; returns the line."""

    def check(source, *options):
        assert main(["import", source, "-o", str(tmp_path / "a.h5"), *options]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and lines[0].startswith(f"msda_replay: {source}: the archive does not state ")
        assert not (tmp_path / "a.h5").exists()
        return lines[0]

    return check


@pytest.mark.parametrize("padding_mode, align_corners", itertools.product(("zeros", "border"), (False, True)))
def test_what_fits_is_what_the_kernel_did(tmp_path, inputs, asked, padding_mode, align_corners):
    line = asked(archive(tmp_path / "a.npz", inputs, padding_mode, align_corners))
    assert "does not state dialect, padding_mode, align_corners, and they are not guessed" in line
    printed = line.split("what fits the observed gradients: ")[1].split(". Give")[0].split("; or ")
    flags = f"--padding-mode {padding_mode} --align-corners {str(align_corners).lower()}"
    expected = {f"--dialect {dialect} {flags}" for dialect in ("msda_triton", "grid_sample")}
    if (padding_mode, align_corners) == ("zeros", False):
        expected.add("--dialect deformable_detr")
    assert set(printed) == expected


def test_the_flags_that_are_named_answer(tmp_path, inputs, asked):
    source = archive(tmp_path / "a.npz", inputs, "border")
    assert "--padding-mode border" in asked(source, "--dialect", "msda_triton", "--align-corners", "false")
    options = ["--dialect", "msda_triton", "--align-corners", "false", "--padding-mode", "border"]
    assert main(["import", source, "-o", str(tmp_path / "a.h5"), *options]) == 0
    with open_capture(tmp_path / "a.h5") as opened:
        assert (opened[0].dialect, opened[0].padding_mode, opened[0].align_corners) == ("msda_triton", "border", False)


def test_flags_replace_the_archives(tmp_path, inputs):
    source = archive(tmp_path / "a.npz", inputs, dialect="grid_sample", **{"padding_mode": "border"})
    np.savez(source, **{**np.load(source), "align_corners": True})
    options = ["--dialect", "msda_triton", "--align-corners", "false", "--padding-mode", "zeros"]
    assert main(["import", source, "-o", str(tmp_path / "a.h5"), *options]) == 0
    with open_capture(tmp_path / "a.h5") as opened:
        assert (opened[0].dialect, opened[0].padding_mode, opened[0].align_corners) == ("msda_triton", "zeros", False)


def test_deformable_detr_says_the_rest(tmp_path, inputs, capsys):
    source = archive(tmp_path / "a.npz", inputs)
    assert main(["import", source, "-o", str(tmp_path / "a.h5"), "--dialect", "deformable_detr"]) == 0
    with open_capture(tmp_path / "a.h5") as opened:
        assert (opened[0].padding_mode, opened[0].align_corners) == ("zeros", False)
    for option, value in (("--padding-mode", "border"), ("--align-corners", "true")):
        assert main(["import", source, "-o", str(tmp_path / "b.h5"), "--dialect", "deformable_detr", option, value]) == 2
        assert "deformable_detr, which has padding_mode zeros and align_corners false only" in capsys.readouterr().err


def test_nothing_fits(tmp_path, inputs, asked):
    wrong = {name: array.copy() for name, array in inputs.items()}
    wrong["sampling_locations"] = wrong["sampling_locations"][..., ::-1].copy()  # (y, x)
    observed = {f"observed_{name}": array.astype(np.float32) for name, array in backward(inputs).items()}
    np.savez(tmp_path / "a.npz", **wrong, **observed)
    line = asked(str(tmp_path / "a.npz"))
    assert "no conventions fit the observed gradients: check that shapes are (height, width), locations (x, y)" in line
    assert "--dialect deformable_detr|msda_triton|grid_sample --padding-mode zeros|border --align-corners true|false" in line


def test_nothing_was_observed(tmp_path, inputs, asked):
    np.savez(tmp_path / "a.npz", **inputs)
    assert "there are no observed gradients of samples" in asked(str(tmp_path / "a.npz"))


def test_without_the_command(tmp_path, inputs, asked, monkeypatch):
    monkeypatch.setenv("MSDA_REPLAY", str(tmp_path / "missing"))
    line = asked(archive(tmp_path / "a.npz", inputs))
    assert "is not known: MSDA_REPLAY=" in line and "--padding-mode zeros|border" in line


class TestTheDialectAlone:
    """It may be missing where the observed bits show it."""

    def test_of_a_real_kernel(self, tmp_path, capsys):
        """Triton's kernel, on an H200."""
        assert main(["import", str(DATA / "h200_border_noalign_0.npz"), "-o", str(tmp_path / "a.h5")]) == 0
        assert "dialect msda_triton, as the observed gradients are nearest to its arithmetic" in capsys.readouterr().err
        with open_capture(tmp_path / "a.h5") as opened:
            assert opened[0].dialect == "msda_triton"

    @pytest.mark.parametrize("dialect", ["deformable_detr", "msda_triton", "grid_sample"])
    def test_of_the_librarys_kernels(self, tmp_path, rng, dialect, capsys):
        """On levels of 20 x 30 pixels, where all three round differently."""
        inputs = make_problem(rng, queries=400, levels=((20, 30), (13, 7)))
        save_call(tmp_path / "a.h5", **inputs, dialect=dialect, padding_mode="zeros", align_corners=False)
        with open_capture(tmp_path / "a.h5") as opened:
            observed = opened[0].replay("deterministic")
        np.savez(tmp_path / "a.npz", **inputs, **{f"observed_{name}": array for name, array in observed.items()}, padding_mode="zeros",
                 align_corners=False)
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "b.h5")]) == 0
        assert f"dialect {dialect}, as" in capsys.readouterr().err
        with open_capture(tmp_path / "b.h5") as opened:
            assert opened[0].dialect == dialect

    def test_in_doubt_it_is_asked_for(self, tmp_path, inputs, asked):
        """Rounded float64 is as near to one arithmetic as to the other."""
        source = archive(tmp_path / "a.npz", {**inputs, **{name: array[:, :4] for name, array in inputs.items() if name not in
                         ("value", "spatial_shapes")}}, padding_mode_="x")
        np.savez(source, **{name: array for name, array in np.load(source).items() if name != "padding_mode_"}, padding_mode="zeros",
                 align_corners=False)
        line = asked(source)
        assert "does not state dialect, and it is not guessed" in line
        assert "--dialect deformable_detr; or --dialect msda_triton; or --dialect grid_sample" in line

    def test_save_call_wants_to_be_told(self, tmp_path, inputs):
        with pytest.raises(CaptureError, match="the call does not state dialect.*there are no observed gradients"):
            save_call(tmp_path / "a.h5", **inputs, padding_mode="zeros", align_corners=False)


@pytest.mark.parametrize("variant", ["2d-float32-bicubic-reflection-1", "2d-float32-bilinear-zeros-0", "3d-float32-bilinear-border-0"])
def test_grid_sample(tmp_path, asked, variant):
    """PyTorch's kernels, on an H200."""
    call = OPERATORS["grid_sample"].recorded(variant)
    does, call.facts = call.facts, {}
    np.savez(tmp_path / "a.npz", **archive_of(call, "grid_sample"))
    line = asked(str(tmp_path / "a.npz"))
    assert "does not state interpolation, padding_mode, align_corners" in line
    flags = (f"--interpolation {does['interpolation']} --padding-mode {does['padding_mode']} "
             f"--align-corners {'true' if does['align_corners'] else 'false'}")
    assert line.split("what fits the observed gradients: ")[1].split(". Give")[0] == flags
    assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5"), *flags.split()]) == 0
    assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "b.h5"), "--dialect", "msda_triton"]) == 2
