"""What `msda-replay run` says about a capture."""

import collections
import functools
import json
import os
import shlex
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

from ..programs import name_in_shell

SECONDS = 60
_MOST_TEXT = 600  # characters of the reason why there is no verdict


@dataclass
class Explanation:
    """`headline` is the verdict, `finding` its first finding; `trouble` says why there is no verdict, if so."""

    headline: str = ""
    finding: str = ""
    causes: Dict[str, int] = field(default_factory=dict)
    trouble: str = ""
    groups: List[Tuple[int, str, str, int]] = field(default_factory=list)  # call, tensor, cause, elements

    def causes_without(self, tensors):
        """`causes`, without those of these tensors, (call, name), for which the tolerance was not meant. NaN is out of any."""
        found: Dict[str, int] = collections.Counter()
        for call, tensor, cause, count in self.groups:
            if cause == "non_finite" or (call, tensor) not in tensors:
                found[cause] += count
        return found


def command(path, start):
    """Returns the command that opens a capture, for a shell in the folder `start`."""
    relative = os.path.relpath(path, start)
    shown = str(path) if relative.startswith("..") else relative
    return f"{shlex.quote(name_in_shell('msda-replay'))} run {shlex.quote(shown)}"


def wrapped(text, width=80):
    """Returns the text in lines of so many columns. Names and numbers are not divided."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def explain(path):
    from ..command import CommandError, find_command

    try:
        program = find_command()
    except CommandError as error:
        return Explanation(trouble=str(error))
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("MSDA_RECORD_")}
    text = functools.partial(tempfile.TemporaryFile, "w+", errors="replace")
    with text() as said, text() as complaint:
        try:
            # On the CPU: the findings are the same, and the GPU is the tests'.
            status = subprocess.run([program, "run", str(path), "--device", "cpu", "--json", "-"], stdin=subprocess.DEVNULL,
                                    stdout=said, stderr=complaint, env=variables, timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            return Explanation(trouble=f"msda-replay took longer than {SECONDS} s")
        except OSError as error:
            return Explanation(trouble=f"{program}: {error.strerror}")
        except Exception as error:  # of a function that the test has replaced
            return Explanation(trouble=f"{program} was not run: {error!r}")
        said.seek(0)
        complaint.seek(0)
        if status not in (0, 1):
            return Explanation(trouble=complaint.read(_MOST_TEXT).strip() or f"msda-replay ended with status {status}")
        try:
            return _of_result(json.load(said))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return Explanation(trouble=f"msda-replay of another version? its JSON cannot be read: {error!r}")


def _of_result(result):
    verdict = result["verdict"]
    explanation = Explanation(verdict["summary"], causes=dict(verdict["causes"]))
    explanation.groups = [(invocation["id"], group["tensor"], group["cause"], group["count"])
                          for invocation in result["invocations"] for group in invocation["groups"] if not group.get("advisory")]
    findings = [(invocation, finding) for invocation in result["invocations"] for finding in invocation["findings"]
                if not finding.get("advisory")]
    # What the test compared with comes first.
    findings.sort(key=lambda pair: pair[1]["against"] != "reference")
    if findings:
        invocation, entry = findings[0]
        index = ",".join(map(str, entry["index"]))
        of_invocation = f" of invocation {invocation['id']}" if len(result["invocations"]) > 1 else ""
        explanation.finding = (
            f"{entry['cause']} in {entry['tensor']}[{index}]{of_invocation}: recorded {_number(entry['observed'])}, {entry['against']} "
            f"{_number(entry['expected'])}" + (f", float64 {_number(entry['float64'])}" if entry["against"] != "float64" else "")
            + f"; {entry['why']}")
    return explanation


def _number(value):
    return f"{value:.9g}" if isinstance(value, (int, float)) else str(value)
