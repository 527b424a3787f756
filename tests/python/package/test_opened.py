"""Captures opened in Python, the command run from Python, and its findings: lazily, by name, with the command's own messages."""

import lzma
import math
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest
from conftest import DATA, REPLAY, SOURCE
from support.damage import damage
from support.operators import OPERATORS
from support.problems import backward, make_problem

import msda_replay
from msda_replay import CaptureError, CommandError, Invocation, Result, open_capture, read_capture, run, write_capture
from msda_replay.memory import free_memory


def read_all(opened):
    for call in opened:
        assert repr(call)
        for tensors in (call.inputs, call.outputs, call.outputs_before, call.stages, *call.results.values()):
            for tensor in tensors.values():
                assert tensor[()].shape == tensor.shape


@pytest.fixture
def capture(tmp_path, rng):
    """Two calls, the second of which is wrong in one element of each gradient of samples."""
    calls = []
    for _ in range(2):
        inputs = make_problem(rng)
        outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
        calls.append(Invocation(inputs, outputs, "msda_triton", atol=1e-3, rtol=1e-2, facts={"label": "a label"},
                                results={"torch": Result({"grad_value": outputs["grad_value"]}, "reference", "grid_sample")}))
    calls[1].outputs["grad_sampling_locations"][0, 3, 1, 0, 1, 0] += 5
    calls[1].outputs["grad_attention_weights"][0, 4, 0, 1, 0] = np.nan
    path = tmp_path / "a.h5"
    write_capture(path, calls)
    return path


class TestOpening:
    def test_names_sizes_and_parts(self, capture):
        with open_capture(capture) as opened, h5py.File(capture) as file:
            assert len(opened) == 2 and [call.id for call in opened] == [0, 1]
            call = opened[1]
            assert (call.operator, call.dialect, call.padding_mode, call.align_corners) == ("msda", "msda_triton", "zeros", False)
            assert call.tolerance == (1e-3, 1e-2) and call.facts["label"] == "a label"
            locations = call.inputs["sampling_locations"]
            assert locations.dims == ("batch", "query", "head", "level", "point", "xy")
            assert locations.sizes == {"batch": 1, "query": 20, "head": 2, "level": 2, "point": 2, "xy": 2}
            whole = file["invocations/000001/inputs/sampling_locations"][()]
            np.testing.assert_array_equal(np.asarray(locations), whole)
            np.testing.assert_array_equal(locations.isel(query=3, point=slice(1), head=1), whole[:, 3, 1, :, :1])
            np.testing.assert_array_equal(locations[0, -1], whole[0, -1])
            assert call.reference is call.results["torch"] and call.reference.dialect == "grid_sample"
            assert set(call.outputs) == {"grad_value", "grad_sampling_locations", "grad_attention_weights"}

    def test_nothing_is_read_before_it_is_indexed(self, capture):
        """Bytes changed after opening are those that are read."""
        with h5py.File(capture) as file:
            offset = file["invocations/000000/inputs/value"].id.get_offset()
            first = file["invocations/000000/inputs/value"][()]
        opened = open_capture(capture)
        with open(capture, "r+b") as file:
            file.seek(offset)
            file.write(np.float32(123).tobytes())
        value = opened[0].inputs["value"][()]
        assert value[0, 0, 0, 0] == 123 and value[0, 0, 0, 1] == first[0, 0, 0, 1]

    def test_short_reprs(self, capture):
        with open_capture(capture) as opened:
            assert repr(opened) == f"<capture {capture}: 2 calls>"
            assert repr(opened[0]) == ("<call 0: msda, msda_triton, padding zeros, align_corners false; value 1 x 42 x 2 x 8 float32; "
                                       "a label>")
            assert repr(opened[0].inputs["value"]) == "<value: batch 1, pixel 42, head 2, channel 8; float32>"
            assert repr(opened[0].outputs) == "<outputs: grad_attention_weights, grad_sampling_locations, grad_value>"

    def test_grid_sample_has_named_dimensions(self, tmp_path):
        write_capture(tmp_path / "a.h5", [OPERATORS["grid_sample"].recorded("2d-float32-bilinear-zeros-0"), OPERATORS["grid_sample"].recorded("3d-float16-bilinear-border-1")])
        with open_capture(tmp_path / "a.h5") as opened:
            assert opened[0].operator == "grid_sample"
            assert opened[0].inputs["input"].dims == ("batch", "channel", "height", "width")
            assert opened[1].inputs["grid"].dims == ("batch", "output_depth", "output_height", "output_width", "axis")
            assert opened[1].inputs["grid"].type == "float16"

    def test_a_kernel_without_an_operator(self, tmp_path):
        write_capture(tmp_path / "a.h5", Invocation({"x": np.zeros((2, 3), np.float32)}, {"y": np.ones(4, np.uint8)}, "", kernel="k"))
        with open_capture(tmp_path / "a.h5") as opened:
            assert opened[0].operator == "" and opened[0].inputs["x"].sizes == {"axis 0": 2, "axis 1": 3}

    @pytest.mark.parametrize("operator, facts, inputs", [
        ("scatter_add", {"dim_size": 4}, ("index", "source")), ("interpolate", {"mode": "bilinear", "input_width": 4}, ("grad_output",)),
        ("roi_align", {"spatial_scale": "1.0"}, ("boxes", "grad_output"))])
    def test_operators_are_told_by_what_their_calls_have(self, tmp_path, operator, facts, inputs):
        write_capture(tmp_path / "a.h5", Invocation({name: np.zeros((1, 2, 3, 4), np.float32) for name in inputs}, {}, "", facts=facts))
        with open_capture(tmp_path / "a.h5") as opened:
            assert opened[0].operator == operator and re.match(f"<call 0: {operator}(, bilinear)?;", repr(opened[0]))

    def test_mistakes_are_told(self, capture, tmp_path):
        opened = open_capture(capture)
        with pytest.raises(CaptureError, match="value has no dimension querry; it has batch, pixel, head, channel"):
            opened[0].inputs["value"].isel(querry=3)
        with pytest.raises(KeyError, match="inputs has no tensor grad_value; it has attention_weights, "):
            opened[0].inputs["grad_value"]
        value = opened[0].inputs["value"]
        opened.close()
        with pytest.raises(CaptureError, match="value: its capture is closed"):
            value[0]
        with pytest.raises(CaptureError, match="missing.h5: cannot read it"):
            open_capture(tmp_path / "missing.h5")
        h5py.File(tmp_path / "b.h5", "w").close()
        with pytest.raises(CaptureError, match="not a capture"):
            open_capture(tmp_path / "b.h5")


