"""What msda-replay answers, from its JSON."""

import json
import subprocess

import numpy as np


def run(program, path, *flags):
    """The JSON that `run` prints, or the reason why there is none."""
    done = subprocess.run([str(program), "run", str(path), "--device", "cpu", "--json", "-", *flags], capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        return None, f"exit status {done.returncode}: {done.stderr.strip()[:300]}"
    return json.loads(done.stdout), ""


def elements(text):
    """The numbers of "0-3,7"."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def named_elements(invocation, shapes):
    """By (against, gradient, advisory): arrays of causes and of sides, empty texts where nothing is said."""
    named = {}
    for entry in invocation["judged"]:
        key = (entry["against"], entry["tensor"], bool(entry.get("advisory")))
        if key not in named:
            size = int(np.prod(shapes[entry["tensor"]]))
            named[key] = (np.full(size, "", "U24"), np.full(size, "", "U12"))
        places = list(elements(entry["elements"]))
        named[key][0][places], named[key][1][places] = entry["cause"], entry["at_fault"]
    return named
