"""Kernels of our own in C++ on a GPU, recorded: the Deformable DETR family, a user's kernel, streams, threads, graphs, digests."""

import functools
import json
import re

import h5py
import numpy as np
import pytest
from support.adapters import SCALE_ADD
from support.gpu import ORDER_DEPENDENT, assert_same, invocations_of, recorder_lines, saved_tensors, tail
from support.gpu_kernels import VARIANTS, assert_explained, assert_recorded, variant_of
from support.problems import recorder_digest

pytestmark = pytest.mark.gpu("nvcc")
EAGER = {"CUDA_MODULE_LOADING": "EAGER"}  # loads code at the start: it cannot be loaded while a graph is captured
KINDS = pytest.mark.parametrize("kind", ["float", "double", "half"])


@pytest.fixture
def command(programs):
    return [programs.compiled("col2im17"), "--variant", "all"]


@pytest.fixture(scope="module")
def launched_in_order(programs):
    """By type: the capture, its calls and the saved tensors of launches in one thread, whose results are the same bit for bit."""
    @functools.cache
    def run(kind):
        done, capture, saved_in = programs.record_unchanged(
            [programs.compiled("col2im17"), "--variant", "all", "--type", kind, "--seed", "3", "--ordered"])
        return capture, invocations_of(capture, done), saved_tensors(saved_in)

    return run


def facts_of_kernel(capture, call):
    digest = call.facts.get("kernel_digest")
    with h5py.File(capture, "r") as file:
        kernel = file["kernels"][digest]
        assert bytes(kernel["image"][:4]) == b"\x7fELF"
        return dict(file["kernels"].get(f"{digest} {call.facts.get('kernel')}", kernel).attrs)


@KINDS
@pytest.mark.parametrize("variant", VARIANTS)
def test_launches_in_one_thread(launched_in_order, variant, kind):
    capture, calls, saved = launched_in_order(kind)
    mine = {name: tensors for name, tensors in saved.items() if name.endswith("-" + variant)}
    assert len(mine) == 1
    (call,) = assert_recorded(mine, [call for call in calls if variant_of(call.kernel) == variant]).values()
    assert list(call.facts["grid"]) == [1, 1, 1] == list(call.facts["block"])
    assert call.facts["shared_bytes"] == 3 * call.inputs["value"].itemsize
    assert not any(before.any() for before in call.outputs_before.values())
    facts = facts_of_kernel(capture, call)
    assert facts.get("registers", 0) > 0 and facts.get("atomics", 0) > 0


@KINDS
def test_launches_in_all_threads(programs, command, kind):
    done, capture, saved_in = programs.record_unchanged([*command, "--type", kind, "--seed", "3"], unstable=ORDER_DEPENDENT)
    assert_recorded(saved_tensors(saved_in), invocations_of(capture, done))
    if kind == "half":  # its arithmetic is not that of a replay
        print(tail(programs.replay("run", "--quiet", capture, expected=(0, 1)).stdout, 1))
    else:
        assert_explained(programs, capture)


@pytest.mark.parametrize("hook", ["cupti", "driver"])
def test_every_hook(programs, command, hook):
    done, capture, saved_in = programs.record_unchanged(command, ["--hook", hook], ORDER_DEPENDENT)
    assert_recorded(saved_tensors(saved_in), invocations_of(capture, done))
    print(recorder_lines(done))


@pytest.mark.parametrize("arguments", [
    "--launches 8 --streams 2 --in-flight", "--launches 8 --threads 2 --in-flight", "--launches 8 --threads 2 --streams 2 --in-flight",
    "--launches 200 --streams 4 --in-flight", "--loop --launches 64",  # contents change, and nothing waits
])
def test_streams_and_threads(programs, arguments):
    done, capture, saved_in = programs.record_unchanged([programs.compiled("col2im17"), *arguments.split()], unstable=ORDER_DEPENDENT)
    assert_recorded(saved_tensors(saved_in), invocations_of(capture, done))


def test_equal_launches_are_counted(programs):
    command = [programs.compiled("col2im17"), "--launches", "3", "--repeat", "50"]
    done, capture, saved_in = programs.record_unchanged(command, unstable=ORDER_DEPENDENT)
    saved = saved_tensors(saved_in)
    for name, call in assert_recorded(saved, invocations_of(capture, done), outputs=False).items():
        assert call.facts.get("duplicates") == 49
        for tensor in ("grad_sampling_locations", "grad_attention_weights"):
            assert_same(call.outputs[tensor], saved[name][tensor], f"{name}: outputs/{tensor}")


def test_a_launch_captured_into_a_graph_is_not_recorded(programs):
    command = [programs.compiled("col2im17"), "--graph"]
    done, capture, _ = programs.record_unchanged(command, unstable=ORDER_DEPENDENT, **EAGER)
    assert "captured into a CUDA graph" in done.stderr
    assert not capture.exists() or not invocations_of(capture, done)


def test_a_launch_beside_a_capture_in_global_mode(programs):
    """By another thread: it does not invalidate the capture and, if it is recorded, has the right tensors."""
    command = [programs.compiled("col2im17"), "--global-capture"]
    if programs.run(command, range(-64, 256), **EAGER).returncode:
        pytest.skip("the program fails without the recorder, too")
    done, capture, saved_in = programs.record_unchanged(command, unstable=ORDER_DEPENDENT, **EAGER)
    print("recorded" if capture.exists() else "not recorded", recorder_lines(done))
    if capture.exists():
        assert_recorded(saved_tensors(saved_in), invocations_of(capture, done))


def test_a_users_kernel_in_clusters(programs):
    """A kernel known from a JSON file, with an inout tensor."""
    adapter = programs.folder() / "scale_add.json"
    adapter.write_text(json.dumps(SCALE_ADD))
    done, capture, saved_in = programs.record_unchanged([programs.compiled("scale_add")], ["--adapter", adapter])
    saved, calls = saved_tensors(saved_in), invocations_of(capture, done, 3)
    assert len(saved) == 3
    clusters = int(re.search(r"clusters (\d+)", done.stdout)[1])
    for call, (name, real) in zip(calls, saved.items()):
        for recorded, tensor in ((call.inputs["x"], "x"), (call.inputs["y"], "y_before"), (call.outputs_before["y"], "y_before"),
                                 (call.outputs["y"], "y"), (call.outputs["positive"], "positive")):
            assert_same(recorded, real[tensor], f"{name}: {tensor}")
        assert call.facts["scalars"] == f"rows={real['x'].shape[0]} scale.columns=5 scale.alpha=0.5"
        assert call.facts.get("cluster_x", 0) == clusters


def test_digests_of_the_device(programs, command):
    """A capture of --digest-only has the digests that plain numbers give."""
    done, capture, saved_in = programs.record_unchanged(command, ["--digest-only"], ORDER_DEPENDENT)
    saved = {name.split("-", 2)[2]: tensors for name, tensors in saved_tensors(saved_in).items()}
    compared = 0
    with h5py.File(capture, "r") as file:
        for invocation in file["invocations"].values():
            kernel = np.asarray(invocation.attrs["kernel"]).astype(str).item()
            for name, digest in invocation["digests"].attrs.items():
                section, tensor = name.split("/")
                if section != "outputs_before":
                    assert digest.split()[-1] == recorder_digest(saved[variant_of(kernel)][tensor].tobytes()), f"{kernel}: {name}"
                    compared += 1
    assert compared
