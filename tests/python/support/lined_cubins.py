"""A program with atomic additions, as nvcc compiles it here: with a line table and without."""

import subprocess

import pytest
from conftest import SOURCE
from support.gpu import find_nvcc

NVCC = find_nvcc()
PROGRAM = SOURCE / "tests" / "gpu" / "poison.cu"
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc")


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    """The program's machine code, by architecture and whether it has a line table."""
    folder, made = tmp_path_factory.mktemp("cubins"), {}

    def cubin(architecture, with_lines):
        key = architecture, with_lines
        if key not in made:
            made[key] = folder / f"{architecture}-{with_lines}.cubin"
            subprocess.run([NVCC, "-std=c++17", "-O2", f"-arch={architecture}", *(["-lineinfo"] if with_lines else []), "-cubin",
                            "-o", made[key], PROGRAM], check=True, timeout=300)
        return made[key]

    return cubin
