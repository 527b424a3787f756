"""Captures that are damaged, hostile, old or still being written, and output that cannot be written."""

import fcntl
import json
import lzma
import os
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import BUILD, DATA, REPLAY, SOURCE
from support.damage import MOST_MEMORY, damage, most_memory, peak_memory, run
from support.problems import backward, make_problem

from msda_replay import Invocation, Result, write_capture
from msda_replay.digest import digest as digest_of

COMMANDS = ("list", "show", "run", "stages", "verify")
OLD = sorted((DATA / "v0.1").glob("*.h5"))


def unpack(name, folder):
    path = folder / f"{name}.h5"
    path.write_bytes(lzma.open(DATA / "attack" / f"{name}.h5.xz").read())
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small capture with a bit of everything."""
    rng = np.random.default_rng(5)
    inputs = make_problem(rng, queries=3, heads=1, channels=4, levels=((3, 2),))
    outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    before = {name: np.zeros_like(array) for name, array in outputs.items()}
    reference = {name: array.copy() for name, array in outputs.items()}
    reference["grad_value"][0, 1, 0, 2] += 0.5
    facts = {"grid": [1, 2, 3], "block": [32, 1, 1], "label": "a label", "duplicates": 2, "stream": 7}
    invocations = [
        Invocation(inputs, outputs, "msda_triton", kernel="kernel", outputs_before=before, atol=1e-3, rtol=1e-2, facts=facts,
                   results={"reference": Result(reference, "reference", "grid_sample", {"loss": 1.5})}),
        Invocation({"x": np.arange(6, dtype=np.float16)}, {"y": np.arange(4, dtype=np.uint8)}, "", kernel="another"),
    ]
    path = tmp_path_factory.mktemp("small") / "small.h5"
    write_capture(path, invocations, run={
        "argv": ["python", "t.py"], "environment": {"A": "b"}, "libraries": {"torch": "2.1"}, "host": "h",
        "seeds": [{"time": "t", "source": "libc", "value": 7, "invocation": 0}]})
    return path


# ---- captures of version 0.1


@pytest.mark.parametrize("path", OLD, ids=[path.name for path in OLD])
def test_captures_of_version_0_1_open_in_every_command(replay, path, tmp_path):
    assert "invocation" in replay("list", path, expect=0).out
    assert "sampling_locations" in replay("show", path, expect=0).out
    assert replay("run", path).status == (1 if path.name == "imported.h5" else 0)
    assert "pixel_coordinates" in replay("stages", path, expect=0).out
    out = replay("verify", path, expect=0).out
    assert "every digest is right" in out and "no list of contents" in out
    for command in COMMANDS:
        target = tmp_path / f"{command}.json"
        assert replay(command, path, "--json", target).status in (0, 1)
        assert json.loads(target.read_text())


# ---- files that crash libhdf5


@pytest.mark.parametrize("name", ("segv_h5a_close", "abort_free"))
@pytest.mark.parametrize("command", COMMANDS)
def test_a_crash_of_hdf5_is_status_2(replay, tmp_path, name, command):
    path = unpack(name, tmp_path)
    for options in ((), ("--json", "-"), ("--json", tmp_path / "a.json")):
        finished = replay(command, path, *options)
        assert finished.status in (0, 1, 2)
        if finished.status == 2 and command != "verify":
            assert len(finished.err.splitlines()) == 1
            assert str(path) in finished.err
            assert not (tmp_path / "a.json").exists()
    if command == "verify":
        assert finished.status == 2


def attribute_messages(data, name):
    """Where the attributes of this name lie: objects' headers of version 1 hold them so (HDF5 File Format, IV.A.2.m)."""
    head = rb"\x0c\x00..\x00\x00\x00\x00(\x01\x00" + re.escape(struct.pack("<H", len(name) + 1)) + rb"....)" + name.encode() + rb"\0"
    return [match.start(1) for match in re.finditer(head, data, re.DOTALL)]


