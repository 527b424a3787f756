"""The importer: any archive gives a capture, or exit status 2 and one line. Run as a program, this file imports damaged
archives in a process with little memory."""

import functools
import io
import os
import pathlib
import random
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from conftest import SOURCE
from support.problems import make_problem

from msda_replay import read_capture
from msda_replay.__main__ import main


def small_case():
    """Arrays of a valid archive."""
    inputs = make_problem(np.random.default_rng(1), heads=1, channels=2, queries=2, points=1, levels=((2, 2),))
    return {**inputs, "observed_grad_value": inputs["value"], "dialect": "msda_triton", "padding_mode": "zeros",
            "align_corners": False, "atol": 1e-3, "rtol": 1e-2, "label": "a label"}


def npy(array):
    """The bytes of a member."""
    data = io.BytesIO()
    np.lib.format.write_array(data, np.asanyarray(array), allow_pickle=True)
    return data.getvalue()


def header(descr, shape, data=b"", version=b"\x01\x00", length_format="<H"):
    """A member with an arbitrary declaration."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack(length_format, len(text)) + text + data


def write_members(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def members_of(arrays):
    return {f"{name}.npy": npy(array) for name, array in arrays.items()}


@pytest.fixture
def refused(tmp_path, capsys):
    """Imports an archive that must be refused; returns the line."""

    def check(source, *parts, target=None, options=()):
        target = str(target or tmp_path / "case.h5")
        before = set(os.listdir(tmp_path))
        assert main(["import", str(source), "-o", target, *options]) == 2
        captured = capsys.readouterr()
        lines = captured.err.splitlines()
        assert len(lines) == 1 and captured.out == "" and lines[0].startswith("msda_replay: ")
        assert lines[0].isprintable()
        for part in parts:
            assert part in lines[0]
        assert set(os.listdir(tmp_path)) == before
        return lines[0]

    return check


class TestArchives:
    def test_what_is_no_archive(self, tmp_path, refused):
        np.save(tmp_path / "array.npy", np.zeros(3))
        (tmp_path / "text.npz").write_text("text")
        (tmp_path / "empty.npz").write_bytes(b"")
        os.mkfifo(tmp_path / "fifo.npz")
        for name in ("array.npy", "text.npz", "empty.npz", "fifo.npz", "missing.npz", "."):
            refused(tmp_path / name, str(tmp_path / name), "cannot read it as an .npz archive")

    def test_a_bare_array_of_any_declared_size(self, tmp_path, refused):
        (tmp_path / "a.npy").write_bytes(header("<f4", (1 << 60,)))
        refused(tmp_path / "a.npy", "cannot read it as an .npz archive")

    def test_other_members(self, tmp_path, refused):
        write_members(tmp_path / "a.npz", {"readme.txt": b"text", "folder/other.npy": npy(1)})
        refused(tmp_path / "a.npz", "has no value, spatial_shapes")
        write_members(tmp_path / "b.npz", {})
        refused(tmp_path / "b.npz", "has no value")

    def test_an_encrypted_member(self, tmp_path, refused):
        write_members(tmp_path / "a.npz", members_of(small_case()))
        data = bytearray((tmp_path / "a.npz").read_bytes())
        data[data.index(b"PK\x01\x02") + 8] |= 1  # of the first member, in the directory
        (tmp_path / "a.npz").write_bytes(data)
        refused(tmp_path / "a.npz", "is encrypted")

    def test_a_damaged_member(self, tmp_path, refused):
        arrays = small_case()
        np.savez(tmp_path / "a.npz", **arrays)
        data = bytearray((tmp_path / "a.npz").read_bytes())
        data[data.index(arrays["value"].tobytes()) + 3] ^= 0x10
        (tmp_path / "a.npz").write_bytes(data)
        refused(tmp_path / "a.npz", "cannot read value")

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_other_compressions(self, tmp_path, refused, method):
        """LZMA takes as much memory as the archive says."""
        write_members(tmp_path / "a.npz", members_of(small_case()), compression=method)
        refused(tmp_path / "a.npz", "is compressed in a way that np.savez does not use")

    def test_savez_compressed_is_taken(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", **small_case())
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0


class TestMembers:
    @pytest.mark.parametrize(
        "name, data, message",
        [
            ("value", header("<f4", (1 << 60,)), "declares 4611686018427387904 bytes of data and holds 0"),
            ("value", header("<f4", (1, 1 << 60, 1, 1)), "declares 4611686018427387904 bytes of data and holds 0"),
            ("value", header("<f4", (1 << 60, 1 << 60, 1 << 60, 1 << 60)), "declares"),
            ("value", header("<f4", (1, -4, 1, -2), b"\0" * 32), "has shape (1, -4, 1, -2)"),
            ("value", header("<f4", (1, 4, 1, 2), b"\0" * 31), "declares 32 bytes of data and holds 31"),
            ("value", header("<f4", (1, 4, 1, 2), b"\0" * 33), "declares 32 bytes of data and holds 33"),
            ("value", header("|O", (1, 4, 1, 2), b"\0" * 64), "type object"),
            ("value", npy(np.array([[[[{}]]]], dtype=object)), "type object"),
            ("value", npy(np.zeros((1, 4, 1, 2), complex)), "has type complex128, not float16, float32, float64"),
            ("value", npy(np.zeros((1, 4, 1, 2), np.int64)), "has type int64"),
            ("value", npy(np.zeros((1, 4, 1, 2), "S4")), "has type |S4"),
            ("value", npy(np.zeros((1, 4, 1, 2), [("a", "<f4")])), "has type [('a', '<f4')]"),
            ("value", npy(np.zeros((4, 2), np.float32)), "has rank 2, not 4: batch, pixel, head, channel"),
            ("value", header("<f4", (1, 4, 1, 2), b"\0" * 32, b"\x03\x00", "<I"), "format version (3, 0)"),
            ("value", b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31), "longer than 10000"),
            ("value", b"\x93NUMPY\x01\x00" + struct.pack("<H", 200) + b"(" * 200, "cannot read value"),
            ("value", b"no array", "cannot read value"),
            ("value", b"", "cannot read value"),
            ("value", header("<f4", (1, 4, True), b"\0" * 16), "rank 3"),
            ("value", header("<f4", (True, 4, 1, 2), b"\0" * 32), "has shape (True, 4, 1, 2)"),
            ("value", header("<U1000000000", (1, 4, 1, 2)), "and type <U"),
            ("spatial_shapes", npy(np.zeros((1, 2), np.float32)), "has type float32, not int32, int64"),
            ("spatial_shapes", npy(np.zeros((1, 3), np.int64)), "has 3 in dimension height_width, not the 2"),
            ("sampling_locations", npy(np.zeros((1, 2, 1, 2, 1, 2), np.float32)),
             "has 2 in dimension level, not the 1 of spatial_shapes"),
            ("observed_grad_value", npy(np.zeros((1, 4, 1, 3), np.float32)), "has 3 in dimension channel, not the 2 of grad_output"),
            ("atol", npy(np.zeros(3)), "has shape (3,), it should be a scalar"),
            ("atol", npy(np.nan), "is nan, it should be a finite number from 0 on"),
            ("rtol", npy(np.inf), "is inf"),
            ("rtol", npy(-1.0), "is -1.0"),
            ("atol", npy(True), "is True"),
            ("atol", npy("0.001"), "is '0.001'"),
            ("atol", npy(1j), "has type complex128"),
            ("atol", header("<U1000000000", ()), "and type <U"),
            ("atol", header("<U500000000", ()), "declares 2000000000 bytes"),
            ("padding_mode", npy("other"), "is 'other', it should be one of zeros, border"),
            ("padding_mode", npy(b"zeros"), "has type |S5"),
            ("padding_mode", npy(1), "is 1"),
            ("dialect", npy(3.0), "is 3.0, it should be one of deformable_detr"),
            ("align_corners", npy("yes"), "is 'yes', it should be true or false"),
            ("align_corners", npy(2), "is 2"),
            ("label", npy(5), "is 5, it should be a text"),
            ("label", npy("a" * 70000), "should be a text of at most 65536 bytes"),
            ("label", npy("\ud800"), "should be a text"),
            ("label", header("<U3", (), b"a\0\0\0\0\0\0\0b\0\0\0"), "should be a text"),
            ("label", header("<U1", (), b"\xff\xff\xff\xff"), "should be a text"),
            ("kernel", npy(np.array(None)), "type object"),
            ("reference_max_abs_diff_grad_value", npy("much"), "is 'much', it should be a number"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_refusals(self, tmp_path, refused, name, data, message):
        write_members(tmp_path / "a.npz", {**members_of(small_case()), f"{name}.npy": data})
        assert message in refused(tmp_path / "a.npz", f"{tmp_path / 'a.npz'}: ", name)

    def test_one_tolerance_of_two(self, tmp_path, refused):
        arrays = small_case()
        del arrays["rtol"]
        np.savez(tmp_path / "a.npz", **arrays)
        refused(tmp_path / "a.npz", "only one of atol and rtol")

    def test_orders_in_memory(self, tmp_path):
        """Fortran's order and the other byte order are the same values."""
        arrays = small_case()
        for name, change in (("value", np.asfortranarray), ("grad_output", lambda a: a.astype(">f4"))):
            arrays[name] = change(arrays[name])
        np.savez(tmp_path / "a.npz", **arrays)
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0
        read = read_capture(tmp_path / "a.h5").invocations[0]
        for name in ("value", "grad_output"):
            np.testing.assert_array_equal(read.inputs[name], small_case()[name])

    def test_members_without_use_are_not_read(self, tmp_path, capsys):
        """None of them can be read; all are named, on one line and without control characters."""
        others = {"object.npy": npy(np.array({}, dtype=object)), "huge.npy": header("<f4", (1 << 60,)), "notes.txt": b"text",
                  "\x1b[2Jx.npy": b""}
        write_members(tmp_path / "a.npz", {**members_of(small_case()), **others})
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0
        error = capsys.readouterr().err
        assert error == f"msda_replay: {tmp_path / 'a.npz'}: not used: \\x1b[2Jx, huge, notes.txt, object\n"

    def test_many_members_without_use(self, tmp_path, capsys):
        write_members(tmp_path / "a.npz", {**members_of(small_case()), **{f"x{i:03}.npy": b"" for i in range(500)}})
        assert main(["import", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0
        assert capsys.readouterr().err.endswith("x008, x009 and 490 more\n")


class TestOutputs:
    @pytest.fixture
    def case(self, tmp_path):
        np.savez(tmp_path / "a.npz", **small_case())
        return tmp_path / "a.npz"

    def test_what_is_no_regular_file_stays(self, tmp_path, case, refused):
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "fifo")
        os.symlink(case, tmp_path / "link")
        os.symlink("nowhere", tmp_path / "dangling")
        for name in ("folder", "fifo", "link", "dangling"):
            for options in ((), ("--force",)):
                refused(case, "is no regular file", target=tmp_path / name, options=options)
        refused(case, "is no regular file", target="/dev/null", options=("--force",))

    def test_where_nothing_can_be_made(self, tmp_path, case, refused):
        for target in (tmp_path / "missing" / "a.h5", case / "a.h5", tmp_path / ("a" * 300), "/proc/a.h5"):
            refused(case, str(target), "cannot write it", target=target)

    @pytest.mark.parametrize("limit", [0, 1000, 5000, 10000])
    def test_a_disk_that_gets_full(self, tmp_path, case, limit):
        """A file that may not grow fails as on a full disk does: at a write, or when it is closed."""
        arrays = {**small_case(), "value": np.zeros((1, 4, 1, 9999), np.float32), "grad_output": np.zeros((1, 2, 1, 9999), np.float32)}
        del arrays["observed_grad_value"]
        np.savez(case, **arrays)
        done = run_importer(case, tmp_path / "a.h5", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert "cannot write it" in done.stderr
        assert os.listdir(tmp_path) == ["a.npz"]


def run_importer(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "tools" / "python"), "OPENBLAS_NUM_THREADS": "1"}
    source, target = arguments
    return subprocess.run([sys.executable, "-m", "msda_replay", "import", str(source), "-o", str(target)], capture_output=True,
                          text=True, timeout=120, env=environment, **options)


MEMORY = 1 << 29


def in_little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def test_a_bomb_of_the_right_shape(tmp_path):
    """512 MiB of zeros in less than three, for a process that may take no more: refused, not killed."""
    arrays = small_case()
    del arrays["observed_grad_value"]
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members_of(arrays).items():
            if name != "value.npy":
                archive.writestr(name, data)
        with archive.open("value.npy", "w", force_zip64=True) as member:
            member.write(header("<f4", (1, MEMORY // 8, 1, 2)))
            for _ in range(MEMORY >> 20):
                member.write(bytes(1 << 20))
    done = run_importer(tmp_path / "a.npz", tmp_path / "a.h5", preexec_fn=in_little_memory)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "memory" in done.stderr


def damage(random_, data):
    """Some bytes changed, removed, repeated or cut off."""
    data = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 8))):
        at = random_.randrange(len(data) + 1) if data else 0
        how = random_.randrange(5)
        if how == 0 and at < len(data):
            data[at] ^= 1 << random_.randrange(8)
        elif how == 1 and at < len(data):
            data[at] = random_.choice(b"\0\xff\x7f(){}[],'\"-0123456789")
        elif how == 2:
            del data[at:at + random_.randrange(1, 40)]
        elif how == 3:
            data[at:at] = data[at:at + random_.randrange(1, 40)]
        else:
            data[at:at + 8] = random_.randbytes(8)
    return bytes(data if random_.random() < 0.9 else data[: random_.randrange(len(data) + 1)])


@functools.cache
def sound_members():
    return members_of(small_case())


@functools.cache
def sound_archive(compression):
    data = io.BytesIO()
    write_members(data, sound_members(), compression=compression)
    return data.getvalue()


def write_damaged(random_, path):
    """An archive that is damaged, or a sound one of damaged members, whose checksums are then right."""
    members = dict(sound_members())
    sound = random_.random() < 0.5
    if sound:
        for name in random_.sample(sorted(members), random_.choice((1, 1, 2))):
            members[name] = damage(random_, members[name][:128]) + members[name][128:]
    compression = random_.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    if sound:
        write_members(path, members, compression=compression)
    else:
        pathlib.Path(path).write_bytes(damage(random_, sound_archive(compression)))


def import_damaged(folder, seed, count):
    """Imports archives; prints how many ended in each status. Any other end leaves a traceback."""
    random_, statuses = random.Random(seed), {0: 0, 2: 0}
    for i in range(count):
        source, target = os.path.join(folder, "a.npz"), os.path.join(folder, "a.h5")
        write_damaged(random_, source)
        sys.stderr = io.StringIO()
        status = main(["import", source, "-o", target, "--force"])
        lines, sys.stderr = sys.stderr.getvalue().splitlines(), sys.__stderr__
        assert status in statuses and len(lines) <= 1 and len(lines) >= status // 2, (seed, i, status, lines)
        statuses[status] += 1
    print(statuses[0], statuses[2])


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_archives(tmp_path, seed):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MSDA_SOURCE": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, __file__, str(tmp_path), str(seed), "1000"], capture_output=True, text=True, timeout=300,
                          env=environment, preexec_fn=in_little_memory)
    assert (done.returncode, done.stderr) == (0, "")
    taken, refused_ = map(int, done.stdout.split())
    assert taken + refused_ == 1000 and refused_ > 500 and taken > 10


if __name__ == "__main__":
    import_damaged(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
