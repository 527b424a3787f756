"""msda-record --trail on the stand-in CUDA driver: rows, digests and what is learnt of launches, and that the program is left alone.

Digests are computed here from the bytes that the client prints.
"""

import json
import random
import re
import signal
import subprocess

import pytest
from conftest import BUILD, REPLAY
from support.full_disk import small_disk  # noqa: F401
from support.hostile import CLIENT as CALLING_CLIENT
from support.hostile_surveys import CLIENT as HOSTILE_CLIENT
from support.hostile_surveys import WORDS, run
from support.problems import recorder_digest
from support.recording import PRELOAD, RECORD, environment, pytestmark, record, wait_for  # noqa: F401
from support.waiting import wait_until

import msda_replay

STAND_IN = BUILD / "stand_in"
CLIENT = STAND_IN / "stand_in_trail_client"
HOOKS = ("driver", "cupti")
UNTIL_LEARNT = 64  # rows


def row_digest(parts):
    """Returns the digest of a row that wrote these bytes, by the number of the part."""
    total = 0
    for part, data in parts.items():
        digest = recorder_digest(data)
        x = int(digest[:16], 16) ^ int(digest[16:], 16) * 0x9E3779B97F4A7C15 % 2**64 ^ (part + 1) * 0xA0761D6478BD642F % 2**64
        x = (x ^ x >> 32) * 0xE7037ED1A0B428DB % 2**64
        total += x ^ x >> 29
    return total % 2**64


def trailed(capture, *words, client=CLIENT, options=(), hook="driver", **variables):
    """The client's trail, and what it printed: as without the recorder."""
    words = list(map(str, words))
    plain = subprocess.run([client, *words], capture_output=True, text=True, timeout=60, env=environment(**variables))
    done = record(client, *words, options=["--trail", "--hook", hook, "-o", capture, *map(str, options)], **variables)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) and plain.returncode == 0, plain.stderr + done.stderr
    trail = msda_replay.trail(capture)
    launches = sum(row.kind in ("launch", "graph") for row in trail)
    assert f"{capture}: a trail of {launches} launch{'' if launches == 1 else 'es'}\n" in done.stderr
    return trail, [(line.split()[0], line.split()[1]) for line in plain.stdout.splitlines()]


def compared(entry, another, *options):
    printed = subprocess.run([REPLAY, "diff", entry, another, "--json", "-", *options], capture_output=True, text=True, timeout=60)
    assert printed.returncode in (0, 1), printed.stderr
    return printed.returncode, json.loads(printed.stdout)


def work(trail):
    return [row for row in trail if row.kind != "fresh_memory"]


def data_of(said, *names):
    return [bytes.fromhex(data) for name, data in said if not names or name in names]


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_row_for_each_copy_set_and_launch(tmp_path, hook, asynchronous):
    trail, said = trailed(tmp_path / "a.h5", "rows", hook=hook, MSDA_STAND_IN_ASYNC=asynchronous)
    said = {name: bytes.fromhex(data) for name, data in said}
    fill, graph = "trail_fill", "CUDA graph of 1 kernels"
    expected = [
        ("copy_in", "", {0: said["copy_in"]}), ("copy_within", "", {0: said["copy_within"]}), ("set", "", {0: said["set"]}),
        ("set", "", {0: said["set_words"]}), ("launch", fill, {0: said["launch"]}), ("copy_in", "", {0: said["unified_in"]}),
        ("copy_out", "", {0: said["unified_out"]}), ("copy_within", "", {0: said["unified_within"]}), ("copy_in", "", {0: said["rows_in"]}),
        ("copy_out", "", {0: said["rows_out"]}), ("copy_within", "", {0: said["box_first"], 1: said["box_second"]}),
        ("graph", graph, {0: said["graph_first"], 16: said["graph_second"]}), ("copy_out", "", {0: said["copy_out"]})]
    found = [(row.kind, row.kernel["name"] if row.kernel else "", row.bytes, row.digest) for row in work(trail)]
    assert found == [(kind, kernel, sum(map(len, parts.values())), row_digest(parts)) for kind, kernel, parts in expected]
    assert trail.missing == 0 and [row.stream for row in work(trail)] == 11 * [0] + [1, 0]
    launch = next(row for row in trail if row.kind == "launch")
    assert launch.configuration == (4, 1, 1, 32, 1, 1, 0) and launch.parameters == b"Address!" + (16).to_bytes(4, "little") + (1000).to_bytes(4, "little")
    fresh = [row for row in trail if row.kind == "fresh_memory"]
    assert [(row.bytes, row.digest) for row in fresh] == 2 * [(64, row_digest({0: b"\xcd" * 64}))]