# An attribute's lengths, and where they lie in it: longer ones lead out of it, where libhdf5 1.10 reads on.
LENGTHS = {"name": 2, "type": 4, "shape": 6}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name, owner", (
    ("count", "/invocations/000000/stages"),
    ("dialect", "/invocations/000000"),
    ("digest", "/invocations/000000/inputs/attention_weights")))
def test_an_attribute_that_leads_out_of_itself(replay, tmp_path, name, owner, length):
    path = tmp_path / "long.h5"
    shutil.copy(DATA / "v0.1" / "recorded.h5", path)
    with h5py.File(path) as file:
        start = h5py.h5o.get_info(file[owner].id).addr
    data = bytearray(path.read_bytes())
    at = next(at for at in attribute_messages(data, name) if at > start) + LENGTHS[length]
    data[at + 1] = 0x40
    path.write_bytes(data)
    for command in COMMANDS:
        for options in ((), ("--json", "-")):
            finished = replay(command, path, *options, expect=2)
            assert str(path) in finished.err and name in finished.err and owner in finished.err, (command, finished.err)
            assert command == "verify" or len(finished.err.splitlines()) == 1 and "record again" in finished.err


def test_an_attribute_of_a_stage_that_leads_out_of_itself(replay, tmp_path):
    """`list` says that there are stages, and reads none of their numbers."""
    path = unpack("run_segv", tmp_path)
    stage = "/invocations/000001/stages/"
    for command in ("show", "run", "stages", "verify"):
        for options in ((), ("--json", "-")):
            finished = replay(command, path, *options, expect=2)
            assert str(path) in finished.err and stage in finished.err and "attribute nan" in finished.err
    assert "stages summary" in replay("list", path, expect=0).out


def test_one_byte_of_a_datatype_is_noticed(replay, tmp_path):
    finished = replay("verify", unpack("verify0_one_byte", tmp_path), expect=2)
    assert "is damaged: its digest is" in finished.err


def test_the_reading_process_ends_with_the_command(demo_capture):
    """Killed in the middle of a long command, it leaves no process behind."""
    process = subprocess.Popen([REPLAY, "run", demo_capture, "--repeat", "100000"], stdout=subprocess.DEVNULL)
    children = []
    for _ in range(200):
        children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
        if children:
            break
        time.sleep(0.01)
    assert len(children) == 1
    process.kill()
    process.wait()
    for _ in range(500):
        if not os.path.exists(f"/proc/{children[0]}") or ") Z " in open(f"/proc/{children[0]}/stat").read():
            return
        time.sleep(0.01)
    raise AssertionError("the reading process is still there")


def test_an_interrupt_ends_it_as_usual(demo_capture):
    process = subprocess.Popen([REPLAY, "run", demo_capture, "--repeat", "100000"], stdout=subprocess.DEVNULL,
                               start_new_session=True)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == -signal.SIGINT


def random_damage(small, folder, seeds, every):
    """One command, text or JSON, on each damaged capture, or every one; returns how often each status came."""
    statuses = {}
    runs = [(command, options) for command in COMMANDS for options in ((), ("--json", "-"))]
    for seed in seeds:
        path = folder / "damaged.h5"
        damage(small if seed % 3 else OLD[seed % len(OLD)], path, seed)
        for command, options in runs if every else [runs[seed % len(runs)]]:
            status, out, err = run([REPLAY, command, path, *options])
            assert status in (0, 1, 2, 3), (seed, command, options, status, err)
            assert b"\x1b" not in out + err, (seed, command)
            if options and status < 2:
                json.loads(out)
            statuses[command, status] = statuses.get((command, status), 0) + 1
        path.unlink()
    return statuses


def test_a_length_that_no_text_has(replay, tmp_path, small):
    """4 GB for eight letters: the limit of the process that reads refuses it, with sanitizers as well."""
    data, path = small.read_bytes(), tmp_path / "b.h5"
    found = re.compile(rb"padding_mode\0.{28,36}?(\x05\0\0\0)(?=.{6}\0\0.\0\0\0)", re.DOTALL).search(data)
    path.write_bytes(data[:found.start(1)] + b"\xff" * 4 + data[found.end(1):])
    printed = replay("list", path, expect=2).err
    assert str(path) in printed and printed.count("\n") == 1
    assert peak_memory("sh", "-c", '"$0" list "$1"; true', REPLAY, path) < 3 << 20


