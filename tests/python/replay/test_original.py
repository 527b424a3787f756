"""Mode original of msda-replay run: recorded machine code, launched again on the stand-in driver."""

import json
import random
import re
import struct

import h5py
import jsonschema
import numpy as np
import pytest
from support.launches import CLIENT
from support.original import KERNELS, SCHEMA, launched, on_stand_in  # noqa: F401
from support.problems import backward
from support.recording import pytestmark, record  # noqa: F401
from support.user_adapter import EXAMPLE

from msda_replay.digest import digest


@pytest.fixture
def original(replay):
    """What `run --mode original` says, as JSON that the schema allows; of the invocations in their order."""

    def run(capture, *arguments, expect=0, **variables):
        done = replay("run", capture, "--mode", "original", "--json", "-", *arguments, expect=expect, env=on_stand_in(**variables))
        if expect:
            assert done.out == "" and done.err.count("\n") == 1 and done.err.startswith("msda-replay: "), done.err
            return done.err
        jsonschema.validate(done.json, SCHEMA)
        result = done.json["invocations"] + done.json.get("relaunched", [])
        return [entry["original"] for entry in sorted(result, key=lambda entry: entry["id"])]

    return run


def recorded_digests(capture):
    with h5py.File(capture) as file:
        return [{name: data.attrs["digest"] for name, data in file[f"invocations/{n}/outputs"].items()}
                for n in sorted(file["invocations"])]


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_recorded_bits_come_again(launched, original, kernel, asynchronous):
    capture = launched(kernel, "--launches", 6)  # one grid_sample launch requests no gradient of its input
    results = original(capture, "--repeat", 70, MSDA_STAND_IN_ASYNC=asynchronous)
    recorded = recorded_digests(capture)
    assert len(results) == len(recorded) > 1
    for result, digests in zip(results, recorded):
        assert {name: tensor["digest"] for name, tensor in result["tensors"].items()} == digests
        for tensor in result["tensors"].values():
            assert (tensor["distinct"], tensor["recorded_among_them"], tensor["spread"], tensor["varying"]) == (1, True, 0, 0)
            assert tensor["first_against_recorded"] == {"different": 0, "max_abs": 0}
        assert (result["runs"], result["device"], result["architecture"], result["changed"]) == (70, "stand-in", "sm_90", None)
        assert 0 < result["launch_ms"] < 1000 and result["runs_per_s"] > 0 and 0 < result["first_result_s"] < 10


def test_tensors_lie_as_they_lay(launched, original):
    """The kernel writes down where it finds its tensors, which lie between each other's elements."""
    capture = launched("whereabouts", "--launches", 3)
    with h5py.File(capture) as file:
        for i in range(3):
            call = file[f"invocations/{i:06}"]
            assert list(call["outputs/places"]) == [12, 4, (4000 + 20 * i) % 256, 8024 % 256]
            assert list(call["inputs/x"].attrs["strides"]) == [2] and list(call["outputs/sums"].attrs["strides"]) == [3]
            np.testing.assert_array_equal(call["outputs/sums"], call["inputs/sums"][()] + (call["inputs/x"][()] + call["inputs/y"][()]))
            assert call.attrs["pointers"] == "inputs/x@8 inputs/y@16 inputs/sums@24 outputs/sums@24 outputs/places@32"
    for result in original(capture, "--repeat", 3):
        assert all(tensor["recorded_among_them"] for tensor in result["tensors"].values())


