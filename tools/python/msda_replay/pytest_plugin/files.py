"""Names and places of captures: what a session leaves in its folder, and what is kept."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import time

_LONGEST_NAME = 180  # bytes
_PATIENCE = 10  # seconds, for the writer of a process that has ended
_LOCK = "lock"
rename = os.rename  # as it is now: a test may replace it


def name_of(nodeid, attempt):
    """Returns a file name, without its ending, of letters and digits of any language and a few signs that no shell treats specially."""
    name = re.sub(r"[^\w.+=]+", "-", nodeid).strip("-.") or "test"
    encoded = name.encode()
    if len(encoded) > _LONGEST_NAME:
        name = f"{encoded[:_LONGEST_NAME].decode(errors='ignore')}-{hashlib.sha1(nodeid.encode(errors='replace')).hexdigest()[:8]}"
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
        try:
            try:
                rename(path, target)
            except OSError:  # another file system
                shutil.move(path, target)
        except BaseException:  # a full disk, for example
            os.unlink(target)
            raise
        return target
    raise FileExistsError(f"{directory}: has no free name for {name}.h5")


def label_of(path):
    """That of a capture's first call."""
    import h5py

    try:
        file = h5py.File(path, "r")
    except FileNotFoundError:  # another process has kept it
        return ""
    with file:
        for number in sorted(file["invocations"]):
            label = file["invocations"][number].attrs.get("label", "")
            return label.decode() if isinstance(label, bytes) else str(label)
    return ""


def is_below(nodeid, base):
    """Returns whether a test lies in the folder, file or class with the node id `base`."""
    return not base or nodeid == base or nodeid.startswith((f"{base}/", f"{base}::"))


def test_of(label):
    """Returns the node id in a label that the plugin or the recorder made, without the phase and the attempt."""
    return re.sub(r" \([^()]*\)$", "", label)


def _has_ended(path):
    """Returns whether the process that a file in a session's folder is named after has."""
    process = path.name.split(".")[0]
    try:
        stat = pathlib.Path("/proc", process, "stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[:1] == ["Z"]  # ended, and its parent has not looked yet


def of_ended_processes(session, wait, since=0):
    """Returns the captures that processes which have ended left in a session's folder, oldest first: a crashed worker's, or those of
    processes that tests started. If asked to, waits for their writers. Files of living processes vanish at any time."""
    end = time.monotonic() + (_PATIENCE if wait else 0)
    while True:
        entries = {path.name: path for path in pathlib.Path(session).glob("*.h5*")}
        spools = [name for name in entries if name.endswith(".spool")]  # removed once the capture is complete
        waits = any(_has_ended(entries[name]) for name in spools)
        if not waits or time.monotonic() >= end:
            complete = [path for name, path in entries.items()
                        if re.fullmatch(r"\d+(\.\d+)*\.h5", name) and f"{name}.spool" not in spools and _has_ended(path)]
            ages = {path: age for path in complete if (age := _age(path)) is not None and age >= since}
            return sorted(ages, key=ages.__getitem__)
        time.sleep(0.05)


def _age(path):
    """When it was written; None if it has vanished: what a crashed worker left, several processes look for."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def holds_captures_of_the_living(session):
    return any(not _has_ended(path) for path in pathlib.Path(session).glob("*.h5*"))


def lock(session):
    """Marks a session's folder as in use for as long as this process lives, or what it is replaced by: a process id would say
    nothing on another host, or in another container. Returns the file's descriptor, or None."""
    young = os.path.join(session, f"{_LOCK}.new")
    with contextlib.suppress(OSError):  # a file system without locks: nobody will take the folder for abandoned
        descriptor = os.open(young, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.set_inheritable(descriptor, True)
        os.rename(young, os.path.join(session, _LOCK))  # it is never seen free
        return descriptor
    return None


@contextlib.contextmanager
def abandoned(session):
    """Yields whether the session of this folder has ended, and nobody else looks after it. No other does meanwhile."""
    with contextlib.ExitStack() as open_files:
        try:
            file = open_files.enter_context(open(os.path.join(session, _LOCK), "rb+"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def remove_session(session, directory):
    """Removes a session's folder, and the captures' if there are none."""
    shutil.rmtree(session, ignore_errors=True)
    with contextlib.suppress(OSError):  # it holds captures
        os.rmdir(directory)


def session_folder():
    """Returns the folder into which this process and those that it starts record; None if the recorder was not started by the plugin."""
    folder, name = os.path.split(os.environ.get("MSDA_RECORD_OUTPUT", ""))
    return folder.replace("%%", "%") if name == "%p.h5" else None


def fingerprint(path):
    """Equal for captures with the same calls: the digests of what they hold."""
    import h5py

    found = []
    with h5py.File(path, "r") as file:
        file["invocations"].visititems(lambda name, item: found.append((name, str(item.attrs.get("digest", "")))))
    return found