@pytest.mark.long
def test_random_damage(small, tmp_path):
    """MSDA_FUZZ says how many captures, MSDA_FUZZ_FROM the first one's number, MSDA_FUZZ_EVERY=1 every command on each."""
    first, count = int(os.environ.get("MSDA_FUZZ_FROM", 0)), int(os.environ.get("MSDA_FUZZ", 300))
    statuses = random_damage(small, tmp_path, range(first, first + count), "MSDA_FUZZ_EVERY" in os.environ)
    print(sorted(statuses.items()))
    for command in COMMANDS:
        assert statuses.get((command, 2), 0) > 0
    sanitized = "asan" in str(REPLAY)
    assert sanitized or most_memory() < MOST_MEMORY


# ---- verify


def attribute_owners(file):
    owners = [file["/"]]
    file.visititems(lambda name, item: owners.append(item) if name != "contents" else None)
    return [owner for owner in owners if len(owner.attrs)]


def change_tensor_byte(path, places):
    with h5py.File(path) as file:
        datasets = []
        file.visititems(lambda name, item: datasets.append(item) if isinstance(item, h5py.Dataset) else None)
        ranges = [(d.id.get_offset(), d.id.get_storage_size()) for d in datasets if d.id.get_storage_size()]
    offset, size = places.choice(ranges)
    with open(path, "r+b") as file:
        file.seek(offset + places.randrange(size))
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ places.randrange(1, 256)]))


def change_attribute(path, places):
    with h5py.File(path, "r+") as file:
        owner = places.choice(attribute_owners(file))
        name = places.choice(sorted(owner.attrs))
        change = places.randrange(4)
        value = owner.attrs[name]
        if change == 0:
            del owner.attrs[name]
        elif change == 1:
            owner.attrs[name + "x"] = 1
        elif change == 2:
            another = name[:-1] + chr(ord(name[-1]) ^ 1)
            h5py.h5a.rename(owner.id, name.encode(), (another if another not in owner.attrs else name + "y").encode())
        elif isinstance(value, (str, bytes)):
            owner.attrs[name] = "x" + (value if isinstance(value, str) else value.decode())
        elif np.asarray(value).dtype == bool:
            owner.attrs[name] = not value
        elif np.asarray(value).dtype.kind in "if":
            owner.attrs.create(name, np.asarray(value) + 1)
        else:
            owner.attrs.create(name, "other")


def change_name(path, places):
    with h5py.File(path, "r+") as file:
        names = []
        file.visit(names.append)
        name = places.choice(names)
        change = places.randrange(3)
        if change == 0:
            del file[name]
        elif change == 1:
            another = name[:-1] + chr(ord(name[-1]) ^ 1)
            file.move(name, another if another not in file else name + "y")
        else:
            file.copy(name, name + "2")


def change_type(path, places):
    """The same numbers in another type or shape, with the digest that they have there."""
    from msda_replay.digest import digest

    with h5py.File(path, "r+") as file:
        datasets = []
        file.visititems(lambda name, item: datasets.append(name) if isinstance(item, h5py.Dataset) and "seeds" not in name else None)
        name = places.choice(datasets)
        data = file[name][()]
        if places.random() < 0.5:
            data = data.reshape(data.shape + (1,))
        else:
            data = data.astype(np.float64 if data.dtype != np.float64 else np.float32)
        attributes = {key: value for key, value in file[name].attrs.items() if key not in ("digest", "DIMENSION_LABELS")}
        del file[name]
        dataset = file.create_dataset(name, data=data)
        for key, value in attributes.items():
            dataset.attrs[key] = value
        dataset.attrs["digest"] = digest(data.tobytes())