def test_sums_in_another_order_every_time(launched, original, replay):
    capture = launched("col2im17")
    (result,) = original(capture, "--repeat", 150, MSDA_STAND_IN_UNORDERED=1)
    summed = result["tensors"].pop("grad_value")
    assert all(tensor["distinct"] == 1 and tensor["recorded_among_them"] for tensor in result["tensors"].values())
    with h5py.File(capture) as file:
        call = file["invocations/000000"]
        recorded = call["outputs/grad_value"][()]
        truth = backward({name: data[()] for name, data in call["inputs"].items()})["grad_value"]
    assert 100 < summed["distinct"] <= 150 and 100 < summed["varying"] <= recorded.size and summed["recorded_among_them"] is False
    widths = [entry["highest"] - entry["lowest"] for entry in summed["widest"]]
    assert len(widths) == 10 and widths == sorted(widths, reverse=True) and widths[0] == summed["spread"] > 0
    for entry in summed["widest"]:  # float32 sums of a few dozen terms
        at = tuple(entry["index"])
        assert entry["lowest"] == np.float32(entry["lowest"]) and abs(entry["lowest"] - truth[at]) < 1e-4 > abs(entry["highest"] - truth[at])
    assert 0 < summed["first_against_recorded"]["different"] <= recorded.size
    out = replay("run", capture, "--mode", "original", "--repeat", 20, "--verbose", expect=0, env=on_stand_in(MSDA_STAND_IN_UNORDERED=1)).words
    assert re.search(r" grad_value \d+ results, the recorded one not among them; \d+ of 2656 elements vary, by up to", out)
    assert out.endswith(" grad_attention_weights 1 result, the recorded one")
    assert "recorded : original" in out


def test_the_range_of_each_element(launched, original):
    """Two runs differ only where one of them has another bit than the first: what varies is what differs."""
    capture = launched("col2im17", MSDA_STAND_IN_UNORDERED=1)
    for _ in range(5):
        (result,) = original(capture, "--repeat", 2, MSDA_STAND_IN_UNORDERED=1)
        summed = result["tensors"]["grad_value"]
        assert (summed["distinct"] == 2) == (summed["varying"] > 0) == (summed["spread"] > 0)


def test_where_it_runs(launched, original, replay):
    capture = launched("col2im17", "--launches", 2)
    invocation = lambda done: done.json["invocations"][0]  # noqa: E731
    run = lambda *arguments, **variables: replay("run", capture, "--json", "-", *arguments, expect=0, env=on_stand_in(**variables))  # noqa: E731
    asked = ("--mode", "original")
    for arguments in ((), (*asked, "--device", "cuda"), (*asked, "--device", "cuda:0"), ("--mode", "deterministic,original")):
        result = invocation(run(*arguments))
        assert "original" in result and "original" in result["digests"]
        assert ("deterministic" in result["digests"]) == (arguments[:2] != asked)
        compared = {(c["observed"], c["expected"]) for c in result["comparisons"]}
        assert {("recorded", "original"), ("original", "float64")} <= compared
    for arguments in (("--device", "cpu"), ("--mode", "deterministic")):
        result = invocation(run(*arguments))
        assert "original" not in result and "original_left_out" not in result
    without = replay("run", capture, "--json", "-", expect=0)
    assert "this machine has no CUDA driver" in invocation(without)["original_left_out"]
    text = replay("run", capture, expect=0).out
    assert text.count("Mode original is left out: ") == 1
    assert "--mode original" in original(capture, "--device", "cpu", expect=3)
    assert "there is no device 1: the CUDA driver has 1" in original(capture, "--device", "cuda:1", expect=3)
    assert "--device cuda:1" in replay("run", capture, "--device", "cuda:1", expect=3, env=on_stand_in()).err
    done = replay("run", capture, "--mode", "original", expect=3)
    assert "needs a CUDA device: this machine has no CUDA driver (libcuda.so.1)" in done.err and done.err.count("\n") == 1
    # The stand-in runs only recorded kernels: other replays on it are refused.
    for modes in ((), ("--mode", "atomic"), ("--mode", "deterministic,original")):
        done = replay("run", capture, "--device", "cuda", *modes, expect=3, env=on_stand_in())
        assert "--device cuda: " in done.err and "; use --device cpu" in done.err and done.err.count("\n") == 1
    # Another architecture: the capture says so, or the driver does.
    assert "is for sm_90, and device 0 (stand-in) is sm_80" in original(capture, expect=3, MSDA_STAND_IN_ARCHITECTURE=80)
    text = replay("run", capture, expect=0, env=on_stand_in(MSDA_STAND_IN_ARCHITECTURE=80)).out
    assert text.count("Mode original is left out: its machine code is for sm_90") == 1
    with h5py.File(capture, "r+") as file:
        (kernel,) = file["kernels"].values()
        del kernel.attrs["architecture"]
    assert "does not run on device 0 (stand-in, sm_80)" in original(capture, expect=3, MSDA_STAND_IN_ARCHITECTURE=80)
    original(capture)


