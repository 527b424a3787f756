"""MPI's ranks."""

import os
import shutil
import subprocess

import pytest
from conftest import BUILD, REPLAY

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpirun(count, *arguments, program=REPLAY, **environment):
    command = ["mpirun", "--oversubscribe", "-n", str(count), str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **AS_ROOT, **environment})


needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None or not (BUILD / "lib" / "libmsda_mpi.so").exists(),
                               reason="no mpirun, or built without MPI")