@pytest.mark.parametrize("change", (change_tensor_byte, change_attribute, change_name, change_type))
def test_verify_notices_every_change(small, tmp_path, change):
    """MSDA_CHANGES says how many of each kind."""
    count = int(os.environ.get("MSDA_CHANGES", 40))
    path = tmp_path / "changed.h5"
    for seed in range(count):
        shutil.copy(small, path)
        change(path, random.Random(seed))
        status, _, err = run([REPLAY, "verify", path])
        assert status == 2, (change.__name__, seed, err)


def test_verify_names_what_differs(replay, small, tmp_path):
    path = tmp_path / "a.h5"

    def expect(change, *parts):
        shutil.copy(small, path)
        with h5py.File(path, "r+") as file:
            change(file)
        err = replay("verify", path, expect=2).err
        assert all(part in err for part in parts), err
        damaged = replay("verify", path, "--json", "-", expect=2).json
        assert damaged["has_list_of_contents"] and damaged["damaged"]

    call = "invocations/000000"
    expect(lambda f: f[call].attrs.__setitem__("label", "z"), f"/{call} has another attribute label than was written")
    expect(lambda f: f[call].attrs.__delitem__("label"), f"/{call} has lost its attribute label")
    expect(lambda f: f[call].attrs.__setitem__("new", 1), f"/{call} has an attribute new that was not written")
    expect(lambda f: f.attrs.__setitem__("created", "z"), "/ has another attribute created")
    expect(lambda f: f.__delitem__(call + "/inputs/value"), f"/{call}/inputs/value is missing")
    expect(lambda f: f.move(call + "/outputs", call + "/outputz"), "/outputs is missing", "/outputz was not written with the rest")
    expect(lambda f: f.__delitem__("contents"), "list of contents", "is damaged")
    expect(lambda f: f.attrs.__delitem__("contents"), "list of contents", "is damaged")
    expect(lambda f: f["contents"].__setitem__(20, 65), "list of contents", "is not what was written")
    out = replay("verify", small, expect=0).words
    assert "are as they were written" in out and "every digest is right" in out


def test_the_recorder_and_the_package_make_the_same_list(tmp_path):
    from msda_replay import contents

    path = tmp_path / "a.h5"
    subprocess.run([BUILD / "bin" / "msda-record", "-o", path, "--stages", "full", "--", BUILD / "bin" / "flaky_backward_test"],
                   capture_output=True)
    with h5py.File(path) as file:
        assert contents.text_of(file).decode() == bytes(file["contents"][()]).decode()


def test_a_file_of_another_byte_order_is_not_damaged(replay, small, tmp_path):
    """Digests are of the numbers as they are read, whatever the bytes' order in the file."""
    path = tmp_path / "big.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        name = "invocations/000000/inputs/value"
        data, digest = file[name][()], file[name].attrs["digest"]
        del file[name], file["contents"], file.attrs["contents"]
        file.create_dataset(name, data=data.astype(">f4")).attrs["digest"] = digest
    replay("verify", path, expect=0)


def test_packed_tensors_are_read_by_chunks(replay, rng, tmp_path):
    """As h5repack and h5py pack them; each was read in one piece."""
    path = tmp_path / "a.h5"
    numbers = rng.standard_normal((3, 5, 30, 2500)).astype(np.float32)
    zeros = np.zeros((1, 24, 1_000_000), np.float32)
    chunks = [(1, 2, 20, 700), (2, 5, 7, 1000), (1, 1, 1, 1333), (1, 3, 30, 2500), numbers.shape]
    write_capture(path, Invocation({**{f"x{i}": numbers for i in range(len(chunks))}, "zeros": zeros}, {}, "", kernel="k"))
    with h5py.File(path, "r+") as file:
        inputs = file["invocations/000000/inputs"]
        for i, shape in enumerate(chunks):
            pack(inputs, f"x{i}", numbers, shape)
        pack(inputs, "zeros", zeros, (1, 1, 250_000), compression="gzip")
    replay("verify", path, expect=0)
    assert peak_memory(REPLAY, "verify", "--quiet", path) < zeros.nbytes / 2 / 1024


def pack(group, name, array, chunks, **options):
    attributes = dict(group[name].attrs)
    del group[name]
    group.create_dataset(name, data=array, chunks=chunks, **options).attrs.update(attributes)