EQUAL = ["rows", "learns:200", "writes_again:90", "writes_addresses:150", "passes_padding", "orders_streams"]


@pytest.mark.parametrize("hook", HOOKS)
def test_equal_runs_are_equal_wherever_their_memory_lies(tmp_path, hook):
    """And whatever is in padding. `fresh_memory` holds the same in both."""
    for name, stray in (("a", 0), ("b", 1000), ("c", 123456)):
        trailed(tmp_path / f"{name}.h5", *EQUAL, hook=hook, STRAY=stray)
    for another in ("b", "c"):
        text = subprocess.run([REPLAY, "diff", tmp_path / "a.h5", tmp_path / f"{another}.h5"], capture_output=True, text=True).stdout
        assert text.startswith("Equal: "), text


def digest_of_parts(row, data):
    """The digest of the parts that the row lists. data: from the unit of 16 bytes on that holds the address."""
    parts = {}
    for text in row.parts.split():
        number, begin, end = map(int, re.fullmatch(r"(\d+)\+(\d+):(\d+)", text).groups())
        parts[number] = bytes(begin % 16) + data[begin:end]
    return row_digest(parts)


def check_learnt(trail, said, kernel, pointer=0):
    """The digest of each launch is that of the parts that it lists, whether it is learnt from or known."""
    launches = [row for row in trail if row.kind == "launch" and row.kernel["name"] == kernel]
    assert len(launches) == len(said)
    for row, data in zip(launches, said):
        assert row.digest == digest_of_parts(row, data[pointer:]), row
    return launches


def test_what_a_launch_writes_is_known_after_so_many_rows(tmp_path):
    """16 bytes behind the address of the allocation, of which 80 bytes are written."""
    trail, said = trailed(tmp_path / "a.h5", "learns:300")
    launches = check_learnt(trail, data_of(said), "trail_fill", pointer=16)
    first = launches[0].index
    # The second and the third of a number find in memory what they write, until others' parts are known to be theirs, too.
    before, after = ([row for row in launches if (row.index < first + UNTIL_LEARNT) == is_before] for is_before in (True, False))
    assert [row.parts for row in before[:6]] == 2 * ["0+0:80", "", ""]
    assert {row.parts for row in after[-100:]} <= {"0+0:80", ""}


def test_a_launch_that_writes_more_than_is_compared_at_first(tmp_path):
    trail, said = trailed(tmp_path / "a.h5", "writes_much:270")
    rows = [row for row in trail if row.kind == "launch"]
    assert rows[0].parts == f"0+0:{1 << 20}" and rows[-1].parts == f"0+0:{6 << 20}"
    assert int(said[0][1]) == (3 << 19) - 1 + 269 % 2
    numbers = b"".join((entry + 269 % 2).to_bytes(4, "little") for entry in range(3 << 19))
    assert rows[-1].digest == row_digest({0: numbers}) and rows[-2].digest == rows[-4].digest != rows[-1].digest


def test_numbers_beside_those_that_a_launch_writes_are_not_digested(tmp_path):
    """Neither where it is learnt from nor where it is known. They count as zeros."""
    digests = {}
    for stray in (1, 1 << 27):
        trail, said = trailed(tmp_path / f"{stray}.h5", "writes_beside:90", STRAY=stray)
        launches = [row for row in trail if row.kind == "launch"]
        assert {(row.parts, row.bytes) for row in launches} == {("0+4:24", 20)}
        digests[stray] = [row.digest for row in launches]
        assert digests[stray] == [digest_of_parts(row, data[16:]) for row, data in zip(launches, data_of(said))]
    assert digests[1] == digests[1 << 27]