class TestRunning:
    def test_what_the_command_finds(self, capture, replay):
        found, result = run(capture), replay("run", capture, "--json", "-", expect=1).json
        assert found.json == result
        assert found.at_fault == "observed" and found.summary in repr(found) and not found.within_tolerance
        findings = found.findings()
        assert [finding.name for finding in findings] == [
            f"{finding['tensor']}[{','.join(map(str, finding['index']))}]" for call in result["invocations"] for finding in call["findings"]]
        (wrong,) = findings.where(tensor="grad_sampling_locations", advisory=False)
        assert (wrong.invocation, wrong.index, wrong.cause) == (1, (0, 3, 1, 0, 1, 0), "implementation_error")
        assert wrong.difference == pytest.approx(5, rel=1e-4)
        assert wrong.places == {"batch": 0, "query": 3, "head": 1, "level": 0, "point": 1, "xy": 0}
        (infinite,) = findings.where(tensor="grad_attention_weights", advisory=False)
        assert np.isnan(infinite.observed) and infinite.cause == "non_finite"
        assert open_capture(capture).findings()[0] == findings[0]
        lines = repr(findings).splitlines()
        assert lines[0] == f"<{len(findings)} findings>" and "grad_sampling_locations[0,3,1,0,1,0]" in repr(findings)

    def test_one_call_and_its_tolerance(self, capture):
        opened = open_capture(capture)
        assert len(opened[0].findings()) == 0 and repr(opened[0].findings()) == "<0 findings>"
        assert run(capture, invocation=0, mode=["deterministic"], threads=1).within_tolerance
        assert opened[0].findings(atol=0, rtol=0)

    def test_the_commands_message_and_status(self, tmp_path, capture, replay):
        for arguments, flags, status in ((["run", tmp_path / "missing.h5"], {}, 2),
                                         (["run", capture, "--invocation", "7"], {"invocation": 7}, 2),
                                         (["run", capture, "--mode", "original"], {"mode": "original"}, 3)):
            said = replay(*arguments, expect=status).err.strip().splitlines()
            with pytest.raises(CommandError) as raised:
                run(arguments[1], **flags)
            assert raised.value.status == status and raised.value.command[1] == "run"
            assert str(raised.value) == "\n".join(line.removeprefix("msda-replay: ") for line in said)

    def test_a_path_that_looks_like_a_flag(self, capture, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        os.rename(capture, "--json")
        assert run("--json", invocation=0).within_tolerance

    def test_where_the_command_is_found(self, tmp_path, monkeypatch, capture):
        program = tmp_path / "bin" / "msda-replay"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho msda-replay: this is mine >&2\nexit 3\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("MSDA_REPLAY", str(program))
        with pytest.raises(CommandError, match="^this is mine$") as raised:
            run(capture)
        assert raised.value.status == 3
        monkeypatch.setenv("MSDA_REPLAY", str(tmp_path))
        with pytest.raises(CommandError, match=f"MSDA_REPLAY={tmp_path}: is no program"):
            run(capture)

    def test_only_our_own_source_tree_is_searched(self, tmp_path, monkeypatch):
        from msda_replay import programs

        monkeypatch.delenv("MSDA_BUILD", raising=False)
        program = tmp_path / "build" / "bin" / "msda-nothing"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        monkeypatch.setattr(programs, "_PACKAGE", tmp_path / "tools" / "python" / "msda_replay")
        assert programs.find_program("msda-nothing") is None
        shutil.copy(SOURCE / "CMakeLists.txt", tmp_path)
        assert programs.find_program("msda-nothing") == str(program)
        monkeypatch.setattr(programs, "_PACKAGE", pathlib.Path("/msda_replay"))
        assert programs.find_program("msda-nothing") is None

    def test_a_package_without_the_command(self, tmp_path):
        """Away from the source tree, and on the PATH."""
        subprocess.run(["cp", "-rL", str(SOURCE / "tools" / "python" / "msda_replay"), str(tmp_path)], check=True)
        (tmp_path / "bin").mkdir()
        environment = {name: value for name, value in os.environ.items() if name not in ("MSDA_REPLAY", "MSDA_BUILD")}
        environment.update(PATH=str(tmp_path / "bin"), PYTHONPATH=str(tmp_path))
        find = "from msda_replay.command import find_command; print(find_command())"
        done = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, env=environment)
        assert "msda-replay was not found: build it" in done.stderr and "set MSDA_REPLAY" in done.stderr
        os.symlink(REPLAY, tmp_path / "bin" / "msda-replay")
        done = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == str(tmp_path / "bin" / "msda-replay")

    def test_a_limit_of_time(self, capture, tmp_path, monkeypatch):
        program = tmp_path / "slow"
        program.write_text("#!/bin/sh\nexec sleep 60\n")
        program.chmod(0o755)
        monkeypatch.setenv("MSDA_REPLAY", str(program))
        with pytest.raises(CommandError, match="not finished after 0.1 s"):
            run(capture, timeout=0.1)


