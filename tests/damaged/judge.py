"""What a command did on a damaged file that no file may make it do."""

import json
import re
import signal
import time
import traceback
from dataclasses import dataclass

from msda_replay import CaptureError, open_capture, read_capture

MOST_MEMORY = 4 << 30  # of a process, with what a sanitizer adds
CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ (.*)$", re.MULTILINE)
NOT_TO_BLAME = ("libasan", "libubsan", "libsanitizer", "/libc.so", "/libc-", "/libstdc++", "ld-linux")


@dataclass
class Outcome:
    """How one command ended. `faults`: texts, empty if all is right. `in_hdf5`: it ended a process that only reads, which is meant to end;
    `is_endless`: it was ended at its limit of time."""

    name: str
    status: object
    seconds: float
    faults: list
    in_hdf5: int = 0
    is_endless: bool = False


def reports_in(folder, status):
    """Returns the sanitizers' reports, and counts those of libhdf5's own mistakes instead. An interrupt that ends the command ends the
    process that reads, too, and may cut off what that is reporting."""
    theirs, ours = 0, []
    for path in sorted(folder.glob("report.*")):
        text = path.read_text(errors="replace")
        path.unlink()
        frames = [frame for frame in FRAME.findall(text) if not any(name in frame for name in NOT_TO_BLAME)]
        is_cut = status == -signal.SIGINT and not frames and "\nSUMMARY: " not in text
        if is_cut or (frames and "libhdf5" in frames[0]):
            theirs += 1
        else:
            ours.append(text)
    return theirs, ours


def judge(runner, command, folder):
    begin = time.monotonic()
    out, err, status, memory, seconds = runner.execute(command, folder)
    outcome = Outcome(command.name, status, seconds or time.monotonic() - begin, list(_faults(command, runner.seconds, status, out, err)))
    outcome.is_endless = b"so that reading it does not come to an end" in err
    outcome.in_hdf5, reports = reports_in(runner.reports, status)
    if b"so that reading it gives up" in err and not outcome.in_hdf5 + len(reports):
        outcome.faults.append("the process that reads ended without a report: undefined behaviour, as its standard error is closed")
    outcome.faults += [f"a sanitizer reports\n{text}" for text in reports]
    if memory > MOST_MEMORY:
        outcome.faults.append(f"had {memory >> 20} MiB")
    return outcome


def _faults(command, seconds, status, out, err):
    if status is None:
        yield f"did not end in {seconds} s"
    elif status < 0 and status not in command.statuses:
        yield f"ended by signal {-status}, {signal.Signals(-status).name}"
    elif status not in command.statuses:
        yield f"exit status {status}\n{err[-3000:].decode(errors='replace')}"
    if status in (2, 3) and not any(path.name.encode() in err for path in command.names):
        yield f"names no file: {err[-300:].decode(errors='replace')}"
    if b"runtime error:" in err:
        yield f"the undefined-behaviour sanitizer reports\n{err[-3000:].decode(errors='replace')}"
    if found := CONTROLS.search(out) or CONTROLS.search(err):
        yield f"prints control character {found[0]!r}"
    if command.json and status in (0, 1):
        try:
            json.loads(out)
        except ValueError as error:
            yield f"prints what is no JSON: {error}"


def _open(path):
    with open_capture(path) as capture:
        for call in capture:
            repr((capture, call, call.reference, call.tolerance))
            for tensors in (call.inputs, call.outputs, call.outputs_before, call.stages, *call.results.values()):
                for tensor in tensors.values():
                    if all(size > 0 for size in tensor.shape):
                        tensor[(0,) * tensor.ndim]


def _read(path):
    repr(read_capture(path))


def in_python(path, seconds):
    """Yields outcomes of the package's readers, called in this process: they read in another one, and raise CaptureError alone."""
    def too_long(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    for name, read in (("open_capture", _open), ("read_capture", _read)):
        begin, status, faults = time.monotonic(), 0, []
        signal.alarm(seconds)
        try:
            read(path)
        except CaptureError as error:
            status = 2
            if path.name not in str(error):
                faults.append(f"names no file: {error}")
        except TimeoutError:
            status = None
            faults.append(f"did not end in {seconds} s")
        except Exception as error:  # whatever it is, it is not what the package promises
            status = "raised"
            faults.append(f"raises {type(error).__name__}: {error}\n{traceback.format_exc()}")
        finally:
            signal.alarm(0)
        yield Outcome(name, status, time.monotonic() - begin, faults)