def test_a_launch_that_first_writes_what_memory_holds(tmp_path):
    trail, said = trailed(tmp_path / "a.h5", "writes_again:100")
    launches = check_learnt(trail, data_of(said), "trail_fill")
    assert [row.parts for row in launches[:4]] == ["", "", "", "0+0:64"] and {row.parts for row in launches[3:]} == {"0+0:64"}


def test_a_later_larger_launch_is_digested_whole(tmp_path):
    """Launches of two sizes changed equally much: that does not make the size one that decides nothing."""
    trail, said = trailed(tmp_path / "a.h5", "writes_more:100")
    launches = [row for row in trail if row.kind == "launch"]
    (many,) = data_of(said, "many")
    assert {row.parts for row in launches[:-1]} == {"0+0:4"}
    assert launches[-1].parts == "0+0:2048" and launches[-1].digest == row_digest({0: many})


def test_padding_is_not_in_the_parameters(tmp_path):
    """A copy of a table of addresses counts as one without."""
    trails = [trailed(tmp_path / f"{stray}.h5", "passes_padding", STRAY=stray)[0] for stray in (1, 4096)]
    for entry, another in zip(*trails):
        assert (entry.parameters, entry.digest, entry.parts) == (another.parameters, another.digest, another.parts)
    launch = next(row for row in trails[0] if row.kind == "launch")
    assert launch.parameters == b"Address!" + bytes(8) + (16).to_bytes(4, "little") + bytes(4) + b"Address!"
    table = [row for row in trails[0] if row.kind == "copy_in"][1]
    assert table.digest == row_digest({0: b"Address!" + (17).to_bytes(8, "little") + b"Address!" + bytes(8)})


def test_a_value_of_the_host_that_changes(tmp_path):
    trail, said = trailed(tmp_path / "a.h5", "reads_host:80")
    host = [row for row in trail if row.kind == "host_memory"]
    assert [row.digest for row in host] == [row_digest({0: data}) for data in data_of(said, "host")]
    trailed(tmp_path / "b.h5", "reads_host:80", STRAY=100)
    status, printed = compared(tmp_path / "a.h5", tmp_path / "b.h5")
    first = json.dumps(printed)
    assert status == 1 and '"other_input"' in first and '"host_memory"' in first


def test_memory_of_the_host_that_is_registered_later(tmp_path):
    """A launch has had its address before, when the driver did not know it."""
    trail, said = trailed(tmp_path / "a.h5", "registers_host:5")
    assert [row.digest for row in trail if row.kind == "host_memory"] == [row_digest({0: data}) for data in data_of(said, "host")]


def test_memory_that_nobody_wrote(tmp_path):
    trail, said = trailed(tmp_path / "a.h5", "adds_to_fresh", STRAY=7)
    assert [row.kind for row in trail] == ["fresh_memory", "launch"]
    assert trail[0].digest == row_digest({0: (7).to_bytes(4, "little") + b"\xcd" * 60})
    trailed(tmp_path / "b.h5", "adds_to_fresh", STRAY=8)
    status, printed = compared(tmp_path / "a.h5", tmp_path / "b.h5")
    assert status == 1 and '"unwritten_memory"' in json.dumps(printed)


