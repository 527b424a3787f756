"""Results of msda-replay run."""

import numpy as np
from support.problems import backward, make_problem
from support.schemas import check

from msda_replay import Invocation


def check_schema(result):
    check(result, "run")


def right_invocation(rng, dtype=np.float32, tolerance=(1e-3, 1e-2), **sizes):
    inputs = make_problem(rng, dtype=dtype, **sizes)
    outputs = {name: array.astype(dtype) for name, array in backward(inputs).items()}
    atol, rtol = tolerance or (None, None)
    return Invocation(inputs, outputs, "msda_triton", atol=atol, rtol=rtol, kernel="a_kernel")
