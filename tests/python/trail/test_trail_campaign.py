"""tests/trails without a GPU: what is right of an answer of diff, on made-up trails and answers, and the campaign with programs that stand in."""

import json
import os
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import SOURCE

TRAILS = SOURCE / "tests" / "trails"
sys.path[:0] = [str(TRAILS.parent), str(SOURCE / "tools" / "bench")]
import trail_cost  # noqa: E402
from trails import campaign, ddp, expected, judge, reading  # noqa: E402

LAUNCH, COPY_IN, NONE = 0, 2, 0xFFFFFFFF
SPACE = "_ZN2at6native43_GLOBAL__N__abc"
KERNELS = ["gemm", "_ZN2at6native29vectorized_elementwise_kernelIZNS0_20copysign_kernel_cudaEvEEvi", f"{SPACE}24fused_dropout_kernel_vecIfEEvi",
           "_ZN2at6native21heaviside_kernel_cudaEvi"]
DROPOUT = "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float>(int)"


def write_trail(path, rows, missing=0):
    """rows: numbers of KERNELS, or "copy"."""
    with h5py.File(path, "w") as file:
        group = file.create_group("trail")
        group.attrs["missing"] = missing
        group["kind"] = np.array([COPY_IN if row == "copy" else LAUNCH for row in rows], np.uint8)
        group["kernel"] = np.array([NONE if row == "copy" else row for row in rows], np.uint32)
        group["names"] = np.frombuffer(json.dumps({"kernels": [{"name": name} for name in KERNELS]}).encode(), np.uint8)
    return path


@pytest.fixture
def trails(tmp_path):
    """The marker of "layer" in row 50, a dropout in rows 10 and 52; that of "data" in row 30, copies from the host in rows 31 and 70."""
    rows = [0] * 100
    rows[50], rows[52], rows[10], rows[30], rows[31], rows[70] = 1, 2, 2, 3, "copy", "copy"
    return [reading.Trail(write_trail(tmp_path / f"{side}.h5", rows)) for side in "ab"]


def answer(row=52, kernel=DROPOUT, kind="other_parameters", cause="generator", **more):
    side = {"row": row, "kernel": kernel}
    return {"equal": False, "first": {"kind": kind, "cause": cause, "rank": None, "a": side, "b": dict(side), **more}}


def line(took=True, **more):
    return {"losses": ["0x1p0"], "gradients": "g", "weights": "w", "took": took, **more}


def said(trails, found, kind="dropout_seed", status=1, runs=None, least=5):
    return judge.wrong({"runs": runs or (line(None), line()), "trails": trails, "status": status, "answer": found, "least": least,
                        "expect": expected.PLANTS[kind].as_json() if kind else None})


# What is right

def test_the_right_launch_is_right(trails):
    assert said(trails, answer()) == ""
    assert said(trails, answer(31, "", "other_input", "data_order"), "workers_order") == ""
    assert said(trails, answer(31, "", "other_input", "batch"), "host_value") == ""


@pytest.mark.parametrize("found, why", [
    ({"equal": True, "first": None}, "said to be equal"),
    (answer(kind="other_output"), "kind other_output, wanted is other_parameters"),
    (answer(cause=None), "cause None, wanted is generator"),
    (answer(row=10), "row 10 of run a is named, the plant is in 51 to 62"),  # the same kernel, in another step
    (answer(row=63), "row 63 of run a"),
    (answer(row=53), "row 53 of run a is gemm, wanted is dropout"),
    (answer(kernel="void other<float>(int)"), "'void other<float>(int)' of run a is named"),
    (answer(kernel=None), "'None' of run a is named"),
    (answer(a=None, b=None), "no launch is named"),
    (answer(b={"row": 51, "kernel": DROPOUT}), "row 51 of run b is gemm"),
    (answer(row=-1), "row -1"), (answer(row=10_000), "row 10000"),
])
def test_what_is_wrong_is_told(trails, found, why):
    assert why in said(trails, found)


def test_a_copy_is_no_kernel(trails):
    assert "row 32 of run a is gemm" in said(trails, answer(32, "gemm", "other_input", "data_order"), "workers_order")
    assert "row 70" in said(trails, answer(70, "", "other_input", "data_order"), "workers_order")


def test_rows_that_one_run_has(trails):
    found = answer(kind="only_in_b", cause="algorithm", a=None)
    assert "kind only_in_b" in said(trails, found)
    plant = {**expected.PLANTS["cudnn_benchmark"].as_json(), "marker": "copysign_kernel", "end": "nothing_has_this_name", "kernel": "dropout"}
    pair = {"runs": (line(None), line()), "trails": trails, "status": 1, "answer": found, "least": 5, "expect": plant}
    assert "run b has not one marker nothing_has_this_name" in judge.wrong(pair)
    assert judge.wrong({**pair, "expect": {**plant, "end": "", "reach": 2}}) == ""
    assert "the plant is in 51 to 51" in judge.wrong({**pair, "expect": {**plant, "end": "", "reach": 1}})


