"""run and verify over several captures, by one process and by MPI's ranks."""

import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import BUILD, REPLAY
from support.many import make_capture, mpirun, needs_mpi
from support.problems import make_problem
from support.schemas import check


@pytest.fixture(scope="module")
def whole_captures(tmp_path_factory):
    """Two with a mistake, of ranks 0 and 1; two right ones."""
    folder = tmp_path_factory.mktemp("ranks")
    counts = [make_capture(folder / "a.h5", 1, wrong=[3], rank=0, label="test_a"), make_capture(folder / "b.h5", 2),
              make_capture(folder / "c.h5", 3, wrong=[3, 7], rank=1), make_capture(folder / "d.h5", 4)]
    return folder, counts


@pytest.fixture
def captures(whole_captures, tmp_path):
    """A copy of them that a test may change."""
    folder, counts = whole_captures
    return shutil.copytree(folder, tmp_path / "ranks"), counts


def told_of(finished):
    check(finished.json, "run-many")
    return finished.json


def test_findings_of_equal_cause_and_place_are_joined(replay, captures):
    folder, counts = captures
    result = told_of(replay("run", folder, "--json", "-", expect=1))
    assert [(capture["capture"], capture["status"]) for capture in result["captures"]] == [
        (str(folder / name), status) for name, status in (("a.h5", 1), ("b.h5", 0), ("c.h5", 1), ("d.h5", 0))]
    assert result["verdict"]["summary"] == "2 of 4 captures out of tolerance."
    assert (result["verdict"]["at_fault"], result["verdict"]["out_of_tolerance"], result["verdict"]["unread"]) == ("observed", 2, 0)
    [group] = result["groups"]
    assert (group["tensor"], group["cause"], group["at_fault"]) == ("grad_sampling_locations", "implementation_error", "observed")
    given = {capture["capture"]: capture for capture in group["captures"]}
    assert {os.path.basename(name) for name in given} == {"a.h5", "c.h5"}
    assert group["count"] == sum(entry["count"] for entry in given.values()) == result["verdict"]["causes"]["implementation_error"]
    # Elements smaller than the tolerance are not out of it.
    assert counts[0] <= given[str(folder / "a.h5")]["count"] <= 2 * 2 * 2 * 2 and counts[2] <= given[str(folder / "c.h5")]["count"]
    assert given[str(folder / "a.h5")]["rank"] == "0" and given[str(folder / "a.h5")]["labels"] == ["test_a"]
    assert given[str(folder / "c.h5")]["rank"] == "1"
    assert group["shared"] == {"batch": 0}  # query 3 in one capture, 3 and 7 in the other
    assert group["worst"]["index"][1] in (3, 7)


def test_text(replay, captures):
    folder, _ = captures
    done = replay("run", folder / "a.h5", folder / "b.h5", folder / "c.h5", expect=1)
    text = done.words
    assert done.out.startswith("2 of 3 captures out of tolerance.\n\nerror[implementation_error]: the recorded kernel is wrong in ")
    assert "  where: in 2 captures, all in batch 0, kernel ms_deform_attn\n" in done.out
    assert f"{folder}/a.h5 (rank 0, test_a): " in text and f"{folder}/c.h5 (rank 1): " in text and "b.h5" not in text
    assert f"{folder}/b.h5: " in replay("run", folder, "--verbose", expect=1).words
    assert replay("run", folder, "--quiet", expect=1).out == "2 of 4 captures out of tolerance.\n"
    assert replay("run", folder / "b.h5", folder / "d.h5", expect=0).out.startswith("0 of 2 captures out of tolerance.\n")


def test_captures_that_cannot_be_read_are_named_and_the_others_judged(replay, captures, tmp_path):
    folder, _ = captures
    (folder / "e.h5").write_bytes(b"no capture")
    done = replay("run", folder, tmp_path / "missing.h5", "--json", "-", expect=2)
    result = told_of(done)
    assert [capture["status"] for capture in result["captures"]] == [1, 0, 1, 0, 2, 2]
    assert "e.h5" in result["captures"][4]["error"] and "missing.h5: no such file" in result["captures"][5]["error"]
    assert result["verdict"]["unread"] == 2 and len(result["groups"]) == 1
    assert done.err.count("\n") == 2 and "missing.h5: no such file" in done.err