@pytest.mark.parametrize("word, unordered", [("orders_streams", []), ("leaves_streams", [1, 3])])
def test_streams_with_and_without_an_event(tmp_path, word, unordered):
    trail, _ = trailed(tmp_path / "a.h5", word)
    launches = [row for row in trail if row.kind == "launch"]
    assert [row.stream for row in launches] == [1, 2, 1, 2]
    assert [place for place, row in enumerate(launches) if row.is_unordered] == unordered


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("hook", HOOKS)
def test_each_digest_is_of_what_its_launch_left(tmp_path, hook, asynchronous):
    """Though the next launch, copy or memset overwrites that, maybe in another stream, and several launches are digested at once."""
    trail, said = trailed(tmp_path / "a.h5", "hands_over:50", hook=hook, MSDA_STAND_IN_ASYNC=asynchronous)
    launches = [row for row in trail if row.kind == "launch"]
    assert [row.digest for row in launches] == [row_digest({0: data}) for data in data_of(said)]
    assert len(launches) == 600 and sum(row.parts is not None for row in launches) > 450


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_threads(tmp_path, asynchronous):
    """Each thread's launches are in its order, and each adds 3 to its own number."""
    trail, said = trailed(tmp_path / "a.h5", "threads:100", MSDA_STAND_IN_ASYNC=asynchronous)
    assert said == 4 * [("thread", "300")]
    launches = [row for row in trail if row.kind == "launch"]
    assert len(launches) == 400 and trail.missing == 0
    for stream in {row.stream for row in launches}:
        mine = [row for row in launches if row.stream == stream]
        assert [row.digest for row in mine] == [row_digest({0: (3 * i).to_bytes(4, "little")}) for i in range(1, 101)]


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_memory_that_is_unmapped_is_not_read_any_more(tmp_path, asynchronous):
    """Though it was two mappings, and what was under way looks at it; and launches that write on behind one are digested whole."""
    trail, said = trailed(tmp_path / "a.h5", "maps:90", MSDA_STAND_IN_ASYNC=asynchronous)
    launches = [row for row in trail if row.kind == "launch"]
    assert len(launches) == 90 + 1 + 90 and trail.missing == 0
    assert launches[0].parts == f"0+4:{1 << 17}" and launches[0].digest is not None
    assert {row.parts for row in launches[-90:]} == {"0+0:12", "0+0:16"} and all(row.digest is not None for row in launches[-90:])


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_equal_launches_on_memory_that_is_mapped_again(tmp_path, asynchronous):
    """What was found out about a launch does not outlive the memory: the next one is fresh, and holds other data."""
    trail, said = trailed(tmp_path / "a.h5", "maps_again:90", MSDA_STAND_IN_ASYNC=asynchronous)
    launches = [row for row in trail if row.kind == "launch"]
    assert [row.digest for row in launches] == [digest_of_parts(row, data) for row, data in zip(launches, data_of(said, "copied"))]
    assert {row.parts for row in launches} == {"0+0:4"} and len({row.parameters for row in launches}) == 1
    fresh = [row.digest for row in trail if row.kind == "fresh_memory"]
    mapped = [row_digest({0: data}) for data in data_of(said, "mapped")]
    assert len(mapped) == 3 and [digest for digest in fresh if digest in mapped] == mapped


def test_only_kernels_that_are_asked_for(tmp_path):
    trail, _ = trailed(tmp_path / "a.h5", "rows", "reads_host:3", options=["--kernel", "read_host"])
    assert {row.kernel["name"] for row in trail if row.kind == "launch"} == {"survey_read_host"}


def test_by_a_preload_alone(tmp_path):
    plain = subprocess.run([CLIENT, "rows"], capture_output=True, text=True, env=environment())
    done = subprocess.run([CLIENT, "rows"], capture_output=True, text=True, timeout=60,
                          env=environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_TRAIL=1, MSDA_RECORD_OUTPUT=tmp_path / "a.h5"))
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    wait_for(tmp_path / "a.h5")
    assert len(work(msda_replay.trail(tmp_path / "a.h5"))) == 13


@pytest.mark.parametrize("another", ["--survey", "--digest-only"])
def test_what_a_trail_does_not_go_with_is_told(tmp_path, another):
    done = record(CLIENT, "rows", options=["--trail", another, "-o", tmp_path / "a.h5"])
    assert done.returncode != 0 and f"--trail with {another}: " in done.stderr and not done.stdout and not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", WORDS)