def test_kernels_known_by_their_code_alone(launched, replay):
    capture = launched("scale_add", "--launches", 2)
    text = replay("run", capture, expect=0, env=on_stand_in()).out
    assert len(re.findall(r"^    (?:y|positive) +1 result, the recorded one$", text, re.M)) == 4
    for arguments in ((), ("--device", "cpu"), ("--mode", "atomic")):
        done = replay("run", capture, *arguments, expect=3, **({} if not arguments else {"env": on_stand_in()}))
        assert "is known only by its machine code" in done.err
        assert ("no CUDA driver" in done.err) == (not arguments)


def test_a_pointer_that_is_not_known(launched, original, tmp_path):
    mine = json.loads(json.dumps(EXAMPLE))
    del mine["adapters"][0]["tensors"][0]  # nothing is said of x
    capture = launched("scale_add")  # writes an adapter, which is replaced
    (tmp_path / "mine.json").write_text(json.dumps(mine))
    done = record(CLIENT, "--kernel", "scale_add", "--image", tmp_path / "0.cubin",
                  options=["-o", capture, "--force", "--adapter", tmp_path / "mine.json"])
    assert done.returncode == 0, done.stderr
    assert "parameter 2 points to memory that no adapter describes" in original(capture, expect=3)


def test_block(launched, original, replay):
    capture = launched("col2im17_gm")
    (result,) = original(capture, "--block", "64")  # n is 2 * 40 * 2 * 8
    assert (result["grid"], result["block"]) == ([20, 1, 1], [64, 1, 1])
    assert result["changed"] == "block 8,1,1 -> 64,1,1, grid 160,1,1 -> 20,1,1"
    assert all(tensor["recorded_among_them"] for tensor in result["tensors"].values())
    assert original(capture, "--block", "1000,1,1")[0]["grid"] == [2, 1, 1]
    text = replay("run", capture, "--block", "32", expect=0, env=on_stand_in()).out
    assert "    changed: block 8,1,1 -> 32,1,1" in text
    for block in ("0", "2000", "8,2", "x", "", "8,1,1,1", "-4"):
        if block:
            assert "--block" in replay("run", capture, f"--block={block}", expect=2).err
    assert "--block" in replay("run", capture, "--block", "8", "--mode", "atomic", expect=2).err
    assert "--mode original" in replay("run", capture, "--block", "8", "--device", "cpu", expect=3).err


@pytest.mark.parametrize("kernel, why", [
    ("col2im17", "it sums over the 8 threads of a block, one for each channel"),
    ("triton", "Triton compiles the block into the kernel"),
    ("scale_add", "how the grid of _Z9scale_addi5ScalePKfPfPh follows from its block is not known"),
])
def test_block_of_kernels_that_keep_theirs(launched, original, kernel, why):
    assert why in original(launched(kernel), "--block", "64", expect=3)


@pytest.mark.parametrize("kernel, blocks", [
    ("grid_sample", 3), ("grid_sample --double", 3),  # of 2 * 3 * 6 threads
    ("grid_sample_3d", 5), ("grid_sample_3d --double", 5),  # of 2 * 2 * 3 * 6
])
def test_block_of_grid_sample(launched, original, kernel, blocks):
    (result,) = original(launched(kernel), "--block", "16")
    assert (result["grid"], result["block"]) == ([blocks, 1, 1], [16, 1, 1])
    assert all(tensor["recorded_among_them"] for tensor in result["tensors"].values())