def test_names_that_are_not_utf_8(replay, captures):
    folder, _ = captures
    (folder / "a.h5").rename(os.fsdecode(os.fsencode(folder / "a") + b"\xff\xfe.h5"))
    result = told_of(replay("run", folder, "--json", "-", expect=1))
    assert [(capture["status"], "error" in capture) for capture in result["captures"]] == [(1, False), (0, False), (1, False), (0, False)]
    assert "4 of 4 captures: every digest is right" in replay("verify", folder, expect=0).out
    replay("report", folder, "-o", folder / "pages", expect=1)
    assert len(list((folder / "pages").iterdir())) == 5


@pytest.fixture
def nested(captures):
    """The captures in two folders, a damaged one below, and two that hidden names leave out. Returns what is to be found."""
    folder, _ = captures
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "b.h5").rename(folder / "deep" / "er" / "b.h5")
    (folder / "c.h5").rename(folder / ".hidden" / "c.h5")
    (folder / "d.h5").rename(folder / ".d.h5")
    (folder / "deep" / "bad.h5").write_bytes(b"no capture")
    (folder / "deep" / "around").symlink_to(folder)
    return folder, [str(folder / name) for name in ("a.h5", "deep/bad.h5", "deep/er/b.h5")]


def test_folders_below_are_searched(replay, nested):
    folder, found = nested
    result = told_of(replay("run", folder, "--json", "-", expect=2))
    assert [(capture["capture"], capture["status"]) for capture in result["captures"]] == list(zip(found, (1, 2, 0), strict=True))
    relative = told_of(replay("run", ".", "--json", "-", expect=2, cwd=folder))
    assert [capture["capture"] for capture in relative["captures"]] == ["./a.h5", "./deep/bad.h5", "./deep/er/b.h5"]
    (folder / "deep").chmod(0)
    done = replay("run", folder)  # root may read it all the same
    (folder / "deep").chmod(0o755)
    assert os.getuid() == 0 or (done.status == 2 and "cannot be searched for captures: Permission denied" in done.err)


def test_list_and_show_of_a_folder(replay, nested):
    folder, found = nested
    alone = [replay("list", path, "--json", "-", expect=0).json[0] for path in (found[0], found[2])]
    done = replay("list", folder, "--json", "-", expect=2)
    check(done.json, "list")
    assert [entry["capture"] for entry in done.json] == found and [done.json[0], done.json[2]] == alone
    assert done.json[1]["status"] == 2 and done.json[1]["error"] in done.err and "deep/bad.h5" in done.json[1]["error"]
    assert replay("list", folder, expect=2).out == replay("list", found[0], expect=0).out + replay("list", found[2], expect=0).out
    done = replay("show", folder, "--json", "-", expect=2)
    check(done.json, "show")
    shown = done.json["captures"]
    alone = replay("show", found[0], "--json", "-", expect=0).json
    assert [entry["capture"] for entry in shown] == found and {**alone, **shown[0]} == alone
    assert replay("show", folder, expect=2).out == replay("show", found[0], expect=0).out + replay("show", found[2], expect=0).out


@pytest.mark.parametrize("command", ["stages", "advise", "gradcheck", "minimize", "export"])
def test_a_folder_where_one_capture_is_wanted(replay, captures, command):
    folder, _ = captures
    done = replay(command, folder, expect=2)
    assert done.err == f"msda-replay: {folder}: is a folder, and {command} takes one capture; msda-replay list {folder} lists those in it\n"


def test_a_folder_beside_a_capture(replay, captures):
    folder, _ = captures
    for pair in [(folder, folder / "a.h5"), (folder / "a.h5", folder)]:
        assert "compare two files, or two folders with a file for each rank" in replay("diff", *pair, expect=2).err


