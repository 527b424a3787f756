"""What the campaign's judge is asked about: problems, and programs that answer in one way."""

import contextlib
import importlib.util
import io
import subprocess
import sys

import numpy as np
from conftest import REPLAY, SOURCE

TESTS = SOURCE / "tests"
sys.path.append(str(TESTS))
from campaign.msda import problems  # noqa: E402


def problem_of(seed, conventions, **given):
    given = {"shape": (2, 7, 2, 2, 5, ((4, 5), (3, 2))), "kind": "float64", "place": problems.outside, "numbers": problems.normal, **given}
    return problems.draw(np.random.default_rng(seed), conventions, **given)


def answering(tmp_path, change):
    """A program that runs msda-replay and changes what it answers, by the Python statement `change` on `result`."""
    program = tmp_path / "replay"
    program.write_text(f"""#!{sys.executable}
import json, subprocess, sys
done = subprocess.run([{str(REPLAY)!r}, *sys.argv[1:]], capture_output=True, text=True)
result = json.loads(done.stdout)
call = result["invocations"][0]
{change}
print(json.dumps(result))
sys.exit(done.returncode)
""")
    program.chmod(0o755)
    return program


SPEC = importlib.util.spec_from_file_location("campaign_program", TESTS / "campaign.py")  # its package has the name campaign
PROGRAM = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PROGRAM)


def run(*arguments):
    """What the tool does with these arguments, in this process: starting Python anew takes longer than most captures."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = PROGRAM.main([str(argument) for argument in arguments])
        except SystemExit as bad_usage:
            status = bad_usage.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())