class TestReplays:
    def test_gradients_of_modes(self, capture):
        call = open_capture(capture)[0]
        exact = call.replay("float64")
        expected = backward({name: tensor[()] for name, tensor in call.inputs.items()})
        for name, array in expected.items():
            assert exact[name].dtype == np.float64
            np.testing.assert_allclose(exact[name], array, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(call.replay("deterministic")[name], array, rtol=1e-4, atol=1e-5)

    def test_the_file_of_all_replays(self, capture, tmp_path, replay):
        saved = tmp_path / "replays.h5"
        result = replay("run", capture, "--save-replays", saved, "--json", "-", expect=1).json
        replay("verify", saved, expect=0)
        with open_capture(saved) as opened:
            assert len(opened) == 2
            for call, entry in zip(opened, result["invocations"]):
                assert set(call.results) == {"float64", "deterministic", "atomic", "grid_sample"}
                assert call.results["grid_sample"].dialect == "grid_sample" and call.results["float64"].dialect == "msda_triton"
                for mode, digests in entry["digests"].items():
                    assert {name: tensor.digest for name, tensor in call.results[mode].items()} == digests
        assert "exists" in replay("run", capture, "--save-replays", saved, expect=2).err
        shutil.copyfile(capture, tmp_path / "inputs.h5")
        with h5py.File(tmp_path / "inputs.h5", "r+") as file:
            for name in {"outputs", "outputs_before", "results"} & set(file["invocations/000000"]):
                del file["invocations/000000"][name]
        replay("run", tmp_path / "inputs.h5", "--invocation", 0, "--damaged", "--save-replays", tmp_path / "alone.h5", expect=0)
        assert read_capture(tmp_path / "alone.h5").invocations[0].results
        assert "name only one" in replay("run", capture, capture, "--save-replays", tmp_path / "b.h5", expect=2).err

    def test_a_mode_that_gives_nothing(self, capture):
        with pytest.raises(CommandError, match="--mode other: no such mode"):
            open_capture(capture)[0].replay("other")


class TestDataFrame:
    def test_columns(self, capture):
        pandas = pytest.importorskip("pandas")
        findings = run(capture).findings()
        table = findings.to_dataframe()
        assert isinstance(table, pandas.DataFrame) and len(table) == len(findings)
        row = table[(table.tensor == "grad_sampling_locations") & ~table.advisory].iloc[0]
        assert (row["invocation"], row["query"], row["head"], row["level"], row["point"], row["xy"]) == (1, 3, 1, 0, 1, 0)
        assert row["cause"] == "implementation_error" and row["difference"] == pytest.approx(5, rel=1e-4)
        assert table["channel"].isna().all() if "channel" in table else True
        assert list(table.groupby("cause").size().index) == sorted(set(table.cause))

    def test_no_findings(self, capture):
        pytest.importorskip("pandas")
        assert run(capture, invocation=0).findings().to_dataframe().empty

    def test_without_pandas(self, capture, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ModuleNotFoundError, match="python3-pandas, or pip install pandas"):
            run(capture).findings().to_dataframe()


class TestHostileFiles:
    def damaged(self, capture, tmp_path, change):
        path = tmp_path / "damaged.h5"
        shutil.copy(capture, path)
        with h5py.File(path, "r+") as file:
            outputs = next(iter(file["invocations"].values()))["outputs"]
            del outputs["grad_value"]
            change(outputs, tmp_path)
        return path

    def refused(self, path, why):
        with pytest.raises(CaptureError, match=f"damaged.h5: .*{why}"):
            read_capture(path)
        with pytest.raises(CaptureError, match=f"damaged.h5: .*{why}"), open_capture(path) as opened:
            opened[0].outputs["grad_value"][()]

    @pytest.mark.parametrize("options", [{"chunks": (1 << 16,)}, {"chunks": (1 << 16,), "compression": "gzip"}], ids=["", "gzip"])
    def test_sizes_that_the_file_does_not_hold(self, capture, tmp_path, options):
        path = self.damaged(capture, tmp_path, lambda group, _: group.create_dataset("grad_value", (10**13,), "f4", **options))
        self.refused(path, "declares 40000000000000 bytes")

    @pytest.mark.parametrize("shape", [(2, 1 << 62, 9, 4), (1 << 62,) * 3])
    def test_a_number_of_elements_that_64_bits_do_not_hold(self, capture, tmp_path, shape):
        path = self.damaged(capture, tmp_path, lambda group, _: group.create_dataset("grad_value", shape, "f4", chunks=(1,) * len(shape)))
        self.refused(path, f"declares {4 * math.prod(shape)} bytes")

    def test_more_than_the_memory_that_is_free(self, replay, capture, tmp_path):
        """Zeros, which gzip packs a thousand to one: the file is no larger than a thousandth of it."""
        chunk = 1 << 24
        count = 2 * free_memory() // (4 * chunk)

        def bomb(group, _):
            dataset = group.create_dataset("grad_value", (1, count, 1, chunk), "f4", chunks=(1, 1, 1, chunk), compression="gzip")
            packed = zlib.compress(bytes(4 * chunk), 9)
            for i in range(count):
                dataset.id.write_direct_chunk((0, i, 0, 0), packed)

        path = self.damaged(capture, tmp_path, bomb)
        assert path.stat().st_size < 4 * chunk * count / 900
        self.refused(path, "grad_value has [0-9]+ bytes, stored in [0-9]+: reading it takes .* MiB free; read a part of it")
        with open_capture(path) as opened:
            assert not opened[0].outputs["grad_value"][0, count - 1, 0, -5:].any()
            assert np.asarray(opened[1].outputs["grad_value"]).size
        printed = replay("show", path, expect=2).err
        assert f"{path}: /invocations/000000/outputs/grad_value has " in printed
        assert "use a machine with more memory, or choose another --invocation" in printed
        replay("run", path, "--invocation", 1, expect=1)

    def test_external_storage(self, capture, tmp_path):
        def change(group, folder):
            (folder / "secret").write_bytes(b"12345678")
            group.create_dataset("grad_value", (2,), "f4", external=[(str(folder / "secret"), 0, 8)])

        self.refused(self.damaged(capture, tmp_path, change), "has its data in another file")

    def test_a_call_is_read_when_it_is_asked_for(self, capture):
        """All of 50,000 calls were read by opening them, in 275 s."""
        with h5py.File(capture, "r+") as file:
            file["invocations/000001"].attrs["dialect"] = 3
        with open_capture(capture) as opened:
            assert len(opened.calls) == 2 and opened[0].dialect == "msda_triton"
            with pytest.raises(CaptureError, match="/invocations/000001: attribute dialect is not a text"):
                opened[1]

    def test_attributes_of_other_types(self, capture):
        """An array had no truth value: ValueError from `align_corners`, `repr` and read_capture."""

        def look(path):
            with open_capture(path) as opened:
                return opened[0].tolerance, opened[0].align_corners, opened[0].padding_mode, repr(opened)

        with h5py.File(capture) as file:
            known = dict(file["invocations/000000"].attrs)
        for name in (*known, "reduce"):
            for value in ([1, 2], "x"):
                with h5py.File(capture, "r+") as file:
                    attributes = file["invocations/000000"].attrs
                    attributes.update(known)
                    attributes[name] = value
                for read in (read_capture, look):
                    try:
                        read(capture)
                    except CaptureError as error:
                        assert f"{capture}: /invocations/000000: attribute {name} is not a " in str(error)

    @pytest.mark.parametrize("name", ["segv_h5a_close", "abort_free"])
    def test_hdf5_crashes_in_a_process_of_its_own(self, tmp_path, name):
        path = tmp_path / f"{name}.h5"
        path.write_bytes(lzma.open(DATA / "attack" / f"{name}.h5.xz").read())
        for read in (read_capture, lambda path: read_all(open_capture(path))):
            with pytest.raises(CaptureError, match=f"{name}.h5: (?!cannot read it: no such file)"):
                read(path)

    def test_damage_raises_nothing_else(self, capture, tmp_path):
        refused = 0
        for seed in range(10, 10 + int(os.environ.get("MSDA_FUZZ", 12))):  # libhdf5 takes 9 for ever, in a process that its limit of time ends
            path = tmp_path / f"damaged{seed}.h5"  # another than that which a process may still be closing
            damage(capture, path, seed)
            for read in (read_capture, lambda path: read_all(open_capture(path))):
                try:
                    read(path)
                except CaptureError as error:
                    assert len(str(error).splitlines()) == 1 and path.name in str(error), seed
                    refused += 1
        assert refused

    def test_a_truncated_file_says_so(self, capture):
        size = os.path.getsize(capture)
        os.truncate(capture, 5000)
        for read in (read_capture, open_capture):
            with pytest.raises(CaptureError, match=f"it is truncated: it has 5000 of {size} bytes; copy it again, or record again"):
                read(capture)

    def test_a_forked_process_reads_on(self, capture):
        """By a connection of its own: its parent has closed the one that it had."""
        with open_capture(capture) as opened:
            value = opened[0].inputs["value"]
            closed, close = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.read(closed, 1)
                    os._exit(value[()].shape != value.shape)
                finally:
                    os._exit(2)
        os.write(close, b"c")
        assert os.waitpid(child, 0)[1] == 0

    def test_a_crash_is_told(self, capture):
        """Files of any kind: which of them crash libhdf5 differs from release to release."""
        class Crash:
            def __reduce__(self):
                return os.abort, ()

        with open_capture(capture) as opened:
            value = opened[0].inputs["value"]
            with pytest.raises(CaptureError, match="a.h5: is damaged so that reading it crashes"):
                value[Crash()]
            with pytest.raises(CaptureError, match="its capture is closed"):
                value[0]

    def test_external_links(self, capture, tmp_path):
        with h5py.File(tmp_path / "other.h5", "w") as another:
            another["x"] = np.zeros(3, np.float32)

        def change(group, folder):
            group["grad_value"] = h5py.ExternalLink(str(folder / "other.h5"), "/x")

        self.refused(self.damaged(capture, tmp_path, change), "outputs/grad_value is a link to another file")


def test_imports_with_h5py_and_numpy_alone(tmp_path):
    """Neither pandas nor matplotlib nor torch is imported before it is needed."""
    blocked = "import sys\nfor name in ('pandas', 'matplotlib', 'torch'): sys.modules[name] = None\n"
    subprocess.run([sys.executable, "-c", blocked + "import msda_replay; [getattr(msda_replay, name) for name in msda_replay.__all__]"], check=True, timeout=60,
                   env={**os.environ, "PYTHONPATH": str(SOURCE / "tools" / "python")})


def test_every_public_name_is_there():
    for name in msda_replay.__all__:
        assert getattr(msda_replay, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        msda_replay.nonsense  # noqa: B018


def test_reprs_are_short(demo_capture):
    """Arrays of a million numbers must not fill a notebook, also not those of the objects that write_capture takes."""
    capture = read_capture(demo_capture)
    (call,) = capture.invocations
    assert repr(capture) == "<capture of 1 invocation>" and len(repr(call)) < 400
    assert "msda_triton" in repr(call) and "value 1 x 5440 x 1 x 32 float32" in repr(call)
    assert repr(call.results["reference"]).startswith("<result, role reference, dialect grid_sample: ")


def test_errors_are_one_line_and_name_the_thing(demo_capture, tmp_path):
    (tmp_path / "text").write_text("none")
    for read in (msda_replay.open_capture, msda_replay.read_capture):
        for path, why in ((tmp_path / "none.h5", "no such file"), (tmp_path, "it is a folder"), (tmp_path / "text", "it is no HDF5 file")):
            with pytest.raises(msda_replay.CaptureError) as error:
                read(path)
            assert str(error.value) == f"{path}: cannot read it: {why}"
    with msda_replay.open_capture(demo_capture) as capture:
        with pytest.raises(IndexError, match=r"has no call at 7; it has 1, from 0 to 0"):
            capture[7]
        value = capture[0].inputs["value"]
        with pytest.raises(IndexError, match=r"^value \(batch 1, pixel 5440, head 1, channel 32\): .*5440"):
            value.isel(pixel=5440)
        assert value[0].shape == capture[-1].inputs["value"][0].shape


def test_what_a_call_is_shown_by(tmp_path):
    """Its largest input, which says more of a sum than the indices do."""
    with open_capture(SOURCE / "docs" / "findings" / "embedding_on_a_cpu.h5") as capture:
        assert repr(capture[0]) == "<call 0: scatter_add, sum; source 4096 x 4 bfloat16>"


@pytest.mark.parametrize("group, names", [("0::/a/b", ("a/b", "memory.max", "memory.current", "inactive_file")),
                                          ("5:cpu,memory:/a", ("memory/a", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))])
def test_memory_that_is_free_in_a_control_group(tmp_path, group, names):
    proc, mount = tmp_path / "proc", tmp_path / "mount"
    folder, limit, used, cached = mount / names[0], *names[1:]
    folder.mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemAvailable: 5000 kB\nSwapFree: 300 kB\n")
    (proc / "self" / "cgroup").write_text(f"nonsense\n:\n1:memory:\0\n{group}\n")
    assert free_memory(proc, mount) == 5300 * 1024
    for text, free in (("max", 5300 * 1024), ("9" * 5000, 5300 * 1024), ("1000000", 1000000)):
        (folder / limit).write_text(text + "\n")
        assert free_memory(proc, mount) == free
    for text, free in (("-5", 1000000), ("700000", 300000), ("1700000", 0)):
        (folder / used).write_text(text + "\n")
        assert free_memory(proc, mount) == free
    (folder / "memory.stat").write_text(f"anon 5\n{cached} 900000\n")
    assert free_memory(proc, mount) == 200000
    (folder.parent / limit).write_text("150000\n")
    assert free_memory(proc, mount) == 150000