def test_is_as_without_the_trail(tmp_path, word):
    """Contexts that end, code that is unloaded, forks, faults, closed descriptors."""
    plain = run(tmp_path / "plain", [HOSTILE_CLIENT, word])
    done = run(tmp_path / "under", [RECORD, "--trail", "--hook", "driver", "-o", "a.h5", "--", HOSTILE_CLIENT, word])
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (0, WORDS[word]), done.stderr
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "under").iterdir() if not path.name.startswith("a.")} == files
    trail = msda_replay.trail(tmp_path / "under" / "a.h5")
    assert sum(row.kind in ("launch", "graph") for row in trail) > 0


@pytest.mark.parametrize("words", [["reaches_the_other_device:4"], ["exports_memory:4"], ["imports_memory:4"], ["launches_a_graph_of_two_contexts:3"],
                                   ["awaits_the_host:50"], ["awaits_a_stream:20"], ["launches_beside_a_host_function:500"],
                                   ["launches_beside_a_value:500"], ["launches_beside_an_event:500"], ["takes_long:300"]], ids=lambda words: words[0].split(":")[0])
def test_nothing_waits_for_ever(tmp_path, words):
    plain = run(tmp_path / "plain", [HOSTILE_CLIENT, *words])
    done = run(tmp_path / "under", [RECORD, "--trail", "--hook", "driver", "-o", "a.h5", "--", HOSTILE_CLIENT, *words])
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stderr


def test_memory_of_another_device_is_not_read(tmp_path):
    """It may be out of reach: such a launch has a row, with nothing of that memory."""
    done = run(tmp_path / "under", [RECORD, "--trail", "--hook", "driver", "-o", "a.h5", "--", HOSTILE_CLIENT, "reaches_the_other_device:4"])
    assert done.returncode == 0, done.stderr
    changed = [row for row in msda_replay.trail(tmp_path / "under" / "a.h5") if row.kind == "launch" and row.kernel["name"] == "tiny_kernel"]
    assert len(changed) == 4 and {(row.parts, row.bytes) for row in changed} == {("", 0)}


@pytest.mark.parametrize("hook", HOOKS)
def test_what_was_learnt_of_code_outlives_its_being_unloaded(tmp_path, hook):
    """It writes what memory holds: a launch that is learnt from anew has no parts."""
    trail, said = trailed(tmp_path / "a.h5", "unloads:200", hook=hook)
    launches = check_learnt(trail, data_of(said), "trail_fill")
    assert [row.parts for row in launches] == ["0+0:64"] + 63 * [""] + 136 * ["0+0:64"]
    assert trail[-1].kernel["name"] == "tiny_kernel"


def test_what_a_context_learnt_stays_when_another_ends(tmp_path):
    """Launches of the first context are digested as before."""
    done = run(tmp_path / "under", [RECORD, "--trail", "--hook", "driver", "-o", "a.h5", "--", HOSTILE_CLIENT, "makes_contexts:5"])
    assert done.returncode == 0, done.stderr
    sums = [row for row in msda_replay.trail(tmp_path / "under" / "a.h5") if row.kind == "launch" and row.kernel["name"] == "survey_drawn_sum"]
    assert len(sums) == 5 and all(row.digest is not None and row.bytes == 4 for row in sums)


def test_addresses_are_known_when_another_context_has_ended(tmp_path):
    trail, said = trailed(tmp_path / "a.h5", "ends_a_context:5")
    launches = [row for row in trail if row.kind == "launch"]
    assert [row.digest for row in launches] == [digest_of_parts(row, (1).to_bytes(8, "little") + data) for row, data in zip(launches, data_of(said))]


@pytest.mark.parametrize("words", [
    ["plain"], ["closes_descriptors"], ["reuses_descriptors_as_sockets"], ["closes_standard_streams", "0", "1", "2"],
    ["starts_a_program_that_is_not_there"], ["counts_children"], ["tells_ignored_signals"], ["limits_file_sizes", "100"],
    ["limits_descriptors"], ["uses_all_descriptors"], ["forks_amidst_calls", "10"], ["ends", "quick_exit"], ["ends", "exit_group"],
], ids="-".join)
def test_calls_without_launches_are_as_without_the_trail(tmp_path, words):
    plain = run(tmp_path / "plain", [CALLING_CLIENT, *words])
    done = run(tmp_path / "under", [RECORD, "--trail", "-o", "a.h5", "--", CALLING_CLIENT, *words])
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stderr


