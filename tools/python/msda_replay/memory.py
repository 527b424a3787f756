"""How much memory there is for what is read, as recorder/capture/free_memory.cpp has it."""

import os
import pathlib


def free_memory(proc="/proc", mount="/sys/fs/cgroup"):
    """Returns bytes that this machine has free or can make so, or that a control group of this process, as a container, has left, if that
    is less."""
    numbers = _numbers(pathlib.Path(proc, "meminfo"))
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = 1024 * (numbers["MemAvailable:"] + numbers.get("SwapFree:", 0)) if "MemAvailable:" in numbers else machine
    left = [_left(*group) for group in _groups(pathlib.Path(proc, "self", "cgroup"), mount)]
    return min([free, *(some for some in left if some is not None)])


def _text(path):
    try:
        return path.read_text(errors="replace")
    except (OSError, ValueError):  # a path with a zero byte
        return ""


def _numbers(path):
    """Returns the numbers, by name, of the lines "name number"."""
    lines = (line.split() for line in _text(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and _is_number(line[1])}


def _number(path):
    """Returns None for "max", for what is missing, and for what makes no sense."""
    text = _text(path).strip()
    return int(text) if _is_number(text) else None


def _is_number(text):
    """Returns whether the text is a number with no more digits than a 64-bit integer has."""
    return text.isdecimal() and len(text) < 20


def _groups(path, mount):
    """Yields each group of memory that this process is in, with those around it, whose limits count as well."""
    for line in _text(path).splitlines():
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        is_version_1 = "memory" in controllers.split(",")
        if controllers and not is_version_1:
            continue
        parts = group.strip("/").split("/")
        for count in range(len(parts), -1, -1):
            yield pathlib.Path(mount, "memory" if is_version_1 else "", *parts[:count]), is_version_1


def _left(folder, is_version_1):
    """Returns the bytes left, without the cache of files that the kernel takes away first; None if the group has no limit."""
    limit = _number(folder / ("memory.limit_in_bytes" if is_version_1 else "memory.max"))
    if limit is None:
        return None
    used = _number(folder / ("memory.usage_in_bytes" if is_version_1 else "memory.current")) or 0
    cached = _numbers(folder / "memory.stat").get("total_inactive_file" if is_version_1 else "inactive_file", 0)
    return max(limit - max(used - cached, 0), 0)
