"""msda-replay adapter: a file to fill in, from a signature, or from a cubin."""

import json
import re
import shutil
import subprocess

import pytest
from support.own_operators import EXAMPLE

NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
SIGNATURE = "__global__ void segment_sum(int rows, int segments, int channels, const float* __restrict__ source, const int* segment, float *sum)"


def test_the_example_of_the_page_follows_from_its_signature(replay, tmp_path):
    printed = json.loads(replay("adapter", SIGNATURE, expect=0).out)
    (adapter,) = printed["adapters"]
    expected = EXAMPLE["adapters"][0]
    assert adapter["name"] == "segment_sum" and adapter["kernel"] == "^(_Z11segment_sum|segment_sum$)"
    assert adapter["parameters"] == expected["parameters"]
    bare = [{**tensor, "shape": ["..."]} for tensor in expected["tensors"]]
    assert adapter["tensors"] == bare
    # Not filled in, it is refused where something is left; filled in, it is a definition.
    adapter["operator"] = expected["operator"]
    for tensor, filled in zip(adapter["tensors"], expected["tensors"]):
        (tmp_path / "a.json").write_text(json.dumps(printed))
        refused = replay("run", "none.h5", "--operator", tmp_path / "a.json", expect=2).err
        assert "/shape/0 is no expression" in refused
        tensor["shape"] = filled["shape"]
    (tmp_path / "a.json").write_text(json.dumps(printed))
    assert "none.h5" in replay("run", "none.h5", "--operator", tmp_path / "a.json", expect=2).err


def test_types(replay):
    text = "void k(unsigned int, long long n, const c10::Half *x, Scale s, at::BFloat16 y[], std::array<int, 2> z, double** table, uint8_t const* m)"
    (adapter,) = json.loads(replay("adapter", text, expect=0).out)["adapters"]
    assert adapter["parameters"] == [
        {"name": "parameter_0", "type": "uint32"}, {"name": "n", "type": "int64"}, {"name": "x", "type": "pointer"},
        {"name": "s", "type": "bytes", "size": "sizeof(Scale)"}, {"name": "y", "type": "pointer"},
        {"name": "z", "type": "bytes", "size": "sizeof(std::array int 2)"}, {"name": "table", "type": "pointer"}, {"name": "m", "type": "pointer"}]
    assert [(tensor["name"], tensor["role"], tensor["type"]) for tensor in adapter["tensors"]] == [
        ("x", "input", "float16"), ("y", "output", "bfloat16"), ("m", "input", "uint8")]


@pytest.mark.parametrize("name, compiled", [
    ("k", "_Z1kPf"), ("k", "k"), ("at::native::sum_rows", "_ZN2at6native8sum_rowsEPf"), ("at::native::sum_rows", "_ZN2at6native8sum_rowsIfEEvPT_"),
])
def test_the_pattern_fits_the_compiled_name(replay, name, compiled):
    """Names as GCC and nvcc compile them: free, extern "C", in namespaces, and there as templates."""
    (adapter,) = json.loads(replay("adapter", f"void {name}(float* x)", expect=0).out)["adapters"]
    assert re.search(adapter["kernel"], compiled) and not re.search(adapter["kernel"], "_ZN5other1kEPf")
    assert adapter["name"] == name.split("::")[-1]


@pytest.mark.parametrize("arguments, why", [
    ((), "give either a signature or --cubin FILE"),
    (("nothing",), "is no signature; give one such as"),
    (("void k(int,,int)",), "parameter 1 of the signature has no type"),
    (("--cubin", "none.cubin"), "none.cubin: cannot read it"),
    (("--cubin", "/dev/zero"), "/dev/zero: is not a file"),
    (("--cubin", "/tmp"), "/tmp: is not a file"),
    (("--cubin", __file__), "is no cubin"),
])
def test_what_is_refused(replay, arguments, why):
    refused = replay("adapter", *arguments, expect=2).err
    assert why in refused and refused.count("\n") == 1


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
def test_a_cubin_says_how_large_parameters_are(replay, tmp_path):
    (tmp_path / "a.cu").write_text(
        "struct Scale { int columns; float alpha; char more; };\n"
        "__global__ void first(int rows, Scale scale, const float* x, bool flag, double d) {}\n"
        "__global__ void second(float* x) {}\n__global__ void nothing() {}\n")
    subprocess.run([NVCC, "-arch=sm_90", "-cubin", "-o", tmp_path / "a.cubin", tmp_path / "a.cu"], check=True, timeout=300)
    (adapter,) = json.loads(replay("adapter", "--cubin", tmp_path / "a.cubin", "--kernel", "first", expect=0).out)["adapters"]
    assert [(entry["type"], entry.get("size")) for entry in adapter["parameters"]] == [
        ("int32", None), ("bytes", 12), ("pointer", None), ("bool", None), ("pointer", None)]
    assert adapter["kernel"] == "^_Z5firsti5ScalePKfbd$"
    refused = replay("adapter", "--cubin", tmp_path / "a.cubin", expect=2).err
    assert '2 kernels with parameters have "" in their names' in refused and "first" in refused and "second" in refused
    assert "is no cubin" in replay("adapter", "--cubin", tmp_path / "a.cu", expect=2).err