@pytest.mark.parametrize("client, words", [
    ("stand_in_client", ["--seed", "3"]), ("stand_in_unwritten_client", ["dependent", "independent", "partial", "copied"]),
    ("stand_in_graph_client", ["launches"]), ("stand_in_graph_client", ["captured"]), ("stand_in_graph_client", ["nodes"]),
    ("stand_in_survey_client", ["twice", "fixed", "follow", "count", "read", "number"]),
], ids=lambda value: value if isinstance(value, str) else "-".join(value))
@pytest.mark.parametrize("hook", HOOKS)
def test_other_programs_are_as_without_the_trail(tmp_path, client, words, hook):
    plain = subprocess.run([STAND_IN / client, *words], capture_output=True, text=True, timeout=60, env=environment())
    done = record(STAND_IN / client, *words, options=["--trail", "--hook", hook, "-o", tmp_path / "a.h5"])
    if "sum" in plain.stdout and client == "stand_in_graph_client":  # in an order that is drawn
        keep = [line for line in plain.stdout.splitlines() if not line.startswith("sum")]
        assert [line for line in done.stdout.splitlines() if not line.startswith("sum")] == keep
    else:
        assert done.stdout == plain.stdout
    assert done.returncode == plain.returncode == 0, done.stderr


@pytest.mark.parametrize("words, status", [(["exits_beside_a_thread:40"], 5), (["exits_from_a_handler:300000"], 7), (["ends_from_a_handler:300000"], 7),
                                           (["raises:11"], 128 + 11), (["limits_file_sizes:20000"], 0)], ids=lambda value: value[0].split(":")[0] if isinstance(value, list) else "")
