"""Recording of seeds: each seed that a program sets is in the capture, and the program is not disturbed."""

import datetime
import subprocess

import h5py
import pytest
from conftest import BUILD, said
from support.recording import environment, pytestmark, record, target  # noqa: F401

from msda_replay import read_capture, write_capture

SEEDER = BUILD / "stand_in" / "stand_in_seeder"


def alone(*actions):
    return subprocess.run([SEEDER, *actions], capture_output=True, text=True, timeout=60, env=environment())


def seeds_of(path):
    return [(seed["source"], seed["value"], seed["invocation"]) for seed in read_capture(path).run["seeds"]]


def record_seeds(tmp_path, *actions, **variables):
    """The seeds in the capture of these actions, which must print what they print without the recorder."""
    plain, done = alone(*actions), record(SEEDER, *actions, options=["-o", tmp_path / "a.h5"], **variables)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) and plain.returncode == 0, done.stderr
    return seeds_of(tmp_path / "a.h5"), done


@pytest.mark.parametrize("action, source, seed, value", [
    ("torch_cuda", "torch_cuda", 2**64 - 1, 2**64 - 1),
    ("torch_cpu", "torch_cpu", 42, 42),
    ("curand", "curand", 2**63 + 5, 2**63 + 5),
    ("linked_curand", "curand", 1234, 1234),
    ("srand", "libc", 7, 7),
    ("srandom", "libc", 2**32 - 1, 2**32 - 1),
    ("initstate", "libc", 9, 9),
    ("srand48", "libc", 2**40, 2**40),
    ("seed48", "libc", 0x123456789ABC, 0x123456789ABC),
    ("looked_up_srand", "libc", 11, 11),
])
@pytest.mark.parametrize("early", [True, False])
def test_what_a_source_sets(tmp_path, action, source, seed, value, early):
    """Before the first call, when there is no recording yet, and after it; the program's own generator gets it too."""
    actions = [f"{action}={seed}", "call=1"] if early else ["call=1", f"{action}={seed}"]
    recorded, done = record_seeds(tmp_path, *actions)
    assert recorded == [(source, value, 0 if early else 1)]
    assert said(done.stderr) == f"msda-record: {tmp_path / 'a.h5'}: 1 invocation\n"
    if action in ("torch_cpu", "torch_cuda", "curand", "linked_curand"):  # these print the generator's state
        assert f"{action}={seed} {seed} " in done.stdout


def test_order_and_environment(tmp_path, replay):
    before = datetime.datetime.now(datetime.timezone.utc)
    actions = ["srand=1", "torch_cpu=2", "torch_cuda=2", "call=1", "torch_cpu=3", "torch_cpu=3", "call=2", "call=2", "call=3", "srand48=4"]
    recorded, _ = record_seeds(tmp_path, *actions, PYTHONHASHSEED="77")
    # Equal seeds are events of their own; an equal call is not an invocation of its own.
    assert recorded == [("environment", 77, 0), ("libc", 1, 0), ("torch_cpu", 2, 0), ("torch_cuda", 2, 0), ("torch_cpu", 3, 1),
                        ("torch_cpu", 3, 1), ("libc", 4, 3)]
    capture = tmp_path / "a.h5"
    times = [datetime.datetime.fromisoformat(seed["time"].replace("Z", "+00:00")) for seed in read_capture(capture).run["seeds"][1:]]
    assert times == sorted(times) and (times[-1] - before).total_seconds() < 60 and (times[0] - before).total_seconds() > -1
    shown = replay("show", capture, expect=0).out
    assert "torch_cuda 2, before invocation 0\n" in shown and "libc 4, before invocation 3\n" in shown
    seeds = replay("show", capture, "--json", "-", expect=0).json["run"]["seeds"]
    assert [(seed["source"], seed["value"], seed["invocation"]) for seed in seeds] == recorded
    replay("verify", capture, expect=0)


def test_the_last_calls_only(tmp_path):
    """The invocation that a seed comes before is one that was kept."""
    actions = ["srand=1", "call=1", "srand=2", "call=2", "srand=3", "call=3", "srand=4"]
    record(SEEDER, *actions, options=["-o", tmp_path / "a.h5", "--keep", "last:1"])
    assert seeds_of(tmp_path / "a.h5") == [("libc", 1, 0), ("libc", 2, 0), ("libc", 3, 0), ("libc", 4, 1)]


def test_failures_are_the_programs_own(tmp_path):
    """Torch's exception passes through, cuRAND's status comes back; no seed was set, none is recorded."""
    recorded, done = record_seeds(tmp_path, "torch_cuda=666", "torch_cpu=666", "linked_curand=666", "call=1", "torch_cuda=666")
    assert recorded == [] and "torch_cuda=666 0 " in done.stdout