def test_other_variants(launched, original, replay):
    """One call remains of an autotuner's launches, and the code of all."""
    capture = launched("triton", "--launches", 3, "--repeat", 3, variants=3)
    with h5py.File(capture) as file:
        (call,) = file["invocations"].values()
        last = call.attrs["kernel_digest"]
        others = sorted(set(file["kernels"]) - {last})
        assert len(others) == 2
        kernel = file["kernels"][others[0]].attrs
        assert [kernel[f"launch_{name}"] for name in ("grid_x", "grid_y", "grid_z", "block_x", "shared_bytes")] == [40, 2, 2, 128, 0]
    for chosen in (others[0], others[1].split(":")[1][:12]):
        (result,) = original(capture, "--kernel-digest", chosen)
        assert chosen in result["kernel_digest"] and f"code {last} -> {result['kernel_digest']}, block 128,1,1 -> 128,1,1" in result["changed"]
        assert all(tensor["recorded_among_them"] for tensor in result["tensors"].values())
    refused = original(capture, "--kernel-digest", "0123", expect=3)
    assert "no such variant of this kernel" in refused and all(digest in refused for digest in others)
    assert "several variants" in original(capture, "--kernel-digest", "xxh3", expect=3)
    assert "--kernel-digest" in replay("run", capture, "--kernel-digest", last, "--mode", "atomic", expect=2).err
    # Old captures do not have the configuration.
    with h5py.File(capture, "r+") as file:
        for name in [name for name in file["kernels"][others[0]].attrs if name.startswith("launch_")]:
            del file["kernels"][others[0]].attrs[name]
    assert "does not say how it was launched" in original(capture, "--kernel-digest", others[0], expect=3)


def patched(capture, change):
    with h5py.File(capture, "r+") as file:
        change(file, file["invocations/000000"])


def put_parameters(call, data):
    attributes = dict(call["parameters"].attrs)
    del call["parameters"]
    call["parameters"] = np.frombuffer(bytes(data), np.uint8)
    call["parameters"].attrs.update({name: attributes[name] for name in ("offsets", "sizes")})


def parameter(call, index, value, kind):
    data = bytearray(call["parameters"][()].tobytes())
    struct.pack_into(kind, data, call["parameters"].attrs["offsets"][index], value)
    put_parameters(call, data)


def put_image(file, kernel, image):
    name = kernel.name.rsplit("/", 1)[1]
    del kernel["image"]
    kernel["image"] = np.frombuffer(image, np.uint8)
    new = digest(np.frombuffer(image, np.uint8))
    file.move(f"kernels/{name}", f"kernels/{new}")
    file["invocations/000000"].attrs["kernel_digest"] = new


def cut_image(file, call):
    (kernel,) = file["kernels"].values()
    put_image(file, kernel, kernel["image"][()].tobytes()[:-40])


def turn_a_bit(file, call):
    (kernel,) = file["kernels"].values()
    image = kernel["image"][()]
    image[70] ^= 1
    kernel["image"][...] = image


def attribute(name, value):
    return lambda file, call: call.attrs.__setitem__(name, value)