def test_a_capture_without_a_list_says_so(replay, small, tmp_path):
    path = tmp_path / "a.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        del file["contents"], file.attrs["contents"]
    out = replay("verify", path, expect=0).out
    assert "every digest is right" in out and "It has no list of contents" in out


# ---- being written


@pytest.mark.parametrize("command", COMMANDS)
def test_a_capture_being_written_is_told_as_such(replay, small, tmp_path, command):
    path = tmp_path / "a.h5"
    shutil.copy(small, path)
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = f"{os.getpid()} " in next((line for line in Path("/proc/locks").read_text().splitlines()
                                           if f":{path.stat().st_ino} " in line), "")  # not in an overlay, as containers have
        finished = replay(command, path, expect=2)
    writer = f"process {os.getpid()}" if known else "another process"
    assert finished.err == f"msda-replay: {path}: is being written by {writer}; wait until that ends\n"
    assert replay(command, path).status in (0, 1)


# ---- characters that must not reach a terminal


def test_control_characters_are_shown(replay, small, tmp_path):
    evil = "\x1b]0;pwned\x07\x1b[2J\nmsda-replay: every digest is right\r\u202e\x9b\x7f"
    path = tmp_path / "evil\x1b[31m.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        for name in ("invocations/000000", "run", "run/environment", "run/libraries", "invocations/000000/results/reference"):
            for key in list(file[name].attrs):
                if isinstance(file[name].attrs[key], str) and key not in ("dialect", "padding_mode", "role"):
                    file[name].attrs[key] = evil
            file[name].attrs["evil" + evil] = evil
        file["run"].attrs["argv"] = ["a", evil]
        file.attrs["created"] = file.attrs["tool_version"] = evil
        file.move("invocations/000000/results/reference", "invocations/000000/results/" + evil.replace("/", ""))
        file["invocations/000001/inputs"].move("x", "x" + evil.replace("/", ""))
    for command in COMMANDS:
        for options in ((), ("--json", "-")):
            status, out, err = run([REPLAY, command, path, *options])
            assert status in (0, 1, 2)
            text = (out + err).decode()
            assert not [c for c in text if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c == "\u202e")], command
            assert "\nmsda-replay: every digest is right" not in text
    with h5py.File(path, "r+") as file:
        file["invocations/000000"].attrs["dialect"] = evil
    for command in COMMANDS:
        status, out, err = run([REPLAY, command, path])
        assert b"\x1b" not in out + err and b"\x07" not in out + err
    assert "Grüße" in replay("list", tmp_path / "Grüße.h5", expect=2).err


