"""The example of docs/own-operators.md, and calls of it."""

import json
import re

import numpy as np
import pytest
from conftest import SOURCE

from msda_replay import Invocation, write_capture

PAGE = (SOURCE / "docs" / "own-operators.md").read_text()
EXAMPLE = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S)[1])
ROWS, SEGMENTS, CHANNELS = 160, 20, 8


def random_call():
    random = np.random.default_rng(1)
    source = (random.standard_normal((ROWS, CHANNELS)) * np.exp(random.standard_normal((ROWS, CHANNELS)) * 3)).astype(np.float32)
    return source, random.integers(0, SEGMENTS, ROWS).astype(np.int32), random.permutation(ROWS)


def summed(source, segment, order):
    result = np.zeros((SEGMENTS, CHANNELS), np.float32)
    for row in order:
        result[segment[row]] += source[row]
    return result


@pytest.fixture
def call(tmp_path):
    """Writes a capture of the example's kernel with a given result; the adapter file lies beside it."""
    (tmp_path / "segment_sum.json").write_text(json.dumps(EXAMPLE))
    source, segment, order = random_call()

    def write(result=None, **facts):
        facts = {"adapter": "segment_sum", "operator": "segment_sum",
                 "scalars": f"rows={ROWS} segments={SEGMENTS} channels={CHANNELS}", **facts}
        result = summed(source, segment, order) if result is None else result
        write_capture(tmp_path / "a.h5", Invocation({"source": source, "segment": segment}, {"sum": result}, "", facts=facts,
                                                    kernel="_Z11segment_sumiiiPKfPKiPf"), overwrite=True)
        return tmp_path / "a.h5"

    return write