def test_a_marker_is_one_row(trails):
    assert trails[0].row_of("copysign") == 50 and trails[0].row_of("dropout") is None and trails[0].row_of("nothing") is None
    assert (trails[0].name_at(31), trails[0].name_at(100), trails[0].launches()) == ("", None, 98)


def test_equal_runs(trails):
    equal, both = {"equal": True, "first": None}, (line(None), line(None))
    assert said(trails, equal, None, 0, both) == ""
    assert "exit status 1" in said(trails, equal, None, 1, both)
    assert "first: other_parameters (generator) at void at::native" in said(trails, answer(), None, 1, both)
    for what, another in (("losses", ["0x2p0"]), ("gradients", "h"), ("weights", "v")):
        assert said(trails, equal, None, 0, (line(None), line(None, **{what: another}))) == f"the client's own {what} differ: its runs are not equal"


def test_what_shows_nothing_is_wrong(trails, tmp_path):
    assert "the plant did not take in run b" in said(trails, answer(), runs=(line(), line(False)))
    assert "run a has 98 launches, at least 99 are wanted" in said(trails, answer(), least=99)
    rows = [0] * 100
    lossy = reading.Trail(write_trail(tmp_path / "lossy.h5", rows, missing=3))
    assert "3 launches of run b are missing" in said([trails[0], lossy], answer())
    assert "exit status 0" in said(trails, answer(), status=0)


def test_names_of_kernels():
    for demangled, name in (("void cutlass::Kernel2<cutlass_80_tf32>(Params)", "Kernel2"), ("tuned_matmul", "tuned_matmul"), (DROPOUT, "fused_dropout_kernel_vec"),
                            ("(anonymous namespace)::f(int)", "f"), ("", "no name"), (None, "no name")):
        assert judge.identifier(demangled) == name


def test_every_plant_has_a_marker_of_its_own():
    assert len(set(expected.SITES.values())) == len(expected.SITES)
    for kind, plant in expected.PLANTS.items():
        assert plant.kinds and plant.causes and (plant.site in expected.SITES or kind == "gpu")
        assert json.loads(json.dumps(plant.as_json()))["marker"] == (f"{expected.SITES[plant.site]}_kernel" if plant.site else "")


def test_the_table():
    rows = [{"kind": "tuner", "wrong": wrong, "launches": launches, "bytes": size, "seconds": seconds} for wrong, launches, size, seconds in (
        ("", 1000, 50_000, 9.0), ("kind a|b", 2000, 90_000, 11.0), ("kind a|b", 0, 0, 10.0))]
    assert list(judge.lines_of(rows)) == [("tuner", "1 of 3", "1,000 to 2,000", "50.0", "10.0", "2 x kind a\\|b")]


# The campaign, with programs in place of the recorder, the command and the client

RECORD = """#!{python}
import os, subprocess, sys
at = sys.argv.index("--")
os.environ["CAPTURE"] = sys.argv[sys.argv.index("-o") + 1]
assert sys.argv[1] == "--trail"
sys.exit(subprocess.run(sys.argv[at + 1:]).returncode)
"""
CLIENT = """
import json, os, sys
sys.path[:0] = [{here!r}, {tests!r}, {bench!r}, {trails!r}]
from trails import client
chosen = client.parse(sys.argv[1:])
if os.environ.get("SKIP"):
    print("client: no GPU", file=sys.stderr); sys.exit(77)
if chosen.plant == os.environ.get("FAIL", "-"):
    print("client: out of memory", file=sys.stderr); sys.exit(1)
if "CAPTURE" in os.environ:
    import test_trail_campaign as made
    rows = [0] * 100
    rows[50], rows[52], rows[30], rows[31] = 1, 2, 3, "copy"
    made.write_trail(os.environ["CAPTURE"], rows)
    open(os.environ["CAPTURE"] + ".plant", "w").write(str(chosen.plant))
    open(os.environ["LOG"], "a").write(f"{{chosen.plant}} {{chosen.side}}\\n")
expect = made.expected.PLANTS[chosen.plant].as_json() if "CAPTURE" in os.environ and chosen.plant else None
print(json.dumps({{"losses": ["0x1p0"] * chosen.steps, "gradients": "g", "weights": "w", "took": chosen.plant and True, "expect": expect}}))
"""
REPLAY = """#!{python}
import json, os, sys
a, b = (open(path + ".plant").read() for path in sys.argv[2:4])
first = {{"dropout_seed": ("other_parameters", "generator", 52, {dropout!r}), "workers_order": ("other_input", os.environ.get("SAY", "data_order"), 31, "")}}.get(b)
side = first and {{"row": first[2], "kernel": first[3]}}
print(json.dumps({{"equal": first is None, "first": first and {{"kind": first[0], "cause": first[1], "a": side, "b": side}}}}))
sys.exit(int(first is not None))
"""


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    folder = tmp_path / "build" / "bin"
    folder.mkdir(parents=True)
    words = {"python": sys.executable, "dropout": DROPOUT, "here": str(pathlib.Path(__file__).parent), "tests": str(SOURCE / "tests" / "python"), "trails": str(TRAILS.parent), "bench": str(SOURCE / "tools" / "bench")}
    for name, text in (("msda-record", RECORD), ("msda-replay", REPLAY), ("client.py", CLIENT)):
        (folder / name).write_text(text.format(**words))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return tmp_path


