"""msda_replay.trail, and receipts as trails: what is written is read, also by the command, and damage is named."""

import copy
import json

import h5py
import numpy as np
import pytest

import msda_replay
from msda_replay.digest import digest
from msda_replay.receipts import Receipt, read_receipt

COLUMNS = {"kind": "u1", "flags": "u1", "stream": "<u2", "kernel": "<u4", "configuration": "<u4", "parameters": "<u4", "caller": "<u4",
           "parts": "<u4", "bytes": "<u8", "digest": "<u8"}
NONE = 0xFFFFFFFF


def write(path, lists=None, **changed):
    """A trail of three rows, by h5py alone, as docs/capture-format.md describes it."""
    columns = {"kind": [0, 2, 7], "flags": [1, 0, 7], "stream": [0, 1, 65535], "kernel": [1, NONE, 0], "configuration": [0, NONE, NONE],
               "parameters": [1, NONE, 0], "caller": [NONE, 0, NONE], "parts": [NONE, 0, NONE], "bytes": [8, 1 << 40, 0],
               "digest": [1, 2, 0xFFFFFFFFFFFFFFFF]}
    lists = lists or {"kernels": [{"name": "a"}, {"name": "b", "digest": "xxh3-128:1", "architecture": "sm_90", "facts": {"float_atomics": 2}}],
                      "configurations": [[1, 2, 3, 4, 5, 6, 7]], "callers": [{"python": "t.py:3 step"}], "parts": ["inputs/x"]}
    data = {name: np.array(columns[name], dtype) for name, dtype in COLUMNS.items()}
    data |= {"names": np.frombuffer(json.dumps(lists).encode(), "u1"), "parameter_bytes": np.arange(20, dtype="u1"),
             "parameter_ends": np.array([8, 20], "<u8"), "changes_row": np.array([0, 0], "<u8"), "changes_offset": np.array([0, 8], "<u4"),
             "changes_word": np.array([0x1122334455667788, 0xAABBCCDD], "<u8")}
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["format_version"] = "msda-capture", 1
        group = file.create_group("trail")
        group.attrs["missing"] = changed.pop("missing", 4)
        for name, column in {**data, **changed}.items():
            if column is not None:
                group[name] = column
    return path


def test_rows_have_their_names(tmp_path):
    trail = msda_replay.trail(write(tmp_path / "a.h5"))
    assert (len(trail), trail.missing, repr(trail)) == (3, 4, "<trail: 3 rows, 2 kernels>")
    launch, copied, fresh = trail
    assert (launch.kind, launch.kernel["name"], launch.kernel["facts"], launch.digest) == ("launch", "b", {"float_atomics": 2}, 1)
    assert launch.configuration == (1, 2, 3, 4, 5, 6, 7) and launch.caller == {} and launch.parts == ""
    # Bytes 8 to 19: two words are others, the second of which is cut off by the end.
    assert launch.parameters == bytes.fromhex("8877665544332211" "ddccbbaa")
    assert (copied.kind, copied.kernel, copied.digest, copied.bytes, copied.parameters) == ("copy_in", {}, None, 1 << 40, None)
    assert copied.caller == {"python": "t.py:3 step"} and copied.parts == "inputs/x" and not copied.measures
    assert (fresh.kind, fresh.parameters, fresh.digest, fresh.stream) == ("fresh_memory", bytes(range(8)), 2**64 - 1, 65535)
    assert fresh.measures and fresh.is_unordered
    assert trail[-1] == fresh and trail[1:] == [copied, fresh]
    assert trail.rows["digest"].tolist() == [1, 2, 2**64 - 1] and trail.rows.dtype["stream"] == np.uint16
    for place in (3, -4):
        with pytest.raises(IndexError):
            trail[place]


@pytest.mark.parametrize("changed, why", [
    ({"kind": None}, "kind is missing"),
    ({"kind": np.zeros(4, "u1")}, "columns of 3 and 4 rows"),
    ({"kind": np.array([0, 1, 9], "u1")}, "rows of no known kind"),
    ({"digest": np.zeros(3, "<i8")}, "digest is no list of uint64"),
    ({"stream": np.zeros((3, 1), "<u2")}, "stream is no list of uint16"),
    ({"kernel": np.array([0, 1, 2], "<u4")}, "kernel has indices beyond its 2 entries"),
    ({"parameters": np.array([0, 1, 2], "<u4")}, "parameters has indices beyond its 2 entries"),
    ({"parameter_ends": np.array([8, 21], "<u8")}, "parameter_ends does not divide 20 bytes"),
    ({"parameter_ends": np.array([1 << 63, 20], "<u8")}, "parameter_ends does not divide 20 bytes"),
    ({"changes_row": np.array([0, 3], "<u8")}, "changes_row, cannot be"),
    ({"changes_row": np.array([1, 0], "<u8")}, "changes_row, cannot be"),
    ({"changes_offset": np.array([0, 12], "<u4")}, "changes_offset lies beyond the row's parameters"),
    ({"changes_row": np.array([0, 1], "<u8")}, "changes_offset lies beyond the row's parameters"),
    ({"missing": -1}, "missing, or changes_row, cannot be"),
    ({"names": np.frombuffer(b"{", "u1")}, "names cannot be read"),
    ({"names": np.frombuffer(b"[" * 100_000, "u1")}, "names cannot be read"),
    ({"lists": {"kernels": [1], "configurations": [], "callers": [], "parts": []}}, "names cannot be read"),
    ({"lists": {"kernels": [], "configurations": [[1]], "callers": [], "parts": []}}, "names cannot be read"),
    ({"lists": {"kernels": [], "configurations": [], "callers": []}}, "names cannot be read"),
    ({"missing": "x"}, "attribute missing is not a number")])
