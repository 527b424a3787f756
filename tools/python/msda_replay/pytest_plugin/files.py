"""Names and places of captures: what a session leaves in its folder, and what is kept."""

import hashlib
import os
import pathlib
import re
import shutil
import time

_LONGEST_NAME = 180
_PATIENCE = 10  # seconds, for the writer of a process that has ended


def name_of(nodeid, attempt):
    """A file name, without its ending, that a shell takes as it is."""
    name = re.sub(r"[^A-Za-z0-9_.+=]+", "-", nodeid).strip("-.") or "test"
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha1(nodeid.encode()).hexdigest()[:8]}"
    return f"{name}.attempt-{attempt}" if attempt else name


def keep(path, directory, name):
    """Moves a capture to `directory` under a name that is free there: NAME.h5, or else NAME.2.h5 and so on."""
    os.makedirs(directory, exist_ok=True)
    for number in range(1, 1000000):
        target = pathlib.Path(directory, f"{name}.h5" if number == 1 else f"{name}.{number}.h5")
        try:  # takes the name, which another worker may want, too
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        shutil.move(path, target)
        return target
    raise FileExistsError(f"{directory}: has no free name for {name}.h5")


def label_of(path):
    """That of a capture's first call."""
    import h5py

    with h5py.File(path, "r") as file:
        for number in sorted(file["invocations"]):
            label = file["invocations"][number].attrs.get("label", "")
            return label.decode() if isinstance(label, bytes) else str(label)
    return ""


def test_of(label):
    """The node id in a label that the plugin or the recorder made, without the phase and the attempt."""
    return re.sub(r" \([^()]*\)$", "", label)


def _has_ended(process):
    try:
        stat = pathlib.Path("/proc", process, "stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[:1] == ["Z"]  # ended, and its parent has not looked yet


def of_ended_processes(session, wait):
    """The captures that processes which have ended left in a session's folder, oldest first: a crashed worker's, or those of
    processes that tests started. If asked to, waits for their writers."""
    end = time.monotonic() + (_PATIENCE if wait else 0)
    while True:
        entries = {path.name: path for path in pathlib.Path(session).glob("*.h5*")}
        spools = [name for name in entries if name.endswith(".spool")]  # removed once the capture is complete
        waits = any(_has_ended(name.split(".")[0]) for name in spools)
        if not waits or time.monotonic() >= end:
            complete = [path for name, path in entries.items() if re.fullmatch(r"\d+(\.\d+)*\.h5", name) and f"{name}.spool" not in spools]
            return sorted(complete, key=lambda path: path.stat().st_mtime)
        time.sleep(0.05)


def session_folder():
    """The folder into which this process and those that it starts record; None if the recorder was not started by the plugin."""
    folder, name = os.path.split(os.environ.get("MSDA_RECORD_OUTPUT", ""))
    return folder.replace("%%", "%") if name == "%p.h5" else None


def fingerprint(path):
    """Equal for captures with the same calls: the digests of what they hold."""
    import h5py

    found = []
    with h5py.File(path, "r") as file:
        file["invocations"].visititems(lambda name, item: found.append((name, str(item.attrs.get("digest", "")))))
    return found