def run_campaign(folder, *arguments):
    return campaign.main(["--model", "triton", "--build", str(folder / "build"), "--client", str(folder / "build" / "bin" / "client.py"), "--least", "90",
                          "--steps", "4", "-o", str(folder / "all.json"), "--keep", str(folder / "kept"), *arguments])


def test_a_campaign(stand_ins, capsys):
    assert run_campaign(stand_ins, "--kinds", "equal,dropout_seed,workers_order", "--pairs", "2", "--jobs", "2") == 0
    out = capsys.readouterr().out
    for kind in ("equal", "dropout_seed", "workers_order"):
        assert f"| {kind} | 2 of 2 | 99 |" in out
    runs = sorted((stand_ins / "log").read_text().splitlines())
    # A first run without a plant for all kinds of a pair, and the second of the equal pair.
    assert runs == sorted(2 * ["None b", "None b", "dropout_seed b", "workers_order b"])
    found = json.loads((stand_ins / "all.json").read_text())["pairs"]
    assert [(entry["kind"], entry["pair"]) for entry in found][:2] == [("equal", 0), ("dropout_seed", 0)] and len(found) == 6
    assert all(entry["bytes"] > 0 and entry["launches"] == 99 for entry in found) and not (stand_ins / "kept").exists()


def test_captures_go_after_their_last_pair(tmp_path, stand_ins):
    chosen = campaign.parse(["--model", "triton", "--build", str(stand_ins / "build"), "--kinds", "equal,atomic,tuner", "--pairs", "2"])
    made = campaign.Campaign(chosen, tmp_path)
    names = {f"{kind}-0-{side}.h5" for kind, side in (("equal", "b"), ("atomic", "a"), ("atomic", "b"), ("tuner", "b"))} | {"plain-0.h5", "plain-1.h5"}
    for name in names:
        (tmp_path / name).touch()
    for kind, gone in (("tuner", {"tuner-0-b.h5"}), ("atomic", {"atomic-0-a.h5", "atomic-0-b.h5"}), ("equal", {"equal-0-b.h5", "plain-0.h5"})):
        made.done_with(kind, 0)
        names -= gone
        assert {path.name for path in tmp_path.glob("*.h5")} == names


def test_a_wrong_pair_fails_the_campaign(stand_ins, capsys, monkeypatch):
    monkeypatch.setenv("SAY", "batch")
    assert run_campaign(stand_ins, "--kinds", "dropout_seed,workers_order", "--pairs", "1") == 1
    assert "| workers_order | 0 of 1 | 99 |" in (out := capsys.readouterr().out) and "1 x cause batch, wanted is data_order" in out
    assert sorted(path.name for path in (stand_ins / "kept").iterdir()) == ["triton-workers_order-0-a.h5", "triton-workers_order-0-b.h5"]


def test_a_failed_client_is_a_wrong_pair(stand_ins, capsys, monkeypatch):
    monkeypatch.setenv("FAIL", "dropout_seed")
    assert run_campaign(stand_ins, "--kinds", "equal,dropout_seed", "--pairs", "1") == 1
    out = capsys.readouterr().out
    assert "| equal | 1 of 1 |" in out and "| dropout_seed | 0 of 1 |" in out and "exit status 1: client: out of memory" in out


def test_without_a_gpu_nothing_is_judged(stand_ins, monkeypatch, capsys):
    monkeypatch.setenv("SKIP", "1")
    assert run_campaign(stand_ins) == 77 and "no GPU" in capsys.readouterr().out


# The other programs

def test_ratios_are_of_one_round():
    found = [{"model": "m", "plain": plain, "trail": trail, "launches": 100, "bytes": 5000} for plain, trail in ((1.0, 1.5), (2.0, 2.4), (0.5, 0.65))]
    (row,) = trail_cost.rows_of(found)
    assert (row["ratio"], row["least"], row["greatest"], row["bytes"]) == (pytest.approx(1.3), pytest.approx(1.2), pytest.approx(1.5), 50)
    assert trail_cost.cells_of(row) == ("m", "1000.0 ms", "1500.0 ms", "1.30 (1.20 to 1.50)", "100", "50.0")


def test_the_rank_with_the_plant_is_wanted():
    assert ddp.wrong_rank(answer(rank=1)) == "" and ddp.wrong_rank(answer(rank="1")) == ""
    assert "rank 0 is named" in ddp.wrong_rank(answer(rank=0)) and "rank None" in ddp.wrong_rank({"first": None})


@pytest.mark.parametrize("name", ["client", "campaign", "ddp"])
def test_help(name):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, TRAILS / f"{name}.py", "--help"], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0 and "usage" in done.stdout and not done.stderr
    if name == "client":
        assert all(kind in done.stdout for kind in expected.PLANTS)