def test_two_torches_and_two_ways_to_curand(tmp_path):
    """Each generator is seeded by its own library."""
    actions = ["other_torch=1", "torch_cpu=2", "other_torch=3", "curand=4", "linked_curand=5", "curand=6", "call=1"]
    recorded, done = record_seeds(tmp_path, *actions)
    assert recorded == [("torch_cpu", 1, 0), ("torch_cpu", 2, 0), ("torch_cpu", 3, 0), ("curand", 4, 0), ("curand", 5, 0), ("curand", 6, 0)]
    for action in actions[:-1]:
        assert f"{action} {action[-1]} " in done.stdout


def test_many_seeds(tmp_path, replay):
    recorded, done = record_seeds(tmp_path, "srand=1*5000", "call=1")
    assert recorded == [("libc", seed, 0) for seed in range(905, 5001)]
    assert "only the last 4096 of the 5000 seeds set before the first recorded call are recorded" in done.stderr
    shown = replay("show", tmp_path / "a.h5", expect=0).out
    assert shown.count("before invocation") == 20 and "and 4076 more" in shown


def test_too_many_seeds(tmp_path):
    recorded, done = record_seeds(tmp_path, "call=1", "torch_cpu=1*3", "srand=1*300000", "call=2")
    assert len(recorded) == 100000 and recorded[3] == ("libc", 1, 1) and recorded[-1] == ("libc", 99997, 1)
    assert done.stderr.count("seeds are recorded") == 1 and "100000 seeds are recorded" in done.stderr
    assert len(read_capture(tmp_path / "a.h5").invocations) == 2


@pytest.mark.parametrize("parent_records", [True, False])
def test_a_forked_child_has_its_parents_seeds(tmp_path, parent_records):
    first = ["call=1"] if parent_records else []
    done = record(SEEDER, "srand=1", *first, "torch_cpu=2", "fork", "srand48=3", "call=2", options=["-o", "a.%p.h5"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    captures = [seeds_of(path) for path in tmp_path.glob("a.*.h5")]
    child = [("libc", 1, 0), ("torch_cpu", 2, 0), ("libc", 3, 0)]
    parent = [("libc", 1, 0), ("torch_cpu", 2, 1)]
    assert sorted(captures) == sorted([child, parent] if parent_records else [child])


def test_threads_seed_and_fork(tmp_path, target):
    """Threads that seed while others call and fork; nothing hangs, nothing is lost."""
    command = target("""
        import threading
        libc = ctypes.CDLL("libc.so.6")
        torch = ctypes.CDLL(os.environ["MSDA_BUILD"] + "/stand_in/libtorch_cpu.so").stand_in_manual_seed
        def seed(thread):
            for i in range(200):
                libc.srand(1000 * thread + i)
                assert torch(1000 * thread + i) == 1000 * thread + i
        threads = [threading.Thread(target=seed, args=(thread,)) for thread in range(4)]
        [thread.start() for thread in threads]
        for i in range(20):
            op.backward(make_inputs(**small, seed=i))
            child = os.fork()
            if child == 0:
                libc.srand(5)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        [thread.join() for thread in threads]
    """)
    done = record(*command, options=["-o", tmp_path / "a.h5"])
    assert done.returncode == 0, done.stderr
    expected = {1000 * thread + i for thread in range(4) for i in range(200)}
    recorded = seeds_of(tmp_path / "a.h5")
    for source in ("libc", "torch_cpu"):
        values = [value for name, value, _ in recorded if name == source]
        assert len(values) == len(expected) and set(values) == expected


def test_captures_without_invocation_numbers(tmp_path, replay, demo_capture):
    """Older files, whose table had three columns, and what Python writes."""
    run = {"argv": [], "seeds": [{"time": "2026-11-21T00:00:00.000Z", "source": "torch_cuda", "value": 2**64 - 1},
                                 {"time": "", "source": "libc", "value": 1, "invocation": 0}]}
    written = tmp_path / "written.h5"
    write_capture(written, read_capture(demo_capture).invocations, run)
    assert read_capture(written).run["seeds"] == run["seeds"]
    assert replay("show", written, "--json", "-", expect=0).json["run"]["seeds"] == run["seeds"]
    replay("verify", written, expect=0)
    with h5py.File(written, "a") as file:
        table = file["run/seeds"][()][["time", "source", "value"]].astype([("time", "S32"), ("source", "S24"), ("value", "<u8")])
        del file["run/seeds"]
        file["run/seeds"] = table
    for seed in run["seeds"]:
        seed.pop("invocation", None)
    assert read_capture(written).run["seeds"] == run["seeds"]
    assert replay("show", written, "--json", "-", expect=0).json["run"]["seeds"] == run["seeds"]