def test_damage_is_named(tmp_path, changed, why):
    with pytest.raises(msda_replay.CaptureError, match=why) as error:
        msda_replay.trail(write(tmp_path / "a.h5", **changed))
    assert str(tmp_path / "a.h5") in str(error.value)


def test_hostile_sizes_are_refused(tmp_path):
    write(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        del file["trail/digest"]
        file["trail"].create_dataset("digest", (1 << 50,), "<u8", chunks=(1 << 10,), compression="gzip")
    with pytest.raises(msda_replay.CaptureError, match="declares"):
        msda_replay.trail(tmp_path / "a.h5")


def test_a_capture_without_one(tmp_path, demo_capture):
    with pytest.raises(msda_replay.CaptureError, match="has no trail; record one: msda-record --trail"):
        msda_replay.trail(demo_capture)
    with pytest.raises(ValueError, match="a.h5: not a receipt"):
        read_receipt(write(tmp_path / "a.h5"))


def digest_of(word):
    return digest(word.encode())


def calls():
    """As deterministic operators make them; one has no inputs, one no outputs, and options and parts are shared."""
    made = calls_without_sizes()
    for i, call in enumerate(made):
        call["bytes"] = {f"{role}/{name}": 4 * i + len(name) for role in ("inputs", "outputs") for name in call[role]}
    return made


def calls_without_sizes():
    shape = {"input": "float32 [2, 3]", "align_corners": False}
    return [
        {"operator": "grid_sample_backward", "options": {"padding_mode": "zeros", **shape},
         "inputs": {"input": digest_of("i"), "grid": digest_of("g")}, "outputs": {"grad_input": digest_of("gi"), "grad_grid": digest_of("gg")}},
        {"operator": "grid_sample_backward", "options": {"padding_mode": "zeros", **shape},
         "inputs": {"input": digest_of("j"), "grid": digest_of("g")}, "outputs": {"grad_grid": digest_of("gh")}},
        {"operator": "draw", "options": {}, "inputs": {}, "outputs": {"a": digest_of("a"), "b": digest_of("b")}},
        {"operator": "draw", "options": {}, "inputs": {}, "outputs": {"a": digest_of("a"), "b": digest_of("b")}},
        {"operator": "index_add", "options": {"dim": 0, "name": "\u00e9"}, "inputs": {"source": digest_of("s")}, "outputs": {}},
        {"operator": "index_add", "options": {"dim": 0, "name": "\u00e9"}, "inputs": {"source": digest_of("s")}, "outputs": {}},
    ]


def test_a_receipt_is_a_trail(replay, tmp_path):
    entry = Receipt(calls())
    for name in ("a.h5", "a.json"):
        entry.write(tmp_path / name)
    read, as_json = read_receipt(tmp_path / "a.h5"), read_receipt(tmp_path / "a.json")
    assert as_json.calls == entry.calls and read == entry == as_json and entry.difference(read) is read.difference(entry) is None
    for own, written in zip(read.calls, entry.calls, strict=True):
        assert own["operator"] == written["operator"] and own["options"] == written["options"]
        for role in ("inputs", "outputs"):
            assert own[role] == {name: text[:9 + 16] for name, text in written[role].items()}
            assert list(own[role]) == list(written[role])
        assert own["bytes"] == written["bytes"]
    rows = list(msda_replay.trail(tmp_path / "a.h5"))
    assert [row.kind for row in rows] == ["copy_in"] * 2 + ["call"] * 2 + ["copy_in"] * 2 + ["call"] * 5 + ["copy_in", "call"] * 2
    older = Receipt(calls_without_sizes())
    older.write(tmp_path / "older.h5")
    assert older == entry and read_receipt(tmp_path / "older.h5") == entry
    assert rows[3].parts == "outputs/grad_grid" and rows[3].bytes == len("grad_grid") and rows[3].digest == int(digest_of("gg")[9:25], 16)
    assert all(len(row.parameters) % 8 == 0 for row in rows if row.parameters is not None)
    # The command reads the same file, and all of it is as it was written.
    assert "16 datasets, every digest is right" in replay("verify", tmp_path / "a.h5", expect=0).words
    entry.write(tmp_path / "a.h5")  # replaces it, and no file that is no capture
    (tmp_path / "text.h5").write_text("mine")
    with pytest.raises(msda_replay.CaptureError, match="text.h5: is no capture"):
        entry.write(tmp_path / "text.h5")
    assert (tmp_path / "text.h5").read_text() == "mine"


def changes():
    """The receipt of a list of calls, and the first difference."""
    def put(i, role, name, value):
        return lambda calls: calls[i][role].__setitem__(name, value)

    return {
        "none": (lambda calls: None, None),
        "operator": (lambda calls: calls[1].__setitem__("operator", "other"), "call 1 is grid_sample_backward here, other there"),
        "input": (put(1, "inputs", "grid", digest_of("x")), "call 1 (grid_sample_backward): inputs differ: grid"),
        "output": (put(0, "outputs", "grad_grid", digest_of("x")), "call 0 (grid_sample_backward): outputs differ: grad_grid"),
        "of no inputs": (put(3, "outputs", "b", digest_of("x")), "call 3 (draw): outputs differ: b"),
        "more outputs": (put(1, "outputs", "grad_input", digest_of("x")), "call 1 (grid_sample_backward): outputs differ: grad_input"),
        "options": (lambda calls: (put(1, "options", "padding_mode", "border")(calls), put(1, "outputs", "grad_grid", digest_of("x"))(calls)),
                    "call 1 (grid_sample_backward): options differ: padding_mode"),
        "options alone": (put(1, "options", "padding_mode", "border"), None),
        "fewer": (lambda calls: calls.pop(), "6 calls here, 5 there"),
    }


@pytest.mark.parametrize("name", changes())
def test_the_first_difference_of_receipts(tmp_path, name):
    change, sentence = changes()[name]
    another = copy.deepcopy(calls())
    change(another)
    entry, two = Receipt(calls()), Receipt(another)
    assert entry.difference(two) == sentence
    for suffixes in (("h5", "h5"), ("h5", "json"), ("json", "h5")):
        files = [tmp_path / f"{i}.{suffix}" for i, suffix in enumerate(suffixes)]
        entry.write(files[0])
        two.write(files[1])
        assert read_receipt(files[0]).difference(read_receipt(files[1])) == sentence, suffixes
    assert (entry == two) == (name == "none")


@pytest.mark.parametrize("change", [
    {"kind": np.array([2, 0], "u1")}, {"kind": np.array([8, 2], "u1")}, {"parameters": np.array([NONE, NONE], "<u4")},
    {"kernel": np.array([0, NONE], "<u4")}, {"parts": np.array([1, 0], "<u4")}, {"parameter_bytes": np.frombuffer(b"nonsense", "u1")}])
def test_trails_that_are_no_receipts(tmp_path, change):
    path = tmp_path / "a.h5"
    Receipt([{"operator": "o", "options": {}, "inputs": {"x": digest_of("x")}, "outputs": {"y": digest_of("y")}}]).write(path)
    assert len(read_receipt(path).calls) == 1
    with h5py.File(path, "r+") as file:
        for name, column in change.items():
            del file["trail"][name]
            file["trail"][name] = column
    with pytest.raises(ValueError, match="a.h5: not a receipt of msda_replay.torch"):
        read_receipt(path)


def test_other_digests_are_refused(tmp_path):
    with pytest.raises(msda_replay.CaptureError, match="is no digest"):
        Receipt([{"operator": "o", "options": {}, "inputs": {"x": "md5:1"}, "outputs": {}}]).write(tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


def call_of_row(capture, index):
    """The number of the call that a row belongs to."""
    rows = list(msda_replay.trail(capture))
    begun = sum(row.parameters is not None for row in rows[:index + 1])
    return begun - (rows[index].kind == "call")


KINDS = {"input": "other_input", "output": "other_output", "of no inputs": "other_output", "options": "other_parameters", "fewer": "only_in_a"}


@pytest.mark.parametrize("name", changes())
def test_the_command_finds_the_same_difference(replay, tmp_path, name):
    """What only one has, and behind which all is equal, is a note of the command."""
    change, sentence = changes()[name]
    another = copy.deepcopy(calls())
    change(another)
    paths = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for path, receipt in zip(paths, (calls(), another)):
        Receipt(receipt).write(path)
    result = replay("diff", *paths, "--json", "-", expect=int(name in KINDS)).json
    if name not in KINDS:
        assert result["equal"] and any("only in B" in note for note in result["notes"]) == (name in ("operator", "more outputs"))
        return
    assert result["first"]["kind"] == KINDS[name]
    assert call_of_row(paths[0], result["first"]["a"]["row"]) == (int(sentence.split()[1]) if sentence.startswith("call") else 5)