def test_ends(tmp_path, words, status):
    done = run(tmp_path / "under", [RECORD, "--trail", "--hook", "driver", "-o", "a.h5", "--", HOSTILE_CLIENT, *words])
    assert done.returncode == status, done.stderr
    if words[0].startswith("exits_beside"):  # a handler may have interrupted the recorder, which then loses the last second
        assert any(row.kind == "launch" for row in msda_replay.trail(tmp_path / "under" / "a.h5"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed(tmp_path, number):
    """What it launched until a second or so before is in the trail."""
    process = subprocess.Popen([RECORD, "--trail", "--hook", "driver", "-o", "a.h5", "--", CLIENT, "runs_on"], cwd=tmp_path, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True)
    for _ in range(9000):
        assert process.stdout.readline() == "x\n"
    subprocess.run(["pkill", f"-{int(number)}", "-s", str(process.pid), "-x", CLIENT.name[:15]], check=True)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + number, errors
    rows = [row for row in msda_replay.trail(tmp_path / "a.h5") if row.kind == "launch"]
    assert len(rows) >= 4096 - 2 and all(row.digest is not None for row in rows[:4000])


def recovered(spool, capture):
    done = subprocess.run([REPLAY, "recover", spool, "-o", capture, "--force"], capture_output=True, text=True, timeout=60)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def without_writer(capture):
    return environment(LD_PRELOAD=PRELOAD, MSDA_RECORD_TRAIL=1, MSDA_RECORD_OUTPUT=capture, MSDA_RECORD_WRITER="/bin/true")


def test_a_spool_that_ends_anywhere_is_a_trail_as_far_as_it_goes(tmp_path):
    """Program and writer were killed, at whatever moment: what is recovered is equal to the run that went on."""
    process = subprocess.Popen([CLIENT, "runs_on"], stdout=subprocess.PIPE, text=True, env=without_writer(tmp_path / "a.h5"))
    for _ in range(13000):
        assert process.stdout.readline() == "x\n"
    process.kill()
    process.wait()
    spool, part, whole = tmp_path / "a.h5.spool", tmp_path / "b.h5.spool", tmp_path / "whole.h5"
    data = spool.read_bytes()
    status, text = recovered(spool, whole)
    rows = msda_replay.trail(whole).rows
    launches = (rows["kind"] == 0).sum()
    assert status == 0 and launches >= 3 * 4096 - 2
    assert text.startswith(f"{whole}: a trail of {launches} launches, which ended early")
    draw, compared_launches = random.Random(1), set()
    for length in [0, 20, *(int((i + draw.random()) * len(data) / 12) for i in range(12))]:
        part.write_bytes(data[:length])
        status, text = recovered(part, tmp_path / "b.h5")
        if status != 0:
            assert "holds no complete invocation" in text
            continue
        found = msda_replay.trail(tmp_path / "b.h5").rows
        assert (found == rows[:len(found)]).all() and "ended early" in text
        if not (found["kind"] == 0).any():
            continue
        for a, b in ((tmp_path / "b.h5", whole), (whole, tmp_path / "b.h5")):
            status, printed = compared(a, b)
            assert status == 0 and printed["compared"]["ended_early"] == 2
        compared_launches.add(printed["compared"]["launches"])
    assert len(compared_launches) >= 2


def test_a_trail_whose_writer_alone_was_killed_is_complete(tmp_path):
    plain = subprocess.run([CLIENT, "learns:100"], capture_output=True, text=True, env=environment())
    done = subprocess.run([CLIENT, "learns:100"], capture_output=True, text=True, env=without_writer(tmp_path / "a.h5"))
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert recovered(tmp_path / "a.h5.spool", tmp_path / "b.h5") == (0, f"{tmp_path / 'b.h5'}: a trail of 100 launches")
    trailed(tmp_path / "c.h5", "learns:100")
    status, printed = compared(tmp_path / "b.h5", tmp_path / "c.h5")
    assert status == 0 and "ended_early" not in printed["compared"]


def test_no_room_for_the_trail(tmp_path):
    """The spool, which has room, keeps it."""
    writer = tmp_path / "writer"
    writer.write_text(f"#!/bin/sh\nulimit -S -f 64\nexec {RECORD} \"$@\"\n")
    writer.chmod(0o755)
    with open(tmp_path / "stderr", "w+") as stderr:
        process = subprocess.run([CLIENT, "learns:3000"], stdout=subprocess.DEVNULL, stderr=stderr,
                                 env={**without_writer(tmp_path / "a.h5"), "MSDA_RECORD_WRITER": str(writer)})
        assert process.returncode == 0
        wait_until(lambda: "FILE gets what was recorded" in (tmp_path / "stderr").read_text())
    assert f"{tmp_path / 'a.h5'}: no room on its disk for the trail; msda-replay recover " in (tmp_path / "stderr").read_text()
    assert not (tmp_path / "a.h5").exists()
    assert recovered(tmp_path / "a.h5.spool", tmp_path / "b.h5") == (0, f"{tmp_path / 'b.h5'}: a trail of 3000 launches")


def test_a_full_disk(small_disk):  # noqa: F811
    (small_disk / "others").write_bytes(bytes((2 << 20) - 20_000))
    plain = subprocess.run([CLIENT, "learns:2000"], capture_output=True, text=True, timeout=60, env=environment())
    done = record(CLIENT, "learns:2000", options=["--trail", "--hook", "driver", "-o", small_disk / "a.h5", "--max-bytes", "1GB"])
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("refused", ["msda_record_digest", "msda_record_changed", "msda_record_save", "msda_record"])
def test_a_driver_that_refuses_the_recorders_kernels(tmp_path, refused):
    """Rows without digests; nothing else."""
    trail, _ = trailed(tmp_path / "a.h5", "learns:100", MSDA_STAND_IN_REFUSED=refused)
    launches = [row for row in trail if row.kind == "launch"]
    assert len(launches) == 100 and any(row.digest is None for row in trail)
    if refused != "msda_record_digest":
        assert all(row.digest is None for row in launches)


def test_no_memory_for_the_recorder(tmp_path):
    trail, _ = trailed(tmp_path / "a.h5", "rows", MSDA_STAND_IN_MEMORY=1 << 20)
    assert len(work(trail)) == 13 and all(row.digest is None for row in trail if row.kind == "launch")
