"""MPI's ranks, and captures of many."""

import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import BUILD, REPLAY
from support.problems import backward, make_problem

from msda_replay import Invocation, write_capture

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpirun(count, *arguments, program=REPLAY, **environment):
    command = ["mpirun", "--oversubscribe", "-n", str(count), str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **AS_ROOT, **environment})


needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None or not (BUILD / "lib" / "libmsda_mpi.so").exists(),
                               reason="no mpirun, or built without MPI")


def make_capture(path, seed, wrong=(), rank=None, label=""):
    """A call whose gradients of the locations of some queries are doubled. Returns how many elements that are not 0."""
    inputs = make_problem(np.random.default_rng(seed))
    gradients = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    doubled = gradients["grad_sampling_locations"]
    doubled[0, list(wrong)] *= 2
    invocation = Invocation(inputs, gradients, "deformable_detr", kernel="ms_deform_attn", atol=1e-5, rtol=1e-3, facts={"label": label})
    write_capture(path, invocation, {"environment": {"RANK": str(rank)}} if rank is not None else None, overwrite=True)
    return int(np.count_nonzero(np.abs(doubled[0, list(wrong)]) > 1e-2))
