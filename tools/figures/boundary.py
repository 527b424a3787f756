#!/usr/bin/env python3
"""Draws docs/boundary.svg, the picture in README.md: where the two sides of msda-triton's failing test landed.

    PYTHONPATH=tools/python python3 tools/figures/boundary.py [FILE.svg]
"""

import pathlib
import sys
import tempfile

import matplotlib

import msda_replay
from msda_replay.importer import import_case

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def main(target=SOURCE / "docs" / "boundary.svg"):
    matplotlib.use("svg")
    # The same bytes on every run.
    matplotlib.rcParams.update({"svg.hashsalt": "msda-replay", "svg.fonttype": "none"})
    with tempfile.TemporaryDirectory() as folder:
        capture = pathlib.Path(folder) / "call.h5"
        import_case(SOURCE / "tests" / "data" / "h200_border_noalign_0.npz", capture, dialect="msda_triton")
        with msda_replay.open_capture(capture) as opened:
            figure = msda_replay.plot_cell(opened.findings().where(advisory=False)[0])
            figure.savefig(target, metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    main(*sys.argv[1:])