def test_bad_arguments(replay, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "there is no capture (*.h5) in this folder" in replay("run", tmp_path / "empty", expect=2).err
    assert replay("run", tmp_path / "no.h5", tmp_path / "nor.h5", expect=2).err.count("no such file") == 2
    assert "CAPTURE" in replay("run", expect=2).err
    assert "--device gpu9" in replay("run", tmp_path / "no.h5", tmp_path / "nor.h5", "--device", "gpu9", expect=2).err


def test_verify(replay, captures):
    folder, _ = captures
    assert replay("verify", folder, expect=0).out == "4 of 4 captures: every digest is right\n"
    data = bytearray((folder / "b.h5").read_bytes())
    inputs = make_problem(np.random.default_rng(2))["value"].tobytes()
    data[data.index(inputs) + 5] ^= 1
    (folder / "b.h5").write_bytes(data)
    done = replay("verify", folder, "--json", "-", expect=2)
    assert [capture["status"] for capture in done.json["captures"]] == [0, 2, 0, 0]
    assert "inputs/value" in done.err and "b.h5: 1 of " in done.err


def test_flags_that_contradict_each_other_are_refused(replay, captures, tmp_path):
    folder, _ = captures
    for command in ("run", "stress"):
        assert "--quiet excludes --verbose" in replay(command, folder, "--quiet", "--verbose", expect=2).err
    refused = replay("report", folder, "-o", tmp_path / "r.html", expect=2)
    assert "give a folder's name" in refused.err and not (tmp_path / "r.html").exists()


def test_orders_are_added_up(replay, captures, tmp_path):
    folder, _ = captures
    each = [replay("order", folder / f"{name}.h5", "--json", "-", expect=0).json["summary"] for name in "abcd"]
    result = replay("order", folder, tmp_path / "no.h5", "--json", "-", expect=2).json
    check(result, "order-many")
    assert result["summary"] == {name: sum(entry[name] for entry in each) for name in each[0]} and result["summary"]["elements"] > 0
    assert [capture["status"] for capture in result["captures"]] == [0, 0, 0, 0, 2]
    text = replay("order", folder, expect=0).words
    assert text.startswith("4 captures: one order gives every recorded bit of ") and text.count("by proof none of ") == 5


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_ranks_give_the_report_of_one_process(replay, captures, tmp_path, ranks):
    folder, _ = captures
    (folder / "e.h5").write_bytes(b"no capture")
    alone = replay("run", folder, "--json", tmp_path / "alone.json", expect=2)
    done = mpirun(ranks, "run", folder, "--json", tmp_path / "ranks.json")
    assert done.returncode == 2, done.stderr
    assert done.stdout == alone.out
    assert (tmp_path / "ranks.json").read_bytes() == (tmp_path / "alone.json").read_bytes()


@needs_mpi
def test_ranks_verify(captures):
    folder, _ = captures
    done = mpirun(2, "verify", folder)
    assert (done.returncode, done.stdout) == (0, "4 of 4 captures: every digest is right\n")


@needs_mpi
def test_bad_usage_ends_all_ranks(captures, tmp_path):
    folder, _ = captures
    done = mpirun(2, "run", folder, "--json", tmp_path / "no" / "where.json")
    assert done.returncode == 2 and "where.json" in done.stderr
    (tmp_path / "empty").mkdir()
    assert mpirun(2, "run", tmp_path / "empty").returncode != 0


@needs_mpi
def test_a_process_that_mpi_does_not_know(replay, captures):
    folder, _ = captures
    done = replay("run", folder, expect=3, env={**os.environ, "SLURM_STEP_NUM_TASKS": "2"})
    assert "2 processes were started together, but MPI does not know the others" in done.err


def test_without_the_library_of_mpi(captures, tmp_path):
    folder, _ = captures
    (tmp_path / "bin").mkdir()
    program = shutil.copy(REPLAY, tmp_path / "bin")
    done = subprocess.run([program, "run", folder], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PMI_SIZE": "2", "LD_LIBRARY_PATH": str(BUILD / "lib")})
    assert done.returncode == 3 and "built without MPI; install an MPI (Debian: libopenmpi-dev)" in done.stderr
