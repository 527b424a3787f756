"""Records a run of the client, and compares two recorded runs."""

import json
import pathlib
import time

from recording.runs import SKIPPED, Failed, Skip, finish, last_line

__all__ = ["SKIPPED", "Failed", "Programs", "Skip"]
CLIENT = pathlib.Path(__file__).resolve().parent / "client.py"


class Programs:
    """What is run: msda-record, msda-replay, the client by a Python, each for at most `limit` seconds."""

    def __init__(self, build, python, limit, folder, client=CLIENT):
        self.record, self.replay = (str(build / "bin" / name) for name in ("msda-record", "msda-replay"))
        self.client, self.limit = [str(python), str(client)], limit
        # The tuner's choices and the compiled kernels are those of the first run.
        self.surroundings = {"TRITON_CACHE_DIR": str(folder / "triton"), "MSDA_BUILD": str(build)}

    def finish(self, command, more=None):
        """Returns (exit status, stdout, stderr). What takes too long is ended with its children."""
        return finish([str(one) for one in command], self.limit, {**self.surroundings, **(more or {})})

    def run_client(self, arguments, capture=None, more=None):
        """Returns the client's line, with the seconds of the whole process; recorded into `capture`, a file or a pattern of files."""
        recorder = [self.record, "--trail", "-o", capture, "--"] if capture else []
        begin = time.perf_counter()
        status, out, err = self.finish([*recorder, *self.client, *arguments], more)
        if status == SKIPPED:
            raise Skip(last_line(err))
        if status != 0:
            raise Failed(f"{' '.join(map(str, arguments))}: exit status {status}: {last_line(err)}")
        try:
            found = json.loads(last_line(out))
        except ValueError:
            raise Failed(f"the client's last line is no JSON: {last_line(out)[:200]}") from None
        return {**found, "process": time.perf_counter() - begin}

    def compare(self, first, second):
        """Returns (exit status, answer) of msda-replay diff."""
        status, out, err = self.finish([self.replay, "diff", first, second, "--json", "-"])
        if status not in (0, 1):
            raise Failed(f"diff: exit status {status}: {last_line(err)}")
        try:
            return status, json.loads(out)
        except ValueError:
            raise Failed(f"diff wrote no JSON: {last_line(out)[:200]}") from None