@pytest.mark.parametrize("change, why", [
    (cut_image, "is damaged: it is no complete cubin"),
    (turn_a_bit, "is not what was recorded: its digest differs"),
    (lambda file, call: file.__delitem__("kernels"), "its machine code is not in the capture"),
    (lambda file, call: call.__delitem__("parameters"), "its parameters are not in the capture"),
    (lambda file, call: call.attrs.__delitem__("pointers"), "record it again"),
    (lambda file, call: call.attrs.__delitem__("grid"), "it is no launch of a kernel"),
    (lambda file, call: call.__delitem__("outputs_before/grad_value"), "outputs_before/grad_value is not in the capture"),
    (attribute("pointers", "inputs/value@200000"), "pointers cannot be read"),
    (attribute("pointers", "inputs/value@-8"), "pointers cannot be read"),
    (attribute("pointers", "nonsense"), "pointers cannot be read"),
    (attribute("pointers", "outputs/nothing@0"), "outputs_before/nothing is not in the capture"),
    (attribute("pointers", "outputs/grad_value@0"), "no parameter points to outputs/grad_attention_weights"),
    (attribute("grid", [0, 1, 1]), "grid of"),
    (attribute("block", [1 << 20, 1, 1]), "block of"),
    (attribute("shared_bytes", -1), "shared_bytes of"),
    (attribute("cluster_x", 1 << 40), "cluster of"),
    (lambda file, call: parameter(call, 15, 0x7000000, "<Q"), "parameter 15 points to memory that no adapter describes"),
    (lambda file, call: parameter(call, 0, 0xFFFFFFFFFFFFFFF0, "<Q"), "grad_value cannot have been at address"),
    (lambda file, call: parameter(call, 0, 0x1001, "<Q"), "grad_value cannot have been at address"),
    (lambda file, call: call["inputs/value"].attrs.__setitem__("strides", [1 << 62, 1, 1, 1]), "has strides"),
    (lambda file, call: call["inputs/value"].attrs.__setitem__("strides", [1 << 32, 1, 1, 1]), "bytes for"),
    (lambda file, call: call["inputs/value"].attrs.__setitem__("strides", [-1, 1, 1, 1]), "has strides"),
    (lambda file, call: call["parameters"].attrs.__setitem__("sizes", [1 << 40] * 17), "lie beyond their bytes"),
    (lambda file, call: call["parameters"].attrs.__setitem__("sizes", [8] * 8 + [2] * 7 + [8] * 2), "are not those that were recorded"),
    (attribute("kernel", "another"), "cannot find another in the machine code"),
    (lambda file, call: parameter(call, 11, 1 << 20, "<i"), "an illegal memory access was encountered (CUDA error 700)"),
])
def test_what_cannot_be_launched_again(launched, original, replay, change, why):
    capture = launched("triton", "--launches", 2)
    patched(capture, change)
    result = original(capture, expect=3)
    assert why in result and "invocation 0: --mode original: " in result and str(capture) in result
    # If it was not requested, the rest is done.
    done = replay("run", capture, "--json", "-", expect=0, env=on_stand_in())
    left_out = [invocation.get("original_left_out", "") for invocation in done.json["invocations"]]
    assert why in left_out[0] or why == "it is no launch of a kernel"
    # A failure of the device's is one of all that comes after it.
    assert ("the device failed on invocation 0" in left_out[1]) == ("CUDA error 700" in why)


def test_memory_runs_out(launched, original):
    capture = launched("col2im17 --double")
    result = original(capture, expect=3, MSDA_STAND_IN_MEMORY=20000)
    assert re.search(r"cannot allocate \d+ bytes on the device: out of memory \(CUDA error 2\)", result)


@pytest.mark.parametrize("kernel", ["grid_sample", "grid_sample_3d"])
def test_random_parameters(launched, replay, kernel):
    """For any parameters msda-replay ends regularly, with an error message if necessary."""
    capture = launched(kernel)
    rng = random.Random(5)
    with h5py.File(capture) as file:
        whole = file["invocations/000000/parameters"][()].tobytes()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 3, 40))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        patched(capture, lambda file, call: put_parameters(call, data))
        options = ["--block", "32"] if rng.random() < 0.3 else []
        done = replay("run", capture, "--mode", "original", *options, env=on_stand_in())
        assert done.status == 0 or (done.status == 3 and done.err.count("\n") == 1), done.err