# ---- output that cannot be written


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_cannot_be_written_fails(small, command):
    for options in ((), ("--json", "-"), ("--json", "/dev/full")):
        with open("/dev/full", "w") as full:
            out = subprocess.DEVNULL if options == ("--json", "/dev/full") else full
            done = subprocess.run([REPLAY, command, small, *options], stdout=out, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2, (command, options)
        assert len(done.stderr.splitlines()) == 1 and "cannot write" in done.stderr
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", REPLAY, command, small], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot write to standard output" in done.stderr


def test_help_that_cannot_be_written_fails():
    with open("/dev/full", "w") as full:
        for flag in ("--help", "--version"):
            assert subprocess.run([REPLAY, flag], stdout=full, stderr=subprocess.DEVNULL).returncode == 2


def test_json_files_appear_whole_or_not_at_all(replay, small, tmp_path):
    target = tmp_path / "a.json"
    target.touch()
    target.chmod(0o640)
    replay("show", small, "--json", target, expect=0)
    assert json.loads(target.read_text()) and stat.S_IMODE(target.stat().st_mode) == 0o640
    target.write_text(old := '{"capture": "old"}')
    limit = "ulimit -f 1; trap '' XFSZ; exec \"$@\" >/dev/null"
    done = subprocess.run(["bash", "-c", limit, "sh", REPLAY, "show", small, "--json", target], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and f"--json {target}: cannot write it" in done.stderr
    assert target.read_text() == old
    assert os.listdir(tmp_path) == ["a.json"]


def test_json_goes_into_pipes(small, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([REPLAY, "list", small, "--json", fifo], stdout=subprocess.DEVNULL)
    assert json.loads(fifo.read_text())
    assert process.wait() == 0 and stat.S_ISFIFO(fifo.stat().st_mode)
    done = subprocess.run([REPLAY, "verify", small, "--quiet", "--json", "/dev/stdout"], stdout=subprocess.PIPE)
    assert json.loads(done.stdout)["damaged"] == []


# ---- numbers


@pytest.mark.parametrize("arguments", (
    ("--device", "cuda:99999999999"), ("--device", "cuda:1x"), ("--device", "cuda:"), ("--device", "cuda:-1"),
    ("--atol", "1e-3abc"), ("--rtol", "1,5"), ("--invocation", "0x"), ("--invocation", "99999999999999999999"),
    ("--reference", "1x"), ("--repeat", "2x"), ("--repeat", "1e1"), ("--threads", "1 "), ("--seed", "-1"),
    ("--seed", "18446744073709551616"), ("--device-memory", "1XB"), ("--device-memory", "-1"), ("--device-memory", "1MBx"),
    ("--device-memory", "99999999T"), ("--block", "32x"), ("--block", "4294967328")))
def test_numbers_are_read_whole(replay, small, arguments):
    finished = replay("run", small, *arguments, expect=2)
    assert len(finished.err.splitlines()) == 1 and " ".join(arguments) in finished.err


def test_sizes_have_units(replay, small):
    for size in ("500000", "1MB", "64MiB", "2G", "0"):
        assert replay("run", small, "--device", "cpu", "--device-memory", size).status == 1


# ---- many calls


def test_many_small_calls(replay, tmp_path):
    """Reading them takes longer than a small file's limit of time, were it one for the whole file."""
    count = int(os.environ.get("MSDA_MANY", 300))
    call = Invocation({"x": np.arange(6, dtype=np.float16)}, {"y": np.arange(4, dtype=np.uint8)}, "", kernel="k")
    path = tmp_path / "many.h5"
    write_capture(path, [call] * count)
    assert len(re.findall(r"^ *\d+  \(no operator\), uint8, ", replay("list", path, expect=0).out, re.M)) == count
    assert f"{2 * count} datasets" in replay("verify", path, expect=0).words


def test_verify_holds_no_description_of_every_object(tmp_path):
    """50,000 recorded calls took more memory than their file's size allowed."""

    def peak(count):
        path = tmp_path / f"{count}.h5"
        write_capture(path, Invocation({"x": np.arange(6)}, {}, "", kernel="k"))
        with h5py.File(path, "r+") as file:
            inputs = file["invocations/000000/inputs"]
            for i in range(count):
                inputs[f"{i:0200}"] = inputs["x"]
            lines = bytes(file["contents"][()]).decode().splitlines(keepends=True)
            [line] = [line for line in lines if line.startswith("/invocations/000000/inputs/x ")]
            lines += [line.replace("/x ", f"/{i:0200} ") for i in range(count)]
            data = np.frombuffer("".join([lines[0], *sorted(lines[1:])]).encode(), np.uint8)
            del file["contents"]
            dataset = file.create_dataset("contents", data=data)
            dataset.attrs["digest"] = file.attrs["contents"] = digest_of(data.tobytes())
        return peak_memory(REPLAY, "verify", "--quiet", path)

    count = 6000
    assert peak(count) - peak(1) < 1.5 * count  # it was 2.1


def test_the_packages_table_of_attributes_is_the_formats():
    """tools/python's names of a call's facts, against recorder/capture/call_attributes.h."""
    import re

    from msda_replay import capture

    table = re.findall(r'visit\("(\w+)"', (SOURCE / "recorder/capture/call_attributes.h").read_text())
    wanted = set(table) - {"tolerance"} | {"atol", "rtol"}
    assert wanted == set(capture.FACTS) - {"adapter"} | set(capture._FIELDS) | {"padding_mode", "align_corners"}
