"""Records a run of the client, and compares two recorded runs."""

import json
import pathlib

from harness import Failed, finish, last_line, run_client

CLIENT = pathlib.Path(__file__).resolve().parent / "client.py"


class Programs:
    """What is run: msda-record, msda-replay, the client by a Python, each for at most `limit` seconds."""

    def __init__(self, chosen, folder, client=CLIENT):
        self.record, self.replay = (chosen.build / "bin" / name for name in ("msda-record", "msda-replay"))
        self.client, self.limit = [chosen.python, client], chosen.limit
        # The tuner's choices and the compiled kernels are those of the first run.
        self.variables = {"TRITON_CACHE_DIR": str(folder / "triton"), "MSDA_BUILD": str(chosen.build)}

    def run_client(self, arguments, capture=None, variables=None):
        """Returns the client's line, with the seconds of the whole process; recorded into `capture`, a file or a pattern of files."""
        recorder = [self.record, "--trail", "-o", capture, "--"] if capture else []
        found, seconds, _ = run_client([*recorder, *self.client, *arguments], " ".join(map(str, arguments)), self.limit,
                                       {**self.variables, **(variables or {})})
        return {**found, "process": seconds}

    def compare(self, first, second):
        """Returns (exit status, answer) of msda-replay diff."""
        status, out, err = finish([self.replay, "diff", first, second, "--json", "-"], self.limit, self.variables)
        if status not in (0, 1):
            raise Failed(f"diff: exit status {status}: {last_line(err)}")
        try:
            return status, json.loads(out)
        except ValueError:
            raise Failed(f"diff wrote no JSON: {last_line(out)[:200]}") from None
