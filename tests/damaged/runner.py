"""Starts commands of msda-replay: by command_server (command_server.cpp) where the build has it, which forks them: a quarter of the time under sanitizers."""

import os
import select
import signal
import subprocess

SANITIZER_STATUS = 99  # so that a sanitizer's end is none of the command's own statuses


def environment_of(reports):
    """Sanitizers write what they report to files `report.*` in a folder."""
    options = f"log_path={reports / 'report'}:exitcode={SANITIZER_STATUS}:quarantine_size_mb=16:malloc_context_size=5:detect_leaks=0"
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "ASAN_OPTIONS": options, "UBSAN_OPTIONS": f"print_stacktrace=1:{options}"}


class Started:
    """Each command is started anew."""

    def __init__(self, program, reports):
        self.program, self.environment = program, environment_of(reports)

    def start(self, arguments, folder):
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            self.process = subprocess.Popen([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self.environment,
                                            cwd=folder, start_new_session=True)
        return self.process.pid

    def wait(self, seconds):
        """Returns the status as Popen has it, the most memory in bytes and the seconds of processors; None if it does not end in time."""
        try:
            return self.process.wait(seconds), 0, 0
        except subprocess.TimeoutExpired:
            return None


class Forked:
    """Commands are forked from one process."""

    def __init__(self, program, reports):
        # Unbuffered: select() does not see a line that readline() has read together with the one before.
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment_of(reports))

    def _line(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("command_server has ended")
        return [int(word) for word in line.split()]

    def start(self, arguments, folder):
        texts = [str(text) for text in (folder, folder / "out", folder / "err", "msda-replay", *arguments)]
        self.process.stdin.write(b"%d\n" % (len(texts) - 3) + b"".join(os.fsencode(text) + b"\0" for text in texts))
        (number,) = self._line(None)
        return number

    def wait(self, seconds):
        line = self._line(seconds)
        return line and (os.waitstatus_to_exitcode(line[0]), line[1] << 10, line[2] / 1000)


class Runner:
    def __init__(self, build, reports, seconds):
        server = build / "bin" / "command_server"
        self.started = Forked(server, reports) if server.exists() else Started(build / "bin" / "msda-replay", reports)
        self.reports, self.seconds = reports, seconds

    def execute(self, command, folder):
        """Returns standard output and error, and what wait() returns; the status is None if the command did not end."""
        process = self.started.start([str(argument) for argument in command.arguments], folder)
        ended = None
        if command.end_after is not None:
            ended = self.started.wait(command.end_after)
            if ended is None:
                os.kill(process, signal.SIGINT)
                command.statuses += (-signal.SIGINT,)  # before the search begins
        ended = ended or self.started.wait(self.seconds)
        if ended is None:
            os.kill(process, signal.SIGKILL)
            self.started.wait(self.seconds)
        return (folder / "out").read_bytes(), (folder / "err").read_bytes(), *(ended or (None, 0, self.seconds))
